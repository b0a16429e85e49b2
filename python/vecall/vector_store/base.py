"""What a vector store is: two methods, two optional ones, a filter, a result."""

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
    """Which rows of a vector store are meant.

    Attributes:
        user_id: Whose rows. Every store refuses a filter without it.
        app_name: Of which app. Likewise.
        session_id: Only this session.
        after: Only rows of this time or later.
        before: Only rows before this time.
        where: Only rows that meet the author, kind, not_kind, source, trust and
            metadata of this filter, which has no session and no times. Only stores
            whose attribute `applies_where` is True are given one. What it names
            is in a row's metadata under the same names, and custom metadata as JSON
            under "meta"; `meets` says whether a row passes.

    The time of a row is its metadata's timestamp, or when it was stored. Times are
    compared as whole microseconds.
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
        score: Cosine of the query and the row, in [-1, 1].
        metadata: A copy of what was stored; its timestamp, if it has one, in seconds.
    """

    id: str
    score: float
    metadata: dict[str, Any] = field(default_factory=dict)


@runtime_checkable
class VectorStore(Protocol):
    """Vectors with metadata, separated by app and user.

    No call reaches across users: a row belongs to the app and the user that its
    metadata names, an id is unique for these two, and every other call must name both.
    After an error the store is as it was.

    A store whose attribute `applies_where` is True also applies
    `VectorStoreFilter.where`.

    These two methods are enough. A store that can also delete is a
    `DeletingVectorStore`; it may have one of the two methods to delete, or both.
    """

    async def upsert(
        self, id: str, embedding: Embedding, metadata: Mapping[str, Any]
    ) -> None:
        """Store a row, in the place of the one with this id if this user has one.

        Args:
            id: The row's id, unique for its app and user.
            embedding: The vector. All have one length; only their direction counts.
            metadata: JSON values. `user_id` and `app_name` are required; `session_id`
                and `timestamp` (seconds, an aware datetime, or ISO 8601 with an offset)
                are what filters look at.

        Raises:
            InvalidArgumentError: A value that is not allowed, or a name is missing.
            DimensionError: The vector has another length than those of the store.
        """
        ...

    async def search(
        self, embedding: Embedding, top_k: int, filter: VectorStoreFilter | None = None
    ) -> list[VectorSearchResult]:
        """Find the nearest rows of one user.

        Args:
            embedding: What they shall be near to.
            top_k: So many, or all that the filter lets through if these are fewer.
            filter: Must name the app and the user.

        Returns:
            Best first; of equal ones the newer, then the smaller id.

        Raises:
            InvalidArgumentError: A value that is not allowed, or a name is missing.
            DimensionError: The vector has another length than those of the store.
        """
        ...


@runtime_checkable
class DeletingVectorStore(VectorStore, Protocol):
    """A vector store with the optional methods: it can delete rows."""

    async def delete(self, id: str, *, app_name: str, user_id: str) -> bool:
        """Delete one row of one user; return whether it was there.

        Raises:
            InvalidArgumentError: A value that is not allowed.
        """
        ...

    async def delete_many(self, filter: VectorStoreFilter) -> int:
        """Delete the rows of one user that a filter lets through; return how many.

        Args:
            filter: Must name the app and the user; with these alone, all their rows.

        Raises:
            InvalidArgumentError: A value that is not allowed, or a name is missing.
        """
        ...
