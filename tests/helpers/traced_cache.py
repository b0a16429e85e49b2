"""The loader's own books, which note each use that a thread makes of them.

Together with the parts of `scheduled_parts` they hold all that the threads of a run
share. If `fine`, each use is a point as well, so that others may go on before it.
"""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Iterable, Iterator
from typing import Any

import pytest
from vecall._core import Engine
from vecall.concurrency import locks as _key_locks
from vecall.concurrency import locks as _shared_work
from vecall.concurrency.locks import SharedWork
from vecall.index import partition_cache as _loader
from vecall.index import row_cache as _read_threads
from vecall.index import row_cache as _row_cache
from vecall.index import snapshots as _resident
from vecall.index import snapshots as _snapshots
from vecall.index.partition_cache import PartitionCache
from vecall.index.row_cache import Key, RowCache
from vecall.index.snapshots import LoadedPartition, LoadedPartitions, SnapshotCache
from vecall.search import search_index as _serving
from vecall.search.search_index import SearchIndex, Use
from vecall.store import Row
from vecall.store.file.filesystem import SnapshotFolder

from helpers.scheduled_parts import (
    Locks,
    NamedKeyLocks,
    ScheduledEngine,
    ScheduledFuture,
    ScheduledPool,
    ShortKeyLocks,
)
from helpers.scheduler import Mode, Scheduler

_ALL = "all"


class TracedDict(dict[Any, Any]):
    """A dictionary that notes which of its keys are used."""

    def __init__(self, watch: Watch, kind: str) -> None:
        """Begin empty."""
        super().__init__()
        self._watch = watch
        self._name = watch.scheduler.name(kind)

    def _use(self, key: Any, mode: Mode) -> None:
        self._watch.use((self._name, key), mode)
        if mode == "w":
            self._watch.note((self._name, _ALL), "c")

    def get(self, key: Any, default: Any = None) -> Any:
        self._use(key, "r")
        return super().get(key, default)

    def __contains__(self, key: Any) -> bool:
        self._use(key, "r")
        return super().__contains__(key)

    def __getitem__(self, key: Any) -> Any:
        self._use(key, "r")
        return super().__getitem__(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._use(key, "w")
        super().__setitem__(key, value)

    def __delitem__(self, key: Any) -> None:
        self._use(key, "w")
        super().__delitem__(key)

    def pop(self, key: Any, *default: Any) -> Any:
        self._use(key, "w")
        return super().pop(key, *default)

    def __iter__(self) -> Iterator[Any]:
        self._watch.use((self._name, _ALL), "r")
        return super().__iter__()

    def keys(self) -> Any:
        self._watch.use((self._name, _ALL), "r")
        return super().keys()


class Watch:
    def __init__(self, scheduler: Scheduler, *, fine: bool) -> None:
        self.scheduler = scheduler
        self._fine = fine
        self.folder: type[SnapshotFolder] = SnapshotFolder

    def note(self, what: Hashable, mode: Mode) -> None:
        self.scheduler.use(what, mode)

    def use(self, what: Hashable, mode: Mode) -> None:
        if self._fine and self.scheduler.is_running:
            self.scheduler.point()
        self.scheduler.use(what, mode)

    def attributes(self, cls: type, names: frozenset[str]) -> type:
        """Return a class of which some attributes are noted."""
        watch = self
        known: dict[int, tuple[Any, Hashable]] = {}

        def id_of(what: Any) -> Hashable:
            found = known.get(id(what))
            if found is None or found[0] is not what:
                found = known[id(what)] = (what, watch.scheduler.name(cls.__name__))
            return found[1]

        class Traced(cls):  # type: ignore[misc]
            __hash__ = object.__hash__

            def __getattribute__(self, name: str) -> Any:
                if name in names:
                    watch.use((id_of(self), name), "r")
                return super().__getattribute__(name)

            def __setattr__(self, name: str, value: Any) -> None:
                if name in names:
                    watch.use((id_of(self), name), "w")
                super().__setattr__(name, value)

        return Traced

    def residents(self, *, has_budget: bool) -> type[LoadedPartitions]:
        """Return the books of a loader."""
        watch = self

        class Pins(weakref.WeakSet[Any]):
            name = watch.scheduler.name("pins")

            def add(self, item: Any) -> None:
                watch.use(self.name, "c")
                super().add(item)

            def discard(self, item: Any) -> None:
                watch.use(self.name, "c")
                super().discard(item)

            def __iter__(self) -> Iterator[Any]:
                watch.use(self.name, "r")
                return super().__iter__()

        class TracedResidents(LoadedPartitions):
            def __init__(self) -> None:
                super().__init__()
                self._entries = TracedDict(watch, "entries")
                self.get = self._entries.get
                self._pins = Pins()

            def _count(self, mode: Mode) -> None:
                if has_budget:
                    watch.note(("bytes", id(self)), mode)

            @property
            def nbytes(self) -> int:
                self._count("r")
                return self._nbytes

            @nbytes.setter
            def nbytes(self, nbytes: int) -> None:
                self._nbytes = nbytes

            def add_loaded_partition(self, key: Key, entry: LoadedPartition) -> None:
                self._count("c")
                super().add_loaded_partition(key, entry)

            def resize_partition(
                self, key: Key, entry: LoadedPartition, nbytes: int
            ) -> None:
                self._count("c")
                super().resize_partition(key, entry, nbytes)

            def pop_loaded_partition(self, key: Key) -> LoadedPartition | None:
                self._count("c")
                return super().pop_loaded_partition(key)

        return TracedResidents

    def cache(self, first_part: int, *, has_budget: bool) -> type[RowCache]:
        """Return the texts; what is done with two partitions commutes."""
        watch = self

        class TracedCache(RowCache):
            def _use(self, rids: Iterable[int], mode: Mode) -> None:
                if has_budget:  # which text goes next depends on all that was done
                    watch.use("texts", "w")
                for part in sorted({rid >> 32 for rid in rids}):
                    watch.use(("texts of", part - first_part), mode)

            def get_rows(self, rids: Iterable[int]) -> list[Row | None]:
                rids = list(rids)
                self._use(rids, "r")
                return super().get_rows(rids)

            def moment_of_read(self) -> int:
                watch.use("moment", "r")
                return super().moment_of_read()

            def put_rows(self, rows: Iterable[Row], read_at: int | None = None) -> None:
                rows = list(rows)
                self._use([row.rid for row in rows], "w")
                super().put_rows(rows, read_at)

            def forget_rows(self, rids: Iterable[int]) -> None:
                rids = list(rids)
                self._use(rids, "w")
                watch.note("moment", "c")
                super().forget_rows(rids)

            def forget_partition(self, part: int) -> None:
                self._use([part << 32], "w")
                watch.note("moment", "c")
                super().forget_partition(part)

            def clear_rows(self) -> None:
                watch.use("all texts", "w")
                super().clear_rows()

            @property
            def nbytes(self) -> int:
                if has_budget:
                    watch.use("texts", "r")
                return self._nbytes

            @nbytes.setter
            def nbytes(self, nbytes: int) -> None:
                self._nbytes = nbytes

        return TracedCache


class ScheduledFolder(SnapshotFolder):
    """Snapshots beside the file; others may go on before one is read or written."""

    scheduler: Scheduler
    first_part: int

    def _point(self, part: int, mode: Mode) -> None:
        self.scheduler.point()
        self.scheduler.use(("snapshot", part - self.first_part), mode)

    def read_snapshot(self, part: int) -> Any:
        self._point(part, "r")
        return super().read_snapshot(part)

    def write_snapshot(self, part: int, data: Any) -> None:
        self._point(part, "w")
        super().write_snapshot(part, data)

    def remove_snapshot(self, part: int) -> None:
        self._point(part, "w")
        super().remove_snapshot(part)


def watch(
    scheduler: Scheduler,
    patched: pytest.MonkeyPatch,
    first_part: int,
    *,
    fine: bool,
    has_budget: bool,
) -> Watch:
    """Replace what a `SearchIndex` makes by what notes its uses, until the run ends.

    Args:
        scheduler: Of the run.
        patched: Undoes it.
        first_part: The number of the run's first partition.
        fine: Each use is a point, too, and so is each short lock.
        has_budget: Bytes are counted against a budget. They are noted only then; there
            is room for all that a run can hold otherwise.
    """
    seen = Watch(scheduler, fine=fine)
    entry = seen.attributes(
        LoadedPartition, frozenset({"seq", "rows", "steps", "unsaved", "sound"})
    )
    loader = seen.attributes(PartitionCache, frozenset({"retired", "_budget"}))
    run = seen.attributes(_shared_work._Run, frozenset({"again"}))

    class TracedWork(SharedWork):
        def __init__(self, start: Any) -> None:
            super().__init__(start)
            self._runs = TracedDict(seen, "runs")

    class TracedSnapshots(SnapshotCache):
        def schedule_if_stale(self, key: Key, unsaved: int, rows: int) -> None:
            seen.use(("waiting", key), "w")
            super().schedule_if_stale(key, unsaved, rows)

        def _save_snapshot(self, key: Key) -> None:
            seen.use(("waiting", key), "w")
            super()._save_snapshot(key)

    class TracedServing(SearchIndex):
        def begin_use(self) -> Use | None:
            seen.use(("uses", id(self)), "c")
            return super().begin_use()

        def end_use(self, use: Use) -> None:
            seen.use(("uses", id(self)), "c")
            super().end_use(use)

        def _retire(self) -> None:
            seen.use(("uses", id(self)), "w")
            super()._retire()

    def pool(most: int, thread_name_prefix: str) -> ScheduledPool:
        return ScheduledPool(scheduler, most, thread_name_prefix)

    def engine(dim: int, *, seed: int) -> ScheduledEngine:
        return ScheduledEngine(scheduler, Engine(dim, seed=seed))

    locks = Locks(scheduler, short=not fine)
    for module in (_serving, _resident, _shared_work, _row_cache):
        patched.setattr(module, "threading", locks)
    patched.setattr(_key_locks, "threading", Locks(scheduler))
    patched.setattr(_read_threads, "Pool", pool)
    patched.setattr(_snapshots, "Pool", pool)
    patched.setattr(_snapshots, "_MIN_ROWS", 2)
    patched.setattr(_shared_work, "InterruptibleFuture", ScheduledFuture.of(scheduler))
    patched.setattr(_serving, "InterruptibleFuture", ScheduledFuture.of(scheduler))
    patched.setattr(_shared_work, "_Run", run)
    patched.setattr(_loader, "trim_heap", lambda: None)
    patched.setattr(_loader, "LoadedPartition", entry)
    patched.setattr(_loader, "LoadedPartitions", seen.residents(has_budget=has_budget))
    patched.setattr(_loader, "SharedWork", TracedWork)
    locks_of_keys = NamedKeyLocks if fine else ShortKeyLocks
    patched.setattr(_loader, "KeyLocks", locks_of_keys)
    patched.setattr(_serving, "Engine", engine)
    patched.setattr(_serving, "PartitionCache", loader)
    patched.setattr(_serving, "SnapshotCache", TracedSnapshots)
    cache = seen.cache(first_part, has_budget=has_budget)
    patched.setattr(_serving, "RowCache", cache)
    folder = {"scheduler": scheduler, "first_part": first_part}
    kind = type("RunFolder", (ScheduledFolder,), folder)
    seen.folder = kind
    patched.setattr(_serving, "SearchIndex", TracedServing)
    return seen
