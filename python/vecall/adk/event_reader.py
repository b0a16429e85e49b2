"""Converts google-adk's events to the mappings that a vecall service reads.

Events that google-adk does not show to a model are left out; the rules are in
`vecall.ingest.conversation`. Objects in metadata become JSON values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from vecall.adk.json_values import to_json, to_text
from vecall.adk.local_time import local_seconds
from vecall.content import get_field
from vecall.errors import InvalidArgumentError, InvalidTypeError
from vecall.ingest.conversation import ids_of, parted_by_rewind, said_in
from vecall.ingest.fields import EVENT, by_name
from vecall.ingest.roles import speaker_of, unwrapped

# Omitted keys: google-adk's internal notes and raw A2A messages. They are valid for one
# turn only, or secret.
_INTERNAL_METADATA = ("__adk_internal_", "a2a:")

NOTE_KEY = "adk"
"""The key of custom_metadata that holds notes on the event, such as its branch."""

_MAX_NOTE = 512

_OF_PROGRAMS = ("name", "arguments", "input", "output", "summary")
"""What a message that nobody said has beside its content, in other libraries."""


class SessionContent(NamedTuple):
    """The events of a conversation, and those that a rewind removed.

    Attributes:
        events: The events that no rewind removed, as mappings; the error of an event
            that cannot be read, which leaves out that event alone.
        taken_back: The ids of the events that a rewind removed.
    """

    events: list[dict[str, Any] | InvalidArgumentError]
    taken_back: list[str]


def read_events(
    events: Sequence[object],
    paced: Callable[[Iterable[object]], Iterator[object]] = iter,
) -> SessionContent:
    """Return a conversation in the form that a vecall service reads.

    Args:
        events: google-adk's events, in order.
        paced: Iterates over the events; may pause to let other threads run.
    """
    counted, taken_back = parted_by_rewind(events, paced)
    return SessionContent(
        [_event_or_error(event) for event in paced(counted)], ids_of(taken_back)
    )


def _event_or_error(event: object) -> dict[str, Any] | InvalidArgumentError:
    try:
        return to_event(event)
    except InvalidArgumentError as error:
        return type(error)(*error.args)


def to_event(event: object) -> dict[str, Any]:
    """Return an event as the mapping that a vecall service reads.

    Raises:
        InvalidTypeError: `event` is not an event.
        InvalidArgumentError: The timestamp is not ISO 8601, or is out of range.
    """
    if event is None or isinstance(event, str | bytes | int | float | list | tuple):
        msg = "events: expected events as objects or mappings"
        raise InvalidTypeError(msg)
    event = unwrapped(event)
    message = event
    event = by_name(event, EVENT, "events")
    fields: dict[str, Any] = {
        "partial": get_field(event, "partial"),
        "content": said_in(event),
        "timestamp": _time(event),
    }
    for name in ("id", "author"):
        value = get_field(event, name)
        fields[name] = value if isinstance(value, str) and value else None
    role = get_field(message, "role")
    if isinstance(role, str) and fields["author"] in (None, role):
        fields["role"] = role  # of a chat message; it tells who said it
    if isinstance(get_field(message, "type"), str):
        fields["type"] = get_field(message, "type")
    if speaker_of(message).program is not None:
        for name in _OF_PROGRAMS:
            if (value := get_field(message, name)) is not None:
                fields[name] = value
    compaction = get_field(get_field(event, "actions"), "compaction")
    if compaction is not None:
        fields["actions"] = {"compaction": compaction}
    metadata = get_field(event, "custom_metadata")
    stored: dict[str, Any] = {}
    if isinstance(metadata, Mapping):
        stored = {
            key: value
            for key, value in to_json(metadata).items()
            if not key.startswith(_INTERNAL_METADATA)
        }
    if notes := _notes(event):
        stored.setdefault(NOTE_KEY, notes)
    if stored:
        fields["custom_metadata"] = stored
    return fields


def _time(event: object) -> Any:
    """Return the event's time; None if the attribute holds no number."""
    time = get_field(event, "timestamp")
    if not isinstance(event, Mapping) and not isinstance(time, float | str | datetime):
        time = time if type(time) is int else None
    return local_seconds(time, "event.timestamp")


def _notes(event: object) -> dict[str, str]:
    """Return notes on an event in addition to id, author and time: its branch, if any.

    The invocation id is not stored. The session has it under the event's id, and it
    would add 75 bytes to each turn in the file: a sixth of a short turn.
    """
    branch = get_field(event, "branch")
    if isinstance(branch, str) and 0 < len(branch) <= _MAX_NOTE:
        return {"branch": to_text(branch)}
    return {}
