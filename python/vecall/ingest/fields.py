"""The field names of entries, events and sessions that are mappings, with aliases.

Other systems use other names for the same field. Each mapping is translated to the
names of vecall's own types, in snake_case. An unknown field is refused, not dropped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from vecall.clock import ttl_seconds
from vecall.content import camel_case, get_field
from vecall.errors import InvalidArgumentError, InvalidTypeError, LimitExceededError
from vecall.ingest.parts import is_responses_item
from vecall.limits import Limits
from vecall.scalars import is_field_name, json_default, odd_json_value
from vecall.validation import checked_bool


class Fields(NamedTuple):
    """The fields of a kind of mapping, and the field of every spelling or None."""

    names: tuple[str, ...]
    aliases: dict[str, str]
    ignored: tuple[str, ...]
    spellings: dict[str, str | None]


def _declare_fields(names: str, aliases: dict[str, str], ignored: str) -> Fields:
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

ENTRY = _declare_fields(
    f"{_SAID} event_id valid_until supersedes parts",
    _ALIASES,
    # Fields that a search adds to what was stored.
    "score similarity confidence explanation updated_at scope",
)
"""An explicit memory."""

EVENT = _declare_fields(
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

SESSION = _declare_fields(
    "app_name user_id id events",
    {"session_id": "id", "messages": "events"},
    "state last_update_time",  # of google-adk's sessions
)
"""A conversation."""


def fields_by_vecall_name(source: object, known: Fields, where: str) -> object:
    """Return a mapping's values by vecall's names; any other object unchanged.

    None counts as absent. A `created_at` with an `updated_at` is the storage time; it
    counts as the timestamp only without another one. Unknown fields of a google-adk
    dump, recognised by an invocation id and actions, are ignored, as are those of an
    item of OpenAI's responses.
    """
    if type(source) is not dict and not isinstance(source, Mapping):
        return source
    spellings = known.spellings
    found: dict[str, Any] = {}
    names: dict[str, str] = {}
    for name, value in source.items():
        field = spellings.get(name, "") if isinstance(name, str) else ""
        if field == "":
            if known is EVENT and (_is_adk_event(source) or is_responses_item(source)):
                continue
            shown = f' "{name}"' if is_field_name(name) else ""
            fields = ", ".join([*known.names, *known.aliases])
            msg = f"{where}: unknown field{shown}; fields are {fields}"
            raise InvalidArgumentError(msg)
        if field is None or value is None:
            continue
        if field not in found:
            found[field], names[field] = value, name
        elif not _is_same_name(found[field], value):
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
        raise InvalidArgumentError(f"{where}.{name}: is not the {name} of the call")


def check_event_parts(event: object) -> None:
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


def _is_same_name(first: object, second: object) -> bool:
    return first is second or (type(first) is type(second) and bool(first == second))


# Custom metadata as stored: JSON of limited size and depth.


def copy_metadata(value: object) -> dict[str, Any]:
    """Return a copy of custom_metadata as a dict; None becomes an empty one."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidTypeError("custom_metadata: expected a mapping")
    return dict(value)


def metadata_json(
    meta: dict[str, Any], limits: Limits, *, in_order: bool = False
) -> str | None:
    """Return metadata as JSON; sorted keys make equal metadata equal text."""
    if not meta:
        return None
    if _has_more_metadata_values(meta, limits.max_metadata_bytes):
        raise LimitExceededError(_metadata_too_large_error(limits))
    try:
        depth = _value_nesting_depth(meta, limits.max_metadata_depth)
        if depth <= limits.max_metadata_depth:
            text = json.dumps(
                meta, allow_nan=False, sort_keys=not in_order, default=json_default
            )
        plain = _has_string_keys(meta)  # json converts other keys to strings
    except (TypeError, ValueError):
        plain = False
    except RecursionError:  # the limit is above what Python allows
        depth = limits.max_metadata_depth + 1
    if depth > limits.max_metadata_depth:
        msg = (
            f"custom_metadata: at most max_metadata_depth = {limits.max_metadata_depth}"
        )
        raise LimitExceededError(msg)
    if not plain:
        raise InvalidTypeError(
            "custom_metadata: expected JSON values under string keys, no NaN or Inf; "
            f"{odd_json_value(meta)}"
        )
    if len(text) > limits.max_metadata_bytes:
        raise LimitExceededError(_metadata_too_large_error(limits))
    return text


def _metadata_too_large_error(limits: Limits) -> str:
    return f"custom_metadata: at most max_metadata_bytes = {limits.max_metadata_bytes}"


def _has_more_metadata_values(value: object, limit: int) -> bool:
    """Whether it has more values than `limit`; each takes a character of JSON."""
    ahead: list[object] = [value]
    seen = 0
    while ahead and seen + len(ahead) <= limit:
        inner = ahead.pop()
        seen += 1
        if isinstance(inner, Mapping):
            ahead.extend(inner.values())
        elif isinstance(inner, list | tuple):
            ahead.extend(inner)
    return bool(ahead)


def _has_string_keys(value: object) -> bool:
    if isinstance(value, Mapping):
        keys = all(isinstance(key, str) for key in value)
        return keys and all(map(_has_string_keys, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_has_string_keys, value))
    return True


def _value_nesting_depth(value: object, limit: int) -> int:
    """How deep a value nests; stops at `limit`, because a cycle never ends."""
    if not isinstance(value, Mapping | list | tuple) or limit < 0:
        return 0
    inner = value.values() if isinstance(value, Mapping) else value
    return 1 + max((_value_nesting_depth(item, limit - 1) for item in inner), default=0)


# The custom_metadata of a call and of its memories, read by convention or verbatim.


class GivenMetadata(NamedTuple):
    """The arguments of a call for metadata and TTL, not checked yet."""

    values: Mapping[str, Any] | None = None
    verbatim: object = False
    ttl: float | timedelta | str | None = None


class CallMetadata(NamedTuple):
    """The values that all memories of a call share; both TTLs are in seconds."""

    meta: dict[str, Any]
    ttl: float | None = None
    revision_ttl: float | None = None
    app: str | None = None
    user: str | None = None
    include: frozenset[str] = frozenset()
    verbatim: bool = False


def call_metadata(
    given: GivenMetadata, app: str | None = None, user: str | None = None
) -> CallMetadata:
    """Return the values that all memories of a call share.

    Without `verbatim`, `ttl` in custom_metadata is the TTL of the memories, and
    `history_ttl` that of the revisions they overwrite. `revision_ttl`, Vertex AI's
    name, counts if `history_ttl` is absent. The values of `metadata` and all other keys
    are stored with each memory, sorted. `wait_for_completion` is ignored: every call
    waits.
    """
    verbatim = checked_bool(given.verbatim, "verbatim")
    none = CallMetadata({}, app=app, user=user, verbatim=verbatim)
    shared = merge_metadata(none, given.values)
    if given.ttl is None:
        return shared
    if shared.ttl is not None:
        msg = "ttl: expected either the argument or the key of custom_metadata"
        raise InvalidArgumentError(msg)
    return shared._replace(ttl=ttl_seconds(given.ttl))


def merge_metadata(outer: CallMetadata, custom_metadata: object) -> CallMetadata:
    """Merge the custom_metadata of one memory into those of its call."""
    if custom_metadata is None:
        return outer
    meta = copy_metadata(custom_metadata)
    if outer.verbatim:
        return outer._replace(meta={**outer.meta, **meta})
    inner = meta.pop("metadata", None)
    if isinstance(inner, Mapping):
        meta = {**inner, **meta}
    elif inner is not None:
        meta["metadata"] = inner
    meta.pop("wait_for_completion", None)
    given = {
        name: ttl_seconds(value)
        for name in ("ttl", "revision_ttl", "history_ttl")
        if (value := meta.pop(name, None)) is not None
    }
    vertex_name = given.get("revision_ttl", outer.revision_ttl)
    return outer._replace(
        meta={**outer.meta, **meta},
        ttl=given.get("ttl", outer.ttl),
        revision_ttl=given.get("history_ttl", vertex_name),
    )
