"""A vector store in memory, searched by the C++ engine."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from vecall._core import Engine
from vecall.concurrency.time_slices import in_slices
from vecall.embedders.base import MAX_DIMENSIONS
from vecall.errors import DimensionError
from vecall.limits import Limits
from vecall.vector_store import base

T = TypeVar("T")

# Above this cost, in vector components, a call runs on another thread.
_LONG_WORK = 1 << 22
_MIN_ROW_COST = 512  # of a short vector
_RESULT_COST = 1 << 15  # of returning a row
_TRIES = 3  # before a search locks writers out
_NEVER = np.iinfo(np.int64).max


@dataclass(slots=True)
class _Session:
    """A session's number in the engine, and the numbers of its rows."""

    number: int
    rows: set[int] = field(default_factory=set)


class Partition:
    """One user's rows, by numbers that are never reused.

    The engine also knows sessions by numbers, not by hashes, so two sessions never
    collide. `find_nearest_rows` needs no lock; other methods need the caller's lock.
    """

    def __init__(self, engine: Engine, key: base.Key) -> None:
        """Create an empty partition."""
        self.rows: dict[int, base.StoredRow] = {}
        self._engine = engine
        self._key = key
        self.numbers: dict[str, int] = {}  # of rows, by id
        self.removals = 0
        self.sessions: dict[str, _Session] = {}

    def rows_of_session(self, session: str | None) -> list[tuple[int, base.StoredRow]]:
        """Return the rows of a session with their numbers; for None, all."""
        if session is None:
            return list(self.rows.items())
        known = self.sessions.get(session)
        return [] if known is None else [(n, self.rows[n]) for n in known.rows]

    def add_row(
        self, number: int, row: base.StoredRow, vector: NDArray[np.float32]
    ) -> None:
        """Add a row under a new number; an error changes nothing."""
        session = None
        if row.session is not None:
            session = self.sessions.get(row.session) or _Session(number)
        self._engine.add_rows(
            self._key,
            np.array([number], np.int64),
            np.array([row.micros], np.int64),
            np.array([_NEVER], np.int64),
            np.array([0 if session is None else session.number], np.uint64),
            np.zeros(1, np.int32),
            np.zeros(0, np.uint64),
            np.zeros(2, np.int64),
            vector[None],
        )
        self.rows[number] = row
        self.numbers[row.id] = number
        if session is not None and row.session is not None:
            session.rows.add(number)
            self.sessions[row.session] = session

    def remove_rows(self, numbers: Sequence[int]) -> None:
        """Remove rows; the engine removes all of them atomically."""
        self._engine.remove(self._key, np.array(numbers, np.int64))
        self.removals += 1
        for number in numbers:
            row = self.rows.pop(number)
            if self.numbers[row.id] == number:  # else it was replaced
                del self.numbers[row.id]
            if row.session is not None:
                session = self.sessions[row.session]
                session.rows.discard(number)
                if not session.rows:
                    del self.sessions[row.session]

    def free_partition(self) -> None:
        """Free the partition's memory in the engine."""
        self._engine.drop(self._key)

    def find_nearest_rows(
        self, vector: NDArray[np.float32], count: int, options: Mapping[str, Any]
    ) -> list[tuple[int, float]]:
        """Return the numbers and the cosines of the nearest rows, best first."""
        found = self._engine.search(self._key, vector, count, exact=True, **options)
        numbers, scores = (each.tolist() for each in found)
        return list(zip(numbers, scores, strict=True))


class InMemoryVectorStore(base.CheckedVectorStore):
    """A `VectorStore` in memory; its content ends with the process.

    A search applies the filter before it ranks: it returns top_k rows if that many pass
    the filter. 4-bit codes find the candidates, float32 vectors score them. A score is
    within 2e-6 of the exact cosine.

    Safe to share between threads and event loops. A long call runs on another thread.
    If it is cancelled there, it may still take effect.
    """

    _is_newest_first = True

    def __init__(
        self, dimensions: int | None = None, *, limits: Limits | None = None
    ) -> None:
        """Create an empty store.

        Args:
            dimensions: Length of every vector, 1 to 65,536; None uses that of the first
                stored vector.
            limits: Maximum sizes of names, metadata and results. Metadata holds the
                text, so its limit is `max_text_bytes`.

        Raises:
            ConfigError: `dimensions` is not an integer from 1 to 65,536.
        """
        super().__init__(limits)
        self._lock = threading.Lock()
        # Guarded by the lock. The engine has its own lock, so it searches without
        # this one. Every upsert gives its row a new number.
        self._engine: Engine | None = None
        self._partitions: dict[base.Key, Partition] = {}
        self._next = itertools.count(1)
        if dimensions is None:
            return
        base.check_store_option_count(dimensions, "dimensions", MAX_DIMENSIONS)
        self._engine = _make_store_engine(dimensions)

    @property
    def dimensions(self) -> int | None:
        """Length of every vector; None until it is known."""
        engine = self._engine
        return None if engine is None else engine.dim

    def __len__(self) -> int:
        """Return the number of rows of all users."""
        with self._lock:
            return sum(len(part.rows) for part in self._partitions.values())

    def close(self) -> None:
        """Free all memory; later calls raise ClosedError."""
        with self._lock:
            self._closed = True
            self._engine = None
            self._partitions.clear()

    async def _call(
        self, key: base.Key, work: Callable[[], T], rows: int | None = 0
    ) -> T:
        """Run work on one user's rows; on another thread if it takes long."""
        part = self._partitions.get(key)
        count = 0 if part is None else len(part.rows)
        width = max(self.dimensions or 0, _MIN_ROW_COST)
        if rows is None or count * width + min(count, rows) * _RESULT_COST > _LONG_WORK:
            return await asyncio.to_thread(work)
        return work()

    def _checked_engine(self, vector: NDArray[np.float32]) -> Engine | None:
        """Return the engine; the lock is held."""
        self._check_open()
        engine = self._engine
        if engine is not None and engine.dim != vector.size:
            msg = f"embedding: expected {engine.dim} numbers, not {vector.size}"
            raise DimensionError(msg)
        return engine

    def _store_row(
        self, key: base.Key, row: base.StoredRow, vector: NDArray[np.float32]
    ) -> None:
        with self._lock:
            engine = self._checked_engine(vector) or _make_store_engine(vector.size)
            part = self._partitions.get(key) or Partition(engine, key)
            old = part.numbers.get(row.id)
            # Add the new row first, so that every search finds one of the two. A search
            # that finds the removed one is repeated.
            part.add_row(next(self._next), row, vector)
            if old is not None:
                part.remove_rows([old])
            self._engine = engine
            self._partitions[key] = part

    def _nearest_rows(
        self, vector: NDArray[np.float32], count: int, scope: base.PartitionScope
    ) -> list[tuple[float, base.StoredRow]]:
        for _ in range(_TRIES):
            found = self._attempt_store_search(vector, count, scope, self._lock)
            if found is not None:
                return found
        with self._lock:
            return self._attempt_store_search(vector, count, scope, nullcontext()) or []

    def _attempt_store_search(
        self,
        vector: NDArray[np.float32],
        count: int,
        scope: base.PartitionScope,
        lock: AbstractContextManager[Any],
    ) -> list[tuple[float, base.StoredRow]] | None:
        """Search, locked before and after; None if a row was removed meanwhile."""
        options: dict[str, Any] = {"after": scope.after, "before": scope.before}
        with lock:
            self._checked_engine(vector)
            part = self._partitions.get(scope.key)
            if part is None:
                return []
            if scope.session is not None:
                session = part.sessions.get(scope.session)
                if session is None:
                    return []
                options["session"] = session.number
            rows = [] if scope.where is None else part.rows_of_session(scope.session)
            removals = part.removals
        if scope.where is not None:
            passing = [n for n, row in in_slices(rows) if row.passes_scope(scope)]
            options["only"] = np.array(passing, np.int64)
        found = part.find_nearest_rows(vector, count, options)
        with lock:
            self._check_open()
            hits = [
                (score, part.rows[number])
                for number, score in found
                if number in part.rows
            ]
            was_listed = scope.where is None or part.removals == removals
        return hits if was_listed and len(hits) == len(found) else None

    def _delete_row(self, key: base.Key, id: str) -> bool:
        with self._lock:
            self._check_open()
            part = self._partitions.get(key)
            if part is None or id not in part.numbers:
                return False
            self._remove_rows(key, part, [part.numbers[id]])
            return True

    def _delete_rows(self, scope: base.PartitionScope) -> int:
        with self._lock:
            self._check_open()
            part = self._partitions.get(scope.key)
            if part is None:
                return 0
            candidates = part.rows_of_session(scope.session)
        chosen = [n for n, row in in_slices(candidates) if row.passes_scope(scope)]
        with self._lock:
            self._check_open()
            # Skip rows that were replaced or deleted meanwhile.
            left = [number for number in chosen if number in part.rows]
            if left:
                self._remove_rows(scope.key, part, left)
            return len(left)

    def _remove_rows(self, key: base.Key, part: Partition, numbers: list[int]) -> None:
        part.remove_rows(numbers)
        if not part.rows:
            del self._partitions[key]
            part.free_partition()


def _make_store_engine(dimensions: int) -> Engine:
    return Engine(dimensions, kind="flat", codec="int4", keep_float32=True)
