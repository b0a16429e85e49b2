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
AGAIN = (errors.SerializationFailure, errors.DeadlockDetected)
"""Errors after which a transaction is repeated: nothing of it was committed."""


def is_lost(error: BaseException) -> bool:
    """Whether the connection to the server ended."""
    if isinstance(error, errors.AdminShutdown | errors.CrashShutdown):
        return True
    return (
        isinstance(error, psycopg.OperationalError)
        and error.sqlstate is None
        and not isinstance(error, _BUSY)
    )


def as_typed(error: psycopg.Error) -> VecallError:  # noqa: PLR0911 -- one a kind
    """Return vecall's error for one of psycopg's. It has no value of the statement."""
    code = f" (SQLSTATE {error.sqlstate})" if error.sqlstate else ""
    if isinstance(error, (*_BUSY, NoAnswerError)):
        return BusyError(f"the database did not answer in time{code}; try again")
    if isinstance(error, _FULL):
        return StorageFullError(f"the database has no room left{code}")
    if isinstance(error, _DAMAGED):
        return CorruptFileError(f"the database is damaged{code}; restore a backup")
    if isinstance(error, errors.ReadOnlySqlTransaction):
        return ReadOnlyError(
            "the database is read-only: it is a replica, or the service is for reads"
        )
    if isinstance(error, _SETUP):
        return ConfigError(
            f"path: the database refused access{code}; check user, password, database "
            "and schema, and run `vecall pg doctor URL`"
        )
    if isinstance(error, psycopg.ProgrammingError) and not error.sqlstate:
        return ConfigError(
            "path: the URL of the database is malformed, or has an option or a value "
            "that libpq does not know"
        )
    if is_lost(error):
        return StorageError("the database cannot be reached, or ended the connection")
    return StorageError(f"the database refused a statement{code}")


@contextmanager
def database_errors() -> Iterator[None]:
    """Raise vecall's errors instead of psycopg's."""
    try:
        yield
    except psycopg.Error as error:
        free_frames(error)
        raise as_typed(error) from None
