"""Memories as rows of a vector store, and back."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from vecall.errors import InvalidArgumentError
from vecall.filters.metadata import asks_times
from vecall.search.confidence import importance_of
from vecall.search.entries import entry_from_row
from vecall.store import Draft, Row
from vecall.types import Filter, MemoryEntry
from vecall.vector_store import VectorSearchResult, VectorStoreFilter, applies_where

_FIELDS = (
    "author event kind source trust text content meta importance valid_until supersedes"
).split()
"""The fields of a draft in a row's metadata, besides those that filters use."""


def to_metadata(
    app: str, user: str, draft: Draft, wall: float, now: float
) -> dict[str, Any]:
    """Return a memory as strings and numbers, the types that most stores accept.

    Args:
        app: The app.
        user: The user.
        draft: The memory.
        wall: Seconds since 1970 by the system clock.
        now: Seconds since 1970 by the expiry clock.
    """
    found = {name: getattr(draft, name) for name in _FIELDS}
    found |= {"session_id": draft.session, "timestamp": draft.ts}
    found["expires_at"] = None if draft.ttl is None else now + draft.ttl
    given = {name: value for name, value in found.items() if value is not None}
    return {**given, "app_name": app, "user_id": user, "created_at": wall}


def from_hit(
    hit: VectorSearchResult, now: float, confidence: float | None
) -> MemoryEntry:
    """Return the memory of a row, with its scores.

    Args:
        hit: The row, as `checked_results` returns it.
        now: Seconds since 1970, for the importance.
        confidence: The probability that the memory is relevant, in (0, 1).
    """
    known = hit.metadata
    values: dict[str, Any] = {name: known.get(name) for name in _FIELDS}
    row = Row(
        rid=0,
        id=hit.id,
        session=known.get("session_id"),
        pos=None,
        ts=known.get("timestamp"),
        created_at=known["created_at"],
        expires_at=known.get("expires_at"),
        **values,
    )
    return entry_from_row(
        row, importance_of(row, now), hit.score, hit.score, confidence
    )


def is_expired(hit: VectorSearchResult, now: float, wall: float) -> bool:
    """Whether a row has expired, by the times of `to_metadata`."""
    expires_at, valid_until = map(hit.metadata.get, ("expires_at", "valid_until"))
    return (expires_at is not None and expires_at <= now) or (
        valid_until is not None and valid_until <= wall
    )


def scope_of_filter(
    app: str, user: str, condition: Filter, store: object
) -> VectorStoreFilter:
    """Return the filter of a store's search, for one user.

    Raises:
        InvalidArgumentError: The store does not support a condition.
    """
    if condition.not_id is not None:
        msg = "filter.not_id: a vector store cannot leave out rows by their ids"
        raise InvalidArgumentError(msg)
    if asks_times(condition.metadata):
        msg = "filter.metadata: a vector store has no $timestamp and no $updated_at"
        raise InvalidArgumentError(msg)
    where = replace(condition, session_id=None, after=None, before=None)
    given = [f.name for f in fields(where) if getattr(where, f.name) is not None]
    if given and not applies_where(store):
        msg = (
            f"filter.{given[0]}: this vector store filters by session and time alone; "
            "one with applies_where = True also filters by labels and metadata"
        )
        raise InvalidArgumentError(msg)
    return VectorStoreFilter(
        app_name=app,
        user_id=user,
        session_id=condition.session_id,
        after=condition.after,
        before=condition.before,
        where=where if given else None,
    )
