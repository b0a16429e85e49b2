"""Which messages somebody said, and which are of a program.

System and developer messages instruct a model, and tools return pages and rows: they
are memories only if `include` asks for them. The shapes of OpenAI (chat completions and
responses), Anthropic, Gemini and LangChain are known; none of them is imported. Roles
and types compare without case and the space around them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from vecall.content import get_field, get_role

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
    """Who said a message.

    Attributes:
        author: The author, where only the message's type tells it.
        program: What `include` calls a message that nobody said; else None.
    """

    author: str | None = None
    program: str | None = None


_SPOKEN = Speaker()
_BY_ROLE = {role: Speaker(None, named) for role, named in _PROGRAMS.items()}.get
_LANGCHAIN = ("message", "messagechunk")
"""The ends of LangChain's names of classes, and of the types of their pieces."""


def speaker_of(event: object) -> Speaker:
    """Return who said a message: by its role, that of its content, or its type.

    An author is a name, also of agents that are called "developer" or "tool".
    """
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
        if is_item(event):
            return Speaker(None, _ITEMS[type_])
    return _SPOKEN


def is_item(event: object) -> bool:
    """Whether this is an item of OpenAI's responses, which nobody said."""
    type_ = get_field(event, "type")
    return (
        isinstance(type_, str)
        and type_ in _ITEMS
        and not isinstance(get_field(event, "author"), str)
        and not isinstance(get_field(event, "role"), str)
    )


def unwrapped(event: Any) -> Any:
    """Return a message of LangChain's without its envelope; another event as it is.

    Envelopes are those of `messages_to_dict` ("data") and of `dumpd` ("lc").
    """
    if type(event) is not dict or not ("data" in event or "lc" in event):
        return event
    data, path = event.get("data"), event.get("id")
    if isinstance(data, Mapping) and "type" in event:
        return {**data, "type": event["type"]}
    data = event.get("kwargs")
    if isinstance(data, Mapping) and isinstance(path, list) and path:
        return {"type": path[-1], **data}
    return event
