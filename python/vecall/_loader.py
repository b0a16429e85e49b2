"""Brings partitions from the file into the engine, and keeps them in step with it.

A partition is loaded when it is first searched, from its snapshot if there is a valid
one, else from its rows. Afterwards every search compares the partition's newest change
in the file with the newest that the engine has: a write of this process is applied as
it is committed, a write of another process is read from the change log before the
search goes on. Reading and text analysis run on the loader's own threads. When the
budget is used up, partitions that nobody asked lately are dropped.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import ParamSpec, TypeVar

import numpy as np

from vecall._allocator import give_back
from vecall._core import Engine
from vecall._engine_rows import Key, add_rows
from vecall._row_cache import RowCache
from vecall._snapshots import Snapshots
from vecall.errors import ClosedError, CorruptFileError
from vecall.slices import Slices
from vecall.store import (
    Change,
    Connection,
    Database,
    PartitionState,
    Row,
    StoredRow,
    changed_since,
    load_partition,
    load_rows,
    partition_state,
    require_gone,
)

P = ParamSpec("P")
T = TypeVar("T")

_SLICE = 16  # rows analysed at a time, in half a millisecond
_THREADS = 2  # so that a small partition need not wait for a large one
_ENTRY_BYTES = 3_000  # of a partition beside what the engine counts, measured
_EVICTED_SHARE = 8  # one part in so many of the budget is given back at a time
_VICTIMS = 8  # partitions looked for at a time when memory is short


@dataclass(slots=True, eq=False)
class Loaded:
    """How far the engine is for one partition."""

    part: int
    seq: int
    nbytes: int = 0
    unsaved: int = 0  # changes since its snapshot
    lock: threading.Lock = field(default_factory=threading.Lock)


class Loader:
    """Keeps the engine in step with the file."""

    def __init__(
        self,
        database: Database,
        engine: Engine,
        cache: RowCache,
        snapshots: Snapshots | None,
        *,
        model: int | None,
        budget: int,
    ) -> None:
        """Start with nothing loaded.

        Args:
            database: The file.
            engine: An empty engine.
            cache: Texts of rows.
            snapshots: Where partitions are kept beside the file, if anywhere.
            model: The model whose vectors the engine takes.
            budget: Bytes for the engine and the cache together.
        """
        self._database = database
        self._engine = engine
        self._cache = cache
        self._snapshots = snapshots
        self._model = model
        self._budget = budget
        self._in_memory = database.path is None
        self._mutex = threading.Lock()  # for the following
        self._loaded: dict[Key, Loaded] = {}
        self._reading: dict[Key, Future[None]] = {}
        self._pinned: Counter[Key] = Counter()  # searched by somebody who has to wait
        self._bytes = 0
        self._evicted = 0  # bytes, since the allocator was asked to give them back
        self._broken: set[Key] = set()  # to be loaded though nothing is new
        if snapshots is not None:
            snapshots.watch(self._loaded.get)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="vecall-loader")

    def submit(
        self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> Future[T]:
        """Run something that reads the file on one of the loader's threads.

        Raises:
            ClosedError: The service was closed.
        """
        try:
            return self._threads.submit(work, *args, **kwargs)
        except RuntimeError:
            msg = "the memory service is closed"
            raise ClosedError(msg) from None

    def target(self, key: Key) -> tuple[int, int] | None:
        """Return a partition's number and its newest change, as of now.

        Returns:
            None if there is no such partition.
        """
        if self._in_memory and key not in self._broken:
            loaded = self._loaded.get(key)
            if loaded is not None:  # every change is published
                return loaded.part, loaded.seq
        found = self._database.partition(*key)
        if found is None and key in self._loaded:
            self.catch_up(key, None)  # forgotten by another process: by this one too
        return found

    def loaded(self, key: Key, target: tuple[int, int] | None) -> Loaded | None:
        """Return the partition's entry if the engine has it as `target` says.

        An answer of the engine counts if the entry is the same before and after it was
        asked: then the partition was there all the time.
        """
        loaded = self._loaded.get(key)
        if loaded is None or target is None:
            return None
        part, seq = target
        return loaded if loaded.part == part and loaded.seq >= seq else None

    def catch_up(self, key: Key, target: tuple[int, int] | None) -> Future[None]:
        """Read a partition, or what is new in it, on another thread.

        Several who ask at the same time wait for one reading; whether it went as far
        as they need is for them to look at afterwards.
        """
        with self._mutex:
            future = self._reading.get(key)
            if future is None:
                part = None if target is None else target[0]
                future = self.submit(self._catch_up, key, part)
                self._reading[key] = future
            return future

    @contextmanager
    def pinned(self, key: Key) -> Iterator[None]:
        """Keep a partition from being evicted before it was searched."""
        with self._mutex:
            self._pinned[key] += 1
        try:
            yield
        finally:
            with self._mutex:
                self._pinned[key] -= 1
                if not self._pinned[key]:
                    del self._pinned[key]

    def publish(self, change: Change) -> None:
        """Apply a change of this process, right after its commit."""
        self._cache.forget(change.removed)
        self._cache.forget(entry.row.rid for entry in change.stored)
        self._cache.forget(row.rid for row in change.marked)
        key = (change.app, change.user)
        if change.forgotten:
            self._evict(key)
            return
        loaded = self._loaded.get(key)
        if loaded is None and self._in_memory and change.part and not change.seq_before:
            # Without a file there is nothing to be lazy about, and a load would hold
            # the only connection while it analyses texts.
            loaded = self._loaded[key] = Loaded(change.part, 0)
        if loaded is None:
            return
        with loaded.lock:
            # Where another process wrote in between, the next search reads both.
            if loaded.seq != change.seq_before or self._loaded.get(key) is not loaded:
                return
            try:
                self._apply(key, change.stored, change.removed)
                self._cache.put(change.marked)
            except BaseException:
                # Half applied is not known: the next search loads it afresh.
                self._broken.add(key)
                self._forget(key)
                raise
            loaded.seq = change.seq
            self._count(
                key,
                loaded,
                len(change.stored) + len(change.removed) + len(change.marked),
            )
        if not (self._in_memory or self._engine.size(key)):
            self._evict(key)  # nothing is left to be searched
        self._make_room()

    def rows(self, rids: Sequence[int]) -> list[Row]:
        """Read rows from the file into the cache, without those that are gone."""
        read_at = self._cache.now()
        with self._database.snapshot() as connection:
            rows = [stored.row for stored in load_rows(connection, rids)]
        self._cache.put(rows, read_at)
        return rows

    @property
    def nbytes(self) -> int:
        """Bytes of all loaded partitions."""
        return self._bytes

    def close(self) -> None:
        """Finish what waits and end the threads."""
        self._threads.shutdown(wait=True)

    def _catch_up(self, key: Key, part: int | None) -> None:
        try:
            loaded = self._loaded.get(key)
            if part is None:
                self._evict(key)
            elif loaded is None or loaded.part != part or not self._replay(key, loaded):
                self._load(key, part)
            self._make_room()
        finally:
            with self._mutex:
                self._reading.pop(key, None)

    def _replay(self, key: Key, loaded: Loaded) -> bool:
        """Apply what is new in the file; False if the log does not reach back."""
        with loaded.lock:
            if self._loaded.get(key) is not loaded:
                return False  # evicted meanwhile
            with self._database.snapshot() as connection:
                newest = partition_state(connection, loaded.part, *key)
                if newest is None:
                    return False
                seq = newest.seq
                if seq <= loaded.seq:
                    return True
                changed = changed_since(connection, loaded.part, loaded.seq)
                if changed is None:
                    return False
                rids = changed.written
                stored = load_rows(connection, rids)
            there = {entry.row.rid for entry in stored}
            self._cache.forget(rids + changed.marked)
            try:
                self._apply(key, stored, [rid for rid in rids if rid not in there])
            except BaseException:
                self._forget(key)
                raise
            loaded.seq = seq
            self._count(key, loaded, len(rids) + len(changed.marked))
            return self._engine.size(key) == newest.live

    def _load(self, key: Key, part: int) -> None:
        self._evict(key)
        # From here on nobody else touches the engine's partition: one reading a key,
        # and what is not in `_loaded` is neither published to nor evicted.
        self._engine.drop(key)
        with self._database.snapshot() as connection:
            newest = partition_state(connection, part, *key)
            if newest is None:
                require_gone(connection, *key)
                return
            # Now that the state is fixed which is read: rows that somebody else reads
            # from here on are as new or newer.
            self._cache.forget_partition(part)
            changed = self._restore(connection, key, part, newest)
            if changed is None:
                self._engine.drop(key)
                self._apply(key, load_partition(connection, part), ())
        if self._engine.size(key) != newest.live:
            self._engine.drop(key)
            msg = (
                "the file is damaged: a user has another number of memories than the "
                "file says; `vecall doctor` says more"
            )
            raise CorruptFileError(msg)
        loaded = Loaded(part, newest.seq)
        # What is read from rows has no snapshot yet; all of it is unsaved.
        unsaved = newest.live if changed is None else changed
        with loaded.lock:
            self._loaded[key] = loaded
            self._broken.discard(key)
            self._count(key, loaded, unsaved)

    def _restore(
        self,
        connection: Connection,
        key: Key,
        part: int,
        newest: PartitionState,
    ) -> int | None:
        """Load a partition from its snapshot and what changed since.

        Returns:
            How many rows changed; None if there is no snapshot that can be used.
        """
        if self._snapshots is None or newest.snap is None:
            return None
        since = self._snapshots.restore(key, part, newest.seq, newest.snap)
        if since is None:
            return None
        rids: list[int] = []
        marked = 0
        if since != newest.seq:
            changed = changed_since(connection, part, since)
            if changed is None:
                return None
            rids, marked = changed.written, len(changed.marked)
        stored = load_rows(connection, rids)
        there = {entry.row.rid for entry in stored}
        self._apply(key, stored, [rid for rid in rids if rid not in there])
        if self._engine.size(key) != newest.live:
            return None  # not what the file says, so rows it is
        return len(rids) + marked

    def _apply(
        self, key: Key, stored: Iterable[StoredRow], removed: Sequence[int]
    ) -> None:
        if removed:
            self._engine.remove(key, np.fromiter(removed, np.int64, len(removed)))
        entries = iter(stored)
        slices = Slices()
        while some := list(islice(entries, _SLICE)):
            add_rows(self._engine, key, some, self._model)
            self._cache.put(entry.row for entry in some)
            slices.pause_if_due()

    def _count(self, key: Key, loaded: Loaded, changes: int) -> None:
        """Take stock of a partition that has changed; its lock is held."""
        nbytes = self._engine.nbytes_of(key) + _ENTRY_BYTES
        with self._mutex:
            self._bytes += nbytes - loaded.nbytes
            loaded.nbytes = nbytes
        loaded.unsaved += changes
        if self._snapshots is not None and changes:
            self._snapshots.consider(key, loaded, self._engine.size(key))

    def _forget(self, key: Key) -> None:
        """Take a partition off the books, so that the next search loads it."""
        with self._mutex:
            loaded = self._loaded.pop(key, None)
            if loaded is not None:
                self._bytes -= loaded.nbytes
                loaded.nbytes = 0

    def _evict(self, key: Key) -> None:
        loaded = self._loaded.get(key)
        if loaded is None:
            return
        with loaded.lock:
            if self._loaded.get(key) is loaded:
                self._evicted += loaded.nbytes
                # In this order: whoever still finds the entry after asking the engine
                # has asked it before the partition was dropped.
                self._forget(key)
                self._engine.drop(key)

    def _make_room(self) -> None:
        """Drop what nobody asked lately until the budget is kept."""
        if self._in_memory:
            return  # the file is memory as well
        while self._bytes + self._cache.nbytes > self._budget:
            with self._mutex:
                kept = self._pinned.keys() | self._reading.keys()
            victims = [
                key
                for key in self._engine.sweep(_VICTIMS + len(kept))
                if key in self._loaded and key not in kept
            ]
            if not victims:
                return
            for key in victims:
                self._evict(key)
            if self._evicted > self._budget // _EVICTED_SHARE:
                self._evicted = 0
                give_back()
