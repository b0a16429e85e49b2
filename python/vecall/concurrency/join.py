"""Runs one operation with or without an event loop.

An operation is a coroutine that suspends only in `await Join(future)`. It yields the
future to its runner, and the runner waits for the future: `run_async` on asyncio's
event loop, `run_sync` by blocking the thread. The operation has no reference to an
event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from concurrent.futures import Future
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from vecall.errors import ConfigError

P = ParamSpec("P")
T = TypeVar("T")

Operation = Coroutine["Future[Any]", Any, T]


class Join(Awaitable[T]):
    """Awaits a future; `run_async` and `run_sync` each wait in their own way."""

    __slots__ = ("_future",)

    def __init__(self, future: Future[T]) -> None:
        """Wrap the future to await."""
        self._future = future

    def __await__(self) -> Generator[Future[T], T, T]:
        """Yield the future to the runner; return its result."""
        return (yield self._future)


def run_sync(operation: Operation[T]) -> T:
    """Run an operation; block the calling thread while it waits."""
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
        return finished.value  # type: ignore[no-any-return]
    finally:
        operation.close()  # also after an interrupt between two steps


async def run_async(operation: Operation[T]) -> T:
    """Run an operation on the running event loop."""
    try:
        loop = running_event_loop()
        future = operation.send(None)
        while True:
            try:
                value = await asyncio.wrap_future(future, loop=loop)
            except BaseException as error:
                future = operation.throw(error)
            else:
                future = operation.send(value)
    except StopIteration as finished:
        return finished.value  # type: ignore[no-any-return]
    finally:
        operation.close()


async def resume_coroutine(work: Coroutine[Any, Any, T], awaited: Any) -> T:
    """Go on with a coroutine, which waits for what it has yielded."""
    try:
        while True:
            try:
                value = await Join(awaited)
            except BaseException as error:
                awaited = work.throw(error)
            else:
                awaited = work.send(value)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]


async def await_within(seconds: float | None, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine, or raise TimeoutError if it waits too long.

    Most never wait, and begin no timeout.
    """
    try:
        awaited = work.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    async with asyncio.timeout(seconds):
        return await resume_coroutine(work, awaited)


def on_thread(
    method: Callable[Concatenate[Any, P], T],
    name: str = "{}_async",
    of: str | None = None,
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Return the asynchronous method that calls a blocking one on a thread."""
    # `name` has {} for the name of the blocking one. `of` is the attribute with the
    # object whose method it is; None: the same object.
    blocking = method.__name__

    @wraps(method)
    async def call(self: Any, /, *args: P.args, **options: P.kwargs) -> T:
        own: Callable[P, T] = getattr(getattr(self, of) if of else self, blocking)
        return await asyncio.to_thread(own, *args, **options)

    call.__name__ = name.format(blocking)
    call.__qualname__ = call.__qualname__.removesuffix(blocking) + call.__name__
    call.__doc__ = f"As `{method.__qualname__}`."
    return call


def in_event_loop() -> bool:
    """Whether the calling thread runs asyncio's event loop, and so must not wait."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def running_event_loop() -> asyncio.AbstractEventLoop:
    """Return the running event loop."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise ConfigError(
            "the coroutines of this service need asyncio's event loop; nothing was "
            "begun. Elsewhere call the methods of .sync on a thread"
        ) from None
