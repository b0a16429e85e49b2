"""Lists and counts the memories that pass a filter."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from vecall.errors import NotFoundError
from vecall.filters.labels import EVERY
from vecall.filters.rights import FULL, Rights
from vecall.store.reads.metadata_filter import (
    filter_conditions,
    passing_metadata,
    tested,
)
from vecall.store.reads.partition_reads import load_rows
from vecall.store.rows import Row
from vecall.store.transaction import Transaction
from vecall.store.visible import visible
from vecall.types import Filter

_AT_ONCE = 1_000  # rows whose metadata are read together


def listed(
    connection: Transaction,
    app: str,
    user: str,
    state: str,
    cursor: str | None,
    limit: int,
    now: float,
    conditions: Filter = EVERY,
    rights: Rights = FULL,
) -> list[Row]:
    """Return a user's memories in one state, in order of creation.

    Expired memories, and memories quarantined as damaged, are left out.

    Args:
        connection: The file.
        app: The app.
        user: The user.
        state: Only memories in this state.
        cursor: The id of a memory; only memories created after it.
        limit: Maximum number of memories; -1 returns all.
        now: The time of the expiry clock, in seconds.
        conditions: Only memories that pass this filter.
        rights: Only memories that the caller sees.

    Raises:
        NotFoundError: This user has no memory with the id `cursor`.
    """
    begin = -1
    part = _part_of(connection, app, user)
    if cursor is not None:
        row = connection.execute(
            f"SELECT rid FROM mem WHERE part = ? AND id = ?{visible(rights)}",
            (part, cursor),
        ).fetchone()
        if row is None:
            msg = (
                "cursor: this user has no such memory any more; begin without a cursor"
            )
            raise NotFoundError(msg)
        begin = row[0]
    where, values = _where(part, state, now, conditions, rights)
    if conditions.metadata is None:
        page = connection.execute(
            f"SELECT rid {where} ORDER BY rid LIMIT ?",
            (max(begin + 1, part << 32), *values, limit if limit >= 0 else _ALL),
        )
        rids = [rid for (rid,) in page]
    else:
        passing = _passing(connection, where, values, part, begin, conditions)
        rids = list(passing if limit < 0 else islice(passing, limit))
    found = load_rows(connection, rids, any_state=True)
    return sorted((stored.row for stored in found), key=lambda row: row.rid)


def count_listed(
    connection: Transaction,
    app: str,
    user: str,
    state: str,
    now: float,
    conditions: Filter,
    rights: Rights = FULL,
) -> int:
    """Return the number of memories that `listed` returns without a limit."""
    part = _part_of(connection, app, user)
    where, values = _where(part, state, now, conditions, rights)
    if conditions.metadata is not None:
        passing = _passing(connection, where, values, part, -1, conditions)
        return sum(1 for _ in passing)
    counted = f"SELECT count(*) {where}"
    row = connection.execute(counted, (part << 32, *values)).fetchone()
    return 0 if row is None else int(row[0])


_ALL = 1 << 32  # more rows than a partition has


def _part_of(connection: Transaction, app: str, user: str) -> int:
    """Return the number of a partition; 0, which no partition has, without one."""
    row = connection.execute(
        "SELECT id FROM part WHERE app = ? AND user = ?", (app, user)
    ).fetchone()
    return row[0] if row else 0


def _where(
    part: int, state: str, now: float, conditions: Filter, rights: Rights
) -> tuple[str, list[Any]]:
    """Return FROM and WHERE of the memories in one state that may pass a filter.

    The first value, the lowest row number, is not among the returned values.
    """
    condition, values = filter_conditions(conditions)
    sql = (
        "FROM mem WHERE rid BETWEEN ? AND ? AND state = ? "
        "AND coalesce(expires_at, 9e99) > ? "
        f"AND (state <> 'live' OR coalesce(valid_until, 9e99) > ?)"
        f"{visible(rights)}{condition}"
    )
    return sql, [(part << 32) | 0xFFFFFFFF, state, now, now, *values]


def _passing(
    connection: Transaction,
    where: str,
    values: list[Any],
    part: int,
    begin: int,
    conditions: Filter,
) -> Iterator[int]:
    """Yield the numbers of rows with passing metadata, in order, after row `begin`."""
    lowest = max(begin + 1, part << 32)
    rows = _in_pages(connection, where, values, lowest, tested(conditions))
    return (row[0] for row in passing_metadata(rows, conditions.metadata or {}))


def _in_pages(
    connection: Transaction, where: str, values: list[Any], lowest: int, columns: str
) -> Iterator[tuple[Any, ...]]:
    """Yield number and the columns of rows, in order."""
    while True:
        rows = connection.execute(
            f"SELECT rid, {columns} {where} ORDER BY rid LIMIT ?",
            (lowest, *values, _AT_ONCE),
        ).fetchall()
        yield from rows
        if len(rows) < _AT_ONCE:
            return
        lowest = rows[-1][0] + 1
