"""Memory tools for models, independent of frameworks, bound to one user of one app.

The model chooses the query. Your code sets the app and the user; no argument of a tool
call changes them. Reading and writing are separate tools. `memory_tools` returns the
writing tools only on request.
"""

from __future__ import annotations

from typing import Any

from vecall.content import get_field
from vecall.errors import ConfigError
from vecall.filters.rights import Rights
from vecall.protocols import MemoryProtocol
from vecall.tools.base import (
    MemoryTool,
    OnMissing,
    Placement,
    RunOwner,
    restrict_service,
    search_with_fallback,
)
from vecall.tools.for_models import (
    ExpandSession,
    ForgetMemory,
    LoadMemory,
    RecallMemory,
    Remember,
    UpdateMemory,
)
from vecall.tools.output import DEFAULT_MAX_TOKENS, ShownMemories
from vecall.tools.preload import (
    PreloadFormat,
    PreloadMemory,
    UnaskedFloor,
    checked_floor,
    search_unasked,
)
from vecall.types import FilterLike

__all__ = [
    "DEFAULT_MAX_TOKENS",
    "ExpandSession",
    "ForgetMemory",
    "LoadMemory",
    "MemoryTool",
    "OnMissing",
    "Placement",
    "PreloadFormat",
    "PreloadMemory",
    "RecallMemory",
    "Remember",
    "RunOwner",
    "ShownMemories",
    "UnaskedFloor",
    "UpdateMemory",
    "checked_floor",
    "memory_tools",
    "search_unasked",
    "search_with_fallback",
]


def memory_tools(
    memory: MemoryProtocol | None,
    app_name: str,
    user_id: str,
    *,
    write: bool = False,
    author: str = "agent",
    trust: str = "unknown",
    turns: ShownMemories | None = None,
    on_missing: OnMissing = "error",
    filter: FilterLike | None = None,
    **look: Any,
) -> list[MemoryTool]:
    """Return the tools to offer to a model.

    The reading tools are `recall_memory` and `expand_session`. With `write`, the result
    also has `remember`, `update_memory` and `forget_memory`. Tools that need a method
    the service lacks are omitted: a service with only the methods of `MemoryProtocol`
    has only `recall_memory`.

    Two tools are never in the result: `LoadMemory`, which is the same search under the
    name of google-adk, and `PreloadMemory`, which models do not call.

    Args:
        memory: The memory service.
        app_name: The app.
        user_id: The user.
        write: Whether the model may also write.
        author: The author of memories that `remember` stores.
        trust: The trust of memories that `remember` stores.
        turns: The memories that `PreloadMemory` showed in this turn; answers omit them.
        on_missing: As in `MemoryTool`.
        filter: Which memories `recall_memory` may show. For the other tools, memories
            below its `min_trust` do not exist, see `Rights`; other conditions do not
            hide turns around a memory.
        **look: `max_tokens`, `count_tokens`, `scores` and `neutralise`, as in
            `SearchTool`.

    Raises:
        InvalidArgumentError: A name or the filter is invalid.
        ConfigError: `on_missing` is invalid, the service's search takes no filter, or
            `write` is set and the service supports no writing tool or cannot apply
            `min_trust`.
    """
    floor = None if filter is None else get_field(filter, "min_trust")
    who = (memory, app_name, user_id)
    recall = RecallMemory(
        *who, turns=turns, on_missing=on_missing, filter=filter, **look
    )
    found: list[MemoryTool] = [recall]
    if ExpandSession.serves(memory):
        shown = {name: value for name, value in look.items() if name != "scores"}
        expand = ExpandSession(*who, on_missing=on_missing, min_trust=floor, **shown)
        found.append(expand)
    if not write:
        return found
    who = (restrict_service(memory, Rights(min_trust=floor)), app_name, user_id)
    said: dict[str, Any] = {"author": author, "trust": trust, "on_missing": on_missing}
    kinds: list[tuple[type[MemoryTool], dict[str, Any]]] = [
        (Remember, said),
        (UpdateMemory, said),
        (ForgetMemory, {"on_missing": on_missing, **look}),
    ]
    writing = [kind(*who, **given) for kind, given in kinds if kind.serves(memory)]
    if not writing:
        msg = "write: this memory service has no method by which a tool could write"
        raise ConfigError(msg)
    return found + writing
