"""Memories as a model reads them in a tool's answer."""

from __future__ import annotations

from typing import Any

from vecall.rendering.neutralise import clean
from vecall.timestamps import to_iso
from vecall.types import MemoryEntry

_NAMES = ("author", "id", "session_id", "kind", "source", "trust")


def as_json(memory: MemoryEntry) -> dict[str, Any]:
    """Return a memory as JSON values; what is not known of it is left out.

    Characters that nobody sees are gone, as in `render`, and `custom_metadata` is never
    shown. `timestamp` is ISO 8601 in UTC, of when it was said or else stored; `scope`
    is there for what is not the user's own.
    `relevance` is what the search ranked by, comparable within one answer only;
    `confidence` is how likely it is relevant. Both have four digits.
    """
    shown: dict[str, Any] = {"text": clean(memory.text)}
    for name in _NAMES:
        if (value := getattr(memory, name)) is not None:
            shown[name] = clean(value)
    if memory.scope != "user":
        shown["scope"] = memory.scope
    moment = memory.created_at if memory.timestamp is None else memory.timestamp
    if moment is not None:
        shown["timestamp"] = to_iso(moment)
    if memory.score is not None:
        shown["relevance"] = _digits(memory.score)
    if memory.confidence is not None:
        shown["confidence"] = _digits(memory.confidence)
    return shown


def _digits(value: float) -> float:
    return float(f"{value:.4g}")
