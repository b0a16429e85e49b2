"""Memory as tools for a model, of no framework, bound to one user of one app.

The model chooses what to look for, never whose memory: app and user are given here, in
code, and no argument of a call changes them. Looking things up and writing are separate
tools, and `memory_tools` gives the writing ones only where they are asked for.
"""

from __future__ import annotations

from vecall.service import MemoryService
from vecall.tools.base import MemoryTool, OnMissing
from vecall.tools.degraded import search_or_words
from vecall.tools.forget import ForgetMemory
from vecall.tools.load import LoadMemory
from vecall.tools.placement import Placement
from vecall.tools.preload import PreloadFormat, PreloadMemory
from vecall.tools.recall import RecallMemory
from vecall.tools.remember import Remember
from vecall.tools.turns import Turns

__all__ = [
    "ForgetMemory",
    "LoadMemory",
    "MemoryTool",
    "OnMissing",
    "Placement",
    "PreloadFormat",
    "PreloadMemory",
    "RecallMemory",
    "Remember",
    "Turns",
    "memory_tools",
    "search_or_words",
]


def memory_tools(
    memory: MemoryService | None,
    app_name: str,
    user_id: str,
    *,
    write: bool = False,
    author: str = "agent",
    trust: str = "unknown",
    turns: Turns | None = None,
    on_missing: OnMissing = "error",
) -> list[MemoryTool]:
    """Return the tools to offer to a model: `recall_memory`, and those that write.

    `LoadMemory` is the same search under the name that google-adk gives it, and
    `PreloadMemory` is not for a model to call; neither is among them.

    Args:
        memory: The memory service.
        app_name: The app.
        user_id: The user.
        write: Whether the model may also write: `remember` and `forget_memory`.
        author: Who is said to have written what `remember` stores.
        trust: How far what it stores is trusted.
        turns: What `PreloadMemory` gave already, to be left out here.
        on_missing: As in `MemoryTool`.

    Raises:
        InvalidArgumentError: A name that cannot be one.
        ConfigError: Another `on_missing`.
    """
    recall = RecallMemory(memory, app_name, user_id, turns=turns, on_missing=on_missing)
    if not write:
        return [recall]
    remember = Remember(
        memory, app_name, user_id, author=author, trust=trust, on_missing=on_missing
    )
    forget = ForgetMemory(memory, app_name, user_id, on_missing=on_missing)
    return [recall, remember, forget]
