"""Runs the operations of a memory without an event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")

Wait = Callable[["Future[Any]"], Awaitable[Any]]
"""How the caller waits for another thread: on its event loop, or blocking."""


async def blocking(future: Future[T]) -> T:
    """Wait for another thread by blocking this one."""
    return future.result()


def drive(operation: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends, because all its waits block."""
    try:
        operation.send(None)
    except StopIteration as finished:
        result: T = finished.value
        return result
    operation.close()
    msg = "a blocking operation suspended"
    raise RuntimeError(msg)
