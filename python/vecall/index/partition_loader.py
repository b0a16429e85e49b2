"""Brings what the file says of a partition into the engine: whole, or what is new."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from itertools import islice

import numpy as np

from vecall._core import Engine
from vecall.concurrency.time_slices import Slices
from vecall.errors import CorruptFileError
from vecall.index.loaded import LoadedPartition
from vecall.index.row_cache import RowCache
from vecall.index.rows import Key, add_rows
from vecall.index.snapshots import SnapshotCache
from vecall.store import PartitionState, RowWithVector, Storage, StorageReads

_SLICE = 16  # rows analysed at a time, in half a millisecond


class MovedModelError(Exception):
    """The service moved the file to another model while a partition was read."""


class PartitionLoader:
    """Fills the engine's partitions. Whoever calls it holds the partition's lock."""

    def __init__(
        self,
        storage: Storage,
        engine: Engine,
        cache: RowCache,
        snapshots: SnapshotCache | None,
        model: int | None,
        *,
        in_memory: bool,
    ) -> None:
        """Read from a file.

        Args:
            storage: The file.
            engine: The engine.
            cache: Texts of rows.
            snapshots: Snapshots of partitions next to the file, if there are any.
            model: The model whose vectors the engine takes.
            in_memory: There is no file, and one connection for all.
        """
        self._storage = storage
        self._engine = engine
        self._cache = cache
        self._snapshots = snapshots
        self._model = model
        self._in_memory = in_memory
        self.moving: Callable[[], bool] | None = None
        """While the service moves the file to another model: serves that one if it is
        the file's by now, and says whether it is."""

    def _require_model(self) -> None:
        """Check that what was read has the vectors of this model.

        To be called after the reading, and before a search may see what was read.

        Raises:
            MovedModelError: It has none of them, and another engine serves by now.
        """
        if self.moving is not None and self.moving():
            raise MovedModelError

    def replay(self, key: Key, entry: LoadedPartition) -> int | None:
        """Apply what is new in the file.

        Returns:
            How many rows changed; None if the change log does not reach back.

        Raises:
            MovedModelError: The file has another model by now.
        """
        with self._storage.read() as reads:
            newest = reads.partition_state(entry.part, *key)
            if newest is None:
                return None
            if newest.seq <= entry.seq:
                return 0
            changed = reads.changed_since(entry.part, entry.seq)
            if changed is None:
                return None
            rids = changed.written
            stored = reads.load_rows(rids)
        there = {each.row.rid for each in stored}
        self._cache.forget(rids + changed.marked)
        self.apply(key, entry, stored, [rid for rid in rids if rid not in there])
        if entry.rows != newest.live:
            return None
        self._require_model()
        entry.seq = newest.seq
        return len(rids) + len(changed.marked)

    def fill(self, key: Key, entry: LoadedPartition, *, from_rows: bool) -> int | None:
        """Fill the engine's empty partition.

        Args:
            key: The partition.
            entry: Its entry, of which the part is known.
            from_rows: Use no snapshot.

        Returns:
            How many rows no snapshot has; None if there is no such partition.

        Raises:
            MovedModelError: The file has another model by now.
        """
        part = entry.part
        with self._storage.read() as reads:
            newest = reads.partition_state(part, *key)
            if newest is None:
                # Forgotten since its number was read; perhaps it has another one now.
                found = reads.version(*key)
                if found is None or found[0] == part:
                    reads.require_gone(*key)
                    return None
                entry.part = part = found[0]
                newest = reads.partition_state(part, *key)
            if newest is None:
                reads.require_gone(*key)
                return None
            # The transaction has fixed the state to read. Rows that another thread
            # reads from here on are as new or newer.
            self._cache.forget_partition(part)
            changed = None
            if not from_rows:
                changed = self._restore(reads, key, entry, newest)
            rows_in_memory: list[RowWithVector] = []
            if changed is None:
                self._engine.drop(key)
                with closing(reads.load_partition(part)) as stored:
                    if self._in_memory:
                        rows_in_memory = list(
                            stored
                        )  # before the only connection is let go
                    else:
                        self.apply(key, entry, stored, ())
        if rows_in_memory:
            self.apply(key, entry, rows_in_memory, ())
        if entry.rows != newest.live:
            msg = (
                "the file is damaged: a user has another number of memories than the "
                "file says; `vecall doctor` says more"
            )
            raise CorruptFileError(msg)
        self._require_model()
        entry.seq = newest.seq
        # What is read from rows has no snapshot yet; all of it is unsaved.
        return newest.live if changed is None else changed

    def _restore(
        self,
        reads: StorageReads,
        key: Key,
        entry: LoadedPartition,
        newest: PartitionState,
    ) -> int | None:
        """Load a partition from its snapshot and what changed since.

        Returns:
            How many rows changed; None if there is no snapshot that can be used.
        """
        if self._snapshots is None or newest.snap is None:
            return None
        part = entry.part
        since = self._snapshots.restore(key, part, newest.seq, newest.snap)
        if since is None:
            return None
        rids: list[int] = []
        marked = 0
        if since != newest.seq:
            changed = reads.changed_since(part, since)
            if changed is None:
                return None
            rids, marked = changed.written, len(changed.marked)
        stored = reads.load_rows(rids)
        there = {each.row.rid for each in stored}
        self.apply(key, entry, stored, [rid for rid in rids if rid not in there])
        if entry.rows != newest.live:
            return None  # not what the file says, so rows it is
        return len(rids) + marked

    def apply(
        self,
        key: Key,
        entry: LoadedPartition,
        stored: Iterable[RowWithVector],
        removed: Sequence[int],
    ) -> None:
        """Change the engine's rows. After a failure the entry is not sound."""
        entry.steps += 1
        try:
            if removed:
                self._engine.remove(key, np.fromiter(removed, np.int64, len(removed)))
            waiting = iter(stored)
            slices = Slices()
            while some := list(islice(waiting, _SLICE)):
                add_rows(self._engine, key, some, self._model)
                self._cache.put(each.row for each in some)
                slices.pause_if_due()
        except BaseException:
            entry.sound = False  # how much was applied is not known
            raise
        finally:
            entry.rows = self._engine.size(key)
            entry.steps += 1
