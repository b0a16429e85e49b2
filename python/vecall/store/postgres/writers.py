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
from functools import partial
from time import monotonic
from typing import Literal

import psycopg

from vecall.clock import ExpiryClock
from vecall.concurrency.executor import InterruptibleFuture, free_error_frames
from vecall.errors import ClosedError, StorageError
from vecall.store.postgres.connections import (
    KEEPER,
    LOCK_WAIT_S,
    OTHERS_WAIT,
    PAUSES_S,
    Connections,
)
from vecall.store.postgres.transaction import SERVER_STARTED, PostgresTransaction
from vecall.store.postgres.url import AGAIN, NoAnswerError, as_typed, is_connection_lost
from vecall.store.rows import Change
from vecall.store.transaction import WriteJob

_User = tuple[str | None, str | None]

_log = logging.getLogger("vecall")

_FIRST_WAIT_S = 0.1  # for a lock, on a thread that other users need
_LEAST_WAIT_S = 0.02


@dataclass(slots=True, eq=False)
class _Pending:
    """A queued job with its future."""

    job: WriteJob
    then: Callable[[Change], None] | None
    deadline: float
    future: Future[Change] = field(default_factory=InterruptibleFuture)


@dataclass(slots=True, eq=False)
class _Line:
    """The queued jobs of one user. One thread at a time has it."""

    user: _User
    jobs: deque[_Pending] = field(default_factory=deque)
    pause: float = 0.0
    repeat_at: float = 0.0

    def note_locked(self) -> None:
        """Note that a lock was not free."""
        self.pause = min(max(PAUSES_S[0], 2 * self.pause), PAUSES_S[-1])
        self.repeat_at = min(monotonic() + self.pause, self.jobs[0].deadline)

    def repeat_order(self, now: float) -> tuple[bool, float]:
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
        works = dict.fromkeys(names, self._write_free_lines)
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
        pending = _Pending(job, then, monotonic() + self._connections.url.timeout)
        pending.future.set_running_or_notify_cancel()
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

    def abandon(self) -> list[Callable[[], None]]:
        """Return functions that end the threads after the queued jobs."""
        # A thread then closes: this may run while one has the lock.
        return [partial(self._ready.put, None)]

    def _close_lines(self) -> None:
        with self._lock:
            is_first, self._closed = not self._closed, True
            if is_first and not self._lines:
                self._end_threads()

    def _end_threads(self) -> None:
        """End the threads: no job is left, and none will come."""
        for _ in self._threads[1:]:
            self._ready.put(None)
        self._blocked.put(None)

    def _write_free_lines(self) -> None:
        """Write the jobs of the users whose lock is free."""
        while True:
            line = self._ready.get()
            if line is None:
                if self._closed and not self._lines:
                    return
                self._close_lines()
                continue
            if self._run_first_job(line, _FIRST_WAIT_S):
                self._drop_first_job(line)
            else:
                line.note_locked()
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
            if self._run_first_job(line, wait):
                line.pause = 0.0
                self._drop_first_job(line)
            else:
                line.note_locked()
                lines.append(line)
            del line

    def _next_line(self, lines: list[_Line]) -> _Line | None:
        """Wait for the line to be repeated first, and take it; None after the end."""
        while True:
            seconds = None
            if lines:
                now = monotonic()
                first = min(lines, key=lambda line: line.repeat_order(now))
                seconds = max(0.0, first.repeat_at - now)
            try:
                blocked = self._blocked.get(seconds is None or seconds > 0, seconds)
            except queue.Empty:
                lines.remove(first)
                return first
            if blocked is None:
                return None
            lines.append(blocked)

    def _drop_first_job(self, line: _Line) -> None:
        """Remove the first job of a line, and queue the line for its next one."""
        with self._lock:
            line.jobs.popleft()
            if line.jobs:
                self._ready.put(line)  # behind the other users
                return
            del self._lines[line.user]
            if self._closed and not self._lines:
                self._end_threads()

    def _run_first_job(self, line: _Line, lock_wait: float) -> bool:
        """Run the first job of a line, and resolve its future; False if locked."""
        pending = line.jobs[0]
        try:
            change = self._run_until_committed(pending, lock_wait)
        except BaseException as error:
            free_error_frames(error)
            is_locked = isinstance(error, psycopg.errors.LockNotAvailable)
            if is_locked and monotonic() < pending.deadline:
                return False
            typed = as_typed(error) if isinstance(error, psycopg.Error) else error
            pending.future.set_exception(typed)
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
        """Run a job until it is committed."""
        # StorageError: the connection ended while the job was committed, and the
        # database does not say whether it was. After psycopg.Error nothing was written.
        for pause in (*PAUSES_S, None):
            seconds = pending.deadline - monotonic()
            if seconds <= 0:
                raise NoAnswerError("the server did not answer in time")
            attempted = Attempt(self._connections, self._expiry_clock, self._secret)
            try:
                return attempted.run_attempt(pending.job, seconds, lock_wait)
            except psycopg.Error as error:
                if is_connection_lost(error):
                    if attempted.is_committing:
                        outcome = attempted.outcome_of_attempt()
                        if outcome is not None:
                            return outcome
                        # It was rolled back.
                elif not isinstance(error, AGAIN):
                    raise
                if pause is None:
                    raise
                free_error_frames(error)
            time.sleep(pause)
        raise AssertionError  # the last attempt returns or raises


# One attempt to commit a job, and the outcome if the connection was lost meanwhile.

_OF_THE_TIME = 0.5  # of the URL's `timeout`, to learn the outcome
_OUTCOME_PAUSE_S = 0.2

_Outcome = Literal["committed", "aborted", "in progress", "unknown"]


@dataclass(eq=False)
class Attempt:
    """One transaction of a job."""

    _connections: Connections
    _expiry_clock: ExpiryClock
    _secret: bytes
    _transaction: PostgresTransaction | None = None
    _change: Change | None = None
    is_committing: bool = False  # whether COMMIT was sent

    def run_attempt(self, job: WriteJob, seconds: float, lock_wait: float) -> Change:
        """Run the job and commit it."""
        # After LockNotAvailable nothing was written. `seconds` is how long the job of a
        # user waits for the database in total.
        keeper = not hasattr(job, "app")
        with self._connections.transaction(
            KEEPER if keeper else "vecall_app",
            seconds=None if keeper else seconds,
            lock_wait=max(lock_wait, LOCK_WAIT_S) if keeper else lock_wait,
        ) as connection:
            transaction = PostgresTransaction(
                connection, self._expiry_clock, self._secret
            )
            self._transaction = transaction
            if keeper:
                connection.execute(OTHERS_WAIT)
            self._change = job.run(transaction)
            self.is_committing = True
            connection.execute(b"COMMIT")
            connection.warned = False
        if connection.warned:
            # An administrator can end the wait for the synchronous standby. The server
            # then reports success, and warns.
            raise psycopg.OperationalError("the server committed with a warning")
        return self._change

    def outcome_of_attempt(self) -> Change | None:
        """Return the change if it was committed, None if it was rolled back."""
        # StorageError: the database does not say.
        transaction, change = self._transaction, self._change
        assert transaction is not None
        assert change is not None
        deadline = monotonic() + self._connections.url.timeout * _OF_THE_TIME
        while (seconds := deadline - monotonic()) > 0:
            try:
                outcome = self._outcome_if_known(transaction, change, seconds)
            except psycopg.Error as error:
                free_error_frames(error)
                outcome = "in progress"
            if outcome == "committed":
                return change
            if outcome == "aborted":
                return None
            if outcome == "unknown":
                break
            time.sleep(min(_OUTCOME_PAUSE_S, seconds))
        raise StorageError(
            "the connection to the database ended while the write was committed; "
            "whether it was is unknown: read before you repeat it, or repeat it with "
            "the same ids or idempotency key"
        )

    def _outcome_if_known(
        self, transaction: PostgresTransaction, change: Change, seconds: float
    ) -> _Outcome:
        with self._connections.transaction(
            KEEPER, "ISOLATION LEVEL READ COMMITTED", seconds=seconds
        ) as connection:
            asking = PostgresTransaction(connection, self._expiry_clock, self._secret)
            outcome = _transaction_outcome(asking, transaction, change)
            if outcome == "committed":
                # The server may have committed it without its synchronous standby. The
                # commit of another change waits until the standby has both.
                asking.execute("UPDATE meta SET value = value WHERE key = 'schema'")
                connection.execute(b"COMMIT")
        return outcome


def _transaction_outcome(
    asking: PostgresTransaction, transaction: PostgresTransaction, change: Change
) -> _Outcome:
    """Return what the database says of a transaction whose connection was lost."""
    if transaction.number is None:
        return "unknown"
    row = asking.execute(f"SELECT pg_is_in_recovery(), {SERVER_STARTED}").fetchone()
    assert row is not None
    if row[0]:
        return "in progress"  # of a promotion, or the URL is that of a replica
    status: _Outcome = "unknown"
    # The process of the lost connection may still run. Around a restart, a recovery or
    # a promotion a number may be given twice, so there it says nothing.
    is_same_server = row[1] == transaction.server_started
    if is_same_server:
        row = asking.execute(
            "SELECT txid_status(CAST(? AS BIGINT))", (transaction.number,)
        ).fetchone()
        status = "unknown" if row is None else row[0] or "unknown"
    is_recorded = change.forgotten or change.seq > change.seq_before
    if status in ("aborted", "in progress") or not is_recorded:
        return status
    return _recorded_outcome(
        asking, transaction.head, change, is_same_server=is_same_server
    )


def _recorded_outcome(
    asking: PostgresTransaction, head: int, change: Change, *, is_same_server: bool
) -> _Outcome:
    """Return what the records of the user say of a change."""
    row = asking.execute(
        "SELECT head FROM chg WHERE part = ? AND seq = ?", (change.part, change.seq)
    ).fetchone()
    if row is not None and not change.forgotten:
        return "committed" if row[0] == head else "aborted"
    row = asking.execute(
        "SELECT seq FROM part WHERE id = ? AND app = ? AND user = ?",
        (change.part, change.app, change.user),
    ).fetchone()
    if change.forgotten:
        return "committed" if row is None else "aborted"
    if is_same_server or (row is not None and row[0] >= change.seq):
        return "unknown"  # the record of the change may be pruned
    return "aborted"
