"""Writes snapshots of large partitions next to the file, in the background."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

from vecall._core import Engine
from vecall.concurrency.executor import Pool
from vecall.errors import CorruptFileError, IncompatibleFileError, VecallError
from vecall.index.row_cache import Key
from vecall.store import Snapshots, SnapshotTag, Storage, Version

# Records which partitions the engine has loaded, and up to which change.


@dataclass(slots=True, repr=False, eq=False)
class LoadedPartition:
    """The state of one partition in the engine."""

    part: int  # its number
    seq: int  # its newest change that the engine has
    rows: int = 0  # in the engine
    steps: int = 0  # a counter that is odd while the engine's rows are being changed
    nbytes: int = 0  # in the engine
    unsaved: int = 0  # changes since its snapshot
    sound: bool = True  # whether the engine's content is trusted to match the file
    head: int = 0  # random bits of its newest change

    @property
    def version(self) -> Version:
        """Number, newest change and its random bits."""
        return self.part, self.seq, self.head


class _Pin:
    __slots__ = ("__weakref__", "key")

    def __init__(self, key: Key) -> None:
        self.key = key


class LoadedPartitions:
    """The entries of partitions that can be searched. Thread-safe.

    An entry is added and removed under its partition's lock, which the cache owns.
    """

    def __init__(self) -> None:
        """Begin with none."""
        self._mutex = threading.Lock()
        self._entries: dict[Key, LoadedPartition] = {}
        self.get = self._entries.get
        """Returns a partition's entry."""
        self.nbytes = 0
        """Bytes of all entries."""
        # Weak references, so a pin ends with the call that made it, however that ends.
        self._pins: weakref.WeakSet[_Pin] = weakref.WeakSet()

    def loaded_keys(self) -> set[Key]:
        """Return the partitions that have an entry."""
        with self._mutex:
            return set(self._entries)

    def add_loaded_partition(self, key: Key, entry: LoadedPartition) -> None:
        """Add a partition's entry; idempotent."""
        with self._mutex:
            if self._entries.get(key) is not entry:
                self._entries[key] = entry
                self.nbytes += entry.nbytes

    def resize_partition(self, key: Key, entry: LoadedPartition, nbytes: int) -> None:
        """Set the size of an entry, whether it is added or not."""
        with self._mutex:
            if self._entries.get(key) is entry:
                self.nbytes += nbytes - entry.nbytes
            entry.nbytes = nbytes

    def pop_loaded_partition(self, key: Key) -> LoadedPartition | None:
        """Remove a partition's entry and return it."""
        with self._mutex:
            entry = self._entries.pop(key, None)
            if entry is not None:
                self.nbytes -= entry.nbytes
            return entry

    @contextmanager
    def pin_partition(self, key: Key) -> Iterator[None]:
        """Prevent eviction of a partition during the block."""
        pin = _Pin(key)
        with self._mutex:
            self._pins.add(pin)
        try:
            yield
        finally:
            with self._mutex:
                self._pins.discard(pin)

    def pinned_partitions(self) -> set[Key]:
        """Return the partitions that are pinned."""
        with self._mutex:
            return {pin.key for pin in self._pins}


Hold = Callable[[Key], AbstractContextManager[LoadedPartition | None]]
"""Holds a partition's lock, and yields its entry if it is loaded."""

_log = logging.getLogger("vecall")

_MIN_ROWS = 500  # smaller partitions load as fast from rows
_CHANGED_SHARE = 4  # rewritten when a quarter of the rows has changed


class SnapshotCache:
    """Reads snapshots for the loader, and writes them on its own thread."""

    def __init__(
        self, storage: Storage, snapshots: Snapshots, engine: Engine, model: int | None
    ) -> None:
        """Store the partitions of an engine with the vectors of a model, if any."""
        self._identity = storage.identity
        self._has_room = storage.maintenance.has_room
        self._snapshots = snapshots
        self._engine = engine
        self._model = model or 0
        self._hold: Hold = lambda _: nullcontext()
        self._waiting: set[Key] = set()
        self._mutex = threading.Lock()
        self._thread = Pool(1, thread_name_prefix="vecall-snapshots")

    def watch_partitions(self, hold: Hold) -> None:
        """Set the function that prevents changes and eviction of a partition."""
        self._hold = hold

    def restore_snapshot(
        self, key: Key, part: int, seq: int, record: bytes
    ) -> SnapshotTag | None:
        """Load a partition, whose newest change is `seq`; return its snapshot's tag."""
        # None without a usable snapshot of this record of the file. Then the caller
        # must drop the engine's partition.
        try:
            data = self._snapshots.read_snapshot(part, record)
            if data is None:
                return None
            tag = SnapshotTag.unpack_tag(self._engine.restore(key, data))
        except CorruptFileError:
            self.reject_snapshot(part, "is damaged")
            return None
        except IncompatibleFileError:
            self.reject_snapshot(part, "has another format")
            return None
        if tag.seq > seq or not tag.is_of(self._identity, part, record, self._model):
            return None
        return tag

    def reject_snapshot(self, part: int, why: str) -> None:
        """Remove the snapshot of a partition, and log why: "snapshot 1 is damaged"."""
        # Its record would make the snapshot that replaces it superfluous.
        _log.warning("snapshot %d %s; rebuilt from the file", part, why)
        try:
            self._snapshots.remove_snapshot(part)
        except (OSError, VecallError) as error:
            _log.warning("it was not removed: %s", type(error).__name__)

    def schedule_if_stale(self, key: Key, unsaved: int, rows: int) -> None:
        """Write a snapshot soon, if the partition is large and has changed enough."""
        if rows < _MIN_ROWS or unsaved < max(_MIN_ROWS, rows // _CHANGED_SHARE):
            return
        with self._mutex:
            if key in self._waiting:
                return
            self._waiting.add(key)
        try:
            self._thread.submit(self._save_snapshot, key)
        except RuntimeError:  # closing, or no thread available: written another time
            with self._mutex:
                self._waiting.discard(key)

    def close(self) -> None:
        """Finish the snapshot that is being written, and drop queued ones."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _save_snapshot(self, key: Key) -> None:
        with self._mutex:
            self._waiting.discard(key)
        try:
            self._write_snapshot(key)
        except (OSError, MemoryError, VecallError) as error:
            _log.warning("a snapshot was not written: %s", type(error).__name__)

    def _write_snapshot(self, key: Key) -> None:
        if not self._has_room(0):
            return
        generation = self._snapshots.snapshot_generation()
        with self._hold(key) as entry:
            if entry is None:
                return
            tag = SnapshotTag.new(self._identity, entry.version, self._model)
            data = self._engine.snapshot(key, tag.pack())
            entry.unsaved = 0
        if data is not None and self._has_room(len(data)):
            self._snapshots.write_snapshot(*key, tag, data, generation)
