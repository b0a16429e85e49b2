"""Stores the expiry clock of a file for the next process that opens it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from vecall.clock import ClockCheckpoint, ExpiryClock

_EVERY_S = 1.0  # at most; a page of the log each


def load_checkpoint(connection: sqlite3.Connection) -> ClockCheckpoint | None:
    """Return the checkpoint of the clock at the last write."""
    row = connection.execute("SELECT value FROM meta WHERE key = 'clock'").fetchone()
    return None if row is None else ClockCheckpoint.parse(row[0])


def save_boot(connection: sqlite3.Connection, expiry_clock: ExpiryClock) -> None:
    """Store the time of the first opening since the machine booted.

    Later changes of the wall clock then have no effect, even if nothing is written.
    """
    checkpoint = load_checkpoint(connection)
    if checkpoint is None or checkpoint.boot_id != expiry_clock.mark().boot_id:
        save_checkpoint(connection, expiry_clock, None)


def save_checkpoint(
    connection: sqlite3.Connection,
    expiry_clock: ExpiryClock,
    checkpoint: ClockCheckpoint | None,
) -> None:
    """Store a checkpoint of the clock, at most once a second."""
    mark = expiry_clock.mark()
    if (
        checkpoint is None
        or checkpoint.boot_id != mark.boot_id
        or not 0.0 <= mark.monotonic - checkpoint.monotonic < _EVERY_S
    ):
        connection.execute(
            "INSERT OR REPLACE INTO meta VALUES ('clock', ?)", (str(mark),)
        )


@contextmanager
def begun(connection: sqlite3.Connection, expiry_clock: ExpiryClock) -> Iterator[None]:
    """Write in one transaction, by whose time memories expire."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        checkpoint = load_checkpoint(connection)
        expiry_clock.advance_to(checkpoint)
        before = connection.total_changes
        yield
        if connection.total_changes != before:
            save_checkpoint(connection, expiry_clock, checkpoint)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
