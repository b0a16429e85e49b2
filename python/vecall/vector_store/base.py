"""The protocol of a vector store, its filter and its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from vecall.timestamps import Time
from vecall.types import Filter

Embedding = Sequence[float] | NDArray[np.floating[Any]] | NDArray[np.integer[Any]]
"""A vector: real numbers, finite, not all zero."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorStoreFilter:
    """A filter on the rows of a vector store.

    Attributes:
        user_id: Only this user. Every store refuses a filter without it.
        app_name: Only this app. Every store refuses a filter without it.
        session_id: Only this session.
        after: Only rows of this time or later.
        before: Only rows before this time.
        where: Only rows that meet the labels, prefixes, left-out sessions and metadata
            of this filter, which has no other field. Only stores whose attribute
            `applies_where` is True receive it. A row's metadata holds author, kind,
            source, trust and session_id under these names, and custom metadata as JSON
            under "meta". `meets` tests a row.

    The time of a row is its metadata's timestamp or, without one, when it was stored.
    Times are compared in whole microseconds.
    """

    user_id: str | None = None
    app_name: str | None = None
    session_id: str | None = None
    after: Time | None = None
    before: Time | None = None
    where: Filter | None = None


@dataclass(frozen=True, slots=True)
class VectorSearchResult:
    """One row that a search found.

    Attributes:
        id: The row's id, unique for its app and user.
        score: Cosine of the query and the row, finite and in [-1, 1].
        metadata: A copy of the stored metadata; a timestamp is in seconds since 1970.
    """

    id: str
    score: float
    metadata: dict[str, Any] = field(default_factory=dict)


@runtime_checkable
class VectorStore(Protocol):
    """Vectors with metadata, separated by app and user.

    Users are isolated: a row belongs to the app and user in its metadata, its id is
    unique for this pair, and every other call must name both. A call that fails changes
    nothing.

    A store whose attribute `applies_where` is True also applies
    `VectorStoreFilter.where`.

    Only these two methods are required. A store that can also delete is a
    `DeletingVectorStore`; it may have one or both of the methods to delete.
    """

    async def upsert(
        self, id: str, embedding: Embedding, metadata: Mapping[str, Any]
    ) -> None:
        """Insert a row, or replace this user's row with the same id.

        Args:
            id: The row's id, unique for its app and user.
            embedding: The vector. All vectors of a store have one length; only their
                direction matters.
            metadata: JSON values. `user_id` and `app_name` are required. Filters read
                `session_id` and `timestamp` (seconds, an aware datetime, or ISO 8601
                with an offset).

        Raises:
            InvalidArgumentError: An invalid value, or a name is missing.
            DimensionError: The vector's length differs from that of the store.
        """
        ...

    async def search(
        self, embedding: Embedding, top_k: int, filter: VectorStoreFilter | None = None
    ) -> list[VectorSearchResult]:
        """Return the rows of one user that are nearest to a vector.

        Args:
            embedding: The query vector.
            top_k: Number of rows, at least 1; fewer if fewer pass the filter.
            filter: Must name the app and the user.

        Returns:
            The rows, best first. Ties: newer rows first, then by id. Their metadata
            names the app and the user.

        Raises:
            InvalidArgumentError: An invalid value, or a name is missing.
            DimensionError: The vector's length differs from that of the store.
        """
        ...


@runtime_checkable
class DeletingVectorStore(VectorStore, Protocol):
    """A vector store with the optional methods: it can delete rows."""

    async def delete(self, id: str, *, app_name: str, user_id: str) -> bool:
        """Delete one row of one user; return whether it existed.

        Raises:
            InvalidArgumentError: An invalid value.
        """
        ...

    async def delete_many(self, filter: VectorStoreFilter) -> int:
        """Delete the rows of one user that match a filter; return their number.

        Args:
            filter: Must name the app and the user; these alone match all their rows.

        Raises:
            InvalidArgumentError: An invalid value, or a name is missing.
        """
        ...
