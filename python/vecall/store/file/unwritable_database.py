"""Reads a file in a place where no lock, WAL or snapshot can be created.

On a read-only mount, or in another user's folder, SQLite cannot create the files that
coordinate its connections. If a WAL and its index exist, SQLite reads them as they are.
If there is no WAL, SQLite reads the file as "immutable". Other processes may still
change it, so a read is refused if the file changed meanwhile.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn, TypeVar

from vecall.clock import Clock
from vecall.errors import (
    BusyError,
    CorruptFileError,
    IncompatibleFileError,
    ReadOnlyError,
    StorageError,
)
from vecall.store.file import schema
from vecall.store.file.connections import connect, file_bytes
from vecall.store.file.database import MIN_FREE_BYTES, Database, Durability
from vecall.store.file.sqlite_errors import storage_errors

_TRIES = 10

T = TypeVar("T")
_State = tuple[int, ...] | None
"""The stat values of a file that is read as immutable; None if it has a WAL."""


def open_database(
    path: Path | None,
    durability: Durability,
    *,
    read_only: bool,
    min_free_bytes: int = MIN_FREE_BYTES,
    allow_network_filesystem: bool = False,
    clock: Clock | None = None,
) -> Database:
    """Open a file as a `Database`, or as an `UnwritableDatabase` if necessary.

    Args:
        path: The file.
        durability: What an acknowledged write survives.
        read_only: Open read-only.
        min_free_bytes: Free disk space, in bytes, below which writes are refused.
        allow_network_filesystem: Also open files on a network file system.
        clock: The source of the time.

    Raises:
        VecallError: As of `Database`.
    """
    unwritable = read_only and path is not None and _is_unwritable(path)
    kind = UnwritableDatabase if unwritable else Database
    return kind(
        path,
        durability,
        min_free_bytes=min_free_bytes,
        allow_network_filesystem=allow_network_filesystem,
        clock=clock,
    )


def _is_unwritable(path: Path) -> bool:
    effective = os.access in os.supports_effective_ids

    def writable(target: Path) -> bool:
        return os.access(target, os.W_OK, effective_ids=effective)

    # Unlike Path.exists, this raises nothing for a name that no file can have.
    exists = os.access(path, os.F_OK)
    return exists and not (writable(path) and writable(path.parent))


class UnwritableDatabase(Database):
    """One vecall file that is read and never written. Thread-safe."""

    _peeked: _State = None

    def _prepare(self) -> None:
        version = schema.check_origin(self._writer.connection)
        if version < schema.NEWEST:
            msg = (
                f"path: the file has schema {version} and cannot be brought to schema "
                f"{schema.NEWEST} where it cannot be written; open it once where it can"
            )
            raise IncompatibleFileError(msg)

    def _set_up_writer(self) -> None:
        pass

    def _connect(self) -> sqlite3.Connection:
        assert self.path is not None
        if _state_of(self.path) is None:
            return connect(self.path, self.expiry_clock, "mode=ro")
        return connect(self.path, self.expiry_clock, "mode=ro&immutable=1")

    def exclusive(self) -> NoReturn:
        """Refuse to write.

        Raises:
            ReadOnlyError: Always.
        """
        msg = "path: the file or its folder cannot be written"
        raise ReadOnlyError(msg)

    @contextmanager
    def _reader_connections(self) -> Iterator[sqlite3.Connection]:
        """Open a new connection for each reader, so that it sees the current state."""
        assert self.path is not None
        with self._readers:
            self._readers.wait_for(lambda: not self._frozen)
            self._check_open()
            self._lent += 1
        try:
            with storage_errors():
                before = _state_of(self.path)
                connection = self._connect()
            try:
                yield connection
            finally:
                connection.close()
            if before is not None and _state_of(self.path) != before:
                msg = "the file changed while it was read; try again"
                raise BusyError(msg)
        finally:
            with self._readers:
                self._lent -= 1
                self._readers.notify_all()

    def peek(self, read: Callable[..., T], *values: str) -> T:
        """Return what one statement reads; see `Database.peek`.

        Raises:
            BusyError: The file changed during every attempt.
        """
        assert self.path is not None
        for _ in range(_TRIES):
            with self._peek.lock:
                state = _state_of(self.path)
                if state is not None and state != self._peeked:
                    self._peek.broken = True  # it knows an older state
                elif state is None and self._peeked is not None:
                    self._peek.broken = True
                self._peeked = state
                try:
                    found = super().peek(read, *values)
                except CorruptFileError:
                    if state is None or _state_of(self.path) == state:
                        raise
                    continue  # pages of two states
                if state is None or _state_of(self.path) == state:
                    return found
        msg = "the file changed faster than it could be read"
        raise BusyError(msg)

    def has_room(self, size: int) -> bool:  # noqa: ARG002
        """Return False: nothing is ever added."""
        return False


def _state_of(path: Path) -> _State:
    """The stat values that any change would alter; None if SQLite reads a WAL.

    Raises:
        StorageError: There is a WAL that cannot be read here, or no file.
    """
    log = path.with_name(path.name + "-wal")
    if log.exists() and path.with_name(path.name + "-shm").exists():
        return None
    if file_bytes(log):
        msg = (
            "path: the log of the file has changes that cannot be read where nothing "
            "can be written; open and close the file once where it can be written"
        )
        raise StorageError(msg)
    try:
        about = path.stat()
    except OSError as error:
        msg = f"path: the file cannot be read: {error.strerror}"
        raise StorageError(msg) from None
    return (about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
