"""google-adk's events and entries, read and made."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from google.adk.memory.base_memory_service import SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

import vecall
from vecall.clock import Time, to_iso, to_seconds
from vecall.content import as_list, get_field
from vecall.errors import InvalidArgumentError, InvalidTypeError
from vecall.ingest.drafts import content_of_event, event_ids, split_by_rewind
from vecall.ingest.fields import ENTRY, EVENT, fields_by_vecall_name
from vecall.ingest.parts import is_user_name, speaker_of_event, unwrap_langchain_message
from vecall.text import neutralise_for_adk

_MAX_DEPTH = 64  # stops the recursion in metadata that contains itself


def json_safe_metadata(metadata: object) -> Any:
    """Return a call's custom_metadata with JSON values; TTLs stay unchanged."""
    if not isinstance(metadata, Mapping):
        return metadata  # None, or refused by the check of all arguments
    safe = adk_json(metadata)
    for name in ("ttl", "history_ttl", "revision_ttl"):
        if name in metadata:
            safe[name] = metadata[name]
    return safe


def adk_json(value: object, depth: int = 0) -> Any:
    """Return `value` as JSON; a value that JSON lacks becomes its str()."""
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, Mapping) and depth < _MAX_DEPTH:
        return {adk_text(key): adk_json(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple) and depth < _MAX_DEPTH:
        return [adk_json(item, depth + 1) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(adk_text(item) for item in value)
    return adk_text(value)


def adk_text(value: object) -> str:
    """Return a value's str(), or its type if that fails, without lone surrogates."""
    try:
        text = repr(value) if isinstance(value, bytes) else str(value)
    except Exception:
        text = f"<{type(value).__name__}>"
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def adk_local_seconds(value: Any, name: str) -> Any:
    """Return a text or a datetime, local without an offset, as seconds since 1970."""
    if isinstance(value, str):
        if not value.strip():
            return None
        # Before Python 3.11 fromisoformat does not accept "Z".
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


# Converts google-adk's events to the mappings that a vecall service reads.
#
# Events that google-adk does not show to a model are left out; the rules are in
# `vecall.ingest.drafts`. Objects in metadata become JSON values.


# Omitted keys: google-adk's internal notes and raw A2A messages. They are valid for one
# turn only, or secret.
_INTERNAL_METADATA = ("__adk_internal_", "a2a:")

NOTE_KEY = "adk"
"""The key of custom_metadata that holds notes on the event, such as its branch."""

_MAX_NOTE = 512

_OF_PROGRAMS = ("name", "arguments", "input", "output", "summary")
"""What a message that nobody said has beside its content, in other libraries."""


class SessionContent(NamedTuple):
    """Events as mappings, or the error that leaves out one that cannot be read."""

    events: list[dict[str, Any] | InvalidArgumentError]
    taken_back: list[str]  # ids of those that a rewind removed


def read_adk_events(
    events: Sequence[object],
    paced: Callable[[Iterable[object]], Iterator[object]] = iter,
) -> SessionContent:
    """Return a conversation as a vecall service reads it; `paced` may pause."""
    counted, taken_back = split_by_rewind(events, paced)
    return SessionContent(
        [_event_or_error(event) for event in paced(counted)], event_ids(taken_back)
    )


def _event_or_error(event: object) -> dict[str, Any] | InvalidArgumentError:
    try:
        return read_adk_event(event)
    except InvalidArgumentError as error:
        return type(error)(*error.args)


def read_adk_event(event: object) -> dict[str, Any]:
    """Return an event as the mapping that a vecall service reads."""
    if event is None or isinstance(event, str | bytes | int | float | list | tuple):
        raise InvalidTypeError("events: expected events as objects or mappings")
    event = unwrap_langchain_message(event)
    message = event
    event = fields_by_vecall_name(event, EVENT, "events")
    fields: dict[str, Any] = {
        "partial": get_field(event, "partial"),
        "content": content_of_event(event),
        "timestamp": _adk_event_time(event),
    }
    for name in ("id", "author"):
        value = get_field(event, name)
        fields[name] = value if isinstance(value, str) and value else None
    for name in ("role", "type"):  # of a chat message; they tell who said it
        if isinstance(value := get_field(message, name), str):
            fields[name] = value
    if speaker_of_event(message).program is not None:
        for name in _OF_PROGRAMS:
            if (value := get_field(message, name)) is not None:
                fields[name] = value
    compaction = get_field(get_field(event, "actions"), "compaction")
    if compaction is not None:
        fields["actions"] = {"compaction": compaction}
    metadata = get_field(event, "custom_metadata")
    given = adk_json(metadata) if isinstance(metadata, Mapping) else {}
    stored = {
        key: value
        for key, value in given.items()
        if not key.startswith(_INTERNAL_METADATA)
    }
    # Its invocation id is not stored: it would be a sixth of a short turn.
    branch = get_field(event, "branch")
    if isinstance(branch, str) and 0 < len(branch) <= _MAX_NOTE:
        stored.setdefault(NOTE_KEY, {"branch": adk_text(branch)})
    if stored:
        fields["custom_metadata"] = stored
    return fields


def _adk_event_time(event: object) -> Any:
    """Return the event's time; None if the attribute holds no number."""
    time = get_field(event, "timestamp")
    if not isinstance(event, Mapping) and not isinstance(time, float | str | datetime):
        time = time if type(time) is int else None
    return adk_local_seconds(time, "event.timestamp")


RESERVED_KEY = "vecall"
"""The key of custom_metadata that holds the scores of a recalled memory."""

_PROVENANCE = ("importance", "session_id", "event_id")
_ENTRY_FIELDS = (
    *"content parts author kind source trust valid_until supersedes".split(),
    *_PROVENANCE,
    *("app_name", "user_id"),
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
        raise InvalidTypeError("text: expected a string")
    seconds = adk_local_seconds(timestamp, "timestamp")
    given: dict[str, Any] = {} if id is None else {"id": id}
    return MemoryEntry(
        content=types.Content(
            role=_genai_role_of_author(author), parts=[types.Part(text=text)]
        ),
        author=author,
        timestamp=None if seconds is None else to_iso(to_seconds(seconds, "timestamp")),
        custom_metadata=json_safe_metadata(custom_metadata or {}),
        **given,
    )


def read_adk_memories(memories: object) -> list[object]:
    """Return the arguments of `add_memory` as entries of a vecall service."""
    return [
        _read_adk_memory(memory, f"memories[{number}]")
        for number, memory in enumerate(as_list(memories, "memories"))
    ]


def _read_adk_memory(memory: object, where: str) -> object:
    if isinstance(memory, str):
        return memory
    memory = fields_by_vecall_name(memory, ENTRY, where)
    fields = {name: get_field(memory, name) for name in _ENTRY_FIELDS}
    if fields["content"] is None:
        fields["content"] = get_field(memory, "text")
    fields["id"] = get_field(memory, "id") or None
    fields["timestamp"] = adk_local_seconds(get_field(memory, "timestamp"), "timestamp")
    metadata = get_field(memory, "custom_metadata")
    if isinstance(metadata, Mapping):
        recalled = metadata.get(RESERVED_KEY)
        own = {key: value for key, value in metadata.items() if key != RESERVED_KEY}
        metadata = json_safe_metadata(own)
        # A recalled memory that is changed and added again keeps its provenance.
        for name in _PROVENANCE:
            if fields[name] is None and isinstance(recalled, Mapping):
                fields[name] = recalled.get(name)
    fields["custom_metadata"] = metadata
    return fields


_SCORES = ("score", "similarity", "confidence", "importance", "session_id", "event_id")

# Copies of these objects take a third of the time of new, validated ones. The other
# fields are None, so copies share no objects.
_PART = types.Part(text="")
_CONTENT = types.Content(role="user", parts=[])
_HAS_ID = "id" in MemoryEntry.model_fields  # since google-adk 1.19


def to_adk_response(
    found: vecall.SearchMemoryResponse, *, scores: bool = True
) -> SearchMemoryResponse:
    """Return a search result in google-adk's classes; omit entries without text."""
    entries = (_to_adk_entry(each, scores) for each in found.memories)
    return SearchMemoryResponse(memories=[each for each in entries if each is not None])


def _genai_role_of_author(author: str | None) -> str:
    """Return google-genai's role of what an author said."""
    return "user" if author is None or is_user_name(author) else "model"


def _to_adk_entry(memory: vecall.MemoryEntry, scored: bool) -> MemoryEntry | None:
    text = neutralise_for_adk(memory.text)
    if not text.strip():
        return None
    scores = {
        name: value for name in _SCORES if (value := getattr(memory, name)) is not None
    }
    said = {
        "role": _genai_role_of_author(memory.author),
        "parts": [_PART.model_copy(update={"text": text})],
    }
    fields: dict[str, Any] = {
        "content": _CONTENT.model_copy(update=said),
        "author": None if memory.author is None else neutralise_for_adk(memory.author),
        "timestamp": None if memory.timestamp is None else to_iso(memory.timestamp),
        "custom_metadata": adk_json(memory.custom_metadata),
    }
    if scored:
        fields["custom_metadata"][RESERVED_KEY] = scores
    if _HAS_ID:
        fields["id"] = memory.id
    return MemoryEntry(**fields)
