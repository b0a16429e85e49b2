"""Converts search results to google-adk's classes."""

from __future__ import annotations

from typing import Any

from google.adk.memory.base_memory_service import SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

import vecall
from vecall.adk.entries import RESERVED_KEY
from vecall.adk.json_values import to_json
from vecall.text import neutral
from vecall.timestamps import to_iso

_SCORES = ("score", "similarity", "confidence", "importance", "session_id", "event_id")

# Copies of these objects take a third of the time of new, validated ones. The other
# fields are None, so copies share no objects.
_PART = types.Part(text="")
_CONTENT = types.Content(role="user", parts=[])
_HAS_ID = "id" in MemoryEntry.model_fields  # since google-adk 1.19


def to_response(
    found: vecall.SearchMemoryResponse, *, scores: bool = True
) -> SearchMemoryResponse:
    """Return a search result in google-adk's classes; omit entries without text."""
    entries = (_to_entry(each, scores) for each in found.memories)
    return SearchMemoryResponse(memories=[each for each in entries if each is not None])


def _to_entry(memory: vecall.MemoryEntry, scored: bool) -> MemoryEntry | None:
    text = neutral(memory.text)
    if not text.strip():
        return None
    scores = {
        name: value for name in _SCORES if (value := getattr(memory, name)) is not None
    }
    said = {
        "role": "user" if memory.author in (None, "user") else "model",
        "parts": [_PART.model_copy(update={"text": text})],
    }
    fields: dict[str, Any] = {
        "content": _CONTENT.model_copy(update=said),
        "author": None if memory.author is None else neutral(memory.author),
        "timestamp": None if memory.timestamp is None else to_iso(memory.timestamp),
        "custom_metadata": to_json(memory.custom_metadata),
    }
    if scored:
        fields["custom_metadata"][RESERVED_KEY] = scores
    if _HAS_ID:
        fields["id"] = memory.id
    return MemoryEntry(**fields)
