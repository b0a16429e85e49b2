"""Reads all rows of a user, for a copy in another storage."""

from __future__ import annotations

from typing import Any

from vecall.errors import CorruptFileError
from vecall.store.item_records import checked_item, checked_vectors
from vecall.store.partition_copy import TABLES, PartitionCopy, PartitionNames
from vecall.store.reads.item_reads import state_of
from vecall.store.rows import Row, is_whole
from vecall.store.transaction import Transaction

_LOW_BITS = 0xFFFFFFFF
_WIDTH = len(Row._fields)
_NAMES = "SELECT id, app, user, seq, live, bytes, created_at, item FROM part"


def partitions_after(
    connection: Transaction, after: int, limit: int
) -> list[PartitionNames]:
    """Return the users with a greater number, in order."""
    rows = connection.execute(
        f"{_NAMES} WHERE id > ? ORDER BY id LIMIT ?", (after, limit)
    ).fetchall()
    return [PartitionNames(*row) for row in rows]


def read_partition(
    connection: Transaction, names: PartitionNames, expiry_now: float
) -> PartitionCopy | None:
    """Return all rows of a user; None if the user was deleted.

    Raises:
        CorruptFileError: A row fails its checksum.
    """
    row = connection.execute(f"{_NAMES} WHERE id = ?", (names.part,)).fetchone()
    if row is None:
        return None
    current = PartitionNames(*row)
    tables = {table: _rows(connection, table, names.part) for table in TABLES}
    _require_whole(connection, current, tables)
    tables["item"] = [_without_checksum(row) for row in tables["item"]]
    return PartitionCopy(current, tables, expiry_now)


def _rows(connection: Transaction, table: str, part: int) -> list[tuple[Any, ...]]:
    known = TABLES[table]
    rows = connection.execute(
        f"SELECT {', '.join(known.columns)} FROM {table} WHERE part = ? "
        f"ORDER BY {known.key}",
        (part,),
    ).fetchall()
    if known.columns[0] != "rid":
        return [tuple(row) for row in rows]
    return [(row[0] & _LOW_BITS, *row[1:]) for row in rows]


def _require_whole(
    connection: Transaction,
    names: PartitionNames,
    tables: dict[str, list[tuple[Any, ...]]],
) -> None:
    high = names.part << 32
    for rid, *values in tables["mem"]:
        row = Row(high | rid, *values[: _WIDTH - 1])
        vec, crc = values[-3], values[-1]
        if not is_whole(row, vec, crc):
            raise CorruptFileError(_DAMAGED)
    dim = state_of(connection, names.part).dim
    for rid, *values in tables["item"]:
        checked_item((high | rid, *values[:7]), values[-1])
        checked_vectors(high | rid, values[7], dim)


def _without_checksum(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a row of an item with its vectors as float32 alone."""
    vecs = row[8]
    return (*row[:8], None if vecs is None else vecs[:-4], row[9])


_DAMAGED = "a memory fails its checks; `vecall doctor` says more"
