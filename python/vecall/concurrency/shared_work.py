"""Work shared by several callers; none of them can cancel it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Generic, TypeVar

from vecall.concurrency.interruptible import InterruptibleFuture

Key = TypeVar("Key", bound=Hashable)

Done = Callable[["BaseException | None"], None]
"""Called with the error of a run, or None. Idempotent."""


class _Run:
    __slots__ = ("again", "promise")

    def __init__(self) -> None:
        self.again = False
        self.promise: Future[None] = InterruptibleFuture()
        # Running from the start: `asyncio.wrap_future` hands the cancellation of one
        # caller on to the future, and others wait for the same one.
        self.promise.set_running_or_notify_cancel()


class SharedWork(Generic[Key]):
    """At most one run for each key, and one promise of its end. Thread-safe."""

    def __init__(self, start: Callable[[Key, Done], None]) -> None:
        """Create the object without runs.

        Args:
            start: Starts a run for a key on another thread, and has the function
                called at its end. It must not block.
        """
        self._start = start
        self._mutex = threading.Lock()
        self._runs: dict[Key, _Run] = {}

    def ask(self, key: Key, *, afresh: bool = False) -> Future[None]:
        """Return the future of the run in progress; else start one.

        Args:
            key: What the run is for.
            afresh: Run once more after the run that is under way, which may have read
                too early.

        Raises:
            ClosedError: The service was closed.
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
        """Whether a key has a run."""
        return key in self._runs

    def keys(self) -> set[Key]:
        """Return the keys that have a run."""
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
            # A caller was interrupted while it started the run. The others, who wait
            # for the same promise, look themselves how far the partition is.
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
            with suppress(Exception):  # the waiting callers get the error
                self._begin(key, following)
