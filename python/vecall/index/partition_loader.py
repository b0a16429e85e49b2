"""Loads a partition from the file into the engine, or only its new changes."""

from __future__ import annotations

import logging
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
from vecall.store import (
    ChangedRows,
    PartitionState,
    RowWithVector,
    SnapshotTag,
    Storage,
    StorageReads,
)

_log = logging.getLogger("vecall")

_SLICE = 16  # rows analysed at a time: half a millisecond


class MovedModelError(Exception):
    """The service migrated the file to another model while a partition was read."""


class PartitionLoader:
    """Fills the engine's partitions. The caller holds the partition's lock."""

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
            cache: The row cache.
            snapshots: Reads snapshots; None without snapshots.
            model: The number of the model of the engine's vectors.
            in_memory: The database is in memory, with a single connection.
        """
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
        """Check that the rows just read have vectors of this model.

        Call it after reading, and before a search can see the rows.

        Raises:
            MovedModelError: The rows have vectors of another model, which another
                engine serves.
        """
        if self.moving is not None and self.moving():
            raise MovedModelError

    def replay(self, key: Key, entry: LoadedPartition) -> int | None:
        """Apply the new changes in the file.

        Returns:
            The number of changed rows; None if the change log does not reach back.

        Raises:
            MovedModelError: The file was migrated to another model.
        """
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
            rids = changed.written
            stored = reads.load_rows(rids)
        present = {item.row.rid for item in stored}
        self._cache.forget(rids + changed.marked)
        self.apply(key, entry, stored, [rid for rid in rids if rid not in present])
        if entry.rows != newest.live:
            return None
        self._require_model()
        entry.seq, entry.head = newest.seq, newest.head
        return len(rids) + len(changed.marked)

    def fill(self, key: Key, entry: LoadedPartition, *, from_rows: bool) -> int | None:
        """Fill the engine's empty partition.

        Args:
            key: The partition.
            entry: Its entry, with `part` set.
            from_rows: Ignore the snapshot.

        Returns:
            The number of rows that no snapshot contains; None if the partition does not
            exist.

        Raises:
            MovedModelError: The file was migrated to another model.
        """
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
                changed = self._restore(reads, key, entry, newest)
            rows_in_memory: list[RowWithVector] = []
            if changed is None:
                self._engine.drop(key)
                with closing(reads.load_partition(part)) as stored:
                    if self._in_memory:
                        rows_in_memory = list(
                            stored
                        )  # before the only connection is released
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
        entry.seq, entry.head = newest.seq, newest.head
        # Rows that were not read from a snapshot are unsaved.
        return newest.live if changed is None else changed

    def _restore(
        self,
        reads: StorageReads,
        key: Key,
        entry: LoadedPartition,
        newest: PartitionState,
    ) -> int | None:
        """Load a partition from its snapshot and the changes since.

        Returns:
            The number of changed rows; None without a usable snapshot.
        """
        if self._snapshots is None or newest.snap is None:
            return None
        part = entry.part
        tag = self._snapshots.restore(key, part, newest.seq, newest.snap)
        if tag is None:
            return None
        changed = self._since(reads, tag, newest)
        if changed is None:
            return None
        rids, marked = changed.written, len(changed.marked)
        stored = reads.load_rows(rids)
        present = {item.row.rid for item in stored}
        self.apply(key, entry, stored, [rid for rid in rids if rid not in present])
        if entry.rows != newest.live:
            self._snapshots.reject(part, "differs from the file")
            return None
        return len(rids) + marked

    @staticmethod
    def _since(
        reads: StorageReads, tag: SnapshotTag, newest: PartitionState
    ) -> ChangedRows | None:
        """Return the changes since a snapshot; None if its state is not in the log."""
        if tag.seq == newest.seq:
            return ChangedRows([], []) if tag.head == newest.head else None
        return reads.changed_since(tag.part, tag.seq, tag.head)

    def apply(
        self,
        key: Key,
        entry: LoadedPartition,
        stored: Iterable[RowWithVector],
        removed: Sequence[int],
    ) -> None:
        """Change the engine's rows. A failure sets `entry.sound` to False."""
        entry.steps += 1
        refused = 0
        try:
            if removed:
                self._engine.remove(key, np.fromiter(removed, np.int64, len(removed)))
            waiting = iter(stored)
            slices = Slices()
            while batch := list(islice(waiting, _SLICE)):
                refused += add_rows(self._engine, key, batch, self._model)
                self._cache.put(item.row for item in batch)
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
