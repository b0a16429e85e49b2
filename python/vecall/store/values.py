"""Validates JSON and numbers that are read from a file or an export.

A file or an export may come from an untrusted source and have valid checksums. So every
value is checked here before it is used.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from vecall.errors import CorruptFileError, InvalidArgumentError
from vecall.timestamps import to_seconds, ttl_seconds
from vecall.types import check_share

_DEPTH = 200
_STRINGS = ("id", "author", "kind", "source", "trust")
_PAST_STRINGS = (*_STRINGS[1:], "session", "event", "digest", "text")


def finite_json(text: str) -> Any:
    """Return the value of a JSON text.

    Raises:
        ValueError: Not JSON, nested too deeply, or a number is not finite.
    """
    try:
        return _decode(text)
    except (RecursionError, TypeError) as error:
        raise ValueError from error


def json_object(text: str, name: str) -> dict[str, Any]:
    """Return the JSON object in a caller's string.

    Raises:
        InvalidArgumentError: Not a JSON object, nested too deeply, or a number is not
            finite.
    """
    try:
        found = finite_json(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not _is_flat(found):
        msg = f"{name}: expected a JSON object as a string, all numbers finite"
        raise InvalidArgumentError(msg)
    return found


def stored_object(text: str) -> dict[str, Any]:
    """Return a JSON object of the file.

    Raises:
        CorruptFileError: The text is not a JSON object.
    """
    try:
        found = finite_json(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise CorruptFileError(NO_VALUE)
    return found


def stored_list(text: str) -> list[Any]:
    """Return a JSON array of the file.

    Raises:
        CorruptFileError: The text is not a JSON array.
    """
    try:
        found = finite_json(text)
    except ValueError:
        found = None
    if not isinstance(found, list):
        raise CorruptFileError(NO_VALUE)
    return found


def require_counts(*values: object) -> None:
    """Check that values of the file are whole numbers.

    Raises:
        CorruptFileError: A value is not an integer.
    """
    for value in values:
        if type(value) is not int:
            raise CorruptFileError(NO_VALUE)


def check_past(values: Mapping[str, Any], name: str) -> None:
    """Check an overwritten revision of a memory, or its digest.

    Raises:
        InvalidArgumentError: A field is unknown or has a wrong value.
    """
    if not isinstance(values.get("digest", values.get("text")), str):
        msg = f"{name}: expected a text, or a digest of it"
        raise InvalidArgumentError(msg)
    for field, value in values.items():
        if value is None:
            continue
        if field in ("ts", "updated_at"):
            to_seconds(_number(value, name), f"{name}.{field}")
        elif field == "importance":
            check_share(value, f"{name}.{field}")
        elif field in ("content", "meta"):
            json_object(_string(value, name), f"{name}.{field}")
        elif field in _PAST_STRINGS:
            _string(value, name)
        elif field == "state" and value == "quarantined":
            continue
        else:
            msg = f"{name}: expected the fields of a memory"
            raise InvalidArgumentError(msg)


def check_turn(event: Mapping[str, Any], name: str) -> None:
    """Check a buffered turn or compaction.

    Raises:
        InvalidArgumentError: A field has a wrong type or value.
    """
    content, actions = event.get("content"), event.get("actions")
    if content is None and not isinstance(actions, Mapping):
        msg = f"{name}: expected a content or actions"
        raise InvalidArgumentError(msg)
    if content is not None:
        _check_content(content, name)
    if isinstance(actions, Mapping):
        _check_compaction(actions.get("compaction"), name)
    for field in _STRINGS:
        if event.get(field) is not None:
            _string(event[field], name)
    if event.get("timestamp") is not None:
        to_seconds(_number(event["timestamp"], name), f"{name}.timestamp")
    if event.get("importance") is not None:
        check_share(event["importance"], f"{name}.importance")
    meta = event.get("custom_metadata", {})
    if not isinstance(meta, Mapping):
        msg = f"{name}.custom_metadata: expected a mapping"
        raise InvalidArgumentError(msg)
    for field in ("ttl", "revision_ttl"):
        if meta.get(field) is not None:
            ttl_seconds(_number(meta[field], name))


def _check_content(content: object, name: str) -> None:
    if isinstance(content, Mapping):
        parts = content.get("parts")
        role = content.get("role")
        good = isinstance(parts, list) and isinstance(role, str | None)
        checked = parts if isinstance(parts, list) and good else [None]
        values = [p.get("text") if isinstance(p, Mapping) else p for p in checked]
    else:
        values = [content]
    texts = [text for text in values if isinstance(text, str)]
    if not values or len(texts) < len(values):
        msg = f"{name}.content: expected a text, or parts with texts"
        raise InvalidArgumentError(msg)
    if not any(text.strip() for text in texts):
        msg = f"{name}.content: must not be blank"
        raise InvalidArgumentError(msg)


def _check_compaction(compaction: object, name: str) -> None:
    if not isinstance(compaction, Mapping):
        msg = f"{name}.actions: expected a compaction"
        raise InvalidArgumentError(msg)
    for field in ("start_timestamp", "end_timestamp"):
        if compaction.get(field) is not None:
            to_seconds(_number(compaction[field], name), f"{name}.{field}")
    _check_content(compaction.get("compacted_content"), name)


def _number(value: Any, name: str) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        msg = f"{name}: expected texts and numbers as they were"
        raise InvalidArgumentError(msg)
    return value


def _string(value: object, name: str) -> str:
    if not isinstance(value, str):
        msg = f"{name}: expected texts and numbers as they were"
        raise InvalidArgumentError(msg)
    return value


def _is_flat(value: object) -> bool:
    """Whether a value is nested at most 200 levels, which other JSON writers accept."""
    level: list[object] = [value]
    for _ in range(_DEPTH):
        deeper: list[object] = []
        for item in level:
            if isinstance(item, dict):
                deeper.extend(item.values())
            elif isinstance(item, list):
                deeper.extend(item)
        if not deeper:
            return True
        level = deeper
    return False


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError
    return value


def _refuse(_: str) -> float:
    raise ValueError


_decode = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite).decode


NO_VALUE = (
    "the file is damaged: a value is not as vecall writes it; `vecall doctor` says more"
)
