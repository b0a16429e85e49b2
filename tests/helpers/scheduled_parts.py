"""Locks, futures and thread pools whose waits are a scheduler's points."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import Any

from vecall.concurrency.locks import KeyLocks
from vecall.store import Change, WriteJob
from vecall.store.file.filesystem import SnapshotFolder
from vecall.store.names import find_part
from vecall.store.sqlite import SqliteMaintenance, SqliteSnapshots, SqliteStorage

from helpers.scheduler import Mode, Scheduler


class ScheduledLock:
    """A lock that lets others go on before it is taken. Reentrant if asked."""

    def __init__(self, scheduler: Scheduler, *, reentrant: bool = False) -> None:
        """Begin free."""
        self._scheduler = scheduler
        self._owner: threading.Thread | None = None
        self._depth = 0
        self._reentrant = reentrant
        self.name: Hashable = scheduler.name("lock")

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock."""
        me = threading.current_thread()
        if self._reentrant and self._owner is me:
            self._depth += 1
            return True
        if blocking and timeout < 0:
            free = lambda: self._owner is None  # noqa: E731
            self._scheduler.point(free, "a lock", lock=self.name)
        else:
            self._scheduler.point()
        self._scheduler.use(self.name, "w")
        if self._owner is not None:
            return False
        self._owner = me
        self._depth = 1
        if self._scheduler.is_running:
            self._scheduler.task.held.add(self.name)
        return True

    def release(self) -> None:
        """Let the lock go."""
        self._depth -= 1
        if not self._depth:
            self._owner = None
            self._scheduler.use(self.name, "w")
            if self._scheduler.is_running:
                self._scheduler.task.held.discard(self.name)

    def __enter__(self) -> bool:
        """Take the lock."""
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        """Let the lock go."""
        self.release()


class Locks:
    """Stands for the module `threading` where its locks are used."""

    def __init__(self, scheduler: Scheduler, *, short: bool = False) -> None:
        """Make locks of this run; `short` locks have no point."""
        self._scheduler = scheduler
        self._short = short

    def Lock(self) -> Any:  # noqa: N802
        """Return a lock."""
        return threading.Lock() if self._short else ScheduledLock(self._scheduler)

    def RLock(self) -> Any:  # noqa: N802
        """Return a lock that its owner may take again."""
        if self._short:
            return threading.RLock()
        return ScheduledLock(self._scheduler, reentrant=True)


class NamedKeyLocks(KeyLocks):
    """Locks by partition that are known by their partition.

    A lock that no thread uses is dropped; the next one of the partition is the same
    to all that can be observed.
    """

    def _add_user(self, key: tuple[str, str]) -> Any:
        counted: Any = super()._add_user(key)
        if isinstance(counted.lock, ScheduledLock):
            counted.lock.name = ("lock of", id(self), key)
        return counted


class ShortKeyLocks(NamedKeyLocks):
    """The same, whose own short lock has no point."""

    def __init__(self) -> None:
        """Begin with no lock."""
        super().__init__()
        self._mutex = threading.Lock()


class ScheduledFuture(Future[Any]):
    """A future that notes who uses it."""

    scheduler: Scheduler

    @staticmethod
    def of(scheduler: Scheduler) -> type[ScheduledFuture]:
        """Return the class of the futures of a run."""
        return type("RunFuture", (ScheduledFuture,), {"scheduler": scheduler})

    def __init__(self) -> None:
        """Begin pending."""
        super().__init__()
        self._name = self.scheduler.name("future")
        self._set_by: list[int] = []

    def wait(self) -> None:
        """Wait until it is done."""
        self.scheduler.point(super().done, "a future", after=lambda: self._set_by)

    def result(self, timeout: float | None = None) -> Any:
        """Return the result; wait for it."""
        if self.scheduler.is_running:
            self.wait()
        return super().result(timeout)

    def done(self) -> bool:
        """Whether there is a result."""
        self.scheduler.use(self._name, "r")
        return super().done()

    def cancel(self) -> bool:
        """Cancel it, if it does not run."""
        self.scheduler.use(self._name, "w")
        cancelled = super().cancel()
        if cancelled and not self._set_by:
            self._set_by = [self.scheduler.now()]
        return cancelled

    def set_running_or_notify_cancel(self) -> bool:
        """Begin to run."""
        self.scheduler.use(self._name, "w")
        return super().set_running_or_notify_cancel()

    def set_result(self, result: Any) -> None:
        """Give the result."""
        self.scheduler.use(self._name, "w")
        self._set_by = [self.scheduler.now()]
        super().set_result(result)

    def set_exception(self, exception: BaseException | None) -> None:
        """Give the error."""
        self.scheduler.use(self._name, "w")
        self._set_by = [self.scheduler.now()]
        super().set_exception(exception)


class ScheduledPool:
    """A ThreadPoolExecutor whose threads are the scheduler's."""

    def __init__(self, scheduler: Scheduler, most: int, name: str) -> None:
        """Begin without a thread."""
        self._scheduler = scheduler
        self._most = most
        self._name = name
        self._resource: tuple[Any, ...] = scheduler.name("pool")
        self._queue: deque[tuple[Future[Any], Callable[[], Any], int]] = deque()
        self._closed = False
        self._threads = 0
        self._busy = 0
        self._future = ScheduledFuture.of(scheduler)

    def submit(self, work: Callable[..., Any], *args: Any, **named: Any) -> Future[Any]:
        """Queue some work."""
        self._scheduler.point()
        self._use("r", "closed")
        if self._closed:
            msg = "cannot schedule new futures after shutdown"
            raise RuntimeError(msg)
        self._use("w", "end")
        future = self._future()
        by = self._scheduler.now()
        self._queue.append((future, lambda: work(*args, **named), by))
        if self._threads < self._most:
            self._threads += 1
            made = "-".join(map(str, self._resource[1:]))
            name = f"{self._name} {self._threads} of {made}"
            self._scheduler.spawn(name, self._work, background=True)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more work; finish what waits."""
        self._use("w", "closed")
        self._closed = True
        if cancel_futures:
            self._use("w", "front")
            for future, *_ in self._queue:
                future.cancel()
        if wait:
            idle = "the threads of a pool"
            self._scheduler.point(lambda: not (self._queue or self._busy), idle)

    def _use(self, mode: Mode, part: str) -> None:
        self._scheduler.use((self._resource, part), mode)

    def _work(self) -> None:
        while True:
            self._scheduler.point(
                lambda: bool(self._queue), after=lambda: [self._queue[0][2]]
            )
            self._use("w", "front")
            future, work, _ = self._queue.popleft()
            if not future.set_running_or_notify_cancel():
                continue
            self._busy += 1
            try:
                result = work()
            except Exception as error:
                future.set_exception(error)
            else:
                future.set_result(result)
            finally:
                self._busy -= 1


class ScheduledEngine:
    """An engine that lets other threads go on before it is asked or changed."""

    def __init__(self, scheduler: Scheduler, inner: Any) -> None:
        """Stand for `inner`."""
        self._scheduler = scheduler
        self._inner = inner
        self._name = scheduler.name("engine")
        self.dim = inner.dim

    def _point(self, key: tuple[str, str], mode: Mode) -> None:
        self._scheduler.point()
        self._scheduler.use((self._name, key), mode)
        if mode == "w":
            self._scheduler.use((self._name, "partitions"), "c")

    def add_rows(self, key: tuple[str, str], *args: Any) -> Any:
        """Put rows in."""
        self._point(key, "w")
        return self._inner.add_rows(key, *args)

    def remove(self, key: tuple[str, str], rids: Any) -> Any:
        """Take rows out."""
        self._point(key, "w")
        return self._inner.remove(key, rids)

    def drop(self, key: tuple[str, str]) -> Any:
        """Drop a partition."""
        self._point(key, "w")
        return self._inner.drop(key)

    def restore(self, key: tuple[str, str], data: Any) -> Any:
        """Restore a partition."""
        self._point(key, "w")
        return self._inner.restore(key, data)

    def recall_found(self, key: tuple[str, str], *args: Any, **named: Any) -> Any:
        """Search a partition."""
        self._point(key, "r")
        self._scheduler.use((self._name, "clock"), "c")
        return self._inner.recall_found(key, *args, **named)

    def size(self, key: tuple[str, str]) -> Any:
        """How many rows a partition has."""
        self._point(key, "r")
        return self._inner.size(key)

    def nbytes_of(self, key: tuple[str, str]) -> Any:
        """What a partition takes."""
        self._scheduler.use((self._name, key), "r")
        return self._inner.nbytes_of(key)

    def snapshot(self, key: tuple[str, str], tag: bytes) -> Any:
        """Take a snapshot of a partition."""
        self._point(key, "r")
        return self._inner.snapshot(key, tag)

    def sweep(self, most: int) -> Any:
        """Return what was not searched lately."""
        self._scheduler.point()
        self._scheduler.use((self._name, "clock"), "w")
        self._scheduler.use((self._name, "partitions"), "r")
        return self._inner.sweep(most)

    def __len__(self) -> int:
        """How many partitions there are."""
        return len(self._inner)


class ScheduledDatabase:
    """A database that lets other threads go on before it is read."""

    def __init__(
        self, scheduler: Scheduler, inner: Any, users: Iterable[tuple[str, str]]
    ) -> None:
        """Stand for `inner`, which has memories of `users` alone."""
        self._scheduler = scheduler
        self._inner = inner
        self._users = users

    def __getattr__(self, name: str) -> Any:
        """Return what the database has."""
        return getattr(self._inner, name)

    def peek_at_file(self, read: Any, app: str, user: str) -> Any:
        """Return what is read of a partition, such as its newest change."""
        self._scheduler.point()
        self._scheduler.use(("file", (app, user)), "r")
        return self._inner.peek_at_file(read, app, user)

    @contextmanager
    def read_transaction(self) -> Iterator[Any]:
        """Read one state of the file."""
        self._scheduler.point()
        for user in self._users:
            self._scheduler.use(("file", user), "r")
        with self._inner.read_transaction() as connection:
            yield connection


class ScheduledStorage(SqliteStorage):
    """A storage over such a database, without a writer thread of its own."""

    def __init__(
        self,
        database: Any,
        folder: type[SnapshotFolder],
        submit: Callable[[WriteJob], Future[Change]],
    ) -> None:
        """Read a database; jobs are for `submit` to carry out."""
        self._database = database
        self._submit = submit
        self.maintenance = SqliteMaintenance(database)
        self.snapshots = None
        if database.path is not None:
            files = folder(database.path)
            self.snapshots = SqliteSnapshots(database, files, submit)
        self.newest = partial(database.peek_at_file, find_part)
        self.identity = database.uuid
        self.expiry_clock = database.expiry_clock
        self.in_memory = database.path is None

    def submit(
        self, job: WriteJob, then: Callable[[Change], None] | None = None
    ) -> Future[Change]:
        """Carry out a job."""
        assert then is None
        return self._submit(job)
