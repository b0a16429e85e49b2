"""Translates the SQL of jobs and reads for PostgreSQL.

`store/transaction.py` says what that SQL may contain. Each text is translated once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

_NAMED = re.compile(r"(?<![:\w]):([a-z_]+)")
_BYTES = re.compile(r"length\(CAST\((\w+) AS BLOB\)\)")
_CHARS = re.compile(r"\bchar\(([0-9, ]+)\)")
_PLACES = re.compile(r"\binstr\(")
_SAME = re.compile(r"\bIS (?!NULL\b|NOT\b)")
_LIMIT = re.compile(r"\bLIMIT (%s|%\(\w+\)s)")
_USER = re.compile(r"(?<!%\()\buser\b")
_HINT = re.compile(r" INDEXED BY \w+")
_EITHER = re.compile(r"\b(min|max)\(")
_LITERAL = re.compile(r"'[^']*'")

# A stored vector that is equal stays where it is; else every update of a row would
# write its vector again.
_VECTOR = (
    "vec = (SELECT CASE WHEN mem.vec IS NOT DISTINCT FROM given.vec THEN mem.vec "
    "ELSE given.vec END FROM (SELECT CAST(? AS BLOB) AS vec) AS given)"
)

# PostgreSQL's text has no NUL. These two forms take its place; their order is that of
# the characters that they stand for.
_NUL = "\x01\x02"
_ONE = "\x01\x03"


# Not at import: most texts depend on the call; all take about 30 us each, over 2 ms.
@lru_cache(maxsize=4096)
def translated(sql: str) -> str:
    """Return a statement for PostgreSQL, with psycopg's placeholders."""
    sql = sql.replace("%", "%%")
    sql = _HINT.sub("", sql)
    sql = sql.replace("x''", "''::bytea")
    if sql.startswith("UPDATE mem SET "):
        sql = sql.replace("vec = ?", _VECTOR)
    sql = _BYTES.sub(_octets, sql)
    sql = _CHARS.sub(_characters, sql)
    sql = _outside_literals(sql, _names_and_places)
    sql = _LIMIT.sub(r"LIMIT nullif(CAST(\1 AS BIGINT), -1)", sql)
    return _larger_and_smaller(sql)


def encoded(text: str) -> str:
    """Return a text as PostgreSQL stores it: without NUL, reversibly."""
    if "\0" in text or "\x01" in text:
        return text.replace("\x01", _ONE).replace("\0", _NUL)
    return text


def decoded(text: str) -> str:
    """Return a text that `encoded` returned as it was."""
    if "\x01" in text:
        return text.replace(_NUL, "\0").replace(_ONE, "\x01")
    return text


def _names_and_places(sql: str) -> str:
    sql = sql.replace("?", "%s")
    sql = _NAMED.sub(r"%(\1)s", sql)
    sql = _PLACES.sub("strpos(", sql)
    sql = _SAME.sub("IS NOT DISTINCT FROM ", sql)
    sql = _USER.sub('"user"', sql)
    return sql.replace("AS BLOB", "AS BYTEA").replace("AS INTEGER", "AS BIGINT")


def _outside_literals(sql: str, change: Callable[[str], str]) -> str:
    done: list[str] = []
    at = 0
    for literal in _LITERAL.finditer(sql):
        done += [change(sql[at : literal.start()]), literal.group()]
        at = literal.end()
    return "".join([*done, change(sql[at:])])


def _octets(found: re.Match[str]) -> str:
    name = found.group(1)
    if name != "text":
        return f"octet_length({name})"
    # Each character that is stored as two counts once.
    once = f"replace(replace({name}, chr(1) || chr(2), '0'), chr(1) || chr(3), '1')"
    return f"octet_length({once})"


def _characters(found: re.Match[str]) -> str:
    codes = [int(code) for code in found.group(1).split(",")]
    forms = [f"chr({ord(char)})" for code in codes for char in encoded(chr(code))]
    return f"({' || '.join(forms)})"


def _larger_and_smaller(sql: str) -> str:
    """Give min and max of several values the names that PostgreSQL has for them."""
    done: list[str] = []
    at = 0
    for found in _EITHER.finditer(sql):
        depth, several, end = 1, False, found.end()
        while depth:
            char = sql[end]
            depth += (char == "(") - (char == ")")
            several = several or (char == "," and depth == 1)
            end += 1
        name = {"min": "least", "max": "greatest"}[found.group(1)]
        done += [sql[at : found.start()], f"{name}(" if several else found.group()]
        at = found.end()
    return "".join([*done, sql[at:]])
