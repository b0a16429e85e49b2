"""Between google-adk's types and vecall's, in both directions.

On the way in: foreign objects in metadata become JSON, times without an offset are
local as google-adk prints them, and events that google-adk itself would not show to a
model stay out. On the way out: google-adk's own classes, so that its tools take them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

try:
    from google.adk.memory.base_memory_service import SearchMemoryResponse
    from google.adk.memory.memory_entry import MemoryEntry
    from google.genai import types
except ImportError as error:
    msg = 'vecall.adk needs google-adk: pip install "vecall[adk]"'
    raise ImportError(msg) from error

import vecall
from vecall._duck import as_list, read, read_list
from vecall.errors import InvalidArgumentError, InvalidTypeError
from vecall.timestamps import Time, to_iso, to_seconds

RESERVED_KEY = "vecall"
"""The key of custom_metadata under which a recalled memory carries its scores."""

_SCORES = ("score", "similarity", "confidence", "importance", "session_id", "event_id")
_PROVENANCE = ("importance", "session_id", "event_id")
_ENTRY_FIELDS = ("content", "author", "kind", "source", "trust", *_PROVENANCE)

# Of one turn only, or secret: google-adk's own notes and the raw messages of A2A.
_INTERNAL_METADATA = ("__adk_internal_", "a2a:")

# Events around these calls ask for a credential or a confirmation.
_INTERNAL_CALLS = {
    "adk_framework",
    "adk_request_confirmation",
    "adk_request_credential",
}

_MAX_DEPTH = 64  # where metadata that contains itself stops


class LiveEvents(NamedTuple):
    """The events of a conversation, parted by whether a rewind took them back."""

    kept: list[object]
    rewound: list[object]


def parted_by_rewind(events: Sequence[object]) -> LiveEvents:
    """Part events as google-adk does when it shows a conversation to a model.

    An event that rewinds to before an invocation takes back everything from the first
    event of that invocation up to itself.
    """
    kept: list[object] = []
    rewound: list[object] = []
    first: dict[str, int] = {}
    for index, event in enumerate(events):
        invocation = read(event, "invocation_id")
        if isinstance(invocation, str):
            first.setdefault(invocation, index)
    index = len(events) - 1
    while index >= 0:
        event = events[index]
        target = read(read(event, "actions"), "rewind_before_invocation_id")
        if isinstance(target, str) and target:
            start = min(first.get(target, index), index)
            rewound += reversed(events[start : index + 1])
            index = start
        else:
            kept.append(event)
        index -= 1
    return LiveEvents(kept[::-1], rewound[::-1])


def session_events(session: object) -> list[object]:
    """Return the events of a session; None counts as empty.

    Raises:
        InvalidTypeError: They are not a sequence.
    """
    return read_list(session, "events", "session.events")


def to_event(event: object) -> dict[str, Any]:
    """Return an event as the mapping that a vecall service reads."""
    fields: dict[str, Any] = {
        name: read(event, name) for name in ("partial", "content")
    }
    for name in ("id", "author"):
        value = read(event, name)
        fields[name] = value if isinstance(value, str) and value else None
    if fields["content"] is None:
        fields["content"] = read(event, "text")
    if _is_internal(fields["content"]):
        fields["content"] = None
    fields["timestamp"] = _local_seconds(read(event, "timestamp"), "event.timestamp")
    metadata = read(event, "custom_metadata")
    if isinstance(metadata, Mapping):
        fields["custom_metadata"] = {
            key: value
            for key, value in to_json(metadata).items()
            if not key.startswith(_INTERNAL_METADATA)
        }
    return fields


def _is_internal(content: object) -> bool:
    parts = read(content, "parts")
    if not isinstance(parts, Sequence) or isinstance(parts, str | bytes):
        return False
    for part in parts:
        for kind in ("function_call", "function_response"):
            name = read(read(part, kind), "name")
            if isinstance(name, str) and name in _INTERNAL_CALLS:
                return True
    return False


def to_memories(memories: object) -> list[object]:
    """Return what `add_memory` is given as what a vecall service reads.

    Raises:
        InvalidTypeError: Not a sequence.
        InvalidArgumentError: A timestamp that is not ISO 8601.
    """
    return [_to_memory(memory) for memory in as_list(memories, "memories")]


def _to_memory(memory: object) -> object:
    if isinstance(memory, str):
        return memory
    fields = {name: read(memory, name) for name in _ENTRY_FIELDS}
    if fields["content"] is None:
        fields["content"] = read(memory, "text")
    fields["id"] = read(memory, "id") or None
    fields["timestamp"] = _local_seconds(read(memory, "timestamp"), "timestamp")
    metadata = read(memory, "custom_metadata")
    if isinstance(metadata, Mapping):
        own = {key: value for key, value in metadata.items() if key != RESERVED_KEY}
        metadata = to_metadata(own)
        # A memory that was recalled, changed and added again keeps where it came from.
        recalled = read(read(memory, "custom_metadata"), RESERVED_KEY)
        for name in _PROVENANCE:
            if fields[name] is None and isinstance(recalled, Mapping):
                fields[name] = recalled.get(name)
    fields["custom_metadata"] = metadata
    return fields


def to_metadata(metadata: object) -> Any:
    """Return a call's custom_metadata with JSON values; "ttl" stays as it is."""
    if not isinstance(metadata, Mapping):
        return metadata  # None, or refused where all arguments are checked
    safe = to_json(metadata)
    if "ttl" in metadata:
        safe["ttl"] = metadata["ttl"]
    return safe


def to_json(value: object, depth: int = 0) -> Any:
    """Return `value` as JSON can hold it; what JSON does not know becomes its str()."""
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, Mapping) and depth < _MAX_DEPTH:
        return {to_text(key): to_json(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple) and depth < _MAX_DEPTH:
        return [to_json(item, depth + 1) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(to_text(item) for item in value)
    return to_text(value)


def to_text(value: object) -> str:
    """Return a value's str(), or its type where that fails, without lone surrogates."""
    try:
        text = repr(value) if isinstance(value, bytes) else str(value)
    except Exception:
        text = f"<{type(value).__name__}>"
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _local_seconds(value: Any, name: str) -> Any:
    """A time as seconds since 1970; one without an offset is local time.

    What is neither text nor a datetime is left to the service to judge.
    """
    if isinstance(value, str):
        if not value.strip():
            return None
        # Before Python 3.11 fromisoformat does not know "Z".
        given = value[:-1] + "+00:00" if value.endswith(("Z", "z")) else value
        try:
            value = datetime.fromisoformat(given)
        except ValueError:
            msg = f"{name}: expected an ISO 8601 date and time"
            raise InvalidArgumentError(msg) from None
    if not isinstance(value, datetime):
        return value
    if value.tzinfo is None:
        try:
            value = value.astimezone()
        except (OverflowError, OSError, ValueError):
            msg = f"{name}: too far from today to be a local time; give an offset"
            raise InvalidArgumentError(msg) from None
    return to_seconds(value, name)


def to_response(found: vecall.SearchMemoryResponse) -> SearchMemoryResponse:
    """Return what a search found as google-adk's classes."""
    return SearchMemoryResponse(memories=[_to_entry(each) for each in found.memories])


def _to_entry(memory: vecall.MemoryEntry) -> MemoryEntry:
    scores = {
        name: value for name in _SCORES if (value := getattr(memory, name)) is not None
    }
    fields: dict[str, Any] = {
        "content": types.Content(
            role="user" if memory.author in (None, "user") else "model",
            parts=[types.Part(text=neutral(memory.text))],
        ),
        "author": None if memory.author is None else neutral(memory.author),
        "timestamp": None if memory.timestamp is None else to_iso(memory.timestamp),
        "custom_metadata": {**to_json(memory.custom_metadata), RESERVED_KEY: scores},
    }
    if "id" in MemoryEntry.model_fields:  # since google-adk 1.19
        fields["id"] = memory.id
    return MemoryEntry(**fields)


# google-adk prints memories between these tags and escapes nothing. Blanks, hyphens,
# underscores and invisible characters may stand between the letters; how many is
# bounded, so that a text of nothing but "<" takes linear time.
_GAP = "[-_\\s\u00ad\u200b-\u200f\u2060\ufeff]{0,8}"
_TAG = re.compile(f"<(?={_GAP}/?{_GAP}{_GAP.join('PASTCONVERSATIONS')})", re.IGNORECASE)


def neutral(text: str) -> str:
    """Return a text that cannot end the block in which google-adk shows memories."""
    return _TAG.sub("&lt;", text) if "<" in text else text


def entry(
    text: str,
    *,
    id: str | None = None,
    author: str | None = None,
    timestamp: Time | None = None,
    custom_metadata: Mapping[str, Any] | None = None,
) -> MemoryEntry:
    """Return a google-adk MemoryEntry for a text, which that class refuses as it is.

    Args:
        text: What to remember.
        id: Its identity, where it may be written again; derived when not given.
        author: "user" or the name of an agent.
        timestamp: When it was said: seconds since 1970, a datetime or ISO 8601; without
            an offset it is local time.
        custom_metadata: Your own values, as JSON; what JSON does not know becomes its
            str(). "ttl" (seconds, a timedelta or "3600s") makes it expire.

    Raises:
        InvalidArgumentError: A timestamp that is not a time.
        InvalidTypeError: The text is not a string.
    """
    said: object = text
    if not isinstance(said, str):
        msg = "text: expected a string"
        raise InvalidTypeError(msg)
    seconds = _local_seconds(timestamp, "timestamp")
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
