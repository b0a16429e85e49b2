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
from vecall.concurrency.time_slices import in_slices
from vecall.errors import ClosedError, ConfigError, DimensionError
from vecall.limits import Limits
from vecall.timestamps import to_micros
from vecall.validation import check_name, check_top_k
from vecall.vector_store.base import Embedding, VectorSearchResult, VectorStoreFilter
from vecall.vector_store.partition import Hit, Partition, Row
from vecall.vector_store.validation import (
    MAX_DIMENSIONS,
    Described,
    Key,
    PartitionScope,
    check_key,
    check_metadata,
    check_scope,
    unit_vector,
)
from vecall.vector_store.where import meets

T = TypeVar("T")

# Numbers to look at from which a call would keep an event loop waiting.
_LONG_WORK = 1 << 22
_LEAST_ROW = 512  # what a short vector costs all the same
_RESULT = 1 << 15  # what it costs to return one
_TRIES = 3  # before a search locks writers out


class InMemoryVectorStore:
    """Vectors and metadata in memory, gone with the process; a `VectorStore`.

    A search scores all rows of the user that pass the filter, and the filter is part of
    it: top_k rows come back whenever so many pass. 4-bit codes find the candidates,
    float32 vectors score them: a score is within 2e-6 of the exact cosine.

    Safe to share between threads and event loops. A call that would take long goes to a
    thread of its own; one that is cancelled there may take effect all the same.
    """

    applies_where = True
    """It filters by labels and metadata, too."""

    def __init__(
        self, dimensions: int | None = None, *, limits: Limits | None = None
    ) -> None:
        """Make an empty store.

        Args:
            dimensions: Length of every vector, up to 65,536; None takes that of the
                first one stored.
            limits: How long names, metadata and answers may be. Metadata may have
                `max_text_bytes`, for it holds the text.

        Raises:
            ConfigError: `dimensions` is no such number.
        """
        self._limits = limits or Limits()
        self._lock = threading.Lock()
        # Guarded by the lock. The engine has a lock of its own: searches go without
        # this one. Every row gets a new number, also one that is replaced.
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
        """Length of every vector; None as long as it is not known."""
        engine = self._engine
        return None if engine is None else engine.dim

    def __len__(self) -> int:
        """Return the number of rows of all users."""
        with self._lock:
            return sum(len(part.rows) for part in self._partitions.values())

    async def upsert(
        self, id: str, embedding: Embedding, metadata: Mapping[str, Any]
    ) -> None:
        """Store a row, in the place of the one with this id if this user has one.

        See `VectorStore.upsert`.
        """
        name = check_name(id, "id", self._limits)
        vector = unit_vector(embedding)
        described = check_metadata(metadata, self._limits)
        await self._call(described.key, lambda: self._upsert(name, vector, described))

    async def search(
        self, embedding: Embedding, top_k: int, filter: VectorStoreFilter | None = None
    ) -> list[VectorSearchResult]:
        """Find the nearest rows of one user.

        See `VectorStore.search`.
        """
        vector = unit_vector(embedding)
        count = check_top_k(top_k, self._limits)
        scope = check_scope(filter, self._limits)
        return await self._call(
            scope.key,
            lambda: self._search(vector, count, scope),
            # Metadata are read of every row, as of results.
            results=count if scope.where is None else sys.maxsize,
        )

    async def delete(self, id: str, *, app_name: str, user_id: str) -> bool:
        """Delete one row of one user; return whether it was there.

        See `VectorStore.delete`.
        """
        name = check_name(id, "id", self._limits)
        key = check_key(app_name, user_id, "", self._limits)
        return await self._call(key, lambda: self._delete(name, key))

    async def delete_many(self, filter: VectorStoreFilter) -> int:
        """Delete the rows of one user that a filter lets through; return how many.

        See `VectorStore.delete_many`.
        """
        scope = check_scope(filter, self._limits)
        return await asyncio.to_thread(self._delete_many, scope)

    def close(self) -> None:
        """Free everything; calls from here on raise ClosedError."""
        with self._lock:
            self._closed = True
            self._engine = None
            self._partitions.clear()

    async def _call(self, key: Key, work: Callable[[], T], *, results: int = 0) -> T:
        """Do something with one user's rows, elsewhere if it takes long."""
        part = self._partitions.get(key)
        rows = 0 if part is None else len(part.rows)
        width = max(self.dimensions or 0, _LEAST_ROW)
        if rows * width + min(rows, results) * _RESULT > _LONG_WORK:
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
            # The new row comes first, so that every search finds one of the two; it
            # searches again if that is the old one.
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
                part, options, candidates = self._plan(vector, scope)
            if part is None or options is None:
                return []
            hits = part.find(vector, top_k, {**options, **_only(scope, candidates)})
            with self._lock:
                found = self._rows(part, hits)
            if found is not None:
                break
        if found is None:
            with self._lock:
                part, options, candidates = self._plan(vector, scope)
                if part is None or options is None:
                    return []
                options |= _only(scope, candidates)
                found = self._rows(part, part.find(vector, top_k, options)) or []
        found.sort(key=lambda hit: (-hit[0], -hit[1].micros, hit[1].id))
        return [
            VectorSearchResult(row.id, score, json.loads(row.metadata))
            for score, row in found[:top_k]
        ]

    def _plan(
        self, vector: NDArray[np.float32], scope: PartitionScope
    ) -> tuple[Partition | None, dict[str, Any] | None, list[tuple[int, Row]]]:
        """Return the partition and the engine's filter, None if nothing is there.

        Also the rows of which the metadata have to be looked at.
        """
        self._checked_engine(vector)
        part = self._partitions.get(scope.key)
        if part is None:
            return None, None, []
        candidates = [] if scope.where is None else part.candidates(scope)
        return part, part.options(scope), candidates

    def _rows(self, part: Partition, hits: list[Hit]) -> list[tuple[float, Row]] | None:
        """Return what the engine found with its rows, None if one has gone since."""
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
            if scope.lets_through(row.micros) and _meets(row, scope)
        ]
        with self._lock:
            self._check_open()
            # What was replaced or deleted meanwhile is not this call's.
            left = [number for number in chosen if number in part.rows]
            if left:
                self._remove(scope.key, part, left)
            return len(left)

    def _remove(self, key: Key, part: Partition, numbers: list[int]) -> None:
        part.remove(numbers)
        if not part.rows:
            del self._partitions[key]
            part.drop()


def _meets(row: Row, scope: PartitionScope) -> bool:
    return scope.where is None or meets(json.loads(row.metadata), scope.where)


def _only(scope: PartitionScope, candidates: list[tuple[int, Row]]) -> dict[str, Any]:
    """Return which rows the engine may find, where it cannot know that itself."""
    if scope.where is None:
        return {}
    numbers = [number for number, row in in_slices(candidates) if _meets(row, scope)]
    return {"only": np.array(numbers, np.int64)}


def _engine(dimensions: int) -> Engine:
    return Engine(dimensions, kind="flat", codec="int4", keep_float32=True)
