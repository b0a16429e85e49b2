"""Closes services that the program did not close.

A daemon thread that runs during interpreter finalisation can end the process with
SIGABRT, and its pending writes are lost. An `atexit` handler therefore closes all open
services. It runs after all non-daemon threads have ended, and before finalisation.

A service can also be garbage-collected earlier: its threads hold no reference to it. A
finaliser then ends the threads and closes the file. Queued writes are completed.
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
    """A service that owns threads."""

    def close(self) -> None:
        """Finish the calls in progress and end the threads. Idempotent."""
        ...


_open: weakref.WeakValueDictionary[int, Closable] = weakref.WeakValueDictionary()


def close_at_exit(service: Closable) -> None:
    """Close a service at the end of the process, unless it was freed before.

    Args:
        service: The service. Only a weak reference is stored.
    """
    _open[next(_numbers)] = service


def abandoned(
    service: object, *steps: Callable[[], None]
) -> weakref.finalize[..., Any]:
    """Register steps that clean up a service that was freed without `close`.

    A ResourceWarning follows the steps. Neither happens in a forked child or at the
    end of the process.

    Args:
        service: The service, or an object with the same lifetime.
        steps: Functions without a reference to the service. They must not block: the
            garbage collector may call them in any thread.

    Returns:
        The finaliser. Call its `detach` when the service is closed.
    """
    finalizer = weakref.finalize(service, _clear_away, os.getpid(), steps)
    finalizer.atexit = False  # type: ignore[misc]
    return finalizer


def _clear_away(process: int, steps: tuple[Callable[[], None], ...]) -> None:
    if os.getpid() != process:
        return  # a forked child: threads and connections belong to the parent
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
