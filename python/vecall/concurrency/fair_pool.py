"""A thread pool whose callers take turns: the work of one does not delay another's.

Work may take seconds, and a pool that serves in the order of arrival makes everybody
wait for a caller with much of it. Here each owner has one piece of work under way, the
next one is chosen round robin by owner, and while more is under way than may go on at
once, each goes on for some milliseconds in turn. Work stops when its caller is gone.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from functools import partial
from typing import Any, ParamSpec, TypeVar

from vecall.concurrency.interruptible import InterruptibleFuture, Pool
from vecall.concurrency.time_slices import watching

P = ParamSpec("P")
T = TypeVar("T")

_TURN_S = 0.01
_LONGEST_WAIT_S = 0.05  # then it goes on: who has the turn may wait for its connection


class AbandonedError(BaseException):
    """Ends work whose caller is gone. Nobody receives it."""


class _Scan(InterruptibleFuture[T]):
    """The future of work that ends early if its caller cancels it."""

    is_abandoned = False

    def cancel(self) -> bool:
        """Drop the work, or ask it to end if it is under way."""
        if super().cancel():
            return True
        self.is_abandoned = True
        return False


class _Turns:
    """Lets a number of threads go on at once, and the others in turn."""

    def __init__(self, at_once: int) -> None:
        self._lock = threading.Lock()
        self._free = at_once  # negative: some did not wait any longer
        self._waiting: deque[threading.Lock] = deque()

    def begin(self) -> None:
        """Wait for a turn, but not for long."""
        with self._lock:
            if self._free > 0:
                self._free -= 1
                return
            mine = threading.Lock()
            mine.acquire()
            self._waiting.append(mine)
        if mine.acquire(timeout=_LONGEST_WAIT_S):
            return
        with self._lock:
            if mine in self._waiting:  # else it has just been given a turn
                self._waiting.remove(mine)
                self._free -= 1

    def end(self) -> None:
        """Give the turn to the one that has waited longest."""
        with self._lock:
            if self._waiting and self._free >= 0:
                self._waiting.popleft().release()
            else:
                self._free += 1

    @property
    def are_wanted(self) -> bool:
        """Whether a thread waits for a turn."""
        return bool(self._waiting)


class _Work:
    """One piece of work: in the queue, then under way."""

    def __init__(
        self, scan: _Scan[Any], call: Callable[[], Any], turns: _Turns
    ) -> None:
        self.scan = scan
        self._call = call
        self._turns = turns
        self._since = 0.0

    def is_abandoned(self) -> bool:
        return self.scan.is_abandoned

    def pause(self) -> None:
        """End the work if its caller is gone; else let others have a turn.

        Raises:
            AbandonedError: The caller is gone.
        """
        if self.scan.is_abandoned:
            raise AbandonedError
        if self._turns.are_wanted and time.perf_counter() - self._since > _TURN_S:
            self._turns.end()
            self._begin()

    def run(self) -> None:
        if not self.scan.set_running_or_notify_cancel():
            return
        self._begin()
        try:
            with watching(self):
                result = self._call()
        except BaseException as error:
            self.scan.set_exception(error)
        else:
            self.scan.set_result(result)
        finally:
            self._turns.end()

    def _begin(self) -> None:
        self._turns.begin()
        self._since = time.perf_counter()


class FairPool:
    """Runs work in threads, fairly by owner. Thread-safe.

    The loops of the work must use `vecall.concurrency.time_slices`: between two slices
    others get their turn, and work whose caller is gone ends.
    """

    def __init__(self, threads: int, at_once: int, *, thread_name_prefix: str) -> None:
        """Create the pool; `submit` starts threads as needed.

        Args:
            threads: The maximum number of owners whose work is under way.
            at_once: How many of these go on at the same time.
            thread_name_prefix: The prefix of the thread names.
        """
        self._pool = Pool(threads, thread_name_prefix=thread_name_prefix)
        self._turns = _Turns(at_once)
        self._lock = threading.Lock()
        self._waiting: dict[Hashable, deque[_Work]] = {}  # whose turn is next is first
        self._busy: set[Hashable] = set()

    def submit(
        self, owner: Hashable, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> Future[T]:
        """Queue a call of `fn` and return the future of its result.

        Cancel the future to drop the call, also while it runs.

        Raises:
            RuntimeError: The pool is shut down.
        """
        scan: _Scan[T] = _Scan()
        work = _Work(scan, partial(fn, *args, **kwargs), self._turns)
        with self._lock:
            self._waiting.setdefault(owner, deque()).append(work)
        try:
            self._pool.submit(self._run_waiting)
        except RuntimeError:
            scan.cancel()
            raise
        return scan

    def shutdown(self) -> None:
        """Finish queued work and end the threads."""
        self._pool.shutdown(wait=True)

    def _run_waiting(self) -> None:
        while (taken := self._take()) is not None:
            owner, work = taken
            try:
                work.run()
            finally:
                with self._lock:
                    self._busy.discard(owner)
            del taken, work  # its result is the caller's

    def _take(self) -> tuple[Hashable, _Work] | None:
        """Return the next work, and its owner; None if those who wait are busy."""
        with self._lock:
            for owner, queue in self._waiting.items():
                if owner in self._busy:
                    continue
                work = queue.popleft()
                del self._waiting[owner]
                if queue:
                    self._waiting[owner] = queue  # the last one now
                self._busy.add(owner)
                return owner, work
        return None
