"""Keys and values that LangGraph's own stores take and items do not."""

from __future__ import annotations

import json
from datetime import date, datetime, time
from typing import Any
from uuid import UUID

_MARK = "\x1bkey:"
"""The beginning of a stored key that is JSON."""

_PLAIN = frozenset((str, int, float, bool, type(None)))
_TEXTS = (date, datetime, time)
_MOST = 5_000


class ManyValuesError(Exception):
    """A value has more values inside than an event loop should look at."""


def stored_key(key: Any) -> Any:
    """Return the key of the item: a key that is empty or has NUL as JSON.

    Also one with a lone surrogate, or that looks like the JSON of another key.
    """
    if type(key) is str and key and key.isprintable():
        return key  # most keys
    if not isinstance(key, str):
        return key
    odd = not key or "\0" in key or key.startswith(_MARK)
    if odd or key != key.encode("utf-8", "replace").decode():
        return _MARK + json.dumps(key)
    return key


def shown_key(key: str) -> str:
    """Return the key of an item as it was given."""
    if not key.startswith(_MARK):
        return key
    try:
        given: object = json.loads(key[len(_MARK) :])
    except ValueError:
        return key
    return given if isinstance(given, str) else key


def plain(value: Any, most: float = _MOST) -> Any:
    """Return a value with dates, times and UUIDs as texts; itself if it has none.

    Args:
        value: The value. What else JSON does not have stays, and items refuse it.
        most: How many values inside to look at.

    Raises:
        ManyValuesError: There are more.
    """
    try:
        return _Texts(most).of(value)
    except RecursionError:
        return value  # items refuse it


class _Texts:
    __slots__ = ("left",)

    def __init__(self, left: float) -> None:
        self.left = left

    def of(self, value: Any) -> Any:
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind is dict or kind is list or kind is tuple:
            self.left -= len(value)
            if self.left < 0:
                raise ManyValuesError
        if kind is dict:
            made = {key: self.of(each) for key, each in value.items()}
            same = all(made[key] is each for key, each in value.items())
            return value if same else made
        if kind is list or kind is tuple:
            items = [self.of(each) for each in value]
            same = all(a is b for a, b in zip(items, value, strict=True))
            return value if same else items
        if isinstance(value, _TEXTS):
            return value.isoformat()
        return str(value) if isinstance(value, UUID) else value
