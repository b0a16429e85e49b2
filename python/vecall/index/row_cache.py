"""A cache of rows, bounded in bytes.

A row that was loaded and not used yet is kept as a plain tuple of strings and numbers,
which the garbage collector does not visit. It visits each `Row` in every full
collection, and nothing else runs meanwhile: 100 ms for 60,000 of them.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from operator import itemgetter
from typing import Any

from vecall.store import Row

_FORGOTTEN_KEPT = 10_000  # changes; rows of a slower reader are not cached
_PARTITIONS_KEPT = 10_000  # loaded last; rows put before are dropped
_USED = 2  # values in the entry of a row that was used
_ROW_OVERHEAD = 700  # bytes of a row's objects besides its strings' characters


class RowCache:
    """An LRU cache of rows by number. Thread-safe."""

    def __init__(self, budget: int) -> None:
        """Hold at most `budget` bytes."""
        self._budget = budget
        # The values of a row, or a `Row`; last the moment when it was put.
        self._rows: OrderedDict[int, tuple[Any, ...]] = OrderedDict()
        self._bytes = 0
        self._moment = 0
        self._forgotten: OrderedDict[int, int] = OrderedDict()  # row to moment
        self._forgets_before = 0
        self._valid_from: OrderedDict[int, int] = OrderedDict()  # partition to moment
        self._all_valid_from = 0  # of partitions that are no longer in `_valid_from`
        self._lock = threading.Lock()

    def get(self, rids: Iterable[int]) -> list[Row | None]:
        """Return rows, None for those not in the cache, and mark them as used."""
        found: list[Row | None] = []
        part, valid_since = -1, 0
        with self._lock:
            for rid in rids:
                if rid >> 32 != part:  # most answers are of one partition
                    part, valid_since = rid >> 32, self._valid_since(rid)
                entry = self._rows.get(rid)
                if entry is None or entry[-1] < valid_since:
                    found.append(None)
                    continue
                if entry[0].__class__ is int:  # its number: not used before
                    entry = self._rows[rid] = (Row._make(entry[:-1]), entry[-1])
                self._rows.move_to_end(rid)
                found.append(entry[0])
        return found

    def now(self) -> int:
        """Return the moment to pass to `put`; call it before reading the rows."""
        with self._lock:
            return self._moment

    def put(self, rows: Iterable[Row], read_at: int | None = None) -> None:
        """Cache rows, and evict the least recently used ones beyond the budget.

        Args:
            rows: The rows.
            read_at: The moment before they were read. Rows that changed since are not
                cached: the read may have returned their old content.
        """
        with self._lock:
            for row in rows:
                if read_at is not None and self._outdated(row.rid, read_at):
                    continue
                self._drop(row.rid)
                self._rows[row.rid] = (*row, self._moment)
                self._bytes += _size(row)
            while self._bytes > self._budget and self._rows:
                self._drop(next(iter(self._rows)))

    def forget(self, rids: Iterable[int]) -> None:
        """Drop rows that were changed or deleted."""
        with self._lock:
            for rid in rids:
                self._drop(rid)
                self._moment += 1
                self._forgotten[rid] = self._moment
                self._forgotten.move_to_end(rid)
            while len(self._forgotten) > _FORGOTTEN_KEPT:
                self._forgets_before = self._forgotten.popitem(last=False)[1]

    def clear(self) -> None:
        """Drop all rows."""
        with self._lock:
            self._rows.clear()
            self._bytes = 0

    def forget_partition(self, part: int) -> None:
        """Drop all rows of a partition that is being reloaded.

        Changes by other processes are not tracked while a partition is not loaded.
        """
        with self._lock:
            self._moment += 1
            self._valid_from[part] = self._moment
            self._valid_from.move_to_end(part)
            if len(self._valid_from) > _PARTITIONS_KEPT:
                self._all_valid_from = self._valid_from.popitem(last=False)[1]

    def _outdated(self, rid: int, read_at: int) -> bool:
        if read_at < max(self._forgets_before, self._valid_since(rid)):
            return True
        return self._forgotten.get(rid, 0) > read_at

    def _valid_since(self, rid: int) -> int:
        # Too late a moment costs a read; too early a one returns an outdated text.
        return max(self._valid_from.get(rid >> 32, 0), self._all_valid_from)

    @property
    def nbytes(self) -> int:
        """The estimated memory of the rows, in bytes."""
        return self._bytes

    def _drop(self, rid: int) -> None:
        entry = self._rows.pop(rid, None)
        if entry is not None:
            self._bytes -= _size(entry if len(entry) > _USED else entry[0])


_TEXTS = itemgetter(*map(Row._fields.index, ("text", "content", "meta")))


def _size(row: tuple[Any, ...]) -> int:
    text, content, meta = _TEXTS(row)
    return _ROW_OVERHEAD + len(text) + len(content or "") + len(meta or "")
