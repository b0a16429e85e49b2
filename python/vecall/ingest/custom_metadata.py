"""Custom metadata as stored: JSON of limited size and depth."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from vecall.errors import InvalidTypeError, LimitExceededError
from vecall.limits import Limits
from vecall.scalars import json_default, odd_value


def metadata_of(value: object) -> dict[str, Any]:
    """Return a copy of custom_metadata as a dict; None becomes an empty one.

    Raises:
        InvalidTypeError: Not a mapping.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        msg = "custom_metadata: expected a mapping"
        raise InvalidTypeError(msg)
    return dict(value)


def metadata_json(
    meta: dict[str, Any], limits: Limits, *, in_order: bool = False
) -> str | None:
    """Return metadata as JSON.

    Args:
        meta: The metadata.
        limits: Their maximum size and depth.
        in_order: Keep the order of the keys. Otherwise they are sorted, so that equal
            metadata are equal text.

    Raises:
        InvalidTypeError: Not JSON values under string keys.
        LimitExceededError: Too large or too deep.
    """
    if not meta:
        return None
    if _has_more(meta, limits.max_metadata_bytes):
        raise LimitExceededError(_too_large(limits))
    try:
        depth = _depth(meta, limits.max_metadata_depth)
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
        msg = (
            "custom_metadata: expected JSON values under string keys, no NaN or Inf; "
            f"{odd_value(meta)}"
        )
        raise InvalidTypeError(msg)
    if len(text) > limits.max_metadata_bytes:
        raise LimitExceededError(_too_large(limits))
    return text


def _too_large(limits: Limits) -> str:
    return f"custom_metadata: at most max_metadata_bytes = {limits.max_metadata_bytes}"


def _has_more(value: object, limit: int) -> bool:
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


def _depth(value: object, limit: int) -> int:
    """How deep a value nests; stops at `limit`, because a cycle never ends."""
    if not isinstance(value, Mapping | list | tuple) or limit < 0:
        return 0
    inner = value.values() if isinstance(value, Mapping) else value
    return 1 + max((_depth(item, limit - 1) for item in inner), default=0)
