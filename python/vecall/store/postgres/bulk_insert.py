"""Inserts rows into a PostgreSQL table with one statement.

Each column of many rows is sent as one binary array, and `unnest` makes rows of them.
psycopg parses a text with a mark for each value of each row in every call, which takes
longer than the server takes to insert the rows. A value that all rows have is sent
once: an array takes psycopg ten times as long as a value. COPY is no choice: row-level
security refuses it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from psycopg.types.numeric import Int4, Int8

from vecall.store.postgres.dialect import encoded, translated

MAX_ROWS = 2_000
"""Rows of one statement, which the client holds as one message."""

_WHOLE = frozenset("part rid seq head uses crc".split())
_NUMBERS = frozenset(
    "at pos ts created_at updated_at expires_at valid_until due_at ttl "
    "importance_prior last_used".split()
)
_BYTES = frozenset("hash vec vecs".split())
# Columns that have another type in one table than elsewhere.
_OTHER = {("told", "pos"): "int8", ("mem", "model"): "int4"}


def column_type(table: str, column: str) -> str:
    """Return PostgreSQL's name of the type of a column."""
    other = _OTHER.get((table, column))
    if other is not None:
        return other
    if column in _WHOLE:
        return "int8"
    if column in _NUMBERS:
        return "float8"
    return "bytea" if column in _BYTES else "text"


@lru_cache(maxsize=64)
def column_types(columns: str) -> tuple[str, ...]:
    """Return PostgreSQL's names of the types of columns.

    Args:
        columns: The table and its columns, for example "chg (part, seq)".
    """
    table, _, names = columns.rstrip(")").partition(" (")
    return tuple(column_type(table, name) for name in names.split(", "))


def bulk_insert(
    into: str, rows: Sequence[tuple[Any, ...]], conflict: str
) -> tuple[str, list[Any]]:
    """Return a statement that inserts rows, and its values.

    Args:
        into: The table and its columns, for example "chg (part, seq)".
        rows: The values of the columns, for each row; 1 to `MAX_ROWS` rows.
        conflict: The ON CONFLICT clause, or "".
    """
    types = column_types(into)
    columns = list(zip(*rows, strict=True))
    varies = [not _is_one(*each) for each in zip(columns, types, strict=True)]
    if len(rows) > 1 and True not in varies:
        varies[0] = True  # the array says how many rows there are
    once: list[Any] = []
    arrays: list[Any] = []
    for column, type_, many in zip(columns, types, varies, strict=True):
        convert = _CONVERTERS[type_]
        if many and type_ in ("text", "float8"):
            # psycopg refuses an array of whole and other numbers.
            arrays.append([None if v is None else convert(v) for v in column])
        elif many:
            arrays.append(list(column))
        else:
            # Each number has the type of its column: psycopg would choose one by the
            # number, and prepare a statement for each choice.
            once.append(None if column[0] is None else convert(column[0]))
    return _statement(into, conflict, tuple(varies)), once + arrays


def _is_one(column: Sequence[Any], type_: str) -> bool:
    """Whether all values are one and the same."""
    first = column[0]
    if len(column) > 1 and type_ == "float8" and first == 0:
        return False  # 0.0 and -0.0 are equal
    return column.count(first) == len(column)


@lru_cache(maxsize=256)
def _statement(into: str, conflict: str, varies: tuple[bool, ...]) -> str:
    """Return the statement of `bulk_insert`.

    Args:
        into: The table and its columns.
        conflict: The ON CONFLICT clause, or "".
        varies: For each column, whether its values come as an array.
    """
    names: list[str] = []
    arrays: list[str] = []
    chosen: list[str] = []
    for type_, many in zip(column_types(into), varies, strict=True):
        if many:
            names.append(f"given_{len(names)}")
            arrays.append(f"CAST(? AS {type_}[])")
        chosen.append(names[-1] if many else f"CAST(? AS {type_})")
    source = f"FROM unnest({', '.join(arrays)}) AS given({', '.join(names)})"
    sql = f"INSERT INTO {into} SELECT {', '.join(chosen)} {source if names else ''} "
    return translated(sql + conflict).replace("%s", "%b")


_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "int8": Int8,
    "int4": Int4,
    "float8": float,
    "text": encoded,
    "bytea": bytes,
}
