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
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from operator import attrgetter
from pathlib import Path

import numpy as np

from vecall import store
from vecall._core import Engine
from vecall.concurrency.executor import Pool
from vecall.concurrency.locks import Done, KeyLocks, SharedWork
from vecall.concurrency.time_slices import Slices
from vecall.errors import ClosedError, CorruptFileError, VecallError
from vecall.index.item_index import ItemCache, ItemOwner
from vecall.index.row_cache import Key, NewestChanges, ReadThreads, RowCache, add_rows
from vecall.index.snapshots import LoadedPartition, LoadedPartitions, SnapshotCache
from vecall.system import trim_heap

# Loads a partition from the file into the engine, or only its new changes.

_log = logging.getLogger("vecall")

_RID, _ROW, _RID_OF_STORED = map(attrgetter, ("rid", "row", "row.rid"))
_LARGE = 1_000  # rows; more are loaded on the thread of large partitions
_MOST_ROWS = 128  # analysed at a time
_MOST_WORK = 16_000  # letters, likewise: half a millisecond
_WORK_OF_OTHERS = 10  # of a letter in a text that may be analysed in Python

Batches = Generator[list[store.RowWithVector], None, None]


def _batches_to_analyse(stored: Iterable[store.RowWithVector]) -> Batches:
    """Group rows by the work that the analysis of their texts may take."""
    batch = []
    work = 0
    for one in stored:
        batch.append(one)
        text = one.row.text
        work += len(text) if text.isascii() else _WORK_OF_OTHERS * len(text)
        if work >= _MOST_WORK or len(batch) == _MOST_ROWS:
            yield batch
            batch, work = [], 0
    if batch:
        yield batch


def read_batches_ahead(batches: Batches) -> Batches:
    """Yield batches; another thread reads the next one meanwhile.

    Close it before what the batches are read from.
    """
    with Pool(1, thread_name_prefix="vecall-ahead") as pool:
        batch = next(batches, None)
        while batch is not None:
            try:
                ahead = pool.submit(next, batches, None)
            except RuntimeError:  # no thread is available, or the process ends
                yield batch
                yield from batches
                return
            yield batch
            batch = ahead.result()


class MovedModelError(Exception):
    """The service migrated the file to another model while a partition was read."""


class PartitionLoader:
    """Fills the engine's partitions. The caller holds the partition's lock."""

    def __init__(
        self,
        storage: store.Storage,
        engine: Engine,
        cache: RowCache,
        snapshots: SnapshotCache | None,
        model: int | None,
        *,
        in_memory: bool,
    ) -> None:
        """Read from a file, or from a database in memory with a single connection."""
        self._storage = storage
        self._engine = engine
        self._cache = cache
        self._snapshots = snapshots
        self._model = model
        self._in_memory = in_memory
        self.moving: Callable[[], bool] | None = None
        """Set during a model migration: returns whether the new model is active, and if
        so switches the service to it."""
        self.refused = 0
        """The number of rows that the engine refused, see `add_rows`."""

    def _require_model(self) -> None:
        """Raise MovedModelError if the rows just read have vectors of another model."""
        # Call it after reading, and before a search can see the rows.
        if self.moving is not None and self.moving():
            raise MovedModelError

    def replay_changes(self, key: Key, entry: LoadedPartition) -> int | None:
        """Apply the new changes in the file; return the number of changed rows."""
        # None if the change log does not reach back.
        with self._storage.read(*key) as reads:
            newest = reads.partition_state(entry.part, *key)
            if newest is None:
                return None
            if (newest.seq, newest.head) == (entry.seq, entry.head):
                return 0
            if newest.seq <= entry.seq:
                return None  # of another history
            changed = reads.changed_since(*entry.version)
            if changed is None:
                return None
            stored = reads.load_rows(changed.written)
        self._cache.forget_rows(changed.written + changed.marked)
        replayed = self._apply_change_log(key, entry, changed, stored)
        if entry.rows != newest.live:
            return None
        self._require_model()
        entry.seq, entry.head = newest.seq, newest.head
        return replayed

    def fill(self, key: Key, entry: LoadedPartition, *, from_rows: bool) -> int | None:
        """Fill the engine's empty partition; return how many rows no snapshot has."""
        # None if the partition does not exist. With `from_rows` no snapshot is read.
        part = entry.part
        with self._storage.read(*key) as reads:
            newest = reads.partition_state(part, *key)
            if newest is None:
                # The user was deleted since the look-up, and may have a new partition.
                found = reads.version(*key)
                if found is None or found[0] == part:
                    reads.require_gone(*key)
                    return None
                entry.part = part = found[0]
                newest = reads.partition_state(part, *key)
            if newest is None:
                reads.require_gone(*key)
                return None
            # The read transaction fixes the state. Rows that other threads read from
            # here on are at least as new.
            self._cache.forget_partition(part)
            changed = None
            if not from_rows:
                changed = self._restore_snapshot(reads, key, entry, newest)
            rows_in_memory: list[store.RowWithVector] = []
            if changed is None:
                self._engine.drop(key)
                with closing(reads.load_partition(part)) as stored:
                    if self._in_memory:
                        # Before the only connection is released.
                        rows_in_memory = list(stored)
                    else:
                        is_large = newest.live > _LARGE
                        self.apply_rows(key, entry, stored, (), ahead=is_large)
        if rows_in_memory:
            self.apply_rows(key, entry, rows_in_memory, ())
        if entry.rows != newest.live:
            raise CorruptFileError(
                "the file is damaged: a user has another number of memories than the "
                "file says; `vecall doctor` says more"
            )
        self._require_model()
        entry.seq, entry.head = newest.seq, newest.head
        # Rows that were not read from a snapshot are unsaved.
        return newest.live if changed is None else changed

    def _restore_snapshot(
        self,
        reads: store.StorageReads,
        key: Key,
        entry: LoadedPartition,
        newest: store.PartitionState,
    ) -> int | None:
        """Load a partition from its snapshot and the changes since; return how many."""
        # None without a usable snapshot.
        if self._snapshots is None or newest.snap is None:
            return None
        part = entry.part
        tag = self._snapshots.restore_snapshot(key, part, newest.seq, newest.snap)
        if tag is None:
            return None
        changed = self._changes_since_snapshot(reads, tag, newest)
        if changed is None:
            return None
        stored = reads.load_rows(changed.written)
        replayed = self._apply_change_log(key, entry, changed, stored)
        if entry.rows != newest.live:
            self._snapshots.reject_snapshot(part, "differs from the file")
            return None
        return replayed

    def _apply_change_log(
        self,
        key: Key,
        entry: LoadedPartition,
        changed: store.ChangedRows,
        stored: Sequence[store.RowWithVector],
    ) -> int:
        """Apply changes of the log; return how many rows they changed."""
        present = {item.row.rid for item in stored}
        removed = [rid for rid in changed.written if rid not in present]
        self.apply_rows(key, entry, stored, removed)
        return len(changed.written) + len(changed.marked)

    @staticmethod
    def _changes_since_snapshot(
        reads: store.StorageReads, tag: store.SnapshotTag, newest: store.PartitionState
    ) -> store.ChangedRows | None:
        """Return the changes since a snapshot; None if its state is not in the log."""
        if tag.seq == newest.seq:
            return store.ChangedRows([], []) if tag.head == newest.head else None
        return reads.changed_since(tag.part, tag.seq, tag.head)

    def apply_rows(
        self,
        key: Key,
        entry: LoadedPartition,
        stored: Iterable[store.RowWithVector],
        removed: Sequence[int],
        *,
        ahead: bool = False,
    ) -> None:
        """Change the engine's rows. A failure sets `entry.sound` to False.

        With `ahead`, rows are read while the engine takes those before.
        """
        entry.steps += 1
        refused = 0
        try:
            if removed:
                self._engine.remove(key, np.fromiter(removed, np.int64, len(removed)))
            slices = Slices()
            grouped = _batches_to_analyse(stored)
            with closing(read_batches_ahead(grouped) if ahead else grouped) as batches:
                for batch in batches:
                    refused += add_rows(self._engine, key, batch, self._model)
                    self._cache.put_rows(map(_ROW, batch))
                    slices.pause_if_due()
        except BaseException:
            entry.sound = False  # an unknown part of the change was applied
            raise
        finally:
            entry.rows = self._engine.size(key)
            entry.steps += 1
        if refused:
            self.refused += refused
            _log.error(
                "%d memories of a user have vectors that cannot be searched; `vecall "
                "doctor` says more",
                refused,
            )


_ENTRY_BYTES = 3_000  # per partition outside the engine, measured
_EVICTED_SHARE = 8  # an eighth of the budget is freed at a time
_VICTIMS = 8  # partitions to evict per look-up


class PartitionCache:
    """Loads partitions into the engine, and applies changes of the file to them."""

    def __init__(
        self,
        storage: store.Storage,
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
        """Start with nothing loaded; `newest` is that of a database in memory."""
        # Engine, cache and items share the budget, in bytes.
        self._storage = storage
        self._engine = engine
        self._cache = cache
        self._snapshots = snapshots
        self._threads = threads
        self.submit = threads.short
        self.submit_page = threads.run_page_read
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
        self.pinned = self._residents.pin_partition
        self._work = SharedWork(self._start_loading)
        self._evicted = 0  # bytes, since the heap was last trimmed
        if snapshots is not None:
            snapshots.watch_partitions(self._held_entry)

    def target(self, key: Key) -> store.Version | None | Future[store.Version | None]:
        """Return a partition's version as of now; None if there is no such partition.

        Pass the result of a future to `current`.
        """
        if self._newest is not None:
            found: store.Version | None | Future[store.Version | None] = (
                self._newest.newest_version(key)
            )
        else:
            found = self._storage.newest(*key)
        return self.current(key, None) if found is None else found

    def current(self, key: Key, found: store.Version | None) -> store.Version | None:
        """Return a version that was found; drop a partition that does not exist."""
        if found is None and self._residents.get(key) is not None:
            self.synchronize_partition(key)  # deleted by another process
        return found

    def loaded(self, key: Key, target: store.Version | None) -> LoadedPartition | None:
        """Return the partition's entry if the engine has it at `target`."""
        entry = self._residents.get(key)
        if entry is None or target is None or not entry.sound:
            return None
        part, seq, head = target
        if entry.part != part or entry.seq < seq:
            return None
        # An entry that is ahead may be of a lost history.
        return entry if entry.head == head else None

    def version_of(self, key: Key) -> store.Version | None:
        """Return what the engine has of a partition; None if it is not loaded."""
        entry = self._residents.get(key)
        return None if entry is None or not entry.sound else entry.version

    def holds_unchanged(self, key: Key, entry: LoadedPartition, steps: int) -> bool:
        """Whether a partition did not change in the engine since `loaded` was called.

        It returned the entry, whose `steps` were these.
        """
        if self._residents.get(key) is not entry:
            return False
        rows = self._engine.size(key)
        if rows == entry.rows or entry.steps != steps or steps % 2:
            return True
        if self._residents.get(key) is not entry:
            return False  # evicted since
        self.distrust_partition(entry)
        return False

    def distrust_partition(self, entry: LoadedPartition) -> None:
        """Reload a partition from its rows before its next search."""
        _log.error("the engine had other rows than the file; they are loaded again")
        entry.sound = False

    def synchronize_partition(self, key: Key) -> Future[None]:
        """Load a partition, or its new changes, on another thread."""
        # Concurrent callers share one run, which none of them can cancel. Afterwards
        # each caller checks whether the run reached the change that it needs.
        return self._work.ask_for_run(key)

    @contextmanager
    def prevent_searches(self, moved: Callable[[], bool]) -> Iterator[None]:
        """Prevent searches of partitions read without the vectors of their model."""
        # `moved` is `PartitionLoader.moving`; it runs on reading threads and may wait
        # for the writer thread.
        self._filling.moving = moved
        try:
            yield
        finally:
            self._filling.moving = None

    def publish_change(self, change: store.Change) -> None:
        """Apply a change of this process right after its commit, without blocking."""
        if self._newest is not None:
            self._newest.note_change(change)
        elif change.seq == change.seq_before and not change.forgotten:
            return  # no memory has changed: of items alone, for example
        written = map(_RID_OF_STORED, change.stored)
        self._cache.forget_rows([*change.removed, *written, *map(_RID, change.marked)])
        key = (change.app, change.user)
        with self._locks.hold_lock_if_free(key) as free:
            if free:
                self._apply_change(key, change)
        if not free and (self._residents.get(key) or self._work.is_key_running(key)):
            with suppress(ClosedError):
                self._work.ask_for_run(key, afresh=True)
        self.keep_to_budget()

    def read_rows(self, key: Key, rids: Sequence[int]) -> list[store.Row]:
        """Read the rows of a user that still exist from the file into the cache."""
        read_at = self._cache.moment_of_read()
        with self._storage.read(*key) as reads:
            rows = [stored.row for stored in reads.load_rows(rids)]
        self._cache.put_rows(rows, read_at)
        return rows

    @property
    def nbytes(self) -> int:
        """Bytes of all loaded partitions."""
        return self._residents.nbytes

    def _newest_version(self, key: Key) -> store.Version | None:
        if self._newest is not None:
            return self._newest.newest_version(key)
        return self._storage.version(*key)

    @contextmanager
    def _held_entry(self, key: Key) -> Iterator[LoadedPartition | None]:
        """Hold a partition's lock; yield its entry, or None if it is not loaded."""
        with self._locks.hold_lock(key):
            yield self._residents.get(key)

    def _apply_change(self, key: Key, change: store.Change) -> None:
        """Apply a change of this process; the partition's lock is held."""
        if change.forgotten:
            self._drop_partition(key)
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
            self._filling.apply_rows(key, entry, change.stored, change.removed)
            if change.marked:
                self._cache.put_rows(change.marked)
        except BaseException:
            self._drop_partition(key)  # half applied: the next search reloads it
            raise
        entry.seq, entry.head = change.seq, change.head
        if not entry.rows and self._newest is None:
            self._drop_partition(key)  # empty
            return
        changed = len(change.stored) + len(change.removed) + len(change.marked)
        self._count_changes(key, entry, changed)
        self._residents.add_loaded_partition(key, entry)

    def _start_loading(self, key: Key, done: Done) -> None:
        self._threads.run_small_load(self._load_on_its_thread, key, done)

    def _load_on_its_thread(self, key: Key, done: Done) -> None:
        """Synchronize a small partition; hand a large one to its thread."""
        try:
            if self._is_large_partition(key):
                self._threads.run_large_load(self._load_and_tell, key, done)
                return
        except BaseException as error:
            done(error)
            raise
        self._load_and_tell(key, done)

    def _is_large_partition(self, key: Key) -> bool:
        entry = self._residents.get(key)
        if entry is not None:
            return entry.rows > _LARGE
        found = self._newest_version(key)
        if found is None or found[1] <= _LARGE:  # each row took a change
            return False
        with self._storage.read(*key) as reads:
            state = reads.partition_state(found[0], *key)
        return state is not None and state.live > _LARGE

    def _load_and_tell(self, key: Key, done: Done) -> None:
        try:
            with suppress(MovedModelError):  # the search starts again
                self._load_partition_changes(key)
            self.keep_to_budget()
        except BaseException as error:
            done(error)
            raise
        done(None)

    def _load_partition_changes(self, key: Key) -> None:
        with self._locks.hold_lock(key):
            found = self._newest_version(key)
            if found is None:
                self._drop_partition(key)
                return
            entry = self._residents.get(key)
            if entry is None or not entry.sound or entry.part != found[0]:
                doubted = entry is not None and not entry.sound
                self._load_partition(key, found[0], from_rows=doubted)
                return
            try:
                replayed = self._filling.replay_changes(key, entry)
            except MovedModelError:
                self._drop_partition(key)
                raise
            if replayed is None:
                self._load_partition(key, found[0])
            elif replayed:
                self._count_changes(key, entry, replayed)

    def _load_partition(self, key: Key, part: int, *, from_rows: bool = False) -> None:
        self._drop_partition(key)
        entry = LoadedPartition(part, 0)
        try:
            unsaved = self._filling.fill(key, entry, from_rows=from_rows)
        except BaseException:
            self._engine.drop(key)
            raise
        if unsaved is not None:
            self._count_changes(key, entry, unsaved)
            self._residents.add_loaded_partition(key, entry)

    def _count_changes(self, key: Key, entry: LoadedPartition, changes: int) -> None:
        """Update the entry of a changed partition; its lock is held."""
        nbytes = self._engine.nbytes_of(key) + _ENTRY_BYTES
        self._residents.resize_partition(key, entry, nbytes)
        entry.unsaved += changes
        if self._snapshots is not None and changes:
            self._snapshots.schedule_if_stale(key, entry.unsaved, entry.rows)

    def _drop_partition(self, key: Key) -> int:
        """Drop a partition; return its bytes. Its lock is held."""
        # The entry goes first: a search that still finds it after its engine call has
        # searched before the drop.
        entry = self._residents.pop_loaded_partition(key)
        self._engine.drop(key)
        return 0 if entry is None else entry.nbytes

    def evict_all(self) -> None:
        """Evict all partitions that are not in use, and the others after their use."""
        self.retired = True
        self._budget = 0
        for key in self._residents.loaded_keys() - self._residents.pinned_partitions():
            self._evict_if_free(key)
        trim_heap()

    def _evict_if_free(self, key: Key) -> bool:
        """Drop a partition, unless its lock is held."""
        with self._locks.hold_lock_if_free(key) as free:
            if free:
                self._evicted += self._drop_partition(key)
            return free

    def keep_to_budget(self) -> None:
        """Evict partitions and users' items that were not searched lately."""
        # Of the two, the one that takes more memory is evicted first.
        while (excess := self._freeable_bytes - self._budget) > 0:
            first, then = self._evict_items, self._evict_partitions
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
    def _freeable_bytes(self) -> int:
        """Bytes that could be freed."""
        if self._newest is not None:
            return self._item_bytes  # a database in memory is memory as well
        return self._residents.nbytes + self._cache.nbytes + self._item_bytes

    def _evict_items(self, excess: int) -> int:
        """Evict users' items; return the freed bytes."""
        freed = self._items.evict(excess) if self._item_bytes and self._items else 0
        self._evicted += freed
        return freed

    def _evict_partitions(self, excess: int) -> int:
        """Evict some partitions; return how many."""
        del excess  # their sizes are known when they are evicted
        if self._newest is not None:
            return 0
        in_use = self._residents.pinned_partitions() | self._work.running_keys()
        swept = self._engine.sweep(_VICTIMS + len(in_use))
        return sum(self._evict_if_free(key) for key in swept if key not in in_use)


# Loads every user as a search does, and says what a search would meet.

_AT_ONCE = 1_000
_ABOUT = "loading"


def examine_storage(path: Path | str) -> list[store.Finding]:
    """Check a file, or the database of a URL, and whether all users can be searched."""
    # It changes nothing. ConfigError and StorageError say why nothing can be read.
    found = (
        store.examine_database(path) if isinstance(path, str) else store.examine(path)
    )
    is_newest = any(each.about == "schema" and each.level == "ok" for each in found)
    return [*found, _examine_loading(path)] if is_newest else found


def require_undamaged_copy(path: Path) -> None:
    """Raise CorruptFileError if a copy of a file is damaged, on any file system."""
    found = store.examine(path)
    if any(each.about == "schema" and each.level == "ok" for each in found):
        found.append(_examine_loading(path, anywhere=True))
    for each in found:
        if each.level == "error" and each.about != "path":
            raise CorruptFileError(f"the copy is damaged: {each.about}: {each.message}")


def _examine_loading(path: Path | str, *, anywhere: bool = False) -> store.Finding:
    log = logging.getLogger("vecall")
    was_disabled, log.disabled = log.disabled, True  # it says below what was found
    try:
        storage = store.open_storage(
            path, "full", read_only=True, allow_network_filesystem=anywhere
        )
        try:
            return _loaded_partitions_finding(storage)
        finally:
            storage.close()
    except VecallError as error:
        message = f"not examined: {str(error).removeprefix('path: ')}"
        return store.Finding("error", _ABOUT, message)
    finally:
        log.disabled = was_disabled


def _loaded_partitions_finding(storage: store.Storage) -> store.Finding:
    with storage.read() as reads:
        model = reads.active_model()
    engine = Engine(0 if model is None else model.dim)
    number = None if model is None else model.id
    loader = PartitionLoader(
        storage, engine, RowCache(0), None, number, in_memory=False
    )
    users = unreadable = items_refused = 0
    for names in _all_partitions(storage):
        if names.app == store.HIDDEN_APP:  # deleted, and its name as well
            continue
        users += 1
        key = (names.app, names.user)
        try:
            loader.fill(key, LoadedPartition(names.part, 0), from_rows=True)
            items_refused += _refused_items_of_user(storage, key)
        except VecallError:
            unreadable += 1
        engine.drop(key)
    if unreadable:
        message = f"{unreadable} of {users} users cannot be searched"
        return store.Finding("error", _ABOUT, message)
    refused = loader.refused + items_refused
    if refused:
        message = (
            f"{refused} memories or items have vectors without a direction; only words "
            "and lists find them: write them again"
        )
        return store.Finding("warning", _ABOUT, message)
    return store.Finding("ok", _ABOUT, f"{users} users can be searched")


def _all_partitions(storage: store.Storage) -> Iterator[store.PartitionNames]:
    after = 0
    while True:
        with storage.read() as reads:
            page = reads.partitions_after(after, _AT_ONCE)
        yield from page
        if len(page) < _AT_ONCE:
            return
        after = page[-1].part


def _refused_items_of_user(storage: store.Storage, key: tuple[str, str]) -> int:
    """Search the items of a user once; return how many the engine refuses."""
    owner = ItemOwner(0)
    with storage.read(*key) as reads:
        state = reads.item_state(*key)
        if state is None or not state.dim:
            return 0
        query = np.zeros(state.dim, np.float32)
        query[0] = 1.0
        names = owner.namespaces_between(reads, state, "", None)
        owner.nearest_items(reads, state, names, query, 1, lambda _: True)
    return owner.refused
