"""Converts SQLite's errors to vecall's."""

from __future__ import annotations

import sqlite3
from contextlib import AbstractContextManager
from types import TracebackType

from vecall.errors import (
    BusyError,
    CorruptFileError,
    IncompatibleFileError,
    StorageError,
    StorageFullError,
    VecallError,
)
from vecall.store.values import NO_VALUE

# Primary result codes of SQLite (https://www.sqlite.org/rescode.html), and the start of
# the message for Python 3.10, whose exceptions do not carry the code.
_IO_CODES = {8, 10, 14}
_IO_MESSAGES = {
    "attempt to write a readonly database",
    "disk I/O error",
    "unable to open database file",
}
_BY_CODE = {5: "busy", 6: "busy", 11: "corrupt", 13: "full", 26: "foreign"}
_BY_MESSAGE = {
    "database is locked": "busy",
    "database table is locked": "busy",
    "database disk image is malformed": "corrupt",
    "database or disk is full": "full",
    "file is not a database": "foreign",
}
_OF_VALUES = (
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)
_ERRORS: dict[str, tuple[type[VecallError], str]] = {
    "busy": (BusyError, "another process held the file's lock for too long"),
    "corrupt": (CorruptFileError, "the file is damaged: SQLite found a malformed page"),
    "full": (StorageFullError, "the disk is full; nothing was written"),
    "foreign": (IncompatibleFileError, "path: the file is not a SQLite database"),
}


def as_vecall_error(error: sqlite3.Error) -> VecallError:
    """Return the vecall error that corresponds to an SQLite error."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    kind: str | None
    if code is not None:
        kind = _BY_CODE.get(code & 0xFF)
    else:
        kind = _BY_MESSAGE.get(str(error))
    if kind is None:
        return StorageError(f"the file cannot be read or written: {_reason(error)}")
    made, message = _ERRORS[kind]
    return made(message)


def is_io_error(error: sqlite3.Error) -> bool:
    """Whether the disk failed, during the statement or when opening the file."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return str(error) in _IO_MESSAGES
    return code & 0xFF in _IO_CODES


def _reason(error: sqlite3.Error) -> str:
    """SQLite's message, which names tables and files but never values."""
    return str(error) or type(error).__name__


def as_typed(error: BaseException) -> BaseException:
    """Return the vecall error for an error about the file; other errors unchanged."""
    if isinstance(error, VecallError):
        return error
    if isinstance(error, sqlite3.Error):
        return as_vecall_error(error)
    if isinstance(error, MemoryError):
        # A damaged length is a request for that many bytes.
        msg = "the file is damaged, or this machine has too little memory for it"
        return StorageError(msg)
    if isinstance(error, UnicodeDecodeError):
        # A text in the file, or SQLite's message that quotes one, is not UTF-8.
        return _ERRORS["corrupt"][0](_ERRORS["corrupt"][1])
    if isinstance(error, _OF_VALUES):
        # Arguments of callers were checked before, so the value is in the file.
        typed = CorruptFileError(NO_VALUE)
        typed.__cause__ = error
        return typed
    return error


_TRANSLATED = (sqlite3.Error, MemoryError, *_OF_VALUES)


class _StorageErrors(AbstractContextManager[None]):
    """The context manager of `storage_errors`.

    A class, because every search enters it and a generator is slower.
    """

    __slots__ = ()

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Raise the vecall error that corresponds to the error of the block."""
        if isinstance(error, _TRANSLATED):
            typed = as_typed(error)
            if typed is not error:
                raise typed from error


_STORAGE_ERRORS = _StorageErrors()


def storage_errors() -> AbstractContextManager[None]:
    """Convert errors of SQLite, and of values that it returns, to vecall errors."""
    return _STORAGE_ERRORS
