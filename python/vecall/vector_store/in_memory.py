"""A vector store in memory, searched by the C++ engine."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from vecall._core import Engine
from vecall.concurrency.time_slices import in_slices
from vecall.errors import ConfigError, DimensionError
from vecall.limits import Limits
from vecall.vector_store.base import (
    MAX_DIMENSIONS,
    CheckedVectorStore,
    Key,
    PartitionScope,
    StoredRow,
    VectorSearchResult,
)

T = TypeVar("T")

# Above this cost, in vector components, a call runs on another thread.
_LONG_WORK = 1 << 22
_MIN_ROW_COST = 512  # of a short vector
_RESULT_COST = 1 << 15  # of returning a row
_TRIES = 3  # before a search locks writers out


_NEVER = np.iinfo(np.int64).max
_NO_SESSION = 0

Hit = tuple[int, float]
"""Row number and cosine."""


@dataclass(slots=True)
class _Session:
    """A session's number in the engine, and the numbers of its rows."""

    number: int
    rows: set[int] = field(default_factory=set)


class Partition:
    """One user's rows, by numbers that are never reused.

    The engine also knows sessions by numbers, not by hashes, so two sessions never
    collide. `find` needs no lock; all other methods need the caller's lock.
    """

    def __init__(self, engine: Engine, key: Key) -> None:
        """Create an empty partition."""
        self.rows: dict[int, StoredRow] = {}
        self._engine = engine
        self._key = key
        self._numbers: dict[str, int] = {}  # of rows, by id
        self._sessions: dict[str, _Session] = {}

    def number_of(self, id: str) -> int | None:
        """Return the number of the row with this id."""
        return self._numbers.get(id)

    def candidates(self, scope: PartitionScope) -> list[tuple[int, StoredRow]]:
        """Return the rows of the scope's session, or all rows; ignores times."""
        if scope.session is None:
            return list(self.rows.items())
        session = self._sessions.get(scope.session)
        numbers = () if session is None else session.rows
        return [(number, self.rows[number]) for number in numbers]

    def add(self, number: int, row: StoredRow, vector: NDArray[np.float32]) -> None:
        """Add a row under a new number; an error changes nothing."""
        session = None
        if row.session is not None:
            session = self._sessions.get(row.session) or _Session(number)
        label = _NO_SESSION if session is None else session.number
        self._engine.add_rows(
            self._key,
            np.array([number], np.int64),
            np.array([row.micros], np.int64),
            np.array([_NEVER], np.int64),
            np.array([label], np.uint64),
            np.zeros(1, np.int32),
            np.zeros(0, np.uint64),
            np.zeros(2, np.int64),
            vector[None],
        )
        self.rows[number] = row
        self._numbers[row.id] = number
        if session is not None and row.session is not None:
            session.rows.add(number)
            self._sessions[row.session] = session

    def remove(self, numbers: Sequence[int]) -> None:
        """Remove rows; the engine removes all of them atomically."""
        self._engine.remove(self._key, np.array(numbers, np.int64))
        for number in numbers:
            row = self.rows.pop(number)
            if self._numbers[row.id] == number:  # else it was replaced
                del self._numbers[row.id]
            if row.session is None:
                continue
            session = self._sessions[row.session]
            session.rows.discard(number)
            if not session.rows:
                del self._sessions[row.session]

    def drop(self) -> None:
        """Free the partition's memory in the engine."""
        self._engine.drop(self._key)

    def options(self, scope: PartitionScope) -> dict[str, Any] | None:
        """Return the engine's options for a filter; None if no row passes it."""
        options: dict[str, Any] = {}
        if scope.session is not None:
            session = self._sessions.get(scope.session)
            if session is None:
                return None
            options["session"] = session.number
        if scope.after is not None:
            options["after"] = scope.after
        if scope.before is not None:
            options["before"] = scope.before
        return options

    def find(
        self, vector: NDArray[np.float32], top_k: int, options: Mapping[str, Any]
    ) -> list[Hit]:
        """Return the best rows, best first, and all that tie with the last one.

        The engine breaks ties of score and time by number, the store by id.
        """
        wanted = top_k + 1
        while True:
            ids, scores = self._engine.search(
                self._key, vector, wanted, exact=True, **options
            )
            hits: list[Hit] = list(zip(ids.tolist(), scores.tolist(), strict=True))
            if len(hits) < wanted or not self._are_tied(hits[top_k - 1], hits[-1]):
                return hits
            wanted *= 4

    def _are_tied(self, first_hit: Hit, second_hit: Hit) -> bool:
        """Whether two hits tie; False if one was removed, which the caller detects."""
        first, second = self.rows.get(first_hit[0]), self.rows.get(second_hit[0])
        if first is None or second is None:
            return False
        return first_hit[1] == second_hit[1] and first.micros == second.micros


class InMemoryVectorStore(CheckedVectorStore):
    """A `VectorStore` in memory; its content ends with the process.

    A search applies the filter before it ranks: it returns top_k rows if that many pass
    the filter. 4-bit codes find the candidates, float32 vectors score them. A score is
    within 2e-6 of the exact cosine.

    Safe to share between threads and event loops. A long call runs on another thread.
    If it is cancelled there, it may still take effect.
    """

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
        self._partitions: dict[Key, Partition] = {}
        self._next = itertools.count(1)
        if dimensions is None:
            return
        given: object = dimensions
        if type(given) is not int or not 1 <= given <= MAX_DIMENSIONS:
            msg = f"dimensions: expected an integer from 1 to {MAX_DIMENSIONS}"
            raise ConfigError(msg)
        self._engine = _engine(dimensions)

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

    async def _call(self, key: Key, work: Callable[[], T], rows: int | None = 0) -> T:
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

    def _upsert(self, key: Key, row: StoredRow, vector: NDArray[np.float32]) -> None:
        with self._lock:
            engine = self._checked_engine(vector) or _engine(vector.size)
            part = self._partitions.get(key) or Partition(engine, key)
            old = part.number_of(row.id)
            # Add the new row first, so that every search finds one of the two. A search
            # that finds the removed one is repeated.
            part.add(next(self._next), row, vector)
            if old is not None:
                part.remove([old])
            self._engine = engine
            self._partitions[key] = part

    def _search(
        self, vector: NDArray[np.float32], top_k: int, scope: PartitionScope
    ) -> list[VectorSearchResult]:
        found = None
        for _ in range(_TRIES):
            found = self._attempt(vector, top_k, scope, self._lock)
            if found is not None:
                break
        if found is None:
            with self._lock:
                found = self._attempt(vector, top_k, scope, nullcontext()) or []
        found.sort(key=lambda hit: (-hit[0], -hit[1].micros, hit[1].id))
        return [
            VectorSearchResult(row.id, score, json.loads(row.metadata))
            for score, row in found[:top_k]
        ]

    def _attempt(
        self,
        vector: NDArray[np.float32],
        top_k: int,
        scope: PartitionScope,
        lock: AbstractContextManager[Any],
    ) -> list[tuple[float, StoredRow]] | None:
        """Search, locked before and after; None if a row was removed meanwhile."""
        with lock:
            self._checked_engine(vector)
            part = self._partitions.get(scope.key)
            options = None if part is None else part.options(scope)
            if part is None or options is None:
                return []
            candidates = [] if scope.where is None else part.candidates(scope)
        if scope.where is not None:
            passing = [n for n, row in in_slices(candidates) if row.passes(scope)]
            options["only"] = np.array(passing, np.int64)
        hits = part.find(vector, top_k, options)
        with lock:
            self._check_open()
            rows = [part.rows.get(number) for number, _ in hits]
        scores = [score for _, score in hits]
        found = [
            (s, row) for s, row in zip(scores, rows, strict=True) if row is not None
        ]
        return found if len(found) == len(hits) else None

    def _delete(self, key: Key, id: str) -> bool:
        with self._lock:
            self._check_open()
            part = self._partitions.get(key)
            number = None if part is None else part.number_of(id)
            if part is None or number is None:
                return False
            self._remove(key, part, [number])
            return True

    def _delete_many(self, scope: PartitionScope) -> int:
        with self._lock:
            self._check_open()
            part = self._partitions.get(scope.key)
            if part is None:
                return 0
            candidates = part.candidates(scope)
        chosen = [n for n, row in in_slices(candidates) if row.passes(scope)]
        with self._lock:
            self._check_open()
            # Skip rows that were replaced or deleted meanwhile.
            left = [number for number in chosen if number in part.rows]
            if left:
                self._remove(scope.key, part, left)
            return len(left)

    def _remove(self, key: Key, part: Partition, numbers: list[int]) -> None:
        part.remove(numbers)
        if not part.rows:
            del self._partitions[key]
            part.drop()


def _engine(dimensions: int) -> Engine:
    return Engine(dimensions, kind="flat", codec="int4", keep_float32=True)
