"""The writer threads of a database: a user's jobs go to one of them, in order."""

from __future__ import annotations

import logging
import queue
import threading
import time
import zlib
from collections.abc import Callable
from concurrent.futures import Future
from time import monotonic

import psycopg

from vecall.clock import ExpiryClock
from vecall.concurrency.freed_frames import free_frames
from vecall.concurrency.interruptible import InterruptibleFuture
from vecall.errors import ClosedError
from vecall.store.postgres.attempt import Attempt
from vecall.store.postgres.connections import Connections
from vecall.store.postgres.errors import AGAIN, NoAnswerError, as_typed, is_lost
from vecall.store.rows import Change
from vecall.store.write_job import WriteJob

_log = logging.getLogger("vecall")

_TRIES = 5
_PAUSE_S = 0.05  # before a repeated transaction; doubled each time


class _Pending:
    """A queued job with its future."""

    def __init__(self, job: WriteJob, then: Callable[[Change], None] | None) -> None:
        self.job = job
        self.submitted = monotonic()
        self.then = then
        self.future: Future[Change] = InterruptibleFuture()
        self.future.set_running_or_notify_cancel()


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
        self._closing = threading.Lock()
        self._closed = False
        count = connections.url.writers
        self._queues: list[queue.SimpleQueue[_Pending | None]] = [
            queue.SimpleQueue() for _ in range(count)
        ]
        self._threads = [
            threading.Thread(
                target=self._work,
                args=(each, [0.0]),
                name=f"vecall-writer-{n}",
                daemon=True,
            )
            for n, each in enumerate(self._queues)
        ]
        for thread in self._threads:
            thread.start()

    def submit(
        self, job: WriteJob, then: Callable[[Change], None] | None = None
    ) -> Future[Change]:
        """Queue a job. The future resolves once it is committed and searchable."""
        pending = _Pending(job, then)
        user = f"{getattr(job, 'app', '')}\0{getattr(job, 'user', '')}"
        place = zlib.crc32(user.encode()) % len(self._queues)
        with self._closing:
            if self._closed:
                msg = "the memory service is closed"
                raise ClosedError(msg)
            self._queues[place].put(pending)
        return pending.future

    def close(self) -> None:
        """Finish the queued jobs and end the threads."""
        with self._closing:
            if not self._closed:
                self._closed = True
                for each in self._queues:
                    each.put(None)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()

    def abandon(self) -> Callable[[], None]:
        """Return a function that ends the threads after the queued jobs."""
        queues = list(self._queues)

        def end() -> None:
            for each in queues:
                each.put(None)

        return end

    def _work(
        self, jobs: queue.SimpleQueue[_Pending | None], answered: list[float]
    ) -> None:
        while (pending := jobs.get()) is not None:
            try:
                self._write(pending, answered)
            except BaseException as error:
                if not pending.future.done():
                    pending.future.set_exception(error)
                _log.critical("a writer failed with %s", type(error).__name__)
            pending = None

    def _write(self, pending: _Pending, answered: list[float]) -> None:
        """Run a job, and resolve its future.

        Args:
            pending: The job.
            answered: When the database last answered this thread. A job has its time
                from then on, so that those behind one that got no answer do not wait
                as long again, but those in a long queue all have their turn.
        """
        begin = max(pending.submitted, answered[0])
        try:
            change = self._committed(pending.job, begin + self._connections.url.timeout)
            answered[0] = monotonic()
        except psycopg.Error as error:
            if not is_lost(error):
                answered[0] = monotonic()
            free_frames(error)
            pending.future.set_exception(as_typed(error))
            return
        except BaseException as error:
            free_frames(error)
            pending.future.set_exception(error)
            return
        try:
            with self._publishing:
                self.publish(change)
                if pending.then is not None:
                    pending.then(change)
        except Exception as error:
            _log.error(
                "a committed change was not applied (%s); it will be read back",
                type(error).__name__,
            )
        pending.future.set_result(change)

    def _committed(self, job: WriteJob, deadline: float) -> Change:
        """Run a job until it is committed.

        Args:
            job: The job.
            deadline: When it has waited for the database long enough.

        Raises:
            psycopg.Error: The database refused it; nothing was written.
            StorageError: The connection ended while the job was committed, and the
                database does not say whether it was.
        """
        pause = _PAUSE_S
        for attempt in range(_TRIES):
            seconds = deadline - monotonic()
            if seconds <= 0:
                msg = "the server did not answer in time"
                raise NoAnswerError(msg)
            attempted = Attempt(self._connections, self._expiry_clock, self._secret)
            try:
                return attempted.run(job, seconds)
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
