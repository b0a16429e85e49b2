"""Connections to one file, or to memory: a writer, a reader for loading, one for peeks.

Only the standard library's sqlite3 ever touches the file. `:memory:` is one connection
under one lock.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Literal

from vecall.errors import ClosedError, ConfigError, StorageError
from vecall.store import schema
from vecall.store.failures import storage_errors
from vecall.store.gate import WriteGate, close_gate, open_gate

Durability = Literal["full", "process"]
"""What an acknowledged write survives: a power cut, or the end of the process."""

_GATE_TIMEOUT_S = 30.0
_BUSY_TIMEOUT_S = 5.0  # a second line; the gate keeps writers apart
_WAL_BYTES_KEPT = 64 * 1024 * 1024


class _Channel:
    """A connection and the lock under which it is used."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.lock = threading.RLock()


class Database:
    """One vecall file. Thread-safe."""

    def __init__(self, path: Path | None, durability: Durability) -> None:
        """Open or create a file, or a database in memory when `path` is None.

        Raises:
            ConfigError: The folder is not there, or the path is one.
            StorageError: The file cannot be opened or written.
            IncompatibleFileError: Another program's file, or a newer schema.
            CorruptFileError: The file is damaged.
        """
        self.path = path
        self._closed = False
        self._gate: WriteGate | None = None
        if path is not None:
            _create(path)
        with storage_errors():
            self._writer = _Channel(_connect(path))
            try:
                schema.check_origin(self._writer.connection)
                self._prepare(durability)
            except BaseException:
                self._writer.connection.close()
                self._close_gate()
                raise
        if path is None:
            self._reader = self._peek = self._writer
        else:
            self._reader = _Channel(_connect(path))
            self._peek = _Channel(_connect(path))

    def _prepare(self, durability: Durability) -> None:
        connection = self._writer.connection
        if self.path is not None:
            self._gate = open_gate(self.path)
            with self._passing():
                connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES_KEPT}")
            level = "FULL" if durability == "full" else "NORMAL"
            connection.execute(f"PRAGMA synchronous = {level}")
            if durability == "full":
                connection.execute("PRAGMA fullfsync = ON")
                connection.execute("PRAGMA checkpoint_fullfsync = ON")
        with self._passing():
            schema.migrate(connection)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Write in one transaction: gate, BEGIN IMMEDIATE, the block, COMMIT.

        Raises:
            BusyError: The gate was not had in time; nothing was written.
            StorageFullError: The disk is full; nothing was written.
            StorageError: SQLite could not write.
        """
        with self._writer.lock, self._passing(), storage_errors():
            connection = self._usable(self._writer)
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """Read a consistent state, for as long as the block takes."""
        with self._reader.lock, storage_errors():
            connection = self._usable(self._reader)
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                if connection.in_transaction:
                    connection.execute("COMMIT")

    def partition(self, app: str, user: str) -> tuple[int, int] | None:
        """Return the number and the newest change of a partition, or None.

        Costs a few microseconds and waits for no writer.
        """
        with self._peek.lock, storage_errors():
            row: tuple[int, int] | None = (
                self._usable(self._peek)
                .execute(
                    "SELECT id, seq FROM part WHERE app = ? AND user = ?", (app, user)
                )
                .fetchone()
            )
        return row

    def nbytes(self) -> int | None:
        """Return the size of the file and its write-ahead log; None in memory."""
        if self.path is None:
            return None
        log = self.path.with_name(self.path.name + "-wal")
        # Only their sizes: opening either would drop this process's locks.
        return sum(part.stat().st_size for part in (self.path, log) if part.exists())

    def close(self) -> None:
        """Close all connections; a second call does nothing."""
        if self._closed:
            return
        self._closed = True
        # The last connection to close checkpoints, which must not meet a commit.
        with self._passing(), storage_errors():
            for channel in (self._peek, self._reader, self._writer):
                with channel.lock:
                    channel.connection.close()
        self._close_gate()

    def _usable(self, channel: _Channel) -> sqlite3.Connection:
        if self._closed:
            msg = "the memory service is closed"
            raise ClosedError(msg)
        return channel.connection

    @contextmanager
    def _passing(self) -> Iterator[None]:
        gate = self._gate
        with gate.passing(_GATE_TIMEOUT_S) if gate else nullcontext():
            yield

    def _close_gate(self) -> None:
        if self._gate is not None and self.path is not None:
            close_gate(self.path)
            self._gate = None


def _create(path: Path) -> None:
    """Make an empty file with mode 0600 unless there is one.

    Nothing but SQLite may open the file once it is in use: closing any descriptor of it
    would drop the locks of every connection in this process. O_EXCL makes sure of that.
    """
    if path.is_dir():
        msg = "path: is a folder; give the name of a file in it"
        raise ConfigError(msg)
    if not path.parent.is_dir():
        msg = "path: the folder in which the file should lie does not exist"
        raise ConfigError(msg)
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        return
    except OSError as error:
        msg = f"path: the file cannot be created: {error.strerror}"
        raise StorageError(msg) from error


def _connect(path: Path | None) -> sqlite3.Connection:
    connection = sqlite3.connect(
        ":memory:" if path is None else str(path),
        timeout=_BUSY_TIMEOUT_S,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    connection.execute("PRAGMA mmap_size = 0")
    return connection
