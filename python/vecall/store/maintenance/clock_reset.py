"""Resets a file's expiry clock to the wall clock.

The expiry clock never goes back by itself. If the wall clock was years ahead when the
file was opened, the expiry clock stays years ahead, and searches do not find memories
with an earlier `valid_until`. A reset shifts all times that depend on the expiry clock,
so each TTL keeps its remaining seconds. A `valid_until` is a date and does not change.
"""

from __future__ import annotations

import sqlite3
from itertools import groupby
from pathlib import Path

from vecall.clock import DAY_S, Clock
from vecall.store.file.clock_state import save_checkpoint
from vecall.store.file.database import Database
from vecall.store.partition_lookup import partition_names
from vecall.store.reads.partition_reads import load_rows
from vecall.store.sql import select_in
from vecall.store.transaction import expiry_clock_of
from vecall.store.writes.consolidation import move_last_consolidation
from vecall.store.writes.partition_writer import PartitionWriter
from vecall.store.writes.row_state import rewrite

_TIMES = (("hist", "expires_at"), ("trig", "due_at"), ("idem", "at"))
_AT_ONCE = 500


def reset_clock(path: Path, clock: Clock | None = None) -> list[str]:
    """Set a file's expiry clock to the wall clock.

    No other process may use the file during the reset: it would continue with the old
    time.

    Args:
        path: The file.
        clock: The source of the time; default: the machine's clock.

    Returns:
        The actions taken; empty if the clocks differed by less than a second.

    Raises:
        CorruptFileError: A memory with a TTL fails its checksum; nothing changed.
        BusyError: Timeout on the file lock; nothing changed.
    """
    database = Database(path, "full", clock=clock)
    try:
        with database.write_transaction() as connection:
            expiry_clock = expiry_clock_of(connection)
            ahead = expiry_clock.reset()
            if abs(ahead) < 1.0:
                return []
            count = _move(connection, -ahead)
            save_checkpoint(connection, expiry_clock, None)
    finally:
        database.close()
    where = "back" if ahead > 0 else "forward"
    days = abs(ahead) / DAY_S
    return [f"the clock was set {where} by {days:.1f} days; {count} ttls moved with it"]


def _move(connection: sqlite3.Connection, seconds: float) -> int:
    """Shift every time of the expiry clock; return the number of memories with a TTL.

    Args:
        connection: The file.
        seconds: The shift; negative towards the past.
    """
    for table, column in _TIMES:
        connection.execute(
            f"UPDATE {table} SET {column} = {column} + ? WHERE {column} IS NOT NULL",
            (seconds,),
        )
    move_last_consolidation(connection, seconds)
    query = "SELECT rid FROM mem WHERE expires_at IS NOT NULL ORDER BY rid"
    rids = [rid for (rid,) in connection.execute(query)]
    for part, some in groupby(rids, lambda rid: rid >> 32):
        names = partition_names(connection, part)
        if names is None:
            continue
        partition = PartitionWriter(connection, *names, create=False)
        mine = list(some)
        for at in range(0, len(mine), _AT_ONCE):
            _move_rows(partition, mine[at : at + _AT_ONCE], seconds)
        partition.finish()
    return len(rids)


def _move_rows(partition: PartitionWriter, rids: list[int], seconds: float) -> None:
    query = "SELECT rid, state FROM mem WHERE rid IN"
    states = dict(select_in(partition.connection, query, [], rids))
    for stored in load_rows(partition.connection, rids, any_state=True):
        row, state = stored.row, states[stored.row.rid]
        assert row.expires_at is not None
        row = row._replace(expires_at=row.expires_at + seconds)
        rewrite(partition, stored, row, was=state, state=state)
