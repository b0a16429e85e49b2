"""Opens connections with vecall's settings."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

from vecall.clock import ExpiryClock
from vecall.concurrency.time_slices import watched
from vecall.store.file import partition_entry as _registers  # noqa: F401

_STEPS_WATCHED = 200_000  # of SQLite's machine: some milliseconds
_CACHE_KIB = 1_000  # of pages, a connection; the engine is the cache
BUSY_TIMEOUT_MS = 5_000  # a second line; the file lock separates writers


Connection = sqlite3.Connection


class _TimedConnection(sqlite3.Connection):
    """A connection with an expiry clock."""

    expiry_clock: ExpiryClock | None = None


class LockedConnection:
    """A connection and the lock under which it is used."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Start with a working connection."""
        self.connection = connection
        self.lock = threading.RLock()
        self.broken = False  # by an error of the disk, or a fork; to be reconnected


def reading(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Yield a connection once, inside a transaction that reads one state."""
    connection.execute("BEGIN")
    work = watched()
    if work is not None:  # a statement over many rows ends with the work
        connection.set_progress_handler(work.is_abandoned, _STEPS_WATCHED)
    try:
        yield connection
    finally:
        if work is not None:
            connection.set_progress_handler(None, 0)
        if connection.in_transaction:
            connection.execute("COMMIT")


def file_bytes(path: Path | str) -> int:
    """Return a file's size without opening it; 0 if it does not exist."""
    try:
        return os.stat(path).st_size  # noqa: PTH116 - a str costs no Path
    except OSError:
        return 0


def connect_to_read(path: Path) -> sqlite3.Connection:
    """Return a connection that changes nothing and does not checkpoint the WAL.

    Without a WAL there is nothing to checkpoint. Then the connection may write, so that
    it leaves no empty WAL behind.
    """
    if not file_bytes(path.with_name(path.name + "-wal")):
        return connect(path)
    connection = sqlite3.connect(
        f"{path.resolve().as_uri()}?mode=ro",
        uri=True,
        timeout=BUSY_TIMEOUT_MS / 1000,
        isolation_level=None,
    )
    try:
        _guard(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def connect(
    path: Path | None,
    expiry_clock: ExpiryClock | None = None,
    options: str | None = None,
) -> sqlite3.Connection:
    """Return a connection with vecall's settings.

    Args:
        path: The file, or None for a database in memory.
        expiry_clock: The clock by which memories expire.
        options: SQLite's URI parameters, such as "mode=ro".
    """
    # An absolute path, because SQLite would read "file:x.db" as a URI.
    name = ":memory:" if path is None else str(path.absolute())
    if path is not None and options is not None:
        name = f"{path.absolute().as_uri()}?{options}"
    connection = sqlite3.connect(
        name,
        uri=options is not None,
        timeout=BUSY_TIMEOUT_MS / 1000,
        isolation_level=None,
        check_same_thread=False,
        factory=_TimedConnection,
    )
    connection.expiry_clock = expiry_clock
    try:
        _guard(connection)
        connection.execute("PRAGMA mmap_size = 0")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
    except BaseException:
        connection.close()
        raise
    return connection


# Settings of sqlite3_db_config, which Python has from 3.12 on.
_DEFENSIVE = {
    "SQLITE_DBCONFIG_DEFENSIVE": True,
    "SQLITE_DBCONFIG_ENABLE_TRIGGER": False,
    "SQLITE_DBCONFIG_ENABLE_VIEW": False,
}


def _guard(connection: sqlite3.Connection) -> None:
    """Make SQLite distrust the file's schema as far as it can."""
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    set_config = getattr(connection, "setconfig", None)
    for name, value in _DEFENSIVE.items() if set_config is not None else ():
        option = getattr(sqlite3, name, None)
        if option is not None and set_config is not None:
            set_config(option, value)
