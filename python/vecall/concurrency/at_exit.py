"""Closes services that the program did not close.

A daemon thread that runs while the interpreter is finalised can end the process with
SIGABRT, and what it was about to write is lost. So the open services are closed before:
`atexit` runs after all threads that are no daemons have ended, and before finalisation.

A service that is dropped before is freed: its threads do not hold it, a finalizer ends
them and closes the file. What was queued is written.
"""

from __future__ import annotations

import atexit
import itertools
import logging
import os
import warnings
import weakref
from collections.abc import Callable
from typing import Any, Protocol

_log = logging.getLogger("vecall")
_numbers = itertools.count()


class Closable(Protocol):
    """Something with threads."""

    def close(self) -> None:
        """Finish what runs; a second call does nothing."""
        ...


_open: weakref.WeakValueDictionary[int, Closable] = weakref.WeakValueDictionary()


def close_at_exit(service: Closable) -> None:
    """Close a service at the end of the process, if it is still there.

    Args:
        service: Is held weakly, so that it can be freed before.
    """
    _open[next(_numbers)] = service


def abandoned(
    service: object, *steps: Callable[[], None]
) -> weakref.finalize[..., Any]:
    """Take the steps when a service was dropped, and warn; `detach` when it is closed.

    Args:
        service: The service, or a part that is dropped with it.
        steps: Neither hold the service nor wait: they run wherever it is dropped, or
            garbage is collected.
    """
    finalizer = weakref.finalize(service, _clear_away, os.getpid(), steps)
    finalizer.atexit = False  # type: ignore[misc]
    return finalizer


def _clear_away(process: int, steps: tuple[Callable[[], None], ...]) -> None:
    if os.getpid() != process:
        return  # threads and connections are the parent's
    for step in steps:
        step()
    warnings.warn(
        "unclosed memory service: close() it, or use it in a with block",
        ResourceWarning,
        stacklevel=2,
    )


def _close_all() -> None:
    for number in sorted(_open.keys(), reverse=True):
        service = _open.get(number)
        if service is None:
            continue
        try:
            service.close()
        except Exception as error:
            _log.warning(
                "a service could not be closed at the end of the process: %s",
                type(error).__name__,
            )


atexit.register(_close_all)
