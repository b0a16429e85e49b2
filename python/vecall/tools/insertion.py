"""Inserts a block of recalled memories into the messages of a request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

Placement = Literal["user", "system"]
Message = dict[str, Any]

_SYSTEM = ("system", "developer")


def insert_block(
    messages: Sequence[Message], block: str, placement: Placement
) -> list[Message]:
    """Return messages with the block inserted; the arguments are not changed.

    Args:
        messages: Dicts with "role" and "content": a text or a list of parts.
        block: The text; "" changes nothing.
        placement: "user" appends the block as a separate user message. "system" appends
            it to the system text, or adds a system message if there is none.
    """
    given = list(messages)
    if not block:
        return given
    if placement == "user":
        return [*given, {"role": "user", "content": block}]
    for at, message in enumerate(given):
        if message.get("role") in _SYSTEM:
            given[at] = {**message, "content": _longer(message.get("content"), block)}
            return given
    return [{"role": "system", "content": block}, *given]


def _longer(content: Any, block: str) -> Any:
    if isinstance(content, list):
        return [*content, {"type": "text", "text": block}]
    return f"{content}\n\n{block}" if content else block
