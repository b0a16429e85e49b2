"""How far a file's time has come, for the next process that opens it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from vecall.clock import LifeTime, Mark

_EVERY_S = 1.0  # at most; a page of the log each


def kept_time(connection: sqlite3.Connection) -> Mark | None:
    """Return how far the time had come when something was last written."""
    row = connection.execute("SELECT value FROM meta WHERE key = 'clock'").fetchone()
    return None if row is None else Mark.parse(row[0])


def keep_boot(connection: sqlite3.Connection, lifetime: LifeTime) -> None:
    """Write down how late it was at the first opening since the machine began.

    What the wall clock says later does not matter then, also if nothing is written.
    """
    kept = kept_time(connection)
    if kept is None or kept.boot != lifetime.mark().boot:
        keep_time(connection, lifetime, None)


def keep_time(
    connection: sqlite3.Connection, lifetime: LifeTime, kept: Mark | None
) -> None:
    """Write down how far the time has come, unless that was done a moment ago."""
    mark = lifetime.mark()
    if (
        kept is None
        or kept.boot != mark.boot
        or not 0.0 <= mark.passing - kept.passing < _EVERY_S
    ):
        connection.execute(
            "INSERT OR REPLACE INTO meta VALUES ('clock', ?)", (str(mark),)
        )


@contextmanager
def begun(connection: sqlite3.Connection, lifetime: LifeTime) -> Iterator[None]:
    """Write in one transaction, by whose time memories expire."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        kept = kept_time(connection)
        lifetime.meet(kept)
        before = connection.total_changes
        yield
        if connection.total_changes != before:
            keep_time(connection, lifetime, kept)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
