"""A thread for periodic work, such as deleting expired memories."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Generic, TypeVar

from vecall.concurrency.executor import InterruptibleFuture
from vecall.errors import ClosedError

_log = logging.getLogger("vecall")


class PeriodicWorker:
    """Calls a function periodically and on request, in a thread, until `close`.

    The thread also ends when the object is garbage-collected.
    """

    def __init__(
        self, work: Callable[[], float | None], interval: float | None
    ) -> None:
        """Start the thread, which waits before the first call; None starts no thread.

        `work` returns the seconds until more is due, or None if that is unknown.
        `interval` is the longest pause in seconds.
        """
        self._work = work
        self._wake = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        if interval is not None:
            wake = self._wake
            keeper = weakref.ref(self, lambda _: wake.set())
            self._thread = threading.Thread(
                target=_run,
                args=(keeper, wake, interval),
                name="vecall-housekeeper",
                daemon=True,
            )
            self._thread.start()

    def wake(self) -> None:
        """Make the thread run now."""
        self._wake.set()

    def close(self) -> None:
        """Finish the call in progress and end the thread. Idempotent."""
        self._closed.set()
        self._wake.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def work(self) -> float | None:
        """Do what is due; return the seconds until more is, None if unknown.

        Any error but ClosedError is logged and not raised.
        """
        if self._closed.is_set():
            msg = "the housekeeper is closed"
            raise ClosedError(msg)
        try:
            return self._work()
        except ClosedError:
            raise
        except Exception as error:
            # The work stays due: the disk or the embedder may recover meanwhile.
            _log.warning("what was due could not be done: %s", type(error).__name__)
            return None


def _run(
    keeper: weakref.ref[PeriodicWorker], wake: threading.Event, longest: float
) -> None:
    """Run the thread. It holds no reference to the worker while it waits."""
    pause: float | None = None
    longest = min(longest, threading.TIMEOUT_MAX / 2)  # a wait adds the time of now
    while True:
        wake.wait(longest if pause is None else min(max(pause, 0.0), longest))
        wake.clear()
        worker = keeper()
        if worker is None:
            return
        try:
            pause = worker.work()
        except ClosedError:
            return
        del worker


# Background work that several callers wait for and that none can cancel.


Key = TypeVar("Key", bound=Hashable)

Done = Callable[["BaseException | None"], None]
"""Ends a run. Takes the error of the run, or None. Idempotent."""


class _Run:
    __slots__ = ("again", "promise")

    def __init__(self) -> None:
        self.again = False
        self.promise: Future[None] = InterruptibleFuture()
        # A running future cannot be cancelled. `asyncio.wrap_future` passes the
        # cancellation of one caller to the future, which other callers share.
        self.promise.set_running_or_notify_cancel()


class SharedWork(Generic[Key]):
    """Runs work at most once at a time for each key. Thread-safe.

    All callers of a key share the future of its run.
    """

    def __init__(self, start: Callable[[Key, Done], None]) -> None:
        """Create the object without runs.

        `start` begins the run of a key on another thread, which calls the second
        argument at its end. It must not block.
        """
        self._start = start
        self._mutex = threading.Lock()
        self._runs: dict[Key, _Run] = {}

    def ask(self, key: Key, *, afresh: bool = False) -> Future[None]:
        """Return the future of the key's run; start a run if none is in progress.

        With `afresh`, one more follows a run in progress, which may have read its input
        too early. The future is still that of the current run.
        """
        new = _Run()
        try:
            with self._mutex:
                run = self._runs.get(key)
                if run is not None:
                    run.again = run.again or afresh
                    return run.promise
                self._runs[key] = new
            self._start(key, partial(self._ended, key, new))
        except BaseException as error:
            self._ended(key, new, error)
            raise
        return new.promise

    def runs(self, key: Key) -> bool:
        """Return whether a key has a run in progress."""
        return key in self._runs

    def keys(self) -> set[Key]:
        """Return the keys that have a run in progress."""
        with self._mutex:
            return set(self._runs)

    def _begin(self, key: Key, run: _Run) -> None:
        try:
            self._start(key, partial(self._ended, key, run))
        except BaseException as error:
            self._ended(key, run, error)
            raise

    def _ended(self, key: Key, run: _Run, error: BaseException | None) -> None:
        if not isinstance(error, Exception):
            # None, or an interrupt (such as Ctrl-C) of the caller that started the run.
            # The other waiters of the future check the partition's state themselves.
            error = None
        following = None
        with self._mutex:
            if self._runs.get(key) is not run:
                return
            del self._runs[key]
            if run.again and error is None:
                following = self._runs[key] = _Run()
        if error is None:
            run.promise.set_result(None)
        else:
            run.promise.set_exception(error)
        if following is not None:
            with suppress(Exception):  # the future of `following` has the error
                self._begin(key, following)
