"""Context managers that close a service at the end of a `with` block."""

from __future__ import annotations

import asyncio
import atexit
import itertools
import logging
import os
import warnings
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from vecall.concurrency.join import running_event_loop


class _ClosesInBlock(ABC):
    @abstractmethod
    def close(self) -> None:
        """Finish the calls in progress and release all resources. Idempotent."""

    def __enter__(self) -> Self:
        """Return this object; leaving the block closes the service."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the service."""
        self.close()


class ClosesOnExit(_ClosesInBlock):
    """A service that a `with` or an `async with` block closes.

    `async with` does not block the event loop.
    """

    async def aclose(self) -> None:
        """Close the service on another thread, without blocking the event loop."""
        await asyncio.to_thread(self.close)

    async def __aenter__(self) -> Self:
        """Return the service; leaving the block closes it.

        Raises:
            ConfigError: The block runs on an event loop other than asyncio's.
        """
        running_event_loop()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the service; see `aclose`."""
        await self.aclose()


class ClosesBlocking(_ClosesInBlock):
    """The blocking interface of a service; a `with` block closes the service."""

    def __init__(self, service: ClosesOnExit) -> None:
        """Wrap this service."""
        self._service = service

    def __repr__(self) -> str:
        """Return the wrapped service."""
        return f"<{type(self).__name__} of {self._service!r}>"

    def close(self) -> None:
        """Close the wrapped service with its `close`."""
        self._service.close()


# Closes services that the program did not close.
#
# A daemon thread that runs during interpreter finalisation can end the process with
# SIGABRT, and its pending writes are lost. An `atexit` handler therefore closes all
# open services. It runs after all non-daemon threads have ended, and before
# finalisation.
#
# A service can also be garbage-collected earlier: its threads hold no reference to it.
# A finaliser then ends the threads and closes the file. Queued writes are completed.

_log = logging.getLogger("vecall")
_numbers = itertools.count()

_open: weakref.WeakValueDictionary[int, ClosesOnExit] = weakref.WeakValueDictionary()


def close_at_exit(service: ClosesOnExit) -> None:
    """Close a service at the end of the process, unless it was freed before."""
    _open[next(_numbers)] = service


def clean_up_dropped_service(
    service: object, *steps: Callable[[], None]
) -> weakref.finalize[..., Any]:
    """Register steps that clean up a service that was freed without `close`."""
    # A ResourceWarning follows the steps. Neither happens in a forked child or at the
    # end of the process. The steps have no reference to the service and must not block:
    # the garbage collector may call them in any thread. A closed service detaches it.
    finalizer = weakref.finalize(service, _clean_up_abandoned, os.getpid(), steps)
    finalizer.atexit = False  # type: ignore[misc]
    return finalizer


def _clean_up_abandoned(process: int, steps: tuple[Callable[[], None], ...]) -> None:
    if os.getpid() != process:
        return  # a forked child: threads and connections belong to the parent
    for step in steps:
        step()
    warnings.warn(
        "unclosed memory service: close() it, or use it in a with block",
        ResourceWarning,
        stacklevel=2,
    )


def _close_open_services() -> None:
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


atexit.register(_close_open_services)
