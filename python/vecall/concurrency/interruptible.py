"""Futures and thread pools that a caller may be interrupted in, as by Ctrl-C.

A signal's handler runs in the main thread, between any two of its steps. The locks of
`threading.Condition` and `threading.Semaphore` are taken by Python code: a handler that
raises there leaves them locked for ever, and the next caller hangs. Here they
are taken by C code, between whose steps no handler runs.
"""

from __future__ import annotations

import queue
import threading
from _thread import RLock
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class _Condition(RLock):  # type: ignore[misc]
    """What a `Future` needs of a `threading.Condition`. Not to be held twice."""

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


class InterruptibleFuture(Future[T]):
    """A future whose waiters may be interrupted."""

    def __init__(self) -> None:
        """Begin pending."""
        super().__init__()
        self._condition = _Condition()  # type: ignore[assignment]


class _Count:
    """How many threads of a pool are idle: what its executor needs of a semaphore."""

    def __init__(self) -> None:
        self._idle: queue.SimpleQueue[None] = queue.SimpleQueue()

    def release(self) -> None:
        self._idle.put(None)

    def acquire(self, timeout: float) -> bool:
        del timeout  # it is 0
        try:
            self._idle.get_nowait()
        except queue.Empty:
            return False
        return True


class Pool(ThreadPoolExecutor):
    """A pool of threads to which work may be handed by a thread that is interrupted."""

    def __init__(self, threads: int, *, thread_name_prefix: str) -> None:
        """Start with no thread; each starts when it is needed."""
        super().__init__(threads, thread_name_prefix=thread_name_prefix)
        self._idle_semaphore = _Count()  # type: ignore[assignment]

    def submit(
        self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> Future[T]:
        """Queue some work.

        Raises:
            RuntimeError: The pool was shut down.
        """
        promise: InterruptibleFuture[T] = InterruptibleFuture()
        super().submit(_keep, promise, partial(fn, *args, **kwargs))
        return promise


def _keep(promise: InterruptibleFuture[Any], work: Callable[[], Any]) -> None:
    if not promise.set_running_or_notify_cancel():
        return
    try:
        result = work()
    except BaseException as error:
        promise.set_exception(error)
    else:
        promise.set_result(result)
