"""Converts stored rows and drafts to entries."""

from __future__ import annotations

import json
import math
from typing import Any

from vecall.store import Draft, Row, stored_object
from vecall.timestamps import to_seconds
from vecall.types import MemoryEntry, check_share


def _setter(name: str) -> Any:
    return getattr(MemoryEntry, name).__set__


# The constructor of a frozen dataclass spends half of its time on setting fields by
# name. A search makes several entries, so the slots are set directly here.
_new = MemoryEntry.__new__
_set_content = _setter("content")
_set_id = _setter("id")
_set_author = _setter("author")
_set_timestamp = _setter("timestamp")
_set_session_id = _setter("session_id")
_set_event_id = _setter("event_id")
_set_kind = _setter("kind")
_set_source = _setter("source")
_set_trust = _setter("trust")
_set_custom_metadata = _setter("custom_metadata")
_set_importance = _setter("importance")
_set_score = _setter("score")
_set_similarity = _setter("similarity")
_set_confidence = _setter("confidence")
_set_explanation = _setter("explanation")
_set_created_at = _setter("created_at")
_set_updated_at = _setter("updated_at")
_set_valid_until = _setter("valid_until")
_set_supersedes = _setter("supersedes")
_set_scope = _setter("scope")


def entry_from_row(
    row: Row,
    importance: float,
    score: float | None = None,
    similarity: float = math.nan,
    confidence: float | None = None,
    explanation: dict[str, float] | None = None,
    scope: str = "user",
) -> MemoryEntry:
    """Return a stored row as a new entry, which shares no object with the cache.

    Raises:
        CorruptFileError: The content or the metadata is not a JSON object.
        InvalidArgumentError: The importance is not a number within [0, 1], or a time
            is not valid.
    """
    values: tuple[Any, ...] = row
    (
        _, id_, session, event, _, ts, created_at, _, author, kind, source, trust, text,
        content, meta, _, _, _, valid_until, supersedes, updated_at,
    ) = values  # fmt: skip
    entry = _new(MemoryEntry)
    _set_content(entry, text if content is None else stored_object(content))
    _set_id(entry, id_)
    _set_author(entry, author)
    if ts is not None and type(ts) is not float:
        ts = to_seconds(ts, "timestamp")
    _set_timestamp(entry, ts)
    _set_session_id(entry, session)
    _set_event_id(entry, event)
    _set_kind(entry, kind)
    _set_source(entry, source)
    _set_trust(entry, trust)
    _set_custom_metadata(entry, {} if meta is None else stored_object(meta))
    if type(importance) is not float or not 0.0 <= importance <= 1.0:
        check_share(importance, "importance")
    _set_importance(entry, importance)
    _set_score(entry, score)
    _set_similarity(entry, None if math.isnan(similarity) else similarity)
    _set_confidence(entry, confidence)
    _set_explanation(entry, explanation)
    _set_created_at(entry, created_at)
    _set_updated_at(entry, updated_at)
    if valid_until is not None and type(valid_until) is not float:
        valid_until = to_seconds(valid_until, "valid_until")
    _set_valid_until(entry, valid_until)
    _set_supersedes(entry, supersedes)
    _set_scope(entry, scope)
    return entry


def entry_from_draft(draft: Draft) -> MemoryEntry:
    """Return a draft as an entry."""
    return MemoryEntry(
        draft.text if draft.content is None else json.loads(draft.content),
        id=draft.id,
        author=draft.author,
        timestamp=draft.ts,
        session_id=draft.session,
        event_id=draft.event,
        kind=draft.kind,
        source=draft.source,
        trust=draft.trust,
        custom_metadata={} if draft.meta is None else json.loads(draft.meta),
        importance=draft.importance,
        valid_until=draft.valid_until,
        supersedes=draft.supersedes,
    )
