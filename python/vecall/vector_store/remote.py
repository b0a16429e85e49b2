"""What vector stores on a server share: checks, threads, time limits, ties."""

from __future__ import annotations

import asyncio
import json
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from time import monotonic
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from vecall.clock import to_micros
from vecall.concurrency.executor import Pool as ThreadPool
from vecall.embedders.base import PerProcess
from vecall.errors import BusyError, ClosedError, ConfigError, DimensionError
from vecall.limits import Limits
from vecall.validation import check_name, check_top_k
from vecall.vector_store.base import (
    MAX_DIMENSIONS,
    Embedding,
    Key,
    PartitionScope,
    VectorSearchResult,
    VectorStoreFilter,
    check_key,
    check_metadata,
    check_scope,
    meets,
    unit_vector,
)

T = TypeVar("T")

_WITH_WHERE = 4  # times as many rows, of which some are left out


class StoredRow(NamedTuple):
    """A row as it is stored; the time is in microseconds, the metadata is JSON."""

    id: str
    session: str | None
    micros: int
    metadata: str

    def passes(self, scope: PartitionScope) -> bool:
        """Whether the row passes a filter."""
        return (
            scope.lets_through(self.micros)
            and (scope.session is None or scope.session == self.session)
            and (scope.where is None or meets(json.loads(self.metadata), scope.where))
        )


class Hit(NamedTuple):
    """A row that a server found; its score is a cosine."""

    score: float
    row: StoredRow

    @classmethod
    def of(cls, cosine: float, row: StoredRow) -> Hit:
        """Return a row with the cosine that a server computed, rounding errors cut."""
        return cls(min(1.0, max(-1.0, cosine)), row)


class RemoteVectorStore(ABC):
    """A `DeletingVectorStore` whose rows are on a server.

    The methods to define block; they run on threads of the store. Safe to share between
    threads and event loops; a forked child opens connections of its own.

    A call that is cancelled before its thread begins has no effect; later it may still
    take effect.
    """

    applies_where = True
    """The store applies `VectorStoreFilter.where`, in Python."""

    def __init__(
        self,
        dimensions: int | None,
        limits: Limits | None,
        *,
        connections: int,
        timeout: float,
        most_dimensions: int = MAX_DIMENSIONS,
    ) -> None:
        """Check the options that stores share.

        Raises:
            ConfigError: An option is invalid.
        """
        most = min(MAX_DIMENSIONS, most_dimensions)
        for value, name, least, limit in (
            (1 if dimensions is None else dimensions, "dimensions", 1, most),
            (connections, "connections", 1, 64),
        ):
            if type(value) is not int or not least <= value <= limit:
                msg = f"{name}: expected an integer from {least} to {limit}"
                raise ConfigError(msg)
        given: object = timeout
        if type(given) not in (int, float) or not 0.1 <= timeout <= 3600:
            msg = "timeout: expected seconds from 0.1 to 3600"
            raise ConfigError(msg)
        self._wanted = dimensions
        self._dimensions: int | None = None
        self._most = most
        self._limits = limits or Limits()
        self._timeout = float(timeout)
        self._closed = False
        self._threads = PerProcess(
            lambda: ThreadPool(connections, thread_name_prefix="vecall-store")
        )

    async def upsert(
        self, id: str, embedding: Embedding, metadata: Mapping[str, object]
    ) -> None:
        """Insert a row, or replace this user's row with the same id.

        See `VectorStore.upsert`.

        Raises:
            StorageError: The server cannot be reached.
            BusyError: The server did not answer in time.
        """
        name = check_name(id, "id", self._limits)
        vector = unit_vector(embedding)
        described = check_metadata(metadata, self._limits)
        micros = described.micros
        if micros is None:
            micros = to_micros(time.time())
        row = StoredRow(
            name, described.session, micros, _encodable_json(described.text)
        )
        await self._call(lambda left: self._upsert(described.key, row, vector, left))

    async def search(
        self, embedding: Embedding, top_k: int, filter: VectorStoreFilter | None = None
    ) -> list[VectorSearchResult]:
        """Return the rows of one user that are nearest to a vector.

        See `VectorStore.search` and `upsert`.
        """
        vector = unit_vector(embedding)
        count = check_top_k(top_k, self._limits)
        scope = check_scope(filter, self._limits)
        return await self._call(lambda left: self._search(vector, count, scope, left))

    async def delete(self, id: str, *, app_name: str, user_id: str) -> bool:
        """Delete one row of one user; return whether it existed.

        See `DeletingVectorStore.delete` and `upsert`.
        """
        name = check_name(id, "id", self._limits)
        key = check_key(app_name, user_id, "", self._limits)
        return await self._call(lambda left: self._delete(key, name, left))

    async def delete_many(self, filter: VectorStoreFilter) -> int:
        """Delete the rows of one user that match a filter; return their number.

        See `DeletingVectorStore.delete_many` and `upsert`.
        """
        scope = check_scope(filter, self._limits)
        return await self._call(lambda left: self._delete_many(scope, left))

    def close(self) -> None:
        """Close the connections; later calls raise ClosedError. Idempotent."""
        self._closed = True
        self._threads().shutdown(wait=False)
        self._disconnect()

    async def _call(self, work: Callable[[float], T]) -> T:
        """Run work on a thread of the store; it gets the seconds that are left."""
        deadline = monotonic() + self._timeout

        def run() -> T:
            left = deadline - monotonic()
            if left <= 0:
                msg = "all connections of the vector store were in use; try again"
                raise BusyError(msg)
            return work(left)

        try:
            future = self._threads().submit(run)
        except RuntimeError:
            if not self._closed:
                raise
            raise closed_error() from None
        return await asyncio.wrap_future(future)

    def _search(
        self,
        vector: NDArray[np.float32],
        top_k: int,
        scope: PartitionScope,
        left: float,
    ) -> list[VectorSearchResult]:
        deadline = monotonic() + left
        wanted = top_k + 1
        if scope.where is not None:
            wanted *= _WITH_WHERE
        while True:
            found = self._nearest(vector, wanted, scope, deadline - monotonic())
            hits = [hit for hit in found if hit.row.passes(scope)]
            # Rows that tie with the last one wanted may still be on the server.
            if len(found) < wanted or (
                len(hits) >= top_k and hits[top_k - 1].score > found[-1].score
            ):
                break
            wanted *= 4
        hits.sort(key=lambda hit: (-hit.score, -hit.row.micros, hit.row.id))
        return [
            VectorSearchResult(row.id, score, json.loads(row.metadata))
            for score, row in hits[:top_k]
        ]

    def _require_length(
        self, vector: NDArray[np.float32], read: Callable[[], int | None]
    ) -> bool:
        """Check a vector's length; return whether `read` knows that of the stored."""
        if self._dimensions != vector.size:
            self._dimensions = read()
        for expected in (self._wanted, self._dimensions):
            if expected is not None and expected != vector.size:
                msg = f"embedding: expected {expected} numbers, not {vector.size}"
                raise DimensionError(msg)
        if vector.size > self._most:
            msg = f"embedding: the server stores at most {self._most} numbers"
            raise DimensionError(msg)
        return self._dimensions is not None

    @abstractmethod
    def _upsert(
        self, key: Key, row: StoredRow, vector: NDArray[np.float32], left: float
    ) -> None:
        """Store a row within so many seconds."""

    @abstractmethod
    def _nearest(
        self,
        vector: NDArray[np.float32],
        count: int,
        scope: PartitionScope,
        left: float,
    ) -> list[Hit]:
        """Return rows by score that pass the filter apart from `where`."""

    @abstractmethod
    def _delete(self, key: Key, id: str, left: float) -> bool:
        """Delete a row."""

    @abstractmethod
    def _delete_many(self, scope: PartitionScope, left: float) -> int:
        """Delete rows."""

    @abstractmethod
    def _disconnect(self) -> None:
        """Close the connections; those in use, when they come back."""


def closed_error() -> ClosedError:
    """Return the error of a call after `close`."""
    return ClosedError("the vector store is closed")


def checked_name_part(
    given: object, name: str, allowed: re.Pattern[str], of: str
) -> str:
    """Return an option that becomes part of the names on the server."""
    if not isinstance(given, str) or not allowed.fullmatch(given):
        msg = f"{name}: expected {of}"
        raise ConfigError(msg)
    return given


def _encodable_json(text: str) -> str:
    """Return JSON that UTF-8 can encode: lone surrogates become escapes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(json.loads(text))
    return text
