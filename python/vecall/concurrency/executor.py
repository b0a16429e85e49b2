"""Runs plugin functions and coroutines off the caller's event loop.

A plugin is a user's function: an embedder, a hook, a summarizer. A plugin may call the
service that called it. If that call needs the plugin's own thread, the two calls
deadlock. A context variable therefore records, across threads and tasks, the executors
that wait for the current call. A call to one of these executors raises
`ReentrantCallError`.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

from vecall.concurrency.interruptible import Pool
from vecall.errors import ClosedError, ReentrantCallError

_waiting: contextvars.ContextVar[tuple[int, ...]] = contextvars.ContextVar(
    "vecall_waiting", default=()
)  # id() of each executor whose function waits for the current call
_running: contextvars.ContextVar[Sequence[Future[Any]]] = contextvars.ContextVar(
    "vecall_running", default=()
)  # the future of the current call, which its caller may cancel

T = TypeVar("T")

MAX_CONCURRENT_CALLS = 8  # of coroutine functions, in one executor


class PluginCancelledError(RuntimeError):
    """A plugin's function raised CancelledError, though nobody cancelled it.

    A task that awaits it would look as if it had been cancelled itself.
    """


async def finished(result: Awaitable[T]) -> T:
    """Await what a plugin's function returned, on the event loop of its executor.

    Raises:
        PluginCancelledError: It raised CancelledError itself.
    """
    try:
        return await result
    except asyncio.CancelledError:
        if any(future.cancelled() for future in _running.get()):
            raise
        raise PluginCancelledError from None


class PluginExecutor:
    """Runs the calls of one plugin, such as an embedding model.

    Plain functions run in a thread pool, of one thread by default. Coroutines run on a
    single event loop in a thread of its own, so that a client bound to an event loop
    always sees the same one. At most eight calls of coroutine functions run at once.
    """

    def __init__(self, name: str, at_once: int = 1) -> None:
        """Create the executor; the first call starts a thread.

        Args:
            name: The prefix of the thread names.
            at_once: The maximum number of plain functions that run at once.
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
        """Raise if a function of this executor waits for the current call.

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
        """Call a function on another thread; if it returns an awaitable, await it.

        Args:
            function: A function or coroutine function without arguments.
            concurrent: Whether it is a coroutine function. It is then called on the
                event loop, with others at the same time.

        Returns:
            The future of the result.

        Raises:
            ClosedError: The executor is closed.
            ReentrantCallError: A function of this executor waits for the call.
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
        """Finish the calls in progress and end the threads. Idempotent.

        Raises:
            ReentrantCallError: A function of this executor waits for the call.
        """
        self.refuse_nested()
        self._pool.shutdown(wait=True)  # first: its functions may need the loop
        with self._lock:
            self._closed = True
            loop, thread = self._loop, self._loop_thread
        if loop is not None and thread is not None:
            if thread.is_alive():
                with suppress(RuntimeError):  # another call stopped the loop
                    asyncio.run_coroutine_threadsafe(_finish_all(), loop).result()
            if self._stop is not None:
                self._stop()
            thread.join()

    def _call(self, function: Callable[[], Any]) -> Any:
        try:
            result = function()
        except (StopIteration, asyncio.CancelledError) as error:
            # An asyncio future does not accept StopIteration: a task that awaits it
            # would never resume. CancelledError would look as if the caller had been
            # cancelled.
            raise RuntimeError(type(error).__name__) from None
        if isinstance(result, Awaitable):
            result = self._schedule(finished(result)).result()
        return result

    async def _await(
        self, function: Callable[[], Awaitable[Any]], running: list[Future[Any]]
    ) -> Any:
        if self._slots is None:
            self._slots = asyncio.Semaphore(MAX_CONCURRENT_CALLS)
        _running.set(running)
        async with self._slots:
            return await finished(function())

    def _schedule(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine on the event loop; the first call starts the loop."""
        with self._lock:  # so that `close` waits for every coroutine accepted here
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
    with suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(loop.stop)


async def _finish_all() -> None:
    """Wait for every other task of the running loop."""
    mine = asyncio.current_task()
    others = [task for task in asyncio.all_tasks() if task is not mine]
    await asyncio.gather(*others, return_exceptions=True)
