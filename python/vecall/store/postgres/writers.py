"""The writer threads of a database: a user's jobs run one after the other, in order.

A job whose user is locked by another transaction gives its thread to the jobs of other
users. One more thread repeats it until the lock is free or the job's time is over.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from time import monotonic

import psycopg

from vecall.clock import ExpiryClock
from vecall.concurrency.executor import InterruptibleFuture, free_frames
from vecall.errors import ClosedError
from vecall.store.postgres.connections import LOCK_WAIT_S, Attempt, Connections
from vecall.store.postgres.url import AGAIN, NoAnswerError, as_typed, is_lost
from vecall.store.rows import Change
from vecall.store.transaction import WriteJob

_User = tuple[str | None, str | None]

_log = logging.getLogger("vecall")

_TRIES = 5
_PAUSE_S = 0.05  # before a repeated transaction; doubled each time
_LONGEST_PAUSE_S = 0.4
_FIRST_WAIT_S = 0.1  # for a lock, on a thread that other users need
_LEAST_WAIT_S = 0.02


class _Pending:
    """A queued job with its future."""

    __slots__ = ("deadline", "future", "job", "then")

    def __init__(
        self, job: WriteJob, then: Callable[[Change], None] | None, seconds: float
    ) -> None:
        self.job = job
        self.deadline = monotonic() + seconds
        self.then = then
        self.future: Future[Change] = InterruptibleFuture()
        self.future.set_running_or_notify_cancel()


@dataclass(slots=True, eq=False)
class _Line:
    """The queued jobs of one user. One thread at a time has it."""

    user: _User
    jobs: deque[_Pending] = field(default_factory=deque)
    pause: float = 0.0
    repeat_at: float = 0.0

    def block(self) -> None:
        """Note that a lock was not free."""
        self.pause = min(max(_PAUSE_S, 2 * self.pause), _LONGEST_PAUSE_S)
        self.repeat_at = min(monotonic() + self.pause, self.jobs[0].deadline)

    def order(self, now: float) -> tuple[bool, float]:
        """Return its place among blocked lines: what has no time left is first."""
        return self.jobs[0].deadline > now, self.repeat_at


class Writers:
    """Accepts write jobs from any thread and acknowledges each by its future."""

    def __init__(
        self, connections: Connections, expiry_clock: ExpiryClock, secret: bytes
    ) -> None:
        """Start the threads."""
        self._connections = connections
        self._expiry_clock = expiry_clock
        self._secret = secret
        self.publish: Callable[[Change], None] = lambda _: None
        """Applies a committed change to the engine."""
        self._publishing = threading.Lock()
        self._lock = threading.Lock()  # of the lines
        self._closed = False
        self._lines: dict[_User, _Line] = {}
        self._ready: queue.SimpleQueue[_Line | None] = queue.SimpleQueue()
        self._blocked: queue.SimpleQueue[_Line | None] = queue.SimpleQueue()
        names = [f"vecall-writer-{n}" for n in range(connections.url.writers)]
        works = dict.fromkeys(names, self._work)
        works["vecall-writer-blocked"] = self._repeat_locked_jobs
        self._threads = [
            threading.Thread(target=work, name=name, daemon=True)
            for name, work in works.items()
        ]
        for thread in self._threads:
            thread.start()

    def submit(
        self, job: WriteJob, then: Callable[[Change], None] | None = None
    ) -> Future[Change]:
        """Queue a job. The future resolves once it is committed and searchable."""
        pending = _Pending(job, then, self._connections.url.timeout)
        # Jobs across users are one line.
        user = getattr(job, "app", None), getattr(job, "user", None)
        with self._lock:
            if self._closed:
                raise ClosedError("the memory service is closed")
            line = self._lines.get(user)
            is_new = line is None
            if line is None:
                line = self._lines[user] = _Line(user)
            line.jobs.append(pending)
            if is_new:
                self._ready.put(line)
        return pending.future

    def close(self) -> None:
        """Finish the queued jobs and end the threads."""
        self._close_lines()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()

    def abandon(self) -> Callable[[], None]:
        """Return a function that ends the threads after the queued jobs."""
        ready = self._ready

        def end() -> None:
            ready.put(None)  # and a thread closes: this may run while one has the lock

        return end

    def _close_lines(self) -> None:
        with self._lock:
            is_first, self._closed = not self._closed, True
            if is_first and not self._lines:
                self._end()

    def _end(self) -> None:
        """End the threads: no job is left, and none will come."""
        for _ in self._threads[1:]:
            self._ready.put(None)
        self._blocked.put(None)

    def _work(self) -> None:
        """Write the jobs of the users whose lock is free."""
        while True:
            line = self._ready.get()
            if line is None:
                if self._closed and not self._lines:
                    return
                self._close_lines()
                continue
            if self._serve(line, _FIRST_WAIT_S):
                self._go_on(line)
            else:
                line.block()
                self._blocked.put(line)
            del line  # and its jobs

    def _repeat_locked_jobs(self) -> None:
        """Repeat the jobs of the users whose lock was not free."""
        lines: list[_Line] = []
        while True:
            line = self._next_line(lines)
            if line is None:
                return
            wait = max(LOCK_WAIT_S / (len(lines) + 1), _LEAST_WAIT_S)
            if self._serve(line, wait):
                line.pause = 0.0
                self._go_on(line)
            else:
                line.block()
                lines.append(line)
            del line

    def _next_line(self, lines: list[_Line]) -> _Line | None:
        """Wait for the line to be repeated first, and take it; None after the end."""
        while True:
            seconds = None
            if lines:
                now = monotonic()
                first = min(lines, key=lambda line: line.order(now))
                seconds = max(0.0, first.repeat_at - now)
            try:
                blocked = self._blocked.get(seconds is None or seconds > 0, seconds)
            except queue.Empty:
                lines.remove(first)
                return first
            if blocked is None:
                return None
            lines.append(blocked)

    def _go_on(self, line: _Line) -> None:
        """Remove the first job of a line, and queue the line for its next one."""
        with self._lock:
            line.jobs.popleft()
            if line.jobs:
                self._ready.put(line)  # behind the other users
                return
            del self._lines[line.user]
            if self._closed and not self._lines:
                self._end()

    def _serve(self, line: _Line, lock_wait: float) -> bool:
        """Run the first job of a line, and resolve its future; False if locked."""
        pending = line.jobs[0]
        try:
            change = self._run_until_committed(pending, lock_wait)
        except psycopg.errors.LockNotAvailable as error:
            free_frames(error)
            if monotonic() < pending.deadline:
                return False
            pending.future.set_exception(as_typed(error))
            return True
        except psycopg.Error as error:
            free_frames(error)
            pending.future.set_exception(as_typed(error))
            return True
        except BaseException as error:
            free_frames(error)
            pending.future.set_exception(error)
            return True
        try:
            with self._publishing:
                self.publish(change)
                if pending.then is not None:
                    pending.then(change)
        except BaseException as error:
            _log.error(
                "a committed change was not applied (%s); it will be read back",
                type(error).__name__,
            )
        pending.future.set_result(change)
        return True

    def _run_until_committed(self, pending: _Pending, lock_wait: float) -> Change:
        """Run a job until it is committed.

        StorageError: the connection ended while the job was committed, and the database
        does not say whether it was. After psycopg.Error nothing was written.
        """
        pause = _PAUSE_S
        for attempt in range(_TRIES):
            seconds = pending.deadline - monotonic()
            if seconds <= 0:
                raise NoAnswerError("the server did not answer in time")
            attempted = Attempt(self._connections, self._expiry_clock, self._secret)
            try:
                return attempted.run(pending.job, seconds, lock_wait)
            except psycopg.Error as error:
                last = attempt == _TRIES - 1
                if is_lost(error):
                    if attempted.is_committing:
                        outcome = attempted.outcome()
                        if outcome is not None:
                            return outcome
                        # It was rolled back.
                    if last:
                        raise
                elif not isinstance(error, AGAIN) or last:
                    raise
                free_frames(error)
            time.sleep(pause)
            pause *= 2
        raise AssertionError  # the last attempt returns or raises
