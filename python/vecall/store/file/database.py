"""The connections to one file: a writer, several readers, one for version look-ups.

Only the standard library's sqlite3 opens the file. A database in memory has one
connection under one lock.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Literal, TypeVar

from vecall.clock import Clock, ExpiryClock
from vecall.concurrency.freed_frames import free_frames
from vecall.errors import ClosedError, StorageError, StorageFullError
from vecall.store.file import schema
from vecall.store.file.clock_state import begun, load_checkpoint, save_boot
from vecall.store.file.connections import (
    BUSY_TIMEOUT_MS,
    LockedConnection,
    connect,
    file_bytes,
    reading,
)
from vecall.store.file.connections_at_fork import close_before_fork
from vecall.store.file.disk_reserve import Reserve
from vecall.store.file.file_lock import FileLock, close_gate, open_gate
from vecall.store.file.filesystem import (
    create_private,
    free_bytes,
    require_local,
    require_plain,
    with_resolved_folder,
)
from vecall.store.file.sqlite_errors import is_io_error, storage_errors
from vecall.store.partition_lookup import find_part
from vecall.store.results import Version

T = TypeVar("T")

Durability = Literal["full", "process"]
"""An acknowledged write survives a power cut ("full"), or the end of the process
("process")."""

MIN_FREE_BYTES = 64 * 1024 * 1024

_GATE_TIMEOUT_S = 30.0
_MAX_WAL_BYTES = 64 * 1024 * 1024
_REPLACED = (
    "path: the file was replaced or deleted while it was open; nothing was written; "
    "close the service and open it again"
)
_ROOM_FOR_A_BATCH = 4  # disk space by batch size: WAL, file, indexes, and a margin


class Database:
    """One vecall file. Thread-safe."""

    def __init__(
        self,
        path: Path | None,
        durability: Durability,
        *,
        min_free_bytes: int = MIN_FREE_BYTES,
        allow_network_filesystem: bool = False,
        clock: Clock | None = None,
    ) -> None:
        """Open or create a file, or a database in memory when `path` is None.

        Args:
            path: The file.
            durability: What an acknowledged write survives.
            min_free_bytes: Free disk space, in bytes, below which writes are refused.
            allow_network_filesystem: Also open files on a network file system.
            clock: The source of the time; default: the machine's clock.

        Raises:
            ConfigError: The folder does not exist, or the path is a folder or a
                symbolic link.
            NetworkFilesystemError: The file is on a network file system.
            StorageError: The file cannot be opened or written.
            IncompatibleFileError: The file is another program's, or has a newer schema.
            CorruptFileError: The file is damaged.
        """
        path = None if path is None else with_resolved_folder(path)
        self.path = path
        self._wal = "" if path is None else f"{path}-wal"  # each write looks at it
        self.expiry_clock = ExpiryClock(clock or Clock())
        self._durability = durability
        # Numbers of files are stable on local file systems only.
        self._name = str(path)
        self._checks_file = path is not None and not allow_network_filesystem
        self._file: tuple[int, int] | None = None
        self._min_free = min_free_bytes
        self._closed = False
        self._ended = False  # all connections are closed
        self._gate: FileLock | None = None
        self.reserve = None if path is None else Reserve(path)
        if path is not None:
            require_plain(path)
            if not allow_network_filesystem:
                require_local(path.parent)
            create_private(path)
        self.closed_before_fork = False  # set in a child forked without connections
        self._idle: list[sqlite3.Connection] = []
        self._readers = threading.Condition()  # for _idle, _lent and _frozen
        self._lent = 0
        self._frozen = False
        try:
            self._open()
        except (StorageFullError, StorageError):
            # Reading a WAL that was left behind needs a little disk space.
            if self.reserve is None or not self.reserve.release():
                raise
            self._open()
        close_before_fork(self)

    def _open(self) -> None:
        with storage_errors():
            self._writer = LockedConnection(self._connect())
            self._peek = self._writer
            try:
                schema.check_origin(self._writer.connection)
                self._prepare()
                if self.path is not None:
                    self._peek = LockedConnection(self._connect())
                with self.read_transaction() as connection:
                    self.uuid = schema.check_whole(connection)
                    self.expiry_clock.advance_to(load_checkpoint(connection))
                if self._checks_file:
                    about = os.stat(self._name)  # noqa: PTH116
                    self._file = about.st_dev, about.st_ino
                with self._passing(), suppress(sqlite3.Error):
                    save_boot(self._writer.connection, self.expiry_clock)
            except BaseException:
                for connection in (
                    *self._idle,
                    self._peek.connection,
                    self._writer.connection,
                ):
                    connection.close()
                self._idle.clear()
                self._close_gate()
                raise

    def _connect(self) -> sqlite3.Connection:
        return connect(self.path, self.expiry_clock)

    def _prepare(self) -> None:
        if self.path is not None:
            self._gate = open_gate(self.path)
            with self._passing():
                self._set_up_writer()
        with self._passing():
            schema.migrate(self._writer.connection)
        self.has_room(0)

    def _set_up_writer(self) -> None:
        execute = self._writer.connection.execute
        execute("PRAGMA journal_mode = WAL")
        execute(f"PRAGMA journal_size_limit = {_MAX_WAL_BYTES}")
        full = self._durability == "full"
        execute(f"PRAGMA synchronous = {'FULL' if full else 'NORMAL'}")
        if full:
            execute("PRAGMA fullfsync = ON")
            execute("PRAGMA checkpoint_fullfsync = ON")
        # If SQLite cannot open the file for writing, it silently opens it read-only and
        # does not retry. This probe fails then.
        execute("BEGIN IMMEDIATE")
        execute("CREATE TABLE probe (x)")
        execute("ROLLBACK")

    @contextmanager
    def write_transaction(self) -> Iterator[sqlite3.Connection]:
        """Write in one transaction: file lock, BEGIN IMMEDIATE, the block, COMMIT.

        Raises:
            BusyError: Timeout on the file lock; nothing was written.
            StorageFullError: The disk is full; nothing was written.
            StorageError: SQLite could not write, or the path has another file.
        """
        with self.exclusive() as connection:
            if self._file is not None:
                found: tuple[int, int] | None = None
                try:
                    about = os.stat(self._name)  # noqa: PTH116 - before each write
                    found = about.st_dev, about.st_ino
                except OSError:
                    pass
                if found != self._file:
                    # SQLite goes on with the old file; what it writes there is lost.
                    raise StorageError(_REPLACED)
            with begun(connection, self.expiry_clock):
                yield connection
            self._truncate_wal(connection)

    @contextmanager
    def exclusive(self) -> Iterator[sqlite3.Connection]:
        """Hold the file lock and the writing connection, without a transaction."""
        with self._writer.lock, self._passing(), storage_errors():
            connection = self._usable(self._writer)
            try:
                yield connection
            except BaseException as error:
                free_frames(error)
                if not isinstance(error, sqlite3.Error):
                    raise
                # After an I/O error, a later sync may succeed although pages were lost.
                # Only a new connection reads the pages from the disk again.
                self._writer.broken = is_io_error(error)
                raise

    @contextmanager
    def read_transaction(self) -> Iterator[sqlite3.Connection]:
        """Read one consistent state during the block."""
        if self.path is None:
            with self._writer.lock, storage_errors():
                yield from reading(self._usable(self._writer))
            return
        with storage_errors(), self._reader_connections() as connection:
            yield from reading(connection)

    @contextmanager
    def reader_connection(self) -> Iterator[sqlite3.Connection]:
        """Hold a connection without a transaction, to copy the file from."""
        if self.path is None:
            with self._writer.lock:
                yield self._usable(self._writer)
            return
        with self._reader_connections() as connection:
            yield connection

    @contextmanager
    def _reader_connections(self) -> Iterator[sqlite3.Connection]:
        with self._readers:
            self._readers.wait_for(lambda: not self._frozen)
            self._check_open()
            connection = self._idle.pop() if self._idle else None
            self._lent += 1
        try:
            if connection is None:
                connection = self._connect()
            yield connection
        except BaseException as error:
            free_frames(error)
            if isinstance(error, sqlite3.Error) and connection is not None:
                connection.close()
                connection = None
            raise
        finally:
            with self._readers:
                self._lent -= 1
                self._readers.notify_all()
                if connection is not None and not self._closed:
                    self._idle.append(connection)
                    connection = None
            if connection is not None:
                connection.close()

    def close_for_fork(self, timeout_s: float) -> bool:
        """Close all connections and block new ones until `reopen`.

        Returns:
            False on timeout, because connections were in use; nothing changed then.
        """
        if self.path is None or self._closed:
            return False
        deadline = time.monotonic() + timeout_s
        held = []
        for channel in (self._writer, self._peek):
            if channel.lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
                held.append(channel)
        with self._readers:
            self._frozen = len(held) == 2 and self._readers.wait_for(
                lambda: not self._lent, max(0.0, deadline - time.monotonic())
            )
        if not self._frozen:
            for channel in held:
                channel.lock.release()
            return False
        for connection in self._idle:
            connection.close()
        self._idle.clear()
        for channel in (self._peek, self._writer):
            channel.connection.close()
            channel.broken = True
        return True

    def reopen(self) -> None:
        """Let all threads connect again after `close_for_fork`."""
        with self._readers:
            self._frozen = False
            self._readers.notify_all()
        for channel in (self._peek, self._writer):
            channel.lock.release()

    def partition(self, app: str, user: str) -> Version | None:
        """Return the number and the newest change of a partition, or None.

        It takes a few microseconds and never waits for a writer.
        """
        return self.peek(find_part, app, user)

    def peek(self, read: Callable[..., T], *values: str) -> T:
        """Return `read(connection, *values)`: one statement of a few microseconds.

        It never waits for a writer, unless the database is in memory.
        """
        with self._peek.lock, storage_errors():
            connection = self._usable(self._peek)
            try:
                return read(connection, *values)
            except sqlite3.Error as error:
                self._peek.broken = is_io_error(error)
                raise

    def has_room(self, size: int) -> bool:
        """Whether the disk has room for `size` more bytes of memories.

        Below `min_free_bytes` vecall adds no memories, so that deletions and other
        programs still have space.
        """
        if self.path is None:
            return True
        needed = max(self._min_free, _ROOM_FOR_A_BATCH * size)
        wal_bytes = self._wal_bytes()
        if self._min_free:  # a checkpoint may copy the WAL into the file
            needed += wal_bytes
        # The reserve is filled first: a deletion may need it.
        lacking = 0 if self.reserve is None else self.reserve.lacks(wal_bytes + size)
        if free_bytes(self.path.parent) < needed + lacking:
            return False
        if lacking and self.reserve is not None:
            self.reserve.fill(lacking)
        return True

    def checkpoint(self) -> None:
        """Checkpoint the WAL into the file; the WAL keeps its disk space.

        Deletions can then reuse the WAL's disk space.
        """
        if self._wal_bytes():
            with self.exclusive() as connection:
                connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()

    def sizes(self) -> dict[str, int]:
        """Return the bytes of the file and of its WAL."""
        if self.path is None:
            return {"file_bytes": 0, "wal_bytes": 0}
        return {"file_bytes": file_bytes(self.path), "wal_bytes": self._wal_bytes()}

    def _wal_bytes(self) -> int:
        # By stat only: opening and closing a file would drop this process's locks.
        return file_bytes(self._wal)

    def close(self) -> None:
        """Close all connections.

        A second call does nothing, or continues an interrupted first call.

        Raises:
            BusyError: Timeout on the file lock; call it again.
        """
        if self._ended:
            return
        # The last connection to close checkpoints, which must not meet a commit.
        with self._passing(), storage_errors():
            with self._readers:
                self._closed = True
                idle, self._idle = self._idle, []
            for connection in idle:
                connection.close()
            for channel in (self._peek, self._writer):
                with channel.lock:
                    channel.connection.close()
        self._close_gate()
        self._ended = True

    def _check_open(self) -> None:
        if self._closed:
            msg = "the memory service is closed"
            raise ClosedError(msg)

    def _usable(self, channel: LockedConnection) -> sqlite3.Connection:
        self._check_open()
        if channel.broken:
            with suppress(sqlite3.Error):
                channel.connection.close()
            channel.connection = self._connect()
            if channel is self._writer:
                self._set_up_writer()
            channel.broken = False
        return channel.connection

    def _truncate_wal(self, connection: sqlite3.Connection) -> None:
        """Truncate a WAL that exceeds its limit, unless a reader still needs it."""
        if self._wal_bytes() <= _MAX_WAL_BYTES:
            return
        connection.execute("PRAGMA busy_timeout = 0")
        with suppress(sqlite3.Error):
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")

    def _passing(self) -> AbstractContextManager[None]:
        gate = self._gate
        return gate.hold(_GATE_TIMEOUT_S) if gate else nullcontext()

    def _close_gate(self) -> None:
        if self._gate is not None:
            close_gate(self._gate)
            self._gate = None
