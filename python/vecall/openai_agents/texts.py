"""The text of conversation items, and the names of a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vecall.content import get_field

Name = str | Callable[[Any], str]
"""A name, or a function of an object whose `context` is the context of the run."""

_TEXTS = ("input_text", "output_text", "text")


def role_of(item: Any) -> str | None:
    """Return the role of a message; None for a call, a result or a reasoning."""
    role = get_field(item, "role")
    kind = get_field(item, "type")
    return role if isinstance(role, str) and kind in (None, "message") else None


def text_of(item: Any) -> str:
    """Return the text of a message, its parts joined by newlines."""
    content = get_field(item, "content")
    if isinstance(content, str):
        return content
    if not isinstance(content, list | tuple):
        return ""
    texts = [
        get_field(part, "text") for part in content if get_field(part, "type") in _TEXTS
    ]
    return "\n".join(text for text in texts if isinstance(text, str))
