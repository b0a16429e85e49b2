"""The connections to one file: a writer, several readers, one for version look-ups.

Only the standard library's sqlite3 opens the file. A database in memory has one
connection under one lock.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Literal, NoReturn, TypeVar

from vecall import errors
from vecall.clock import Clock, ClockCheckpoint, ExpiryClock
from vecall.concurrency.executor import free_error_frames
from vecall.store.file import filesystem, schema
from vecall.store.file.connections import (
    BUSY_TIMEOUT_MS,
    LockedConnection,
    connect_to_file,
    file_bytes,
    is_io_error,
    reading_transaction,
    storage_errors,
)
from vecall.store.file.counters import count_writes_of_connection
from vecall.system import at_fork

# Stores the expiry clock of a file for the next process that opens it.

_EVERY_S = 1.0  # at most; a page of the log each


def load_checkpoint(connection: sqlite3.Connection) -> ClockCheckpoint | None:
    """Return the checkpoint of the clock at the last write."""
    row = connection.execute("SELECT value FROM meta WHERE key = 'clock'").fetchone()
    return None if row is None else ClockCheckpoint.parse_checkpoint(row[0])


def save_checkpoint(connection: sqlite3.Connection, expiry_clock: ExpiryClock) -> None:
    """Store a checkpoint of the clock."""
    mark = str(expiry_clock.make_checkpoint())
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('clock', ?)", (mark,))


@contextmanager
def begun(connection: sqlite3.Connection, expiry_clock: ExpiryClock) -> Iterator[None]:
    """Write in one transaction, by whose time memories expire."""
    with connection:  # commits at the end, or rolls back
        connection.execute("BEGIN IMMEDIATE")
        age = expiry_clock.advance_to(load_checkpoint(connection))
        before = connection.total_changes
        yield
        if age >= _EVERY_S and connection.total_changes != before:
            save_checkpoint(connection, expiry_clock)


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

    _keeps_readers = True  # connections of readers are used again

    def __init__(
        self,
        path: Path | None,
        durability: Durability,
        *,
        min_free_bytes: int = MIN_FREE_BYTES,
        allow_network_filesystem: bool = False,
        clock: Clock | None = None,
    ) -> None:
        """Open or create a file, or a database in memory; see `open_storage`."""
        path = None if path is None else filesystem.with_resolved_folder(path)
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
        self._gate: filesystem.FileLock | None = None
        self._pass_gate: Callable[[], AbstractContextManager[None]] = nullcontext
        self.reserve = None if path is None else filesystem.Reserve(path)
        if path is not None:
            filesystem.require_plain_file(path)
            if not allow_network_filesystem:
                filesystem.require_local_folder(path.parent)
            filesystem.create_private_file(path)
        self.closed_before_fork = False  # set in a child forked without connections
        self._idle: list[sqlite3.Connection] = []
        self._readers = threading.Condition()  # for _idle, _lent and _frozen
        self._lent = 0
        self._frozen = False
        try:
            self._open_connections()
        except (errors.StorageFullError, errors.StorageError):
            # Reading a WAL that was left behind needs a little disk space.
            if self.reserve is None or not self.reserve.release_disk_bytes():
                raise
            self._open_connections()
        _opened.add(self)

    def _open_connections(self) -> None:
        with storage_errors:
            self._writer = LockedConnection(self._connect_to_file())
            self._peek = self._writer if self.path is None else LockedConnection(None)
            try:
                self._prepare_file(schema.check_file_origin(self._writer.connection))
                with self.read_transaction() as connection:
                    self.uuid = schema.check_schema_unaltered(connection)
                    self.expiry_clock.advance_to(load_checkpoint(connection))
                if self._checks_file:
                    about = os.stat(self._name)  # noqa: PTH116
                    self._file = about.st_dev, about.st_ino
                with self._pass_gate(), suppress(sqlite3.Error):
                    # At the first opening since the machine booted. Later changes of
                    # the wall clock have no effect then, even if nothing is written.
                    known = load_checkpoint(self._writer.connection)
                    boot = self.expiry_clock.make_checkpoint().boot_id
                    if known is None or known.boot_id != boot:
                        save_checkpoint(self._writer.connection, self.expiry_clock)
            except BaseException:
                for connection in self._idle:
                    connection.close()
                self._idle.clear()
                self._writer.close()
                self._close_gate()
                raise

    def _connect_to_file(self) -> sqlite3.Connection:
        return connect_to_file(self.path, self.expiry_clock)

    def _prepare_file(self, version: int) -> None:
        connection = self._writer.connection
        if self.path is None:
            schema.create_schema_in_memory(connection)
            return
        self._gate = filesystem.open_file_gate(self.path)
        self._pass_gate = partial(self._gate.hold_file_lock, _GATE_TIMEOUT_S)
        with self._pass_gate():
            self._set_up_writer()
            if version < schema.NEWEST:
                schema.migrate_file(connection)
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
        execute("PRAGMA user_version = 0")
        execute("ROLLBACK")

    @contextmanager
    def write_transaction(self) -> Iterator[sqlite3.Connection]:
        """Write in one transaction: file lock, BEGIN IMMEDIATE, the block, COMMIT."""
        # Nothing was written if this raises: the lock was held for too long, the disk
        # is full, SQLite could not write, or the path has another file.
        with self.exclusive_connection() as connection:
            if self._file is not None:
                found: tuple[int, int] | None = None
                try:
                    about = os.stat(self._name)  # noqa: PTH116 - before each write
                    found = about.st_dev, about.st_ino
                except OSError:
                    pass
                if found != self._file:
                    # SQLite goes on with the old file; what it writes there is lost.
                    raise errors.StorageError(_REPLACED)
            with begun(connection, self.expiry_clock):
                yield connection
            if file_bytes(self._wal) > _MAX_WAL_BYTES:
                self._truncate_long_wal(connection)

    @contextmanager
    def exclusive_connection(self) -> Iterator[sqlite3.Connection]:
        """Hold the file lock and the writing connection, without a transaction."""
        with self._writer.lock, self._pass_gate(), storage_errors:
            connection = self._usable_connection(self._writer)
            try:
                if not self._writer.counts:
                    count_writes_of_connection(connection)
                    self._writer.counts = True
                yield connection
            except BaseException as error:
                free_error_frames(error)
                # After an I/O error, a later sync may succeed although pages were lost.
                # Only a new connection reads the pages from the disk again.
                self._writer.broken = is_io_error(error)
                raise

    @contextmanager
    def read_transaction(self) -> Iterator[sqlite3.Connection]:
        """Read one consistent state during the block."""
        with storage_errors, self.reader_connection() as connection:
            yield from reading_transaction(connection)

    @contextmanager
    def reader_connection(self) -> Iterator[sqlite3.Connection]:
        """Hold a connection without a transaction, such as to copy the file from."""
        if self.path is None:
            with self._writer.lock:
                yield self._usable_connection(self._writer)
            return
        with self._readers:
            self._readers.wait_for(lambda: not self._frozen)
            self._require_open()
            connection = self._idle.pop() if self._idle else None
            self._lent += 1
        try:
            if connection is None:
                connection = self._connect_to_file()
            yield connection
        except BaseException as error:
            free_error_frames(error)
            if isinstance(error, sqlite3.Error) and connection is not None:
                connection.close()
                connection = None
            raise
        finally:
            with self._readers:
                self._lent -= 1
                self._readers.notify_all()
                keeps = self._keeps_readers and not self._closed
                if keeps and connection is not None:
                    self._idle.append(connection)
                    connection = None
            if connection is not None:
                connection.close()

    def close_for_fork(self, timeout_s: float) -> bool:
        """Close all connections and block new ones until `reopen`."""
        # False: connections were in use for too long; nothing changed then.
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
            channel.close()
        return True

    def reopen(self) -> None:
        """Let all threads connect again after `close_for_fork`."""
        with self._readers:
            self._frozen = False
            self._readers.notify_all()
        for channel in (self._peek, self._writer):
            channel.lock.release()

    def peek_at_file(self, read: Callable[..., T], *values: str) -> T:
        """Return `read(connection, *values)`: one statement of a few microseconds."""
        # It never waits for a writer, unless the database is in memory.
        try:
            with self._peek.lock:
                channel = self._peek
                if channel.broken or self._closed:
                    self._reconnect(channel)
                try:
                    return read(channel.connection, *values)
                except sqlite3.Error as error:
                    channel.broken = is_io_error(error)
                    raise
        except Exception:
            with storage_errors:  # entered here alone: every search is a peek
                raise

    def has_room(self, size: int) -> bool:
        """Whether the disk has room for `size` more bytes of memories."""
        # Below `min_free_bytes` vecall adds no memories, so that deletions and other
        # programs still have space.
        if self.path is None or self.reserve is None:
            return True
        needed = max(self._min_free, _ROOM_FOR_A_BATCH * size)
        wal_bytes = file_bytes(self._wal)
        if self._min_free:  # a checkpoint may copy the WAL into the file
            needed += wal_bytes
        # The reserve is filled first: a deletion may need it.
        lacking = self.reserve.missing_bytes(wal_bytes + size)
        if filesystem.free_disk_bytes(self.path.parent) < needed + lacking:
            return False
        if lacking:
            self.reserve.reserve_disk_bytes(lacking)
        return True

    def checkpoint_wal(self) -> None:
        """Checkpoint the WAL into the file; deletions can then reuse its disk space."""
        if file_bytes(self._wal):
            with self.exclusive_connection() as connection:
                connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()

    def sizes(self) -> dict[str, int]:
        """Return the bytes of the file and of its WAL."""
        main = file_bytes(self.path or "")
        return {"file_bytes": main, "wal_bytes": file_bytes(self._wal)}

    def close(self) -> None:
        """Close all connections."""
        # A second call does nothing, or continues a first one that BusyError
        # interrupted: the file lock was held for too long.
        if self._ended:
            return
        # The last connection to close checkpoints, which must not meet a commit.
        with self._pass_gate(), storage_errors:
            with self._readers:
                self._closed = True
                idle, self._idle = self._idle, []
            for connection in idle:
                connection.close()
            for channel in (self._peek, self._writer):
                with channel.lock:
                    channel.close()
        self._close_gate()
        self._ended = True

    def _require_open(self) -> None:
        if self._closed:
            raise errors.ClosedError("the memory service is closed")

    def _usable_connection(self, channel: LockedConnection) -> sqlite3.Connection:
        if channel.broken or self._closed:
            self._reconnect(channel)
        return channel.connection

    def _reconnect(self, channel: LockedConnection) -> None:
        self._require_open()
        if self.path is not None:  # in memory, the connection is the database
            with suppress(sqlite3.Error):
                channel.close()
            channel.connection = self._connect_to_file()
            if channel is self._writer:
                self._set_up_writer()
        channel.broken = False

    def _truncate_long_wal(self, connection: sqlite3.Connection) -> None:
        """Truncate a WAL that exceeds its limit, unless a reader still needs it."""
        connection.execute("PRAGMA busy_timeout = 0")
        with suppress(sqlite3.Error):
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")

    def _close_gate(self) -> None:
        if self._gate is not None:
            filesystem.close_file_gate(self._gate)
            self._gate, self._pass_gate = None, nullcontext


# Closes all connections before a fork.
#
# SQLite has a table of the locks that this process holds on each file. A fork copies
# the table, but not the kernel's locks. So a child would assume locks that it does not
# hold, its parent could delete the WAL, and acknowledged writes would be lost, even
# those of a connection that the child opened itself. Closing all connections clears the
# table. Parent and child reconnect when necessary.

_PATIENCE_S = 5.0
_opened: weakref.WeakSet[Database] = weakref.WeakSet()
_frozen: list[Database] = []


def _close_databases_for_fork() -> None:
    for database in list(_opened):
        if database.close_for_fork(_PATIENCE_S):
            _frozen.append(database)


def _reopen_all_databases() -> None:
    while _frozen:
        _frozen.pop().reopen()


def _reopen_databases_in_child() -> None:
    for database in _frozen:
        database.closed_before_fork = True
    _reopen_all_databases()


at_fork(
    before=_close_databases_for_fork,
    after_in_parent=_reopen_all_databases,
    after_in_child=_reopen_databases_in_child,
)


# Reads a file in a place where no lock, WAL or snapshot can be created.
#
# On a read-only mount, or in another user's folder, SQLite cannot create the files that
# coordinate its connections. If a WAL and its index exist, SQLite reads them as they
# are. If there is no WAL, SQLite reads the file as "immutable". Other processes may
# still change it, so a read is refused if the file changed meanwhile.

_TRIES = 10
_State = tuple[int, ...] | None
"""The stat values of a file that is read as immutable; None if it has a WAL."""


def kind_of_database(path: Path | None, *, read_only: bool) -> type[Database]:
    """Return what opens a file: `Database`, or `UnwritableDatabase` if necessary."""
    # Unlike Path.exists, this raises nothing for a name that no file can have.
    if path is None or not read_only or not os.access(path, os.F_OK):
        return Database
    effective = os.access in os.supports_effective_ids
    for needed in (path, path.parent):
        if not os.access(needed, os.W_OK, effective_ids=effective):
            return UnwritableDatabase
    return Database


class UnwritableDatabase(Database):
    """One vecall file that is read and never written. Thread-safe."""

    _keeps_readers = False  # a new connection sees the current state
    _peeked: _State = None

    def _prepare_file(self, version: int) -> None:
        if version < schema.NEWEST:
            raise errors.IncompatibleFileError(
                f"path: the file has schema {version} and cannot be brought to schema "
                f"{schema.NEWEST} where it cannot be written; open it once where it can"
            )

    def _set_up_writer(self) -> None:
        pass

    def _connect_to_file(self) -> sqlite3.Connection:
        assert self.path is not None
        if _file_stat_values(self.path) is None:
            return connect_to_file(self.path, self.expiry_clock, "mode=ro")
        return connect_to_file(self.path, self.expiry_clock, "mode=ro&immutable=1")

    def exclusive_connection(self) -> NoReturn:
        """Refuse to write."""
        raise errors.ReadOnlyError("path: the file or its folder cannot be written")

    @contextmanager
    def reader_connection(self) -> Iterator[sqlite3.Connection]:
        """Check that a file without a WAL is the same before and after a read."""
        assert self.path is not None
        before = _file_stat_values(self.path)
        with super().reader_connection() as connection:
            yield connection
        if before is not None and _file_stat_values(self.path) != before:
            raise errors.BusyError("the file changed while it was read; try again")

    def peek_at_file(self, read: Callable[..., T], *values: str) -> T:
        """Return what one statement reads; BusyError if the file changed each time."""
        assert self.path is not None
        for _ in range(_TRIES):
            with self._peek.lock:
                state = _file_stat_values(self.path)
                if state != self._peeked:
                    self._peek.broken = True  # it knows an older state
                self._peeked = state
                try:
                    found = super().peek_at_file(read, *values)
                except errors.CorruptFileError:
                    if state is None or _file_stat_values(self.path) == state:
                        raise
                    continue  # pages of two states
                if state is None or _file_stat_values(self.path) == state:
                    return found
        raise errors.BusyError("the file changed faster than it could be read")

    def has_room(self, size: int) -> bool:  # noqa: ARG002
        """Return False: nothing is ever added."""
        return False


def _file_stat_values(path: Path) -> _State:
    """The stat values that any change would alter; None if SQLite reads a WAL."""
    log = path.with_name(path.name + "-wal")
    if log.exists() and path.with_name(path.name + "-shm").exists():
        return None
    if file_bytes(log):
        raise errors.StorageError(
            "path: the log of the file has changes that cannot be read where nothing "
            "can be written; open and close the file once where it can be written"
        )
    try:
        about = path.stat()
    except OSError as error:
        raise errors.StorageError(
            f"path: the file cannot be read: {error.strerror}"
        ) from None
    return (about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
