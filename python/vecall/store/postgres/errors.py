"""Turns psycopg's errors into vecall's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors

from vecall.concurrency.freed_frames import free_frames
from vecall.errors import (
    BusyError,
    ConfigError,
    CorruptFileError,
    ReadOnlyError,
    StorageError,
    StorageFullError,
    VecallError,
)


class NoAnswerError(psycopg.OperationalError):
    """The server did not answer in time; the connection is closed."""


class NoConnectionFreeError(psycopg.OperationalError):
    """All connections of the process were in use for too long."""


_BUSY = (
    errors.LockNotAvailable,
    errors.QueryCanceled,
    errors.IdleInTransactionSessionTimeout,
    errors.TooManyConnections,
    errors.CannotConnectNow,
    NoConnectionFreeError,
)
_FULL = (errors.DiskFull, errors.OutOfMemory)
_DAMAGED = (errors.DataCorrupted, errors.IndexCorrupted)
_SETUP = (
    errors.InsufficientPrivilege,
    errors.InvalidPassword,
    errors.InvalidAuthorizationSpecification,
    errors.InvalidCatalogName,
    errors.InvalidSchemaName,
    errors.UndefinedTable,
    errors.UndefinedFunction,
    errors.UndefinedColumn,
)
# libpq gives no SQLSTATE for a connection that fails, only a text. A server with
# another lc_messages sends other texts: the error is then "cannot be reached".
_REFUSED = (
    "password authentication failed",
    "no password supplied",
    "authentication failed",
    "no pg_hba.conf entry",
    "pg_hba.conf rejects",
    "requires a valid client certificate",
    "is not permitted to log in",
    "permission denied for database",
    "does not exist",  # the role or the database
    "no such database",  # a pooler's words
    "no such user",
)
_CROWDED = (
    "too many clients",
    "too many connections",
    "remaining connection slots",
    "no more connections allowed",
    "query_wait_timeout",  # of a pooler
)
_STARTING = ("is starting up", "is shutting down", "is in recovery mode")
_UNVERIFIED = (
    (
        "does not match host name",
        "the certificate of the server is for another host name",
    ),
    (
        "certificate verify failed",
        "the certificate of the server is not of an authority in sslrootcert, or has "
        "expired",
    ),
    ("root certificate file", "the file of sslrootcert does not exist"),
    (
        "channel binding",
        "the server offers no channel binding, and channel_binding demands it",
    ),
    ("SSL required", "the pooler demands TLS, and sslmode disables it"),
    ("does not support SSL", "the server has no TLS, and sslmode demands it"),
    ("unsupported startup parameter", "the pooler refuses a startup parameter of the "
     "URL or the environment; see its ignore_startup_parameters"),
)  # fmt: skip
MISPLACED = (errors.InvalidSqlStatementName, errors.DuplicatePreparedStatement)
"""Errors of a prepared statement whose name is another server process's."""
AGAIN = (errors.SerializationFailure, errors.DeadlockDetected, *MISPLACED)
"""Errors after which a transaction is repeated: nothing of it was committed."""


def is_lost(error: BaseException) -> bool:
    """Whether the connection to the server ended."""
    if isinstance(error, errors.AdminShutdown | errors.CrashShutdown):
        return True
    if not isinstance(error, psycopg.OperationalError) or isinstance(error, _BUSY):
        return False
    # A pooler that has lost its server says so with a code of class 08.
    return error.sqlstate is None or error.sqlstate.startswith("08")


def as_typed(error: psycopg.Error) -> VecallError:  # noqa: PLR0911 -- one a kind
    """Return vecall's error for one of psycopg's. It has no value of the statement."""
    code = f" (SQLSTATE {error.sqlstate})" if error.sqlstate else ""
    if isinstance(error, errors.LockNotAvailable):
        return BusyError(
            f"the database did not answer in time{code}: another transaction holds a "
            "lock; try again"
        )
    if isinstance(error, (*_BUSY, NoAnswerError)):
        return BusyError(f"the database did not answer in time{code}; try again")
    if isinstance(error, MISPLACED):
        return BusyError(
            f"a pooler lost a prepared statement{code}; try again: from now on "
            "statements are not prepared"
        )
    if isinstance(error, _FULL):
        return StorageFullError(f"the database has no room left{code}")
    if isinstance(error, _DAMAGED):
        return CorruptFileError(f"the database is damaged{code}; restore a backup")
    if isinstance(error, errors.ReadOnlySqlTransaction):
        return ReadOnlyError(
            "the database is read-only: it is a replica, or the service is for reads"
        )
    if isinstance(error, _SETUP):
        return _refused(code)
    if isinstance(error, psycopg.ProgrammingError) and not error.sqlstate:
        return ConfigError(
            "path: the URL of the database is malformed, or has an option or a value "
            "that libpq does not know"
        )
    if is_lost(error):
        known = _at_connecting(str(error))
        if known is not None:
            return known
        return StorageError("the database cannot be reached, or ended the connection")
    return StorageError(f"the database refused a statement{code}")


def _refused(code: str) -> ConfigError:
    return ConfigError(
        f"path: the database refused access{code}; check user, password, database "
        "and schema, and run `vecall pg doctor URL`"
    )


def _at_connecting(text: str) -> VecallError | None:
    """Return the error for a text of libpq, which is not repeated; None if unknown."""
    for part, message in _UNVERIFIED:
        if part in text:
            return ConfigError(f"path: {message}")
    if any(part in text for part in _CROWDED):
        return BusyError("the database has no connection free; try again")
    if any(part in text for part in _STARTING):
        return BusyError("the database is starting or stopping; try again")
    if any(part in text for part in _REFUSED):
        return _refused("")
    return None


@contextmanager
def database_errors() -> Iterator[None]:
    """Raise vecall's errors instead of psycopg's."""
    try:
        yield
    except psycopg.Error as error:
        free_frames(error)
        raise as_typed(error) from None
