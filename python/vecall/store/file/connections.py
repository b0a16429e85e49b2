"""Opens connections with vecall's settings."""

from __future__ import annotations

import os
import secrets
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote

from vecall import errors
from vecall.clock import ExpiryClock
from vecall.concurrency.time_slices import watched_work
from vecall.store import transaction
from vecall.store.file.counters import TIDY, count_changed_rows, tally_rows_up_to_seq
from vecall.store.names import HIDDEN_APP, hidden_user, require_absent, require_hidden
from vecall.store.rows import MemoryCounts, names_checksum
from vecall.store.values import NO_VALUE
from vecall.system import resolve_path

# Converts SQLite's errors to vecall's.


# Primary result codes of SQLite (https://www.sqlite.org/rescode.html).
_IO_CODES = {8, 10, 14}
_OF_VALUES = (
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)
_BUSY = (errors.BusyError, "another process held the file's lock for too long")
_DAMAGED = (
    errors.CorruptFileError,
    "the file is damaged: SQLite found a malformed page",
)
_BY_CODE: dict[int, tuple[type[errors.VecallError], str]] = {
    5: _BUSY,
    6: _BUSY,
    11: _DAMAGED,
    13: (errors.StorageFullError, "the disk is full; nothing was written"),
    26: (errors.IncompatibleFileError, "path: the file is not a SQLite database"),
}


def as_vecall_error(error: sqlite3.Error) -> errors.VecallError:
    """Return the vecall error that corresponds to an SQLite error."""
    # Python's own errors, such as "closed database", have no code.
    known = _BY_CODE.get(getattr(error, "sqlite_errorcode", 0) & 0xFF)
    if known is None:
        # SQLite's message names tables and files but never values.
        said = str(error) or type(error).__name__
        return errors.StorageError(f"the file cannot be read or written: {said}")
    kind, message = known
    return kind(message)


def is_io_error(error: BaseException) -> bool:
    """Whether the disk failed, during the statement or when opening the file."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _IO_CODES


def as_typed_file_error(error: BaseException) -> BaseException:
    """Return the vecall error for an error about the file; other errors unchanged."""
    if isinstance(error, errors.VecallError):
        return error
    if isinstance(error, sqlite3.Error):
        return as_vecall_error(error)
    if isinstance(error, MemoryError):
        # A damaged length is a request for that many bytes.
        msg = "the file is damaged, or this machine has too little memory for it"
        return errors.StorageError(msg)
    if isinstance(error, UnicodeDecodeError):
        # A text in the file, or SQLite's message that quotes one, is not UTF-8.
        return errors.CorruptFileError(_DAMAGED[1])
    if isinstance(error, _OF_VALUES):
        # Arguments of callers were checked before, so the value is in the file.
        typed = errors.CorruptFileError(NO_VALUE)
        typed.__cause__ = error
        return typed
    return error


_TRANSLATED = (sqlite3.Error, MemoryError, *_OF_VALUES)


class _StorageErrors(AbstractContextManager[None]):
    """A class, because every search enters it and a generator is slower."""

    __slots__ = ()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Raise the vecall error that corresponds to the error of the block."""
        if isinstance(error, _TRANSLATED):
            typed = as_typed_file_error(error)
            if typed is not error:
                raise typed from error


storage_errors = _StorageErrors()
"""Converts errors of SQLite, and of values that it returns, to vecall errors."""


# How a write to a file finds the partition of a user, and ends.


# The names come from the row, not from the index that leads to it.
_FIND = (
    "SELECT id, seq, live, bytes, coalesce(head, 0), app, user FROM part "
    "WHERE id = (SELECT id FROM part WHERE app = ? AND user = ?)"
)
_MISSING = transaction.PartitionEntry(0, 0, 0, 0)


@transaction.enter_partition.register
def _enter_sqlite_partition(
    connection: sqlite3.Connection,
    app: str,
    user: str,
    *,
    create: bool,
    now: float,
    ahead: transaction.ReadsAhead | None = None,  # noqa: ARG001
) -> transaction.PartitionEntry:
    row = connection.execute(_FIND, (app, user)).fetchone()
    if row is not None:
        if row[5:] != (app, user):
            require_hidden(connection, row[5:], app, user)
        return transaction.PartitionEntry(*row[:5])
    require_absent(connection, app, user)
    hidden = hidden_user(connection, app, user)
    row = connection.execute(_FIND, (HIDDEN_APP, hidden)).fetchone()
    if row is not None:
        return transaction.PartitionEntry(*row[:5])._replace(is_hidden=True)
    if not create:
        return _MISSING
    connection.execute(_CREATE, (app, user, now))
    entry = transaction.PartitionEntry(
        *connection.execute(_FIND, (app, user)).fetchone()[:5]
    )
    connection.execute(
        "UPDATE part SET crc = ? WHERE id = ?",
        (names_checksum(entry.id, app, user), entry.id),
    )
    return entry


# A partition number is never reused: row numbers begin with it, and caches of other
# processes identify memories by row number. `last_part` covers deleted partitions.
_CREATE = """
INSERT INTO part (id, app, user, created_at, n, aged, held, bare, ses, docs, gone,
  lo, lo_x, hi, hi_x) SELECT 1 + max(
  coalesce((SELECT max(id) FROM part), 0),
  coalesce((SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'last_part'), 0)
), ?, ?, ?, 0, 0, 0, 0, 0, 0, 0, 9e99, 9e99, -9e99, -9e99
"""


@transaction.leave_partition.register
def _leave_sqlite_partition(
    connection: sqlite3.Connection,
    part: int,
    seq: int,
    changes: Sequence[transaction.LoggedChange],
    live: int,  # noqa: ARG001
    nbytes: int,  # noqa: ARG001
    added: MemoryCounts | None,
    gone: MemoryCounts | None,
) -> int:
    head = secrets.randbits(63) | 1
    # Caches have states between transactions, so the changes before need none.
    if changes:
        if len(changes) > 1:
            transaction.insert_many(
                connection, "chg (part, seq, rid, op)", changes[:-1]
            )
        last = [(*changes[-1], head)]
        transaction.insert_many(connection, "chg (part, seq, rid, op, head)", last)
    else:
        log = "UPDATE chg SET head = ? WHERE part = ? AND seq = ?"
        connection.execute(log, (head, part, seq))
    added = added or tally_rows_up_to_seq(connection, part, seq)
    count_changed_rows(connection, part, seq, head, added, gone or MemoryCounts())
    if gone:
        connection.execute(TIDY, (part,))
    return head


@transaction.count_inserted.register
def _count_inserted_rows(
    connection: sqlite3.Connection, part: int, name: str, count: int
) -> None:
    connection.execute(f"UPDATE part SET {name}={name}+? WHERE id=?", (count, part))


_STEPS_WATCHED = 200_000  # of SQLite's machine: some milliseconds
_CACHE_KIB = 1_000  # of pages, a connection; the engine is the cache
BUSY_TIMEOUT_MS = 5_000  # a second line; the file lock separates writers

Connection = sqlite3.Connection


class _TimedConnection(sqlite3.Connection):
    """A connection with an expiry clock."""

    expiry_clock: ExpiryClock | None = None


class LockedConnection:
    """A connection and the lock under which it is used."""

    connection: sqlite3.Connection

    def __init__(self, connection: sqlite3.Connection | None) -> None:
        """Start with a working connection, or with one that is opened when needed."""
        self.lock = threading.RLock()
        self.counts = False  # whether `count_writes_of_connection` prepared it
        # Closed, by a fork or not needed yet, or by an error of the disk: to be opened.
        self.broken = connection is None
        if connection is not None:
            self.connection = connection

    def close(self) -> None:
        """Close the connection, if one is open."""
        self.broken = True
        self.counts = False
        if hasattr(self, "connection"):
            self.connection.close()


def reading_transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Yield a connection once, inside a transaction that reads one state."""
    connection.execute("BEGIN")
    work = watched_work()
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
    """Return a file's size; 0 if it does not exist."""
    # Opening and closing a database would drop this process's locks.
    try:
        return os.stat(path).st_size  # noqa: PTH116 - a str costs no Path
    except OSError:
        return 0


def connect_to_read(path: Path) -> sqlite3.Connection:
    """Return a connection that changes nothing and does not checkpoint the WAL."""
    # Without a WAL the connection may write, so that it leaves no empty one behind.
    if not file_bytes(path.with_name(path.name + "-wal")):
        return connect_to_file(path)
    return connect_to_file(resolve_path(path), options="mode=ro")


def connect_to_file(
    path: Path | None,
    expiry_clock: ExpiryClock | None = None,
    options: str | None = None,
) -> sqlite3.Connection:
    """Return a connection to a file, or to memory, with vecall's settings."""
    # `options` are SQLite's URI parameters, such as "mode=ro".
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
        _distrust_file_schema(connection)
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


def _distrust_file_schema(connection: sqlite3.Connection) -> None:
    """Make SQLite distrust the file's schema as far as it can."""
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    set_config = getattr(connection, "setconfig", None)
    for name, value in _DEFENSIVE.items() if set_config is not None else ():
        option = getattr(sqlite3, name, None)
        if option is not None and set_config is not None:
            set_config(option, value)


# Reads the tables of SQLite files that other programs wrote.


class ForeignFile(AbstractContextManager["ForeignFile"]):
    """A SQLite file of another program, opened read only; nothing of it runs.

    Views and triggers are not read. A text that is no UTF-8 has U+FFFD in it.
    """

    # The names of the columns of each table, in order.
    columns: dict[str, tuple[str, ...]]

    def __init__(self, path: Path) -> None:
        """Open the file."""
        uri = f"file:{quote(str(path.absolute()))}?mode=ro"
        try:
            self._db = sqlite3.connect(uri, uri=True, check_same_thread=False)
            self._db.text_factory = lambda data: data.decode("utf-8", "replace")
            self._db.row_factory = sqlite3.Row
            self._db.execute("PRAGMA trusted_schema = OFF")
        except sqlite3.Error as error:
            raise errors.StorageError(
                "path: the SQLite file cannot be opened"
            ) from error
        try:
            named = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
            self.columns = {
                table: tuple(row["name"] for row in self._columns_of(table))
                for table in [row["name"] for row in self._execute(named)]
            }
        except BaseException:
            self._db.close()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the file."""
        self._db.close()

    def has_table(self, table: str, columns: str) -> bool:
        """Whether there is a table with these columns, given with spaces between."""
        return set(columns.split()) <= set(self.columns.get(table, ()))

    def count_rows(self, table: str) -> int:
        """Return the number of a table's rows."""
        found = next(self._execute(f"SELECT count(*) AS n FROM {_quoted_name(table)}"))
        return int(found["n"])

    def rows(self, table: str, order: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
        """Yield the rows of a table, ordered by columns and then as written."""
        # CorruptFileError, if the file is damaged, names the row.
        by = ", ".join([*map(_quoted_name, order), "rowid"])
        number = 0
        sql = f"SELECT * FROM {_quoted_name(table)} ORDER BY {by}"
        try:
            for number, row in enumerate(self._execute(sql), 1):  # noqa: B007
                yield dict(row)
        except errors.CorruptFileError as error:
            raise errors.CorruptFileError(
                f"after row {number} of a table: {error}"
            ) from error

    def _columns_of(self, table: str) -> Iterator[Any]:
        return self._execute(f"PRAGMA table_info({_quoted_name(table)})")

    def _execute(self, sql: str) -> Iterator[Any]:
        try:
            yield from self._db.execute(sql)
        except sqlite3.DatabaseError as error:
            if "locked" in str(error):
                msg = "path: another process is writing the SQLite file"
                raise errors.BusyError(msg) from error
            msg = "path: the SQLite file is damaged, or is none"
            raise errors.CorruptFileError(msg) from error


def _quoted_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
