"""Optional texts of thoughts, function calls and their responses.

google-adk's parts and dicts of the same shape are read. Calls of memory tools are
skipped: their results are stored memories, which may be deleted meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Literal

from vecall.content import get_field, is_thought
from vecall.errors import ConfigError
from vecall.prompts.strip import without_recalled

Inner = Literal["thoughts", "calls"]
"""Parts of a turn that are stored only on request."""

MEMORY_TOOLS = frozenset(
    {
        "expand_session",
        "forget_memory",
        "load_memory",
        "preload_memory",
        "recall_memory",
        "remember",
        "update_memory",
    }
)
"""The names of tools whose calls and responses are never stored."""

MOST_CHARS = 1_000
"""Maximum characters of a call's arguments or of a response; the rest is cut."""

_KINDS = ("thoughts", "calls")
_CUT = " …"


def checked_include(given: object) -> frozenset[str]:
    """Return which inner parts are stored besides the message texts.

    Raises:
        ConfigError: Not a sequence of "thoughts" and "calls".
    """
    if isinstance(given, list | tuple | set | frozenset) and all(
        isinstance(kind, str) and kind in _KINDS for kind in given
    ):
        return frozenset(given)
    msg = 'include: expected a sequence of "thoughts" and "calls", which may be empty'
    raise ConfigError(msg)


def inner_reader(include: frozenset[str]) -> Callable[[object], str | None] | None:
    """Return a function from an inner part to its text; None if none is stored."""
    if not include:
        return None

    def text_of(part: object) -> str | None:
        if "thoughts" in include and is_thought(part):
            return _thought(part)
        return _call(part) if "calls" in include else None

    return text_of


def _thought(part: object) -> str | None:
    text = get_field(part, "text")
    if text is None:
        text = get_field(part, "thinking")
    own = without_recalled(text) if isinstance(text, str) else ""
    return f"(thought) {own}" if own.strip() else None


def _call(part: object) -> str | None:
    if isinstance(part, str):
        return None
    for kind, field, word in (
        ("function_call", "args", "call"),
        ("function_response", "response", "response"),
    ):
        call = get_field(part, kind)
        name = None if call is None else get_field(call, "name")
        if isinstance(name, str) and name and name not in MEMORY_TOOLS:
            values = get_field(call, field)
            shown = f" {_json(values)}" if isinstance(values, Mapping) else ""
            return without_recalled(f"({word}) {_cut(name, '')}{shown}") or None
    return None


def _json(values: Mapping[object, object]) -> str:
    """Return the first characters of the JSON, without encoding all of it."""
    encoder = json.JSONEncoder(ensure_ascii=False, skipkeys=True, default=_foreign)
    text = ""
    try:
        for piece in encoder.iterencode(dict(values)):
            text += piece[: MOST_CHARS + 1]
            if len(text) > MOST_CHARS:
                break
    except (TypeError, ValueError, RecursionError):  # circular, or very deep
        text += _CUT
    return _cut(text, _CUT)


def _foreign(value: object) -> str:
    return f"<{type(value).__name__}>"


def _cut(text: str, mark: str) -> str:
    return text if len(text) <= MOST_CHARS else text[:MOST_CHARS] + mark
