"""Helpers for a forked child that reopens the file of its parent's service."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from vecall.errors import ClosedError
from vecall.store import Storage

_reopening = threading.Lock()
_inherited: list[object] = []  # objects of the parent process; never closed here


def _after_fork() -> None:
    global _reopening  # noqa: PLW0603
    _reopening = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def reopening() -> threading.Lock:
    """Return the lock of this process for reopening a service."""
    return _reopening


def check_reopenable(path: Path | str | None, storage: Storage) -> None:
    """Check that a child can reopen the file of a service.

    Raises:
        ClosedError: The service has no file, or the file was in use during the fork.
    """
    if path is None:
        msg = "a memory without a file does not cross a fork; make one here"
        raise ClosedError(msg)
    if not storage.closed_before_fork:
        msg = (
            "the process was forked while the file was in use for long; fork "
            "when it is idle, or start new processes instead"
        )
        raise ClosedError(msg)


def keep_inherited(*parts: object) -> None:
    """Hold objects of the parent, so that this process never frees or closes them."""
    _inherited.extend(parts)
