"""Loads partitions from the file into the engine and keeps the two in sync.

A partition is loaded by its first search: from a valid snapshot, or else from its rows.
Every later search compares the partition's newest change in the file with the engine's.
Writes of this process are applied at commit. Writes of other processes are read from
the change log before the search continues. When the budget is exceeded, the partitions
that were searched least recently are evicted.

A partition's lock guards its data in the engine and its entry in `LoadedPartitions`:
loading, replaying, publishing and evicting hold it. The entry is removed before the
engine drops the partition, and added after the partition is complete. So a search that
finds the same entry before and after its engine call has searched a complete partition.
The writer thread never waits for such a lock. If the lock is taken, the change is
applied later.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, suppress

from vecall._core import Engine
from vecall.concurrency.allocator import trim_heap
from vecall.concurrency.key_locks import KeyLocks
from vecall.concurrency.shared_work import Done, SharedWork
from vecall.errors import ClosedError
from vecall.index.item_cache import ItemCache
from vecall.index.loaded import LoadedPartition, LoadedPartitions
from vecall.index.newest_changes import NewestChanges
from vecall.index.partition_loader import MovedModelError, PartitionLoader
from vecall.index.read_threads import ReadThreads
from vecall.index.row_cache import RowCache
from vecall.index.rows import Key
from vecall.index.snapshots import SnapshotCache
from vecall.store import Change, Row, Storage, Version

_log = logging.getLogger("vecall")

_LARGE = 1_000  # rows; more are loaded on the thread of large partitions
_ENTRY_BYTES = 3_000  # per partition outside the engine, measured
_EVICTED_SHARE = 8  # an eighth of the budget is freed at a time
_VICTIMS = 8  # partitions to evict per look-up


class PartitionCache:
    """Loads partitions into the engine, and applies changes of the file to them."""

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
        items: ItemCache | None = None,
    ) -> None:
        """Start with nothing loaded.

        Args:
            storage: The file.
            engine: An empty engine.
            cache: The row cache.
            snapshots: Reads and writes snapshots; None without snapshots.
            threads: The reading threads.
            newest: The newest changes of a database in memory; None with a file.
            model: The number of the model of the engine's vectors.
            budget: Memory for the engine, the cache and the items together, in bytes.
            items: The vectors of items.
        """
        self._storage = storage
        self._engine = engine
        self._cache = cache
        self._snapshots = snapshots
        self._threads = threads
        self.submit = threads.short
        self.submit_page = threads.page
        self.submit_scan = threads.long
        self._newest = newest
        self._items = items
        self._filling = PartitionLoader(
            storage, engine, cache, snapshots, model, in_memory=newest is not None
        )
        self._budget = budget
        self.retired = False
        """Whether the file was migrated to another model. Rows read from now on have
        vectors of that model."""
        self._locks: KeyLocks[Key] = KeyLocks()
        self._residents = LoadedPartitions()
        self._work = SharedWork(self._start)
        self._evicted = 0  # bytes, since the heap was last trimmed
        if snapshots is not None:
            snapshots.watch(self._held)

    def target(self, key: Key) -> Version | None | Future[Version | None]:
        """Return a partition's version as of now, or a future of it.

        Returns:
            None if there is no such partition. Pass the result of a future to
            `current`.
        """
        if self._newest is not None:
            return self.current(key, self._newest.get(key))
        future = self._storage.version_future(*key)
        if future is not None:
            return future
        return self.current(key, self._storage.version(*key))

    def current(self, key: Key, found: Version | None) -> Version | None:
        """Return a version that was found; drop a partition that does not exist."""
        if found is None and self._residents.get(key) is not None:
            self.synchronize(key)  # deleted by another process
        return found

    def loaded(self, key: Key, target: Version | None) -> LoadedPartition | None:
        """Return the partition's entry if the engine has it at `target`."""
        entry = self._residents.get(key)
        if entry is None or target is None or not entry.sound:
            return None
        part, seq, head = target
        if entry.part != part or entry.seq < seq:
            return None
        # An entry that is ahead may be of a lost history.
        return entry if entry.head == head else None

    def version_of(self, key: Key) -> Version | None:
        """Return what the engine has of a partition; None if it is not loaded."""
        entry = self._residents.get(key)
        return None if entry is None or not entry.sound else entry.version

    def holds(self, key: Key, entry: LoadedPartition, steps: int) -> bool:
        """Whether a partition did not change in the engine since `loaded` was called.

        Args:
            key: The partition.
            entry: The entry that `loaded` returned before the engine call.
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
        """Reload a partition from its rows before its next search."""
        _log.error("the engine had other rows than the file; they are loaded again")
        entry.sound = False

    def synchronize(self, key: Key) -> Future[None]:
        """Load a partition, or its new changes, on another thread.

        Concurrent callers share one run, which none of them can cancel. Afterwards each
        caller checks whether the run reached the change that it needs.

        Raises:
            ClosedError: The service was closed.
        """
        return self._work.ask(key)

    @contextmanager
    def moving(self, moved: Callable[[], bool]) -> Iterator[None]:
        """Prevent searches of partitions read without the vectors of their model.

        Args:
            moved: Returns whether the new model is active, and if so switches the
                service to it. Runs on reading threads; may wait for the writer thread.
        """
        self._filling.moving = moved
        try:
            yield
        finally:
            self._filling.moving = None

    def pinned(self, key: Key) -> AbstractContextManager[None]:
        """Prevent eviction of a partition during the block."""
        return self._residents.pinned(key)

    def publish(self, change: Change) -> None:
        """Apply a change of this process right after its commit, without blocking."""
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
        self.keep_to_budget()

    def rows(self, key: Key, rids: Sequence[int]) -> list[Row]:
        """Read the rows of a user that still exist from the file into the cache."""
        read_at = self._cache.now()
        with self._storage.read(*key) as reads:
            rows = [stored.row for stored in reads.load_rows(rids)]
        self._cache.put(rows, read_at)
        return rows

    @property
    def nbytes(self) -> int:
        """Bytes of all loaded partitions."""
        return self._residents.nbytes

    def _found(self, key: Key) -> Version | None:
        if self._newest is not None:
            return self._newest.get(key)
        return self._storage.version(*key)

    @contextmanager
    def _held(self, key: Key) -> Iterator[LoadedPartition | None]:
        """Hold a partition's lock; yield its entry, or None if it is not loaded."""
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
            # A database in memory is always loaded.
            self._engine.drop(key)
            entry = LoadedPartition(change.part, 0)
        # If another process wrote in between, the next search reads both changes.
        if entry.version != (change.part, change.seq_before, change.head_before):
            return
        try:
            self._filling.apply(key, entry, change.stored, change.removed)
            self._cache.put(change.marked)
        except BaseException:
            self._drop(key)  # possibly half applied: the next search reloads it
            raise
        entry.seq, entry.head = change.seq, change.head
        if not entry.rows and self._newest is None:
            self._drop(key)  # empty
            return
        changed = len(change.stored) + len(change.removed) + len(change.marked)
        self._count(key, entry, changed)
        self._residents.put(key, entry)

    def _start(self, key: Key, done: Done) -> None:
        self._threads.small_load(self._dispatch, key, done)

    def _dispatch(self, key: Key, done: Done) -> None:
        """Synchronize a small partition; hand a large one to its thread."""
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
        with self._storage.read(*key) as reads:
            state = reads.partition_state(found[0], *key)
        return state is not None and state.live > _LARGE

    def _run(self, key: Key, done: Done) -> None:
        try:
            with suppress(MovedModelError):  # the search starts again
                self._load_changes(key)
            self.keep_to_budget()
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
        """Update the entry of a changed partition; its lock is held."""
        nbytes = self._engine.nbytes_of(key) + _ENTRY_BYTES
        self._residents.resize(key, entry, nbytes)
        entry.unsaved += changes
        if self._snapshots is not None and changes:
            self._snapshots.schedule_if_stale(key, entry.unsaved, entry.rows)

    def _drop(self, key: Key) -> int:
        """Drop a partition; return its bytes. Its lock is held."""
        # The entry goes first: a search that still finds it after its engine call has
        # searched before the drop.
        entry = self._residents.take(key)
        self._engine.drop(key)
        return 0 if entry is None else entry.nbytes

    def evict_all(self) -> None:
        """Evict all partitions that are not in use, and the others after their use."""
        self.retired = True
        self._budget = 0
        for key in self._residents.keys() - self._residents.pins():
            self._evict(key)
        trim_heap()

    def _evict(self, key: Key) -> bool:
        """Drop a partition, unless its lock is held."""
        with self._locks.held_if_free(key) as free:
            if free:
                self._evicted += self._drop(key)
            return free

    def keep_to_budget(self) -> None:
        """Evict partitions and users' items that were not searched lately.

        Of the two, the one that takes more memory is evicted first.
        """
        while (excess := self._spent - self._budget) > 0:
            first, then = self._evict_items, self._evict_some
            if self.nbytes > self._item_bytes:
                first, then = then, first
            if not first(excess) and not then(excess):
                return
            if self._evicted > self._budget // _EVICTED_SHARE:
                self._evicted = 0
                trim_heap()

    @property
    def _item_bytes(self) -> int:
        return 0 if self._items is None or self.retired else self._items.nbytes

    @property
    def _spent(self) -> int:
        """Bytes that could be freed."""
        if self._newest is not None:
            return self._item_bytes  # a database in memory is memory as well
        return self.nbytes + self._cache.nbytes + self._item_bytes

    def _evict_items(self, excess: int) -> int:
        """Evict users' items; return the freed bytes."""
        freed = self._items.evict(excess) if self._item_bytes and self._items else 0
        self._evicted += freed
        return freed

    def _evict_some(self, excess: int) -> int:
        """Evict some partitions; return how many."""
        del excess  # their sizes are known when they are evicted
        if self._newest is not None:
            return 0
        in_use = self._residents.pins() | self._work.keys()
        swept = self._engine.sweep(_VICTIMS + len(in_use))
        return sum(self._evict(key) for key in swept if key not in in_use)
