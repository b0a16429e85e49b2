"""The parts of a message, and who said it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, get_args

from vecall.content import content_parts, get_field, get_role, is_thought
from vecall.errors import ConfigError
from vecall.prompts.render import remove_recalled

# Optional texts of thoughts, function calls and their responses.
#
# The parts of google-adk, Anthropic and OpenAI are read, and dicts of the same shape.
# Calls of memory tools are skipped: their results are stored memories, which may be
# deleted meanwhile.

Inner = Literal["thoughts", "calls", "system"]
"""What is stored only on request: parts of a turn, or messages that nobody said."""

MEMORY_TOOLS = frozenset(
    "expand_session forget_memory load_memory preload_memory recall_memory remember "
    "update_memory".split()
)
"""The names of tools whose calls and responses are never stored."""

MOST_CHARS = 1_000
"""Maximum characters of a call's arguments or of a response; the rest is cut."""

_KINDS = get_args(Inner)
_CUT = " …"


def checked_included_parts(given: object) -> frozenset[str]:
    """Return what is stored besides the message texts."""
    if isinstance(given, list | tuple | set | frozenset) and all(
        isinstance(kind, str) and kind in _KINDS for kind in given
    ):
        return frozenset(given)
    names = ", ".join(f'"{kind}"' for kind in _KINDS)
    raise ConfigError(f"include: expected a sequence of {names}, which may be empty")


def inner_part_reader(include: frozenset[str]) -> Callable[[object], str | None] | None:
    """Return a function from an inner part to its text; None if none is stored."""
    if not include:
        return None

    def text_of(part: object) -> str | None:
        if "thoughts" in include and is_thought(part):
            return _thought_text(part)
        return _call_text(part) if "calls" in include else None

    return text_of


def texts_of_program(
    message: object, program: str, content: object, texts: list[str]
) -> list[str]:
    """Return the texts of a message that nobody said, and that `include` names."""
    if program == "system":
        return texts
    if program == "thoughts":
        summary = get_field(message, "summary")
        return [
            _marked_text("thought", "", each)
            for each in _texts_of_parts(summary) or texts
        ]
    calls = [text for text in map(_call_text, content_parts(content)) if text]
    told = [text for text in texts if text not in calls]
    found = _call_or_response_text(message)
    if found is None and told:
        name = get_field(message, "name")
        if not isinstance(name, str) or name not in MEMORY_TOOLS:
            found = _marked_text("response", name, "\n".join(told))
    return [found, *calls] if found else calls


def texts_of_tool_calls(message: object) -> list[str]:
    """Return the texts of a message's calls in OpenAI's or LangChain's shape."""
    calls = get_field(message, "tool_calls")
    if not isinstance(calls, list | tuple):
        return []
    return [text for text in map(_tool_call_text, calls) if text]


def _tool_call_text(call: object) -> str | None:
    function = get_field(call, "function")
    if function is not None:
        call = function
    values = get_field(call, "arguments")
    return _named_call_text(
        "call", call, get_field(call, "args") if values is None else values
    )


def _call_or_response_text(part: object) -> str | None:
    """Return the text of a call or a response that is a part or an item by itself."""
    type_ = get_field(part, "type")
    if type_ == "tool_use":
        return _named_call_text("call", part, get_field(part, "input"))
    if type_ in ("function_call", "custom_tool_call", "mcp_call"):
        values = get_field(part, "arguments")
        return _named_call_text(
            "call", part, get_field(part, "input") if values is None else values
        )
    if type_ in ("function_call_output", "custom_tool_call_output"):
        return _marked_text("response", "", _joined_texts(get_field(part, "output")))
    if type_ == "tool_result":
        return _marked_text("response", "", _joined_texts(get_field(part, "content")))
    return None


def _named_call_text(word: str, call: object, values: object) -> str | None:
    name = get_field(call, "name")
    if not isinstance(name, str) or not name or name in MEMORY_TOOLS:
        return None
    text = _cut_call_json(values) if isinstance(values, Mapping) else values
    return _marked_text(word, name, text)


def _marked_text(word: str, name: object, text: object) -> str:
    """Return a text with its kind and name before it, cut if it is long."""
    named = f" {_cut_text(name, '')}" if isinstance(name, str) and name else ""
    shown = f" {_cut_text(text, _CUT)}" if isinstance(text, str) and text else ""
    return remove_recalled(f"({word}){named}{shown}")


def _joined_texts(content: Any) -> str:
    return content if isinstance(content, str) else "\n".join(_texts_of_parts(content))


def _texts_of_parts(parts: object) -> list[str]:
    if not isinstance(parts, list | tuple):
        return []
    texts = (
        part if isinstance(part, str) else get_field(part, "text") for part in parts
    )
    return [text for text in texts if isinstance(text, str) and text]


def _thought_text(part: object) -> str | None:
    text = get_field(part, "text")
    if text is None:
        text = get_field(part, "thinking")
    own = remove_recalled(text) if isinstance(text, str) else ""
    return f"(thought) {own}" if own.strip() else None


def _call_text(part: object) -> str | None:
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
            shown = f" {_cut_call_json(values)}" if isinstance(values, Mapping) else ""
            return remove_recalled(f"({word}) {_cut_text(name, '')}{shown}") or None
    return _call_or_response_text(part)


def _cut_call_json(values: Mapping[object, object]) -> str:
    """Return the first characters of the JSON, without encoding all of it."""
    encoder = json.JSONEncoder(
        ensure_ascii=False,
        skipkeys=True,
        default=lambda value: f"<{type(value).__name__}>",
    )
    text = ""
    try:
        for piece in encoder.iterencode(dict(values)):
            text += piece[: MOST_CHARS + 1]
            if len(text) > MOST_CHARS:
                break
    except (TypeError, ValueError, RecursionError):  # circular, or very deep
        text += _CUT
    return _cut_text(text, _CUT)


def _cut_text(text: str, mark: str) -> str:
    return text if len(text) <= MOST_CHARS else text[:MOST_CHARS] + mark


# Which messages somebody said, and which are of a program.
#
# System and developer messages instruct a model, and tools return pages and rows: they
# are memories only if `include` asks for them. The shapes of OpenAI (chat completions
# and responses), Anthropic, Gemini and LangChain are known; none of them is imported.
# Roles and types compare without case and the space around them.

_PROGRAMS = {
    "system": "system",
    "developer": "system",
    "tool": "calls",
    "function": "calls",
}
"""What `include` calls the messages of a role."""

_SPEAKERS = {"human": "user", "ai": "assistant"}
"""The authors of LangChain's types of messages."""

_ITEMS = dict.fromkeys(
    "additional_tools apply_patch_call apply_patch_call_output code_interpreter_call "
    "computer_call computer_call_output custom_tool_call custom_tool_call_output "
    "file_search_call function_call function_call_output image_generation_call "
    "item_reference local_shell_call local_shell_call_output mcp_approval_request "
    "mcp_approval_response mcp_call mcp_list_tools program program_output shell_call "
    "shell_call_output tool_search_call tool_search_output web_search_call".split(),
    "calls",
) | dict.fromkeys(("compaction", "reasoning"), "thoughts")
"""What `include` calls the items of OpenAI's responses that are no messages."""


class Speaker(NamedTuple):
    """Who said a message: an author, or what `include` calls one that nobody said."""

    author: str | None = None
    program: str | None = None


_SPOKEN = Speaker()
_BY_ROLE = {role: Speaker(None, named) for role, named in _PROGRAMS.items()}.get
_LANGCHAIN = ("message", "messagechunk")
"""The ends of LangChain's names of classes, and of the types of their pieces."""


def speaker_of_event(event: object) -> Speaker:
    """Return who said a message: by its role, that of its content, or its type."""
    # An author is a name, also of agents that are called "developer" or "tool".
    if type(event) is dict and "role" not in event and "type" not in event:
        content = event.get("content")  # most turns: a text, and who said it
        if content is None or type(content) is str:
            return _SPOKEN
    role = get_field(event, "role")
    if not isinstance(role, str):
        role = get_role(get_field(event, "content"))
    if role is not None:
        return _BY_ROLE(role.strip().lower(), _SPOKEN)
    type_ = get_field(event, "type")
    if isinstance(type_, str):
        kind = type_.strip().lower()
        for end in _LANGCHAIN:
            kind = kind.removesuffix(end)
        if kind in _PROGRAMS or kind in _SPEAKERS:
            return Speaker(_SPEAKERS.get(kind, kind), _PROGRAMS.get(kind))
        if is_responses_item(event):
            return Speaker(None, _ITEMS[type_])
    return _SPOKEN


def is_spoken_role(role: object) -> bool:
    """Whether somebody says the messages of a role; nobody says those without one."""
    return isinstance(role, str) and _BY_ROLE(role.strip().lower()) is None


def is_instruction_role(role: object) -> bool:
    """Whether the messages of a role instruct a model."""
    return isinstance(role, str) and _PROGRAMS.get(role.strip().lower()) == "system"


def is_user_name(name: object) -> bool:
    """Whether a role or an author is the user's."""
    return name == "user"


def is_responses_item(event: object) -> bool:
    """Whether this is an item of OpenAI's responses, which nobody said."""
    type_ = get_field(event, "type")
    return (
        isinstance(type_, str)
        and type_ in _ITEMS
        and not isinstance(get_field(event, "author"), str)
        and not isinstance(get_field(event, "role"), str)
    )


def unwrap_langchain_message(event: Any) -> Any:
    """Return a message of LangChain's without its envelope; another event as it is."""
    # Envelopes are those of `messages_to_dict` ("data") and of `dumpd` ("lc").
    if type(event) is not dict or not ("data" in event or "lc" in event):
        return event
    data, path = event.get("data"), event.get("id")
    if isinstance(data, Mapping) and "type" in event:
        return {**data, "type": event["type"]}
    data = event.get("kwargs")
    if isinstance(data, Mapping) and isinstance(path, list) and path:
        return {"type": path[-1], **data}
    return event
