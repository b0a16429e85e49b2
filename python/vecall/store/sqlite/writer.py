"""The writer thread of a file: group commit, then publish.

Each write is committed, then applied to the engine, then acknowledged. So an
acknowledged write is in the file, and the next search finds it. Queued writes share a
transaction, each under its own savepoint: a failed write does not affect the others,
and a hundred writes cost one sync. Users take turns, and a large write has a
transaction of its own, so that a user with many of them delays another by one or two.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress

from vecall.concurrency.interruptible import InterruptibleFuture
from vecall.errors import ClosedError, StorageError, StorageFullError, VecallError
from vecall.store.file.database import Database
from vecall.store.rows import Change
from vecall.store.sqlite.savepoint_jobs import run_in_savepoint
from vecall.store.write_job import WriteJob

_log = logging.getLogger("vecall")

_GROUP = 256  # writes in one transaction
_GROUP_BYTES = 64 * 1024  # of one transaction with several writes: some 10 ms


class _Pending:
    """A queued job with its future."""

    def __init__(self, job: WriteJob, then: Callable[[Change], None] | None) -> None:
        self.job = job
        self.then = then
        self.size = 0
        self.future: Future[Change] = InterruptibleFuture()
        # Running from the start, so that a cancelled caller cannot cancel a job that
        # may already be written.
        self.future.set_running_or_notify_cancel()
        self.outcome: Change | BaseException | None = None

    def measure(self) -> bool:
        """Set the size. A job that cannot tell it fails, and no other."""
        try:
            self.size = self.job.estimated_bytes
        except BaseException as error:
            self.future.set_exception(error)
            return False
        return True


class _Lines:
    """Queued jobs by user, in order; users take turns. For the writer's thread."""

    def __init__(self) -> None:
        self._jobs: dict[tuple[object, object], deque[_Pending]] = {}

    def __bool__(self) -> bool:
        return bool(self._jobs)

    def add(self, pending: _Pending) -> None:
        """Add a job behind those of its user. Jobs across users are one line."""
        job = pending.job
        user = getattr(job, "app", None), getattr(job, "user", None)
        line = self._jobs.get(user)
        if line is None:
            self._jobs[user] = deque((pending,))
        else:
            line.append(pending)

    def next_group(self) -> list[_Pending]:
        """Remove and return the jobs of the next transaction, at least one."""
        group: list[_Pending] = []
        room = _GROUP_BYTES
        while self._jobs and len(group) < _GROUP:
            user = next(iter(self._jobs))
            line = self._jobs[user]
            if group and line[0].size > room:
                break
            del self._jobs[user]
            pending = line.popleft()
            if line:
                self._jobs[user] = line  # the last one now
            group.append(pending)
            room -= pending.size
        return group


class _Abandoned:
    """The queue item that ends the thread of a garbage-collected service."""

    def __init__(self, database: Database) -> None:
        self.database = database


class Writer:
    """Accepts write jobs from any thread and acknowledges each by its future."""

    def __init__(self, database: Database) -> None:
        """Start the thread."""
        self._database = database
        self.publish: Callable[[Change], None] = lambda _: None
        """Applies a committed change to the engine."""
        self._queue: queue.SimpleQueue[_Pending | _Abandoned | None] = (
            queue.SimpleQueue()
        )
        self._closing = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(
            target=self._work, name="vecall-writer", daemon=True
        )
        self._thread.start()

    def submit(
        self, job: WriteJob, then: Callable[[Change], None] | None = None
    ) -> Future[Change]:
        """Queue a job. The future resolves once it is committed and searchable.

        Args:
            job: The job.
            then: Called on the writer's thread once the job is committed, before later
                jobs are acknowledged.
        """
        pending = _Pending(job, then)
        # The lock keeps jobs from being queued after the item that ends the thread.
        with self._closing:
            if self._closed:
                msg = "the memory service is closed"
                raise ClosedError(msg)
            self._queue.put(pending)
        return pending.future

    def close(self) -> None:
        """Finish the queued jobs and end the thread."""
        with self._closing:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        if self._thread is not threading.current_thread():
            self._thread.join()

    def abandon(self) -> Callable[[], None]:
        """Return a finalizer that ends the thread and closes the file, not waiting.

        The finalizer may be called anywhere, also during garbage collection. Queued
        jobs are still written. It holds no reference to `publish`.
        """
        put, database = self._queue.put, self._database

        def end() -> None:
            put(_Abandoned(database))

        return end

    def _work(self) -> None:
        lines = _Lines()
        last: _Abandoned | None = None
        ending = False
        while lines or not ending:
            group: list[_Pending] = []
            # No other thread takes from the queue.
            while not ending and not (lines and self._queue.empty()):
                more = self._queue.get()
                if not isinstance(more, _Pending):
                    ending, last = True, more
                elif not more.measure():
                    continue
                elif lines or not self._queue.empty():
                    lines.add(more)
                else:  # alone, as most are
                    group.append(more)
                    break
            more = None  # hold no reference while waiting
            if group or lines:
                self._write_surely(group or lines.next_group())
        if last is not None:
            with suppress(VecallError):
                last.database.close()

    def _write_surely(self, group: list[_Pending]) -> None:
        """Write a group and resolve every future, also after an unexpected error."""
        try:
            self._write(group)
        except BaseException as error:
            _log.critical(
                "the writer failed with %s; it goes on with the next writes",
                type(error).__name__,
            )
        for pending in group:
            if not pending.future.done():
                msg = "the write was interrupted; read the file to see what it holds"
                pending.future.set_exception(StorageError(msg))

    def _write(self, group: list[_Pending]) -> None:
        try:
            group = self._with_room(group)
            try:
                self._commit(group)
            except StorageFullError as error:
                # Jobs that only delete are retried, with the reserved space released.
                self._fail([pending for pending in group if pending.size], error)
                group = [pending for pending in group if not pending.size]
                if group:
                    self._commit_on_full_disk(group, error)
        except BaseException as error:
            self._fail(group, error)
            return
        for pending in group:
            self._acknowledge(pending)

    def _commit_on_full_disk(
        self, group: list[_Pending], error: StorageFullError
    ) -> None:
        """Commit with the reserved space, and reserve again what is left of it."""
        reserve, checkpoint = self._database.reserve, self._database.checkpoint
        if reserve is None:
            raise error
        # A checkpoint gives the space of the log back. It comes first if it has room:
        # one that fails leaves none for the commit.
        is_first = reserve.covers_wal
        reserve.release()
        if is_first:
            with suppress(VecallError):
                checkpoint()
        try:
            self._commit(group)
        except StorageFullError:
            checkpoint()
            self._commit(group)
        reserve.fill(reserve.lacks())

    def _with_room(self, group: list[_Pending]) -> list[_Pending]:
        """Refuse the jobs that would fill the disk; return the others."""
        estimated_bytes = sum(pending.size for pending in group)
        if not estimated_bytes or self._database.has_room(estimated_bytes):
            return group
        with suppress(VecallError):
            self._database.checkpoint()
        msg = (
            "the disk is nearly full (storage.min_free_bytes); nothing was written, "
            "and deleting still works"
        )
        for pending in group:
            if pending.size:
                pending.future.set_exception(StorageFullError(msg))
        return [pending for pending in group if not pending.size]

    def _commit(self, group: list[_Pending]) -> None:
        if not group:
            return
        for pending in group:
            pending.outcome = None
        with self._database.write_transaction() as connection:
            for pending in group:
                pending.outcome = run_in_savepoint(connection, pending.job)

    def _fail(self, group: list[_Pending], error: BaseException) -> None:
        """Fail all jobs of a group, none of which was committed."""
        for pending in group:
            outcome = pending.outcome
            own = outcome if isinstance(outcome, BaseException) else error
            if not pending.future.done():
                pending.future.set_exception(own)

    def _acknowledge(self, pending: _Pending) -> None:
        change = pending.outcome
        if not isinstance(change, Change):
            pending.future.set_exception(change)
            return
        try:
            self.publish(change)
            if pending.then is not None:
                pending.then(change)
        except Exception as error:
            # The write is in the file, even if the engine failed: the next search finds
            # that the engine is behind and loads the change.
            _log.error(
                "a committed change was not applied (%s); it will be read back",
                type(error).__name__,
            )
        pending.future.set_result(change)
