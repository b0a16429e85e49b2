"""The storage protocol over one SQLite file, or a database in memory."""

# ruff: noqa: D102 -- the protocols document the methods

from __future__ import annotations

import logging
import queue
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from operator import attrgetter

from vecall.concurrency.executor import InterruptibleFuture
from vecall.errors import ClosedError, StorageError, StorageFullError, VecallError
from vecall.store import rows
from vecall.store.file.connections import as_typed_file_error
from vecall.store.file.database import Database
from vecall.store.file.filesystem import SnapshotFolder
from vecall.store.maintenance.backups import SqliteMaintenance
from vecall.store.names import find_part, find_part_surely
from vecall.store.queries.item_reads import read_item_at
from vecall.store.storage import StorageReads
from vecall.store.transaction import EmbeddingModel, WriteJob, adopt_model
from vecall.store.values import ItemRow
from vecall.store.writes import add
from vecall.store.writes.history import RecordSnapshot, count_purges, newer_is_recorded
from vecall.store.writes.model_migration import begin_model_migration

# Snapshots in a folder next to the file, which has a record of each.


@dataclass(repr=False, eq=False)
class SqliteSnapshots:
    """Implements `Snapshots`."""

    _database: Database
    _folder: SnapshotFolder
    _submit: Callable[[WriteJob], Future[rows.Change]]  # queues a job for the file

    def snapshot_generation(self) -> int:
        with self._database.read_transaction() as connection:
            return count_purges(connection)

    def read_snapshot(self, part: int, record: bytes) -> bytes | None:
        data = self._folder.read_snapshot(part)
        return None if data is None else rows.checked_snapshot(part, record, data)

    def write_snapshot(
        self, app: str, user: str, tag: rows.SnapshotTag, data: bytes, generation: int
    ) -> bool:
        header = self._folder.read_snapshot_header(tag.part)
        with self._database.read_transaction() as connection:
            if newer_is_recorded(connection, tag, header):
                return False
        self._folder.write_snapshot(tag.part, data)
        record = rows.record_of_snapshot(tag.nonce, data)
        job = RecordSnapshot(app, user, record, tag, generation)
        self._submit(job).result()
        if not job.is_recorded:
            self._folder.remove_snapshot(tag.part)
        return job.is_recorded

    def remove_snapshot(self, part: int) -> None:
        self._folder.remove_snapshot(part)


# Runs jobs that share a transaction; each succeeds or fails by itself.


def run_job_in_savepoint(
    connection: sqlite3.Connection, job: WriteJob
) -> rows.Change | BaseException:
    """Run a job in its own savepoint; return its change, or its error."""
    # It raises if SQLite rolled the whole transaction back, as it does when the disk is
    # full, so the jobs before this one are undone too.
    connection.execute("SAVEPOINT job")
    try:
        change = job.run(connection)
    except BaseException as error:
        if not connection.in_transaction:
            raise
        connection.execute("ROLLBACK TO job")
        connection.execute("RELEASE job")
        return as_typed_file_error(error)
    connection.execute("RELEASE job")
    return change


# The writer thread of a file: group commit, then publish.
#
# Each write is committed, then applied to the engine, then acknowledged. So an
# acknowledged write is in the file, and the next search finds it. Queued writes share a
# transaction, each under its own savepoint: a failed write does not affect the others,
# and a hundred writes cost one sync. Users take turns, and a large write has a
# transaction of its own, so that a user with many of them delays another by one or two.

_log = logging.getLogger("vecall")

_GROUP = 256  # writes in one transaction
_GROUP_BYTES = 64 * 1024  # of one transaction with several writes: some 10 ms


class _Pending:
    """A queued job with its future."""

    def __init__(
        self, job: WriteJob, then: Callable[[rows.Change], None] | None
    ) -> None:
        self.job = job
        self.then = then
        self.size = 0
        self.future: Future[rows.Change] = InterruptibleFuture()
        # Running from the start, so that a cancelled caller cannot cancel a job that
        # may already be written.
        self.future.set_running_or_notify_cancel()
        self.outcome: rows.Change | BaseException | None = None

    def measure_job(self) -> bool:
        """Set the size. A job that cannot tell it fails, and no other."""
        try:
            self.size = self.job.estimated_bytes
        except BaseException as error:
            self.future.set_exception(error)
            return False
        return True


class _Lines(dict[tuple[object, object], deque[_Pending]]):
    """Queued jobs by user, in order; users take turns. For the writer's thread."""

    def add_job(self, pending: _Pending) -> None:
        """Add a job behind those of its user. Jobs across users are one line."""
        job = pending.job
        user = getattr(job, "app", None), getattr(job, "user", None)
        self.setdefault(user, deque()).append(pending)

    def take_next_group(self) -> list[_Pending]:
        """Remove and return the jobs of the next transaction, at least one."""
        group: list[_Pending] = []
        room = _GROUP_BYTES
        while self and len(group) < _GROUP:
            user, line = next(iter(self.items()))
            if group and line[0].size > room:
                break
            del self[user]
            pending = line.popleft()
            if line:
                self[user] = line  # the last one now
            group.append(pending)
            room -= pending.size
        return group


class Writer:
    """Accepts write jobs from any thread and acknowledges each by its future."""

    def __init__(self, database: Database) -> None:
        """Start the thread."""
        self._database = database
        self.publish: Callable[[rows.Change], None] = lambda _: None
        """Applies a committed change to the engine."""
        # None, or the file of a garbage-collected service, ends the thread.
        self._queue: queue.SimpleQueue[_Pending | Database | None] = queue.SimpleQueue()
        self._closing = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(
            target=self._write_queued_jobs, name="vecall-writer", daemon=True
        )
        self._thread.start()

    def submit(
        self, job: WriteJob, then: Callable[[rows.Change], None] | None = None
    ) -> Future[rows.Change]:
        """Queue a job. The future resolves once it is committed and searchable."""
        # `then` is called on the writer's thread once the job is committed, before
        # later jobs are acknowledged.
        pending = _Pending(job, then)
        # The lock keeps jobs from being queued after the item that ends the thread.
        with self._closing:
            if self._closed:
                raise ClosedError("the memory service is closed")
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
        """Return a finalizer that ends the thread and closes the file, not waiting."""
        # The finalizer may be called anywhere, also during garbage collection. Queued
        # jobs are still written. It holds no reference to `publish`.
        return partial(self._queue.put, self._database)

    def _write_queued_jobs(self) -> None:
        lines = _Lines()
        last: Database | None = None
        ending = False
        while lines or not ending:
            group: list[_Pending] = []
            # No other thread takes from the queue.
            while not ending and not (lines and self._queue.empty()):
                more = self._queue.get()
                if not isinstance(more, _Pending):
                    ending, last = True, more
                elif not more.measure_job():
                    continue
                elif lines or not self._queue.empty():
                    lines.add_job(more)
                else:  # alone, as most are
                    group.append(more)
                    break
            more = None  # hold no reference while waiting
            if group or lines:
                self._write_group_surely(group or lines.take_next_group())
        if last is not None:
            with suppress(VecallError):
                last.close()

    def _write_group_surely(self, group: list[_Pending]) -> None:
        """Write a group and resolve every future, also after an unexpected error."""
        try:
            self._write_group(group)
        except BaseException as error:
            _log.critical(
                "the writer failed with %s; it goes on with the next writes",
                type(error).__name__,
            )
        for pending in group:
            if not pending.future.done():
                msg = "the write was interrupted; read the file to see what it holds"
                pending.future.set_exception(StorageError(msg))

    def _write_group(self, group: list[_Pending]) -> None:
        try:
            group = self._refuse_jobs_without_room(group)
            try:
                self._commit_group(group)
            except StorageFullError as error:
                if len(group) > 1:  # one of them has no room: each by itself, in order
                    for pending in group:
                        self._write_group([pending])
                    return
                if group[0].size:
                    raise
                # What only deletes is tried again, with the reserved space released.
                self._commit_on_full_disk(group, error)
        except BaseException as error:
            self._fail_group(group, error)
            return
        for pending in group:
            self._acknowledge_job(pending)

    def _commit_on_full_disk(
        self, group: list[_Pending], error: StorageFullError
    ) -> None:
        """Commit with the reserved space, and reserve again what is left of it."""
        reserve, checkpoint = self._database.reserve, self._database.checkpoint_wal
        if reserve is None:
            raise error
        # A checkpoint gives the space of the log back. It comes first if it has room:
        # one that fails leaves none for the commit.
        is_first = reserve.covers_wal
        reserve.release_disk_bytes()
        if is_first:
            with suppress(VecallError):
                checkpoint()
        try:
            self._commit_group(group)
        except StorageFullError:
            checkpoint()
            self._commit_group(group)
        reserve.reserve_disk_bytes(reserve.missing_bytes())

    def _refuse_jobs_without_room(self, group: list[_Pending]) -> list[_Pending]:
        """Refuse the jobs that would fill the disk; return the others."""
        estimated_bytes = sum(map(attrgetter("size"), group))
        if not estimated_bytes or self._database.has_room(estimated_bytes):
            return group
        with suppress(VecallError):
            self._database.checkpoint_wal()
        msg = (
            "the disk is nearly full (storage.min_free_bytes); nothing was written, "
            "and deleting still works"
        )
        for pending in group:
            if pending.size:
                pending.future.set_exception(StorageFullError(msg))
        return [pending for pending in group if not pending.size]

    def _commit_group(self, group: list[_Pending]) -> None:
        if not group:
            return
        for pending in group:
            pending.outcome = None
        with self._database.write_transaction() as connection:
            if len(group) == 1:  # no savepoint, which would copy changed pages
                group[0].outcome = group[0].job.run(connection)
                return
            for pending in group:
                pending.outcome = run_job_in_savepoint(connection, pending.job)

    def _fail_group(self, group: list[_Pending], error: BaseException) -> None:
        """Fail all jobs of a group, none of which was committed."""
        for pending in group:
            outcome = pending.outcome
            own = outcome if isinstance(outcome, BaseException) else error
            if not pending.future.done():
                pending.future.set_exception(own)

    def _acknowledge_job(self, pending: _Pending) -> None:
        change = pending.outcome
        if not isinstance(change, rows.Change):
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


# A SQLite file as a storage: its connections, its writer thread, its snapshots.


class SqliteStorage:
    """Implements `Storage`. Thread-safe."""

    def __init__(self, database: Database) -> None:
        """Start the writer thread of an open database, and take over the database."""
        self._database = database
        self._writer = Writer(database)
        self.submit = self._writer.submit
        self.abandon = self._writer.abandon
        self.end_writes = self._writer.close
        self.maintenance = SqliteMaintenance(database)
        self.claims = None
        self.snapshots: SqliteSnapshots | None = None
        if database.path is not None:
            folder = SnapshotFolder(database.path)
            self.snapshots = SqliteSnapshots(database, folder, self._writer.submit)
        self.newest = partial(database.peek_at_file, find_part)  # it takes microseconds
        self.identity = database.uuid
        self.expiry_clock = database.expiry_clock
        self.in_memory = database.path is None
        self.is_local = database.path is not None  # memory waits for the writer

    @property
    def publish(self) -> Callable[[rows.Change], None]:
        return self._writer.publish

    @publish.setter
    def publish(self, publish: Callable[[rows.Change], None]) -> None:
        self._writer.publish = publish

    @property
    def closed_before_fork(self) -> bool:
        return self._database.closed_before_fork

    def version(self, app: str, user: str) -> rows.Version | None:
        return self.newest(app, user)

    @contextmanager
    def read(
        self, app: str | None = None, user: str | None = None
    ) -> Iterator[StorageReads]:
        """Read one committed state; a file has all users."""
        del app, user
        with self._database.read_transaction() as connection:
            reads = StorageReads(connection)
            try:
                yield reads
            finally:
                reads._refuse_more_reads()

    def lookup_existing(self, asked: rows.DraftLookup) -> rows.ExistingMemories | None:
        with self._database.read_transaction() as connection:
            return add.lookup_existing(connection, asked, self.expiry_clock.now())

    def item_at(self, app: str, user: str, ns: str, key: str) -> ItemRow | None:
        known, item = self._database.peek_at_file(read_item_at, app, user, ns, key)
        if not known:
            self._database.peek_at_file(find_part_surely, app, user)
        return item

    def adopt_model(self, model: EmbeddingModel) -> EmbeddingModel:
        with self._database.write_transaction() as connection:
            return adopt_model(connection, model)

    def begin_migration(self, model: EmbeddingModel) -> EmbeddingModel | None:
        with self._database.write_transaction() as connection:
            return begin_model_migration(connection, model)

    def close(self) -> None:
        self._writer.close()
        self._database.close()
