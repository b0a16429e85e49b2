"""Loads partitions from the file into the engine and keeps the two in sync.

A partition is loaded when it is first searched, from its snapshot if there is a valid
one, else from its rows. Afterwards every search compares the partition's newest change
in the file with the newest that the engine has: a write of this process is applied as
it is committed, a write of another process is read from the change log before the
search goes on. When the budget is used up, partitions that were not searched lately
are evicted.

Every change of what the engine holds of a partition, and of its entry in
`LoadedPartitions`, happens under that partition's lock: loading, replaying, publishing,
evicting. The entry is taken out before the engine drops the partition, and put in after
it is complete. So a search that finds the same entry before and after its engine
call has searched a complete partition. The thread that writes the file never waits for
such a lock: where it is taken, the partition is brought up to date afterwards.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import ParamSpec, TypeVar

from vecall._core import Engine
from vecall.concurrency.allocator import trim_heap
from vecall.concurrency.key_locks import KeyLocks
from vecall.concurrency.shared_work import Done, SharedWork
from vecall.errors import ClosedError
from vecall.index.loaded import LoadedPartition, LoadedPartitions
from vecall.index.newest_changes import NewestChanges
from vecall.index.partition_loader import MovedModelError, PartitionLoader
from vecall.index.read_threads import ReadThreads
from vecall.index.row_cache import RowCache
from vecall.index.rows import Key
from vecall.index.snapshots import SnapshotCache
from vecall.store import Change, Row, Storage

P = ParamSpec("P")
T = TypeVar("T")

_log = logging.getLogger("vecall")

_LARGE = 1_000  # rows; more are loaded on the thread of large partitions
_ENTRY_BYTES = 3_000  # of a partition besides what the engine counts, measured
_EVICTED_SHARE = 8  # one part in so many of the budget is freed at a time
_VICTIMS = 8  # partitions looked for at a time when memory is short


class PartitionCache:
    """Loads the engine from the file, and applies what changes in it."""

    def __init__(
        self,
        storage: Storage,
        engine: Engine,
        cache: RowCache,
        snapshots: SnapshotCache | None,
        threads: ReadThreads,
        newest: NewestChanges | None,
        *,
        model: int | None,
        budget: int,
    ) -> None:
        """Start with nothing loaded.

        Args:
            storage: The file.
            engine: An empty engine.
            cache: Texts of rows.
            snapshots: Snapshots of partitions next to the file, if there are any.
            threads: Where the file is read.
            newest: The newest changes of a database in memory, None with a file.
            model: The model whose vectors the engine takes.
            budget: Bytes for the engine and the cache together.
        """
        self._storage = storage
        self._engine = engine
        self._cache = cache
        self._snapshots = snapshots
        self._threads = threads
        self._newest = newest
        self._filling = PartitionLoader(
            storage, engine, cache, snapshots, model, in_memory=newest is not None
        )
        self._budget = budget
        self.retired = False
        """Whether the file has moved to another model: what is loaded from now on has
        vectors of that one."""
        self._locks: KeyLocks[Key] = KeyLocks()
        self._residents = LoadedPartitions()
        self._work = SharedWork(self._start)
        self._evicted = 0  # bytes, since the heap was last trimmed
        if snapshots is not None:
            snapshots.watch(self._held)

    def submit(
        self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> Future[T]:
        """Read single rows, or a page of them, on another thread.

        Raises:
            ClosedError: The service was closed.
        """
        return self._threads.short(work, *args, **kwargs)

    def submit_scan(
        self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> Future[T]:
        """Read what may be all rows of a user, or of the file, on another thread.

        Raises:
            ClosedError: The service was closed.
        """
        return self._threads.long(work, *args, **kwargs)

    def target(self, key: Key) -> tuple[int, int] | None:
        """Return a partition's number and its newest change, as of now.

        Returns:
            None if there is no such partition.
        """
        found = self._found(key)
        if found is None and self._residents.get(key) is not None:
            self.synchronize(key)  # forgotten by another process: by this one too
        return found

    def loaded(
        self, key: Key, target: tuple[int, int] | None
    ) -> LoadedPartition | None:
        """Return the partition's entry if the engine has it as `target` says."""
        entry = self._residents.get(key)
        if entry is None or target is None or not entry.sound:
            return None
        part, seq = target
        return entry if entry.part == part and entry.seq >= seq else None

    def holds(self, key: Key, entry: LoadedPartition, steps: int) -> bool:
        """Whether the engine had a partition as its entry says during a call.

        Args:
            key: The partition.
            entry: Its entry, as `loaded` gave it before the call of the engine.
            steps: The entry's `steps` at that time.
        """
        if self._residents.get(key) is not entry:
            return False
        rows = self._engine.size(key)
        if rows == entry.rows or entry.steps != steps or steps % 2:
            return True
        if self._residents.get(key) is not entry:
            return False  # evicted since
        self.distrust(entry)
        return False

    def distrust(self, entry: LoadedPartition) -> None:
        """Have a partition loaded again, from its rows, before it is searched next."""
        _log.error("the engine had other rows than the file; they are loaded again")
        entry.sound = False

    def synchronize(self, key: Key) -> Future[None]:
        """Read a partition, or what is new in it, on another thread.

        Several who ask at the same time wait for one reading, which none of them can
        cancel; whether it went as far as they need is for them to look at afterwards.

        Raises:
            ClosedError: The service was closed.
        """
        return self._work.ask(key)

    @contextmanager
    def moving(self, moved: Callable[[], bool]) -> Iterator[None]:
        """Let no partition be searched that was read without the vectors of its model.

        Args:
            moved: Serves the model that the file is being moved to, if it is the file's
                by now, and says whether it is. Runs on threads that read, and may wait
                for the thread that writes.
        """
        self._filling.moving = moved
        try:
            yield
        finally:
            self._filling.moving = None

    def pinned(self, key: Key) -> AbstractContextManager[None]:
        """Keep a partition from being evicted before it was searched."""
        return self._residents.pinned(key)

    def publish(self, change: Change) -> None:
        """Apply a change of this process, right after its commit. Waits for no lock."""
        if self._newest is not None:
            self._newest.note(change)
        self._cache.forget(change.removed)
        self._cache.forget(entry.row.rid for entry in change.stored)
        self._cache.forget(row.rid for row in change.marked)
        key = (change.app, change.user)
        with self._locks.held_if_free(key) as free:
            if free:
                self._follow(key, change)
        if not free and (self._residents.get(key) or self._work.runs(key)):
            with suppress(ClosedError):
                self._work.ask(key, afresh=True)
        self._evict_to_budget()

    def rows(self, rids: Sequence[int]) -> list[Row]:
        """Read rows from the file into the cache, without those that are gone."""
        read_at = self._cache.now()
        with self._storage.read() as reads:
            rows = [stored.row for stored in reads.load_rows(rids)]
        self._cache.put(rows, read_at)
        return rows

    @property
    def nbytes(self) -> int:
        """Bytes of all loaded partitions."""
        return self._residents.nbytes

    def _found(self, key: Key) -> tuple[int, int] | None:
        if self._newest is not None:
            return self._newest.get(key)
        return self._storage.version(*key)

    @contextmanager
    def _held(self, key: Key) -> Iterator[LoadedPartition | None]:
        """Keep a partition as it is; give its entry, None if it is not loaded."""
        with self._locks.held(key):
            yield self._residents.get(key)

    def _follow(self, key: Key, change: Change) -> None:
        """Apply a change of this process; the partition's lock is held."""
        if change.forgotten:
            self._drop(key)
            return
        entry = self._residents.get(key)
        if entry is None:
            if self._newest is None or not change.part or change.seq_before:
                return
            # Without a file there is nothing to be lazy about.
            self._engine.drop(key)
            entry = LoadedPartition(change.part, 0)
        # Where another process wrote in between, the next search reads both.
        if (entry.part, entry.seq) != (change.part, change.seq_before):
            return
        try:
            self._filling.apply(key, entry, change.stored, change.removed)
            self._cache.put(change.marked)
        except BaseException:
            self._drop(key)  # half applied is not known: the next search loads it
            raise
        entry.seq = change.seq
        if not entry.rows and self._newest is None:
            self._drop(key)  # nothing is left to be searched
            return
        changed = len(change.stored) + len(change.removed) + len(change.marked)
        self._count(key, entry, changed)
        self._residents.put(key, entry)

    def _start(self, key: Key, done: Done) -> None:
        self._threads.small_load(self._dispatch, key, done)

    def _dispatch(self, key: Key, done: Done) -> None:
        """Bring a small partition up to date; hand a large one over."""
        try:
            if self._is_large(key):
                self._threads.large_load(self._run, key, done)
                return
        except BaseException as error:
            done(error)
            raise
        self._run(key, done)

    def _is_large(self, key: Key) -> bool:
        entry = self._residents.get(key)
        if entry is not None:
            return entry.rows > _LARGE
        found = self._found(key)
        if found is None or found[1] <= _LARGE:  # each row took a change
            return False
        with self._storage.read() as reads:
            state = reads.partition_state(found[0], *key)
        return state is not None and state.live > _LARGE

    def _run(self, key: Key, done: Done) -> None:
        try:
            with suppress(MovedModelError):  # the search starts again
                self._load_changes(key)
            self._evict_to_budget()
        except BaseException as error:
            done(error)
            raise
        done(None)

    def _load_changes(self, key: Key) -> None:
        with self._locks.held(key):
            found = self._found(key)
            if found is None:
                self._drop(key)
                return
            entry = self._residents.get(key)
            if entry is None or not entry.sound or entry.part != found[0]:
                doubted = entry is not None and not entry.sound
                self._load(key, found[0], from_rows=doubted)
                return
            try:
                replayed = self._filling.replay(key, entry)
            except MovedModelError:
                self._drop(key)
                raise
            if replayed is None:
                self._load(key, found[0])
            elif replayed:
                self._count(key, entry, replayed)

    def _load(self, key: Key, part: int, *, from_rows: bool = False) -> None:
        self._drop(key)
        entry = LoadedPartition(part, 0)
        try:
            unsaved = self._filling.fill(key, entry, from_rows=from_rows)
        except BaseException:
            self._engine.drop(key)
            raise
        if unsaved is not None:
            self._count(key, entry, unsaved)
            self._residents.put(key, entry)

    def _count(self, key: Key, entry: LoadedPartition, changes: int) -> None:
        """Take stock of a partition that has changed; its lock is held."""
        nbytes = self._engine.nbytes_of(key) + _ENTRY_BYTES
        self._residents.resize(key, entry, nbytes)
        entry.unsaved += changes
        if self._snapshots is not None and changes:
            self._snapshots.schedule_if_stale(key, entry.unsaved, entry.rows)

    def _drop(self, key: Key) -> int:
        """Take a partition out; return its bytes. Its lock is held."""
        # In this order: a search that finds the entry after its engine call
        # has searched before the partition was dropped.
        entry = self._residents.take(key)
        self._engine.drop(key)
        return 0 if entry is None else entry.nbytes

    def evict_all(self) -> None:
        """Evict all partitions without callers, and later ones after each search."""
        self.retired = True
        self._budget = 0
        for key in self._residents.keys() - self._residents.pins():
            self._evict(key)
        trim_heap()

    def _evict(self, key: Key) -> bool:
        """Take a partition out, unless it is being worked on."""
        with self._locks.held_if_free(key) as free:
            if free:
                self._evicted += self._drop(key)
            return free

    def _evict_to_budget(self) -> None:
        """Evict the least recently searched partitions down to the budget."""
        if self._newest is not None:
            return  # the database is memory as well
        while self.nbytes + self._cache.nbytes > self._budget:
            in_use = self._residents.pins() | self._work.keys()
            victims = [
                key
                for key in self._engine.sweep(_VICTIMS + len(in_use))
                if key not in in_use
            ]
            if not sum(self._evict(key) for key in victims):
                return
            if self._evicted > self._budget // _EVICTED_SHARE:
                self._evicted = 0
                trim_heap()
