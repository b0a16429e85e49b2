"""Records which partitions the engine has loaded, and up to which change."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from vecall.index.rows import Key
from vecall.store import Version


@dataclass(slots=True, eq=False)
class LoadedPartition:
    """The state of one partition in the engine.

    Attributes:
        part: The partition's number.
        seq: Its newest change that the engine has.
        head: Random bits of that change.
        rows: The number of its rows in the engine.
        steps: A counter that is odd while the engine's rows are being changed.
        nbytes: Its memory in the engine, in bytes.
        unsaved: The number of changes since its snapshot.
        sound: Whether the engine's content is trusted to match the file.
    """

    part: int
    seq: int
    rows: int = 0
    steps: int = 0
    nbytes: int = 0
    unsaved: int = 0
    sound: bool = True
    head: int = 0

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
        self._bytes = 0
        # Weak references, so a pin ends with the call that made it, however that ends.
        self._pins: weakref.WeakSet[_Pin] = weakref.WeakSet()

    @property
    def nbytes(self) -> int:
        """Bytes of all entries."""
        return self._bytes

    def get(self, key: Key) -> LoadedPartition | None:
        """Return a partition's entry."""
        return self._entries.get(key)

    def keys(self) -> set[Key]:
        """Return the partitions that have an entry."""
        with self._mutex:
            return set(self._entries)

    def put(self, key: Key, entry: LoadedPartition) -> None:
        """Add a partition's entry; idempotent."""
        with self._mutex:
            if self._entries.get(key) is not entry:
                self._entries[key] = entry
                self._bytes += entry.nbytes

    def resize(self, key: Key, entry: LoadedPartition, nbytes: int) -> None:
        """Set the size of an entry, whether it is added or not."""
        with self._mutex:
            if self._entries.get(key) is entry:
                self._bytes += nbytes - entry.nbytes
            entry.nbytes = nbytes

    def take(self, key: Key) -> LoadedPartition | None:
        """Remove a partition's entry and return it."""
        with self._mutex:
            entry = self._entries.pop(key, None)
            if entry is not None:
                self._bytes -= entry.nbytes
            return entry

    @contextmanager
    def pinned(self, key: Key) -> Iterator[None]:
        """Prevent eviction of a partition during the block."""
        pin = _Pin(key)
        with self._mutex:
            self._pins.add(pin)
        try:
            yield
        finally:
            with self._mutex:
                self._pins.discard(pin)

    def pins(self) -> set[Key]:
        """Return the partitions that are pinned."""
        with self._mutex:
            return {pin.key for pin in self._pins}
