"""How a command that failed says so.

Errors of vecall never quote a path, since they end in logs. A terminal belongs to the
person who typed the path, so there it is put in.
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
    """Put the path that the user typed into errors about the file, in this block."""
    try:
        yield
    except VecallError as error:
        told, typed = str(error), one_line(path)
        if told.startswith("path: "):
            told = f"{typed}: {told.removeprefix('path: ')}"
            told = told.replace("<name>", typed).replace("<file>", typed)
            error.args = (told,)
        elif told.startswith("line "):
            error.args = (f"{typed}, {told}",)
        elif isinstance(error, _OF_A_FILE) and not told.startswith(typed):
            error.args = (f"{typed}: {told}",)
        raise


def report(error: BaseException, *, debug: bool) -> None:
    """Say on standard error what went wrong; with `debug` also why."""
    told = str(error)
    if isinstance(error, OSError) and not isinstance(error, VecallError):
        told = f"{error.filename}: {error.strerror}" if error.filename else told
    print(f"vecall: {told}", file=sys.stderr)
    causes = list(_causes(error))
    if debug or os.environ.get(_DEBUG, "0") not in ("", "0"):
        for cause in causes:
            print("caused by", file=sys.stderr)
            lines = traceback.format_exception(cause, chain=False)
            print("".join(lines).rstrip(), file=sys.stderr)
    elif causes and isinstance(error, EmbedderError):
        print(f"vecall: {_DEBUG}=1 or --debug shows the cause", file=sys.stderr)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """What led to an error, also where the error hides it from a log."""
    seen = {id(error)}
    cause = error.__cause__ or error.__context__
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__
