"""A vector store in memory, searched by the C++ engine."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from vecall._core import Engine
from vecall.clock import to_micros
from vecall.concurrency.time_slices import in_slices
from vecall.errors import ClosedError, ConfigError, DimensionError
from vecall.limits import Limits
from vecall.validation import check_name, check_top_k
from vecall.vector_store.base import (
    MAX_DIMENSIONS,
    Described,
    Embedding,
    Hit,
    Key,
    Partition,
    PartitionScope,
    Row,
    VectorSearchResult,
    VectorStoreFilter,
    check_key,
    check_metadata,
    check_scope,
    meets,
    unit_vector,
)

T = TypeVar("T")

# Above this cost, in vector components, a call runs on another thread.
_LONG_WORK = 1 << 22
_MIN_ROW_COST = 512  # of a short vector
_RESULT_COST = 1 << 15  # of returning a row
_TRIES = 3  # before a search locks writers out


class InMemoryVectorStore:
    """A `VectorStore` in memory; its content ends with the process.

    A search applies the filter before it ranks: it returns top_k rows if that many pass
    the filter. 4-bit codes find the candidates, float32 vectors score them. A score is
    within 2e-6 of the exact cosine.

    Safe to share between threads and event loops. A long call runs on another thread.
    If it is cancelled there, it may still take effect.
    """

    applies_where = True
    """The store applies `VectorStoreFilter.where`."""

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
        self._limits = limits or Limits()
        self._lock = threading.Lock()
        # Guarded by the lock. The engine has its own lock, so it searches without
        # this one. Every upsert gives its row a new number.
        self._engine: Engine | None = None
        self._partitions: dict[Key, Partition] = {}
        self._next = itertools.count(1)
        self._closed = False
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

    async def upsert(
        self, id: str, embedding: Embedding, metadata: Mapping[str, Any]
    ) -> None:
        """Insert a row, or replace this user's row with the same id.

        See `VectorStore.upsert`.
        """
        name = check_name(id, "id", self._limits)
        vector = unit_vector(embedding)
        described = check_metadata(metadata, self._limits)
        await self._call(described.key, lambda: self._upsert(name, vector, described))

    async def search(
        self, embedding: Embedding, top_k: int, filter: VectorStoreFilter | None = None
    ) -> list[VectorSearchResult]:
        """Return the rows of one user that are nearest to a vector.

        See `VectorStore.search`.
        """
        vector = unit_vector(embedding)
        count = check_top_k(top_k, self._limits)
        scope = check_scope(filter, self._limits)
        return await self._call(
            scope.key,
            lambda: self._search(vector, count, scope),
            # With `where` the metadata of every row is read.
            results=count if scope.where is None else sys.maxsize,
        )

    async def delete(self, id: str, *, app_name: str, user_id: str) -> bool:
        """Delete one row of one user; return whether it existed.

        See `VectorStore.delete`.
        """
        name = check_name(id, "id", self._limits)
        key = check_key(app_name, user_id, "", self._limits)
        return await self._call(key, lambda: self._delete(name, key))

    async def delete_many(self, filter: VectorStoreFilter) -> int:
        """Delete the rows of one user that match a filter; return their number.

        See `VectorStore.delete_many`.
        """
        scope = check_scope(filter, self._limits)
        return await asyncio.to_thread(self._delete_many, scope)

    def close(self) -> None:
        """Free all memory; later calls raise ClosedError."""
        with self._lock:
            self._closed = True
            self._engine = None
            self._partitions.clear()

    async def _call(self, key: Key, work: Callable[[], T], *, results: int = 0) -> T:
        """Run work on one user's rows; on another thread if it takes long."""
        part = self._partitions.get(key)
        rows = 0 if part is None else len(part.rows)
        width = max(self.dimensions or 0, _MIN_ROW_COST)
        if rows * width + min(rows, results) * _RESULT_COST > _LONG_WORK:
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

    def _check_open(self) -> None:
        if self._closed:
            msg = "the vector store is closed"
            raise ClosedError(msg)

    def _upsert(
        self, id: str, vector: NDArray[np.float32], described: Described
    ) -> None:
        micros = described.micros
        if micros is None:
            micros = to_micros(time.time())
        row = Row(id, described.session, micros, described.text)
        with self._lock:
            engine = self._checked_engine(vector) or _engine(vector.size)
            key = described.key
            part = self._partitions.get(key) or Partition(engine, key)
            old = part.number_of(id)
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
            with self._lock:
                part, options, candidates = self._plan_search(vector, scope)
            if part is None or options is None:
                return []
            hits = part.find(
                vector, top_k, {**options, **_only_rows_option(scope, candidates)}
            )
            with self._lock:
                found = self._rows(part, hits)
            if found is not None:
                break
        if found is None:
            with self._lock:
                part, options, candidates = self._plan_search(vector, scope)
                if part is None or options is None:
                    return []
                options |= _only_rows_option(scope, candidates)
                found = self._rows(part, part.find(vector, top_k, options)) or []
        found.sort(key=lambda hit: (-hit[0], -hit[1].micros, hit[1].id))
        return [
            VectorSearchResult(row.id, score, json.loads(row.metadata))
            for score, row in found[:top_k]
        ]

    def _plan_search(
        self, vector: NDArray[np.float32], scope: PartitionScope
    ) -> tuple[Partition | None, dict[str, Any] | None, list[tuple[int, Row]]]:
        """Return the partition, the engine's filter and the rows to test in Python.

        The partition or the filter is None if no row can match.
        """
        self._checked_engine(vector)
        part = self._partitions.get(scope.key)
        if part is None:
            return None, None, []
        candidates = [] if scope.where is None else part.candidates(scope)
        return part, part.options(scope), candidates

    def _rows(self, part: Partition, hits: list[Hit]) -> list[tuple[float, Row]] | None:
        """Return the rows of the engine's hits; None if one was removed since."""
        self._check_open()
        found = []
        for number, score in hits:
            row = part.rows.get(number)
            if row is None:
                return None
            found.append((score, row))
        return found

    def _delete(self, id: str, key: Key) -> bool:
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
        chosen = [
            number
            for number, row in in_slices(candidates)
            if scope.lets_through(row.micros) and _has_matching_metadata(row, scope)
        ]
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


def _has_matching_metadata(row: Row, scope: PartitionScope) -> bool:
    return scope.where is None or meets(json.loads(row.metadata), scope.where)


def _only_rows_option(
    scope: PartitionScope, candidates: list[tuple[int, Row]]
) -> dict[str, Any]:
    """Return the option that limits a search to the rows that meet `where`."""
    if scope.where is None:
        return {}
    numbers = [
        number
        for number, row in in_slices(candidates)
        if _has_matching_metadata(row, scope)
    ]
    return {"only": np.array(numbers, np.int64)}


def _engine(dimensions: int) -> Engine:
    return Engine(dimensions, kind="flat", codec="int4", keep_float32=True)
