"""Optional texts of thoughts, function calls and their responses.

The parts of google-adk, Anthropic and OpenAI are read, and dicts of the same shape.
Calls of memory tools are skipped: their results are stored memories, which may be
deleted meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

from vecall.content import get_field, is_thought, parts_of
from vecall.errors import ConfigError
from vecall.prompts.strip import without_recalled

Inner = Literal["thoughts", "calls", "system"]
"""What is stored only on request: parts of a turn, or messages that nobody said."""

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

_KINDS = get_args(Inner)
_CUT = " …"


def checked_include(given: object) -> frozenset[str]:
    """Return what is stored besides the message texts.

    Raises:
        ConfigError: Not a sequence of "thoughts", "calls" and "system".
    """
    if isinstance(given, list | tuple | set | frozenset) and all(
        isinstance(kind, str) and kind in _KINDS for kind in given
    ):
        return frozenset(given)
    names = ", ".join(f'"{kind}"' for kind in _KINDS)
    msg = f"include: expected a sequence of {names}, which may be empty"
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


def program_texts(
    message: object, program: str, content: object, texts: list[str]
) -> list[str]:
    """Return the texts of a message that nobody said, and that `include` names.

    Args:
        message: A message of a system, a developer or a tool, or an item of OpenAI's
            responses.
        program: What `include` calls it.
        content: Its content.
        texts: The texts of its content.
    """
    if program == "system":
        return texts
    if program == "thoughts":
        summary = get_field(message, "summary")
        return [_marked("thought", "", each) for each in _texts(summary) or texts]
    calls = [text for text in map(_call, parts_of(content)) if text]
    told = [text for text in texts if text not in calls]
    found = _item(message)
    if found is None and told:
        name = get_field(message, "name")
        if not isinstance(name, str) or name not in MEMORY_TOOLS:
            found = _marked("response", name, "\n".join(told))
    return [found, *calls] if found else calls


def tool_calls(message: object) -> list[str]:
    """Return the texts of a message's calls in OpenAI's or LangChain's shape."""
    calls = get_field(message, "tool_calls")
    if not isinstance(calls, list | tuple):
        return []
    return [text for text in map(_tool_call, calls) if text]


def _tool_call(call: object) -> str | None:
    function = get_field(call, "function")
    if function is not None:
        call = function
    values = get_field(call, "arguments")
    return _shown("call", call, get_field(call, "args") if values is None else values)


def _item(part: object) -> str | None:
    """Return the text of a call or a response that is a part or an item by itself."""
    type_ = get_field(part, "type")
    if type_ == "tool_use":
        return _shown("call", part, get_field(part, "input"))
    if type_ in ("function_call", "custom_tool_call", "mcp_call"):
        values = get_field(part, "arguments")
        return _shown(
            "call", part, get_field(part, "input") if values is None else values
        )
    if type_ in ("function_call_output", "custom_tool_call_output"):
        return _marked("response", "", _joined(get_field(part, "output")))
    if type_ == "tool_result":
        return _marked("response", "", _joined(get_field(part, "content")))
    return None


def _shown(word: str, call: object, values: object) -> str | None:
    name = get_field(call, "name")
    if not isinstance(name, str) or not name or name in MEMORY_TOOLS:
        return None
    text = _json(values) if isinstance(values, Mapping) else values
    return _marked(word, name, text)


def _marked(word: str, name: object, text: object) -> str:
    """Return a text with its kind and name before it, cut if it is long."""
    named = f" {_cut(name, '')}" if isinstance(name, str) and name else ""
    shown = f" {_cut(text, _CUT)}" if isinstance(text, str) and text else ""
    return without_recalled(f"({word}){named}{shown}")


def _joined(content: Any) -> str:
    return content if isinstance(content, str) else "\n".join(_texts(content))


def _texts(parts: object) -> list[str]:
    if not isinstance(parts, list | tuple):
        return []
    texts = (
        part if isinstance(part, str) else get_field(part, "text") for part in parts
    )
    return [text for text in texts if isinstance(text, str) and text]


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
    return _item(part)


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
