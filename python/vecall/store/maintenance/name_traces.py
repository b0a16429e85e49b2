"""Finds where a file still has a name: as a value, as words of a text, or deleted.

A name is not found in a longer name: "user1" is not in "user10". What a file holds is
read as rows, so that values are told apart. What it no longer holds, but has not
overwritten, is searched as bytes: free pages and the unused bytes of other pages.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO

from vecall.store.file.connections import connect_to_read, file_bytes
from vecall.store.file.snapshot_folder import MAGIC
from vecall.store.file.sqlite_errors import storage_errors
from vecall.store.item_records import decode_namespace

_NUMBER_OF_USER = {"part": ("id", "id"), "vec_next": ("rid", "(rid >> 32)")}
"""The column that says it, and how, in tables without a column `part`."""

ROWS_REMAIN = "rows of the user in table {}"
"""The place of rows with a number of the user's partitions."""

_NAMES_OF_USERS = {("part", "app"), ("part", "user")}
_NAMESPACE = ("item", "ns")
_JOINING = "-.@+"  # between two parts of one name
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u11ff\u1780-\u17ff\u2e80-\uffff]")
_INNER_INDEX, _INNER_TABLE, _INDEX, _TABLE = 2, 5, 10, 13
_HEADS = {_INNER_INDEX: 12, _INNER_TABLE: 12, _INDEX: 8, _TABLE: 8}
"""The bytes of the header of a page of a table or an index, by its type."""


def traces_in_file(
    path: Path, name: str, parts: Sequence[int] = ()
) -> list[tuple[Path, str]]:
    """Return the places that have a name: the file, and the place in it.

    Args:
        path: The file.
        name: The name.
        parts: Numbers of partitions; rows that have one of them are told, too.

    Raises:
        VecallError: The file cannot be read.
    """
    found = [(path, place) for place in _in_rows(path, name, parts)]
    found += dict.fromkeys(_in_unused(path, name.encode()))
    for file in sorted(path.with_name(path.name + ".snap").glob("*")):
        # A snapshot holds numbers and hashes; an equal sequence of bytes is chance.
        if file.is_file() and not (text := file.read_bytes()).startswith(MAGIC):
            found += [(file, "no snapshot")] * (name.encode() in text)
    return found


def number_of_user(table: str, column: str) -> str | None:
    """Return the number of a user's partition that a column says; None if none."""
    of, number = _NUMBER_OF_USER.get(table, ("part", "part"))
    return number if column == of else None


def forms_in_text(name: str) -> list[str]:
    """Return what a text has in it that has the name: itself, or as JSON."""
    as_json = [json.dumps(name, ensure_ascii=each)[1:-1] for each in (False, True)]
    return list(dict.fromkeys([name, *as_json]))


def _in_rows(path: Path, name: str, parts: Sequence[int]) -> Iterator[str]:
    """Yield the columns that have the name, and the tables with rows of partitions."""
    forms = forms_in_text(name)
    with storage_errors(), closing(connect_to_read(path)) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type='table'")
        for (table,) in tables.fetchall():
            columns = connection.execute(f'PRAGMA table_info("{table}")').fetchall()
            for column in (each[1] for each in columns):
                number = number_of_user(table, column)
                for part in parts if number else ():
                    query = f'SELECT 1 FROM "{table}" WHERE {number} = ? LIMIT 1'
                    if connection.execute(query, (part,)).fetchone():
                        yield ROWS_REMAIN.format(table)
                test = " OR ".join([f'instr("{column}", ?) > 0'] * len(forms))
                rows = connection.execute(
                    f'SELECT "{column}" FROM "{table}" '
                    f"WHERE typeof(\"{column}\") = 'text' AND ({test})",
                    tuple(forms),
                )
                if any(has_name((table, column), text, name) for (text,) in rows):
                    yield f"column {column} of table {table}"


def has_name(where: tuple[str, str], text: str, name: str) -> bool:
    """Whether the text of a column has the name."""
    if where in _NAMES_OF_USERS:
        return text == name
    if where == _NAMESPACE:
        return any(_says(label, name) for label in decode_namespace(text))
    if text[:1] in ("{", "[", '"'):
        try:
            return any(_says(each, name) for each in _strings(json.loads(text)))
        except (ValueError, RecursionError):
            pass
    return _says(text, name)


def _strings(value: Any) -> Iterator[str]:
    """Yield the strings of a JSON value, and its keys."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, dict):
            waiting += [*each, *each.values()]
        elif isinstance(each, list):
            waiting += each


def _says(text: str, name: str) -> bool:
    """Whether a text is the name, or has it as words of its own."""
    at = text.find(name)
    while at >= 0:
        end = at + len(name)
        before, after = text[max(0, at - 2) : at][::-1], text[end : end + 2]
        if not (_goes_on(before) or _goes_on(after)):
            return True
        at = text.find(name, at + 1)
    return False


def _goes_on(beside: str) -> bool:
    """Whether the two characters beside a name make it a part of a longer name."""
    if beside[:1] and beside[0] in _JOINING:
        beside = beside[1:]
    return bool(beside) and (
        beside[0] == "_" or (beside[0].isalnum() and not _UNSPACED.match(beside))
    )


def _in_unused(path: Path, name: bytes) -> Iterator[tuple[Path, str]]:
    """Yield the places that have the name in bytes that hold no value."""
    with path.open("rb") as file:
        head = file.read(100)
        size = int.from_bytes(head[16:18], "big")
        size = 65_536 if size == 1 else size
        free = set(_free_pages(file, size, int.from_bytes(head[32:36], "big")))
        for number, _, page in _blocks(file, 0, 0, size):
            if name in page and number in free:
                yield path, "a free page"
            elif name in page and name in _unused(page, number == 1):
                yield path, "the unused bytes of a page"
    log = path.with_name(path.name + "-wal")
    if file_bytes(log):
        with log.open("rb") as file:
            for _, frame, page in _blocks(file, 32, 24, size):
                first = frame[:4] == b"\0\0\0\1"
                if name in page and name in _unused(page, first):
                    yield log, "the unused bytes of a page"


def _blocks(
    file: BinaryIO, begin: int, head: int, size: int
) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield the number, the header and the bytes of each page."""
    file.seek(begin)
    number = 0
    while len(block := file.read(head + size)) == head + size:
        number += 1
        yield number, block[:head], block[head:]


def _free_pages(file: BinaryIO, size: int, trunk: int) -> Iterator[int]:
    """Yield the numbers of the free pages."""
    seen: set[int] = set()
    while trunk and trunk not in seen:
        seen.add(trunk)
        file.seek((trunk - 1) * size)
        page = file.read(size)
        following, count = struct.unpack_from(">II", page)
        yield trunk
        yield from struct.unpack_from(f">{min(count, size // 4 - 2)}I", page, 8)
        trunk = following


def _unused(page: bytes, is_first: bool) -> bytes:
    """Return the bytes of a page of a table or an index that are in no cell.

    The rows tell what the cells hold, and the pages of long values.
    """
    begin = 100 if is_first else 0
    kind = page[begin]
    if kind not in _HEADS:
        return b""
    (count,) = struct.unpack_from(">H", page, begin + 3)
    end = begin + _HEADS[kind] + 2 * count
    if end > len(page):
        return b""
    cells = struct.unpack_from(f">{count}H", page, begin + _HEADS[kind])
    unused = []
    for cell in sorted(cells):
        unused.append(page[end:cell])
        end = max(end, cell + _cell_bytes(page, cell, kind))
    return b"\xff".join([*unused, page[end:]])


def _cell_bytes(page: bytes, at: int, kind: int) -> int:
    """Return the size of a cell, without the pages of a long value."""
    begin = at
    if kind in (_INNER_INDEX, _INNER_TABLE):
        at += 4  # the page below
    payload, at = _number(page, at)
    if kind == _INNER_TABLE:
        return at - begin
    room = len(page) - 35
    if kind == _TABLE:
        _, at = _number(page, at)
    else:
        room = (len(page) - 12) * 64 // 255 - 23
    if payload > room:
        least = (len(page) - 12) * 32 // 255 - 23
        local = least + (payload - least) % (len(page) - 4)
        payload = (local if local <= room else least) + 4
    return at + payload - begin


def _number(page: bytes, at: int) -> tuple[int, int]:
    """Return a number of variable length, and where it ends."""
    number = 0
    for place, byte in enumerate(page[at : at + 9]):
        if place == 8:
            return number << 8 | byte, at + 9
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            return number, at + place + 1
    return number, len(page)
