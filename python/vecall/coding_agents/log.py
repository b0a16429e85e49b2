"""The log of hooks: one line for each failure, without any text of the user."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

from vecall.errors import VecallError

MOST_BYTES = 1_000_000
"""A longer log is renamed to `hooks.log.1` and begun again."""


def log_path() -> Path:
    """Return the path of the log: in XDG_STATE_HOME, else in ~/.local/state."""
    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(base).expanduser() / "vecall" / "hooks.log"


def write_line(verb: str, what: str) -> None:
    """Append a line with the time to the log; do nothing if that is impossible."""
    try:
        path = log_path()
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size > MOST_BYTES:
            path.replace(path.with_name("hooks.log.1"))
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        line = f"{moment} {verb}: {' '.join(what.split())}\n".encode()
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
        file = os.open(path, flags, 0o600)
        try:
            os.write(file, line)
        finally:
            os.close(file)
    except (OSError, ValueError, RuntimeError):
        return


def reason(error: BaseException) -> str:
    """Return what a log may say of an error: its class, and vecall's own message.

    Messages of vecall contain no text of a user; messages of others may.
    """
    name = type(error).__name__
    return f"{name}: {error}" if isinstance(error, VecallError) else name


class LogHandler(logging.Handler):
    """Appends warnings of vecall's logger, which have no text of a user, to the log."""

    def __init__(self, verb: str) -> None:
        """Use the verb of the hook."""
        super().__init__(logging.WARNING)
        self._verb = verb

    def emit(self, record: logging.LogRecord) -> None:
        """Append a record."""
        write_line(self._verb, record.getMessage())
