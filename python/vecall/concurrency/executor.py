"""Runs slow functions and coroutines off the caller's event loop.

What runs here is the user's: an embedder, a hook, a summarizer. If it calls the service
that called it, and that call needs the same thread again, each would wait for the other
for ever. So each call carries the threads that already wait for it, across threads and
tasks, and a call to one of them is refused with `ReentrantCallError`.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

from vecall.concurrency.interruptible import Pool
from vecall.errors import ClosedError, ReentrantCallError

_waiting: contextvars.ContextVar[tuple[int, ...]] = contextvars.ContextVar(
    "vecall_waiting", default=()
)  # ids of the model threads whose functions wait for what runs here

T = TypeVar("T")

MAX_CONCURRENT_CALLS = 8  # calls of a coroutine function


class PluginExecutor:
    """One thread for a model: plain functions one by one, coroutines some at a time.

    What is awaited runs on one event loop on a thread of its own, to which clients may
    cling; coroutine functions at most eight at once. A plain function that allows it
    gets more threads.
    """

    def __init__(self, name: str, at_once: int = 1) -> None:
        """Start with no thread; the first call starts it.

        Args:
            name: Of the threads.
            at_once: How many plain functions may run at the same time.
        """
        self._name = name
        self._pool = Pool(at_once, thread_name_prefix=name)
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_thread: threading.Thread | None = None
        self._slots: asyncio.Semaphore | None = None
        self._closed = False
        self._stop: weakref.finalize[..., PluginExecutor] | None = None

    def refuse_nested(self) -> None:
        """Raise where a function of this thread waits for the caller.

        Raises:
            ReentrantCallError: The call would wait for itself.
        """
        if id(self) in _waiting.get():
            msg = (
                "a function that the service calls (an embedder, a hook, a summarizer, "
                "a rewriter, a reranker) called the same service where it would wait "
                "for itself"
            )
            raise ReentrantCallError(msg)

    def run(self, function: Callable[[], Any], *, concurrent: bool) -> Future[Any]:
        """Call a function on the thread, await what it returns if need be.

        Args:
            function: Takes nothing.
            concurrent: It is a coroutine function, of which several may run at once.

        Raises:
            ClosedError: After `close`.
            ReentrantCallError: The call comes from a function that this thread runs.
        """
        self.refuse_nested()
        context = contextvars.copy_context()
        context.run(_waiting.set, (*_waiting.get(), id(self)))
        try:
            if not concurrent:
                return self._pool.submit(context.run, self._call, function)
            running: list[Future[Any]] = []
            running.append(context.run(self._schedule, self._await(function, running)))
            return running[0]
        except RuntimeError:
            msg = "the memory service is closed"
            raise ClosedError(msg) from None

    def close(self) -> None:
        """Finish what runs and end the threads. A second call does nothing.

        Raises:
            ReentrantCallError: The call comes from a function that this thread runs.
        """
        self.refuse_nested()
        self._pool.shutdown(wait=True)  # first: what runs there may need the loop
        with self._lock:
            self._closed = True
            loop, thread = self._loop, self._loop_thread
        if loop is not None and thread is not None:
            if thread.is_alive():
                with suppress(RuntimeError):  # another call has stopped it
                    asyncio.run_coroutine_threadsafe(_finish_all(), loop).result()
            if self._stop is not None:
                self._stop()
            thread.join()

    def _call(self, function: Callable[[], Any]) -> Any:
        try:
            result = function()
        except (StopIteration, asyncio.CancelledError) as error:
            # A future that carries the one never ends the wait of an event loop; the
            # other would look as if the caller had been cancelled.
            raise RuntimeError(type(error).__name__) from None
        if isinstance(result, Awaitable):
            result = self._schedule(_finish(result)).result()
        return result

    async def _await(
        self, function: Callable[[], Awaitable[Any]], running: list[Future[Any]]
    ) -> Any:
        if self._slots is None:
            self._slots = asyncio.Semaphore(MAX_CONCURRENT_CALLS)
        async with self._slots:
            try:
                return await function()
            except asyncio.CancelledError as error:
                if running and not running[0].cancelled():
                    # The function's own: the caller was not cancelled.
                    raise RuntimeError(type(error).__name__) from None
                raise

    def _schedule(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine on the loop, which the first one starts."""
        with self._lock:  # so that `close` waits for what was let in
            if self._closed:
                work.close()
                raise RuntimeError
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._loop_thread = threading.Thread(
                    target=_run_loop,
                    args=(self._loop,),
                    name=f"{self._name}-loop",
                    daemon=True,
                )
                self._loop_thread.start()
                self._stop = weakref.finalize(self, _stop, self._loop)
                self._stop.atexit = False  # type: ignore[misc]
            return asyncio.run_coroutine_threadsafe(work, self._loop)


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()


def _stop(loop: asyncio.AbstractEventLoop) -> None:
    with suppress(RuntimeError):  # it is closed
        loop.call_soon_threadsafe(loop.stop)


async def _finish(result: Awaitable[T]) -> T:
    return await result


async def _finish_all() -> None:
    """Wait for every other task of the running loop."""
    mine = asyncio.current_task()
    others = [task for task in asyncio.all_tasks() if task is not mine]
    await asyncio.gather(*others, return_exceptions=True)
