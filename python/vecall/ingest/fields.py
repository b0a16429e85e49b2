"""The field names of entries, events and sessions that are mappings, with aliases.

Other systems use other names for the same field. Each mapping is translated to the
names of vecall's own types, in snake_case. An unknown field is refused, not dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from vecall.content import camel_case, get_field
from vecall.errors import InvalidArgumentError
from vecall.ingest.roles import is_item
from vecall.scalars import is_field_name


class Fields(NamedTuple):
    """The fields of one kind of mapping.

    Attributes:
        names: The fields' names in vecall.
        aliases: Their aliases.
        ignored: Fields of known formats that are not stored.
        spellings: The field of every spelling, also in camelCase; None if ignored.
    """

    names: tuple[str, ...]
    aliases: dict[str, str]
    ignored: tuple[str, ...]
    spellings: dict[str, str | None]


def _fields(names: str, aliases: dict[str, str], ignored: str) -> Fields:
    known: dict[str, str | None] = dict.fromkeys(ignored.split())
    known |= {name: name for name in names.split()} | aliases
    spellings = {camel_case(name): field for name, field in known.items()} | known
    return Fields(tuple(names.split()), aliases, tuple(ignored.split()), spellings)


_ALIASES = {
    "text": "content",
    "memory": "content",
    "role": "author",
    "created_at": "timestamp",
    "metadata": "custom_metadata",
}
_SAID = (
    "content author timestamp kind source trust custom_metadata importance "
    "id session_id app_name user_id"
)

ENTRY = _fields(
    f"{_SAID} event_id valid_until supersedes parts",
    _ALIASES,
    # Fields that a search adds to what was stored.
    "score similarity confidence explanation updated_at scope",
)
"""An explicit memory."""

EVENT = _fields(
    f"{_SAID} parts partial actions input_transcription output_transcription "
    "invocation_id branch",
    {**_ALIASES, "event_id": "id"},
    # Of chat messages as model providers exchange them.
    "type name tool_calls tool_call_id function_call refusal annotations audio status "
    "call_id arguments summary encrypted_content reasoning_content phase "
    "stop_reason stop_sequence stop_details usage model container "
    "diagnostics context_management input_transformations "
    "tool_call_chunks chunk_position "
    "additional_kwargs response_metadata example invalid_tool_calls artifact "
    # Of google-adk's events.
    "turn_complete turn_complete_reason interaction_status finish_reason error_code "
    "error_message interrupted usage_metadata grounding_metadata model_version "
    "live_session_resumption_update live_session_id go_away voice_activity "
    "avg_logprobs logprobs_result cache_metadata citation_metadata interaction_id "
    "environment_id output node_info long_running_tool_ids isolation_scope",
)
"""A turn of a conversation."""

SESSION = _fields(
    "app_name user_id id events",
    {"session_id": "id", "messages": "events"},
    "state last_update_time",  # of google-adk's sessions
)
"""A conversation."""


def by_name(source: object, known: Fields, where: str) -> object:
    """Return a mapping's values by vecall's names; any other object unchanged.

    None counts as absent. A `created_at` with an `updated_at` is the storage time; it
    counts as the timestamp only without another one. Unknown fields of a google-adk
    dump, recognised by an invocation id and actions, are ignored, as are those of an
    item of OpenAI's responses.

    Args:
        source: The caller's value.
        known: The fields that it may have.
        where: Its position in the call, for messages.

    Raises:
        InvalidArgumentError: An unknown field, or two names of one field with
            different values.
    """
    if type(source) is not dict and not isinstance(source, Mapping):
        return source
    spellings = known.spellings
    found: dict[str, Any] = {}
    names: dict[str, str] = {}
    for name, value in source.items():
        field = spellings.get(name, "") if isinstance(name, str) else ""
        if field == "":
            if known is EVENT and (_is_adk_event(source) or is_item(source)):
                continue
            raise InvalidArgumentError(_unknown(name, known, where))
        if field is None or value is None:
            continue
        if field not in found:
            found[field], names[field] = value, name
        elif not _is_same(found[field], value):
            pair = sorted((names[field], name))
            if pair == ["created_at", "timestamp"] and "updated_at" in source:
                found[field] = source["timestamp"]
                continue
            msg = f"{where}: {pair[0]} and {pair[1]} are one field with two values"
            raise InvalidArgumentError(msg)
    return found


def require_same(fields: object, name: str, expected: str | None, where: str) -> None:
    """Raise InvalidArgumentError if a mapping's name differs from the call's."""
    if expected is None:
        return
    if type(fields) is not dict and not isinstance(fields, Mapping):
        return
    given = fields.get(name)
    if given is not None and given != expected:
        msg = f"{where}.{name}: is not the {name} of the call"
        raise InvalidArgumentError(msg)


def check_parts(event: object) -> None:
    """Raise InvalidArgumentError for parts beside a content, or that are no list."""
    parts = get_field(event, "parts")
    if parts is None:
        return
    if not isinstance(parts, list | tuple) or get_field(event, "content") is not None:
        msg = "event.parts: expected a list of parts, and no content beside it"
        raise InvalidArgumentError(msg)


def _is_adk_event(source: Mapping[Any, Any]) -> bool:
    return ("invocation_id" in source or "invocationId" in source) and (
        "actions" in source
    )


def _is_same(first: object, second: object) -> bool:
    return first is second or (type(first) is type(second) and bool(first == second))


def _unknown(name: object, known: Fields, where: str) -> str:
    shown = f'unknown field "{name}"' if is_field_name(name) else "unknown field"
    fields = ", ".join([*known.names, *known.aliases])
    return f"{where}: {shown}; fields are {fields}"
