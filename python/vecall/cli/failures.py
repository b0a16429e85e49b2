"""Reports the errors of commands on the terminal.

Errors of vecall never contain a path, because applications log them. The user of a
command typed the path, so the command adds it to the message.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from vecall.cli.streams import one_line
from vecall.errors import (
    BusyError,
    CorruptFileError,
    EmbedderError,
    IncompatibleFileError,
    StorageError,
    StorageFullError,
    VecallError,
)

_OF_A_FILE = (
    BusyError,
    CorruptFileError,
    IncompatibleFileError,
    StorageError,
    StorageFullError,
)
_DEBUG = "VECALL_DEBUG"


@contextmanager
def naming(path: object) -> Iterator[None]:
    """Add the typed path to errors about the file that this block raises."""
    try:
        yield
    except VecallError as error:
        message, typed = str(error), one_line(path)
        if message.startswith("path: "):
            message = f"{typed}: {message.removeprefix('path: ')}"
            message = message.replace("<name>", typed).replace("<file>", typed)
            error.args = (message,)
        elif message.startswith("line "):
            error.args = (f"{typed}, {message}",)
        elif isinstance(error, _OF_A_FILE) and not message.startswith(typed):
            error.args = (f"{typed}: {message}",)
        raise


def report(error: BaseException, *, debug: bool) -> None:
    """Print an error on standard error; with `debug` also its causes."""
    message = str(error)
    if isinstance(error, OSError) and not isinstance(error, VecallError):
        message = f"{error.filename}: {error.strerror}" if error.filename else message
    print(f"vecall: {message}", file=sys.stderr)
    causes = list(_causes(error))
    if debug or os.environ.get(_DEBUG, "0") not in ("", "0"):
        for cause in causes:
            print("caused by", file=sys.stderr)
            lines = traceback.format_exception(cause, chain=False)
            print("".join(lines).rstrip(), file=sys.stderr)
    elif causes and isinstance(error, EmbedderError):
        print(f"vecall: {_DEBUG}=1 or --debug shows the cause", file=sys.stderr)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the causes of an error, also those hidden from a traceback."""
    seen = {id(error)}
    cause = error.__cause__ or error.__context__
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__
