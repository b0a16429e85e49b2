"""Waits for another thread: an operation yields a future, and its runner waits.

An operation is a coroutine that suspends only in `await Join(future)`. `run_async` runs
it on asyncio's event loop, `run_sync` on a thread without one. The operation holds
nothing of any loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from vecall.errors import ConfigError

T = TypeVar("T")

Operation = Coroutine["Future[Any]", Any, T]


class Join(Generic[T]):
    """Waits for a future. The runner of the operation decides how."""

    __slots__ = ("_future",)

    def __init__(self, future: Future[T]) -> None:
        """Wait for this future once it is awaited."""
        self._future = future

    def __await__(self) -> Generator[Future[T], T, T]:
        """Hand the future to the runner; return its result."""
        return (yield self._future)


def run_sync(operation: Operation[T]) -> T:
    """Run an operation; block this thread while it waits."""
    try:
        future = operation.send(None)
        while True:
            try:
                value = future.result()
            except BaseException as error:
                future = operation.throw(error)
            else:
                future = operation.send(value)
    except StopIteration as finished:
        result: T = finished.value
        return result
    finally:
        operation.close()  # an interrupt between two steps ends it, too


async def run_async(operation: Operation[T]) -> T:
    """Run an operation on the running event loop.

    Raises:
        ConfigError: Another library than asyncio runs the coroutine. The operation was
            not begun.
    """
    try:
        loop = running_loop()
        future = operation.send(None)
        while True:
            try:
                value = await asyncio.wrap_future(future, loop=loop)
            except BaseException as error:
                future = operation.throw(error)
            else:
                future = operation.send(value)
    except StopIteration as finished:
        result: T = finished.value
        return result
    finally:
        operation.close()


def running_loop() -> asyncio.AbstractEventLoop:
    """Return the running event loop.

    Raises:
        ConfigError: Another library than asyncio runs the coroutine.
    """
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        msg = (
            "the coroutines of this service need asyncio's event loop; nothing was "
            "begun. Elsewhere call the methods of .sync on a thread"
        )
        raise ConfigError(msg) from None
