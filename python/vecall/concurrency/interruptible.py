"""Futures and thread pools that stay usable after an interrupt, such as Ctrl-C.

Python runs a signal handler in the main thread, between any two bytecode instructions.
`threading.Condition` and `threading.Semaphore` acquire their locks in Python code. If a
handler raises an exception there, the lock stays locked and the next caller deadlocks.
The classes here acquire their locks in C code, which a handler cannot interrupt.
"""

from __future__ import annotations

import queue
import threading
from _thread import RLock
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, thread
from contextlib import suppress
from functools import partial
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class _Condition(RLock):  # type: ignore[misc]
    """The part of `threading.Condition` that `Future` uses.

    A thread must not acquire it twice: `wait` releases it only once.
    """

    def __init__(self) -> None:
        super().__init__()
        self._waiters: list[threading.Lock] = []

    def wait(self, timeout: float | None = None) -> bool:
        waiter = threading.Lock()
        waiter.acquire()
        self._waiters.append(waiter)
        try:
            self.release()
            return waiter.acquire(timeout=-1 if timeout is None else max(0.0, timeout))
        finally:
            if not self._is_owned():  # type: ignore[attr-defined]
                self.acquire()
            with suppress(ValueError):
                self._waiters.remove(waiter)

    def notify_all(self) -> None:
        while self._waiters:
            self._waiters.pop().release()


_PENDING = Future()._state


class InterruptibleFuture(Future[T]):
    """A future that stays usable if a signal handler interrupts a waiting thread."""

    def __init__(self) -> None:
        """Create a pending future."""
        # Not super().__init__(): it makes a threading.Condition, which costs more than
        # the rest of the future. A test compares the attributes.
        self._condition = _Condition()  # type: ignore[assignment]
        self._state = _PENDING
        self._result = None
        self._exception = None
        self._waiters: list[Any] = []
        self._done_callbacks: list[Any] = []


class _Count:
    """A pool's count of idle threads: the part of `Semaphore` that the pool uses."""

    def __init__(self) -> None:
        self._idle: queue.SimpleQueue[None] = queue.SimpleQueue()

    def release(self) -> None:
        self._idle.put(None)

    def acquire(self, timeout: float) -> bool:
        del timeout  # always 0
        try:
            self._idle.get_nowait()
        except queue.Empty:
            return False
        return True


class _Work:
    """A call in the queue of a pool.

    `ThreadPoolExecutor.submit` would make a plain future for it, beside the promise.
    """

    __slots__ = ("_call", "future")

    def __init__(
        self, future: InterruptibleFuture[Any], call: Callable[[], Any]
    ) -> None:
        self.future = future
        self._call = call

    def run(self, *_context: object) -> None:
        """Run the call; since Python 3.14 a pool passes a context of its thread."""
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            result = self._call()
        except BaseException as error:
            self.future.set_exception(error)
        else:
            self.future.set_result(result)


class Pool(ThreadPoolExecutor):
    """A thread pool that stays usable if a signal handler interrupts `submit`."""

    def __init__(self, threads: int, *, thread_name_prefix: str) -> None:
        """Create the pool without threads; `submit` starts them as needed.

        Args:
            threads: The maximum number of threads.
            thread_name_prefix: The prefix of the thread names.
        """
        super().__init__(threads, thread_name_prefix=thread_name_prefix)
        self._idle_semaphore = _Count()  # type: ignore[assignment]

    def submit(
        self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> Future[T]:
        """Queue a call of `fn` and return the future of its result.

        Raises:
            RuntimeError: The pool is shut down.
        """
        promise: InterruptibleFuture[T] = InterruptibleFuture()
        work: Any = _Work(promise, partial(fn, *args, **kwargs))
        with self._shutdown_lock, thread._global_shutdown_lock:
            if self._shutdown or thread._shutdown:
                msg = "the pool is shut down"
                raise RuntimeError(msg)
            self._work_queue.put(work)
            self._adjust_thread_count()
        return promise
