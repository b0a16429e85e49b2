"""Converts explicit memories of google-adk to entries of a vecall service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from vecall.adk.json_values import to_metadata
from vecall.adk.local_time import local_seconds
from vecall.content import as_list, get_field
from vecall.errors import InvalidTypeError
from vecall.ingest.fields import ENTRY, by_name
from vecall.timestamps import Time, to_iso, to_seconds

RESERVED_KEY = "vecall"
"""The key of custom_metadata that holds the scores of a recalled memory."""

_PROVENANCE = ("importance", "session_id", "event_id")
_OWNER = ("app_name", "user_id")
_ENTRY_FIELDS = (
    "content",
    "parts",
    "author",
    "kind",
    "source",
    "trust",
    "valid_until",
    "supersedes",
    *_PROVENANCE,
    *_OWNER,
)


def entry(
    text: str,
    *,
    id: str | None = None,
    author: str | None = None,
    timestamp: Time | None = None,
    custom_metadata: Mapping[str, Any] | None = None,
) -> MemoryEntry:
    """Return a google-adk MemoryEntry for a text; the class itself refuses a str.

    Args:
        text: The text of the memory.
        id: The id, for memories that you write repeatedly; default: derived.
        author: "user" or the name of an agent.
        timestamp: The time of the statement: seconds since 1970, a datetime or
            ISO 8601; without an offset it is local time.
        custom_metadata: Your own values, as JSON; a value that JSON lacks becomes its
            str(). "ttl" (seconds, a timedelta or "30d") sets a TTL.

    Raises:
        InvalidArgumentError: The timestamp is not a time.
        InvalidTypeError: The text is not a string.
    """
    said: object = text
    if not isinstance(said, str):
        msg = "text: expected a string"
        raise InvalidTypeError(msg)
    seconds = local_seconds(timestamp, "timestamp")
    given: dict[str, Any] = {} if id is None else {"id": id}
    return MemoryEntry(
        content=types.Content(
            role="user" if author in (None, "user") else "model",
            parts=[types.Part(text=text)],
        ),
        author=author,
        timestamp=None if seconds is None else to_iso(to_seconds(seconds, "timestamp")),
        custom_metadata=to_metadata(custom_metadata or {}),
        **given,
    )


def to_memories(memories: object) -> list[object]:
    """Return the arguments of `add_memory` as entries of a vecall service.

    Raises:
        InvalidTypeError: `memories` is not a sequence.
        InvalidArgumentError: A timestamp is not ISO 8601, or a field is unknown.
    """
    return [
        _to_memory(memory, f"memories[{number}]")
        for number, memory in enumerate(as_list(memories, "memories"))
    ]


def _to_memory(memory: object, where: str) -> object:
    if isinstance(memory, str):
        return memory
    memory = by_name(memory, ENTRY, where)
    fields = {name: get_field(memory, name) for name in _ENTRY_FIELDS}
    if fields["content"] is None:
        fields["content"] = get_field(memory, "text")
    fields["id"] = get_field(memory, "id") or None
    fields["timestamp"] = local_seconds(get_field(memory, "timestamp"), "timestamp")
    metadata = get_field(memory, "custom_metadata")
    if isinstance(metadata, Mapping):
        recalled = metadata.get(RESERVED_KEY)
        own = {key: value for key, value in metadata.items() if key != RESERVED_KEY}
        metadata = to_metadata(own)
        # A recalled memory that is changed and added again keeps its provenance.
        for name in _PROVENANCE:
            if fields[name] is None and isinstance(recalled, Mapping):
                fields[name] = recalled.get(name)
    fields["custom_metadata"] = metadata
    return fields
