"""Converts values in google-adk metadata to JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

_MAX_DEPTH = 64  # stops the recursion in metadata that contains itself


def to_metadata(metadata: object) -> Any:
    """Return a call's custom_metadata with JSON values; TTLs stay unchanged."""
    if not isinstance(metadata, Mapping):
        return metadata  # None, or refused by the check of all arguments
    safe = to_json(metadata)
    for name in ("ttl", "history_ttl", "revision_ttl"):
        if name in metadata:
            safe[name] = metadata[name]
    return safe


def to_json(value: object, depth: int = 0) -> Any:
    """Return `value` as JSON; a value that JSON lacks becomes its str()."""
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
    """Return a value's str(), or its type if that fails, without lone surrogates."""
    try:
        text = repr(value) if isinstance(value, bytes) else str(value)
    except Exception:
        text = f"<{type(value).__name__}>"
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
