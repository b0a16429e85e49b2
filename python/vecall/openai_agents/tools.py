"""Memory tools as function tools of the SDK."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

from agents import FunctionTool, Tool

from vecall.errors import ConfigError
from vecall.openai_agents.texts import Name
from vecall.protocols import MemoryProtocol
from vecall.tools import ForgetMemory, MemoryTool, RunOwner
from vecall.tools import memory_tools as plain_tools


def memory_tools(
    memory: MemoryProtocol,
    app_name: Name,
    user_id: Name,
    *,
    write: bool = False,
    needs_approval: bool = False,
    **options: Any,
) -> list[Tool]:
    """Return the memory tools of a user for `Agent(tools=...)`.

    The tools and their schemas are those of `vecall.tools.memory_tools`. No argument of
    a model chooses the app or the user. Invalid arguments are answered with
    `{"error": ...}`.

    Args:
        memory: The memory service.
        app_name: The app, or a function as for `user_id`.
        user_id: The user, or a function that returns it. The function is called with
            what the SDK hands to a tool: `context.context` is the context of the run.
            If it fails or returns no valid name, the call of the tool fails.
        write: Whether the model may also write.
        needs_approval: Whether forgetting needs the approval of a person; needs a
            version of the SDK with approvals.
        **options: As in `vecall.tools.memory_tools`.

    Raises:
        InvalidArgumentError: A name or an option is invalid.
        ConfigError: The service supports no writing tool, or this version of the SDK
            has no approvals.
    """
    owner = RunOwner[Any](memory, app_name, user_id)
    options["write"] = write

    def bound(app: str, user: str) -> list[MemoryTool]:
        return plain_tools(memory, app, user, **options)

    known = bound(*owner.of(None)) if owner.is_fixed else bound("app", "user")

    def of_run(context: Any, at: int) -> MemoryTool:
        return known[at] if owner.is_fixed else bound(*owner.of(context))[at]

    return [
        _function_tool(tool, partial(of_run, at=at), needs_approval)
        for at, tool in enumerate(known)
    ]


def _function_tool(
    tool: MemoryTool, bound: Callable[[Any], MemoryTool], needs_approval: bool
) -> FunctionTool:
    """Return a function tool.

    Args:
        tool: The tool, for its name and schema.
        bound: Returns the tool of a run's user.
        needs_approval: As for `memory_tools`.
    """

    async def invoke(context: Any, arguments: str) -> str:
        try:
            given = json.loads(arguments or "{}")
        except (ValueError, RecursionError):
            return json.dumps({"error": "arguments: expected a JSON object"})
        return json.dumps(await bound(context).call(given), ensure_ascii=False)

    more: dict[str, Any] = {}
    if needs_approval and isinstance(tool, ForgetMemory):
        if not hasattr(FunctionTool, "needs_approval"):
            msg = "needs_approval: this version of openai-agents has no approvals"
            raise ConfigError(msg)
        more["needs_approval"] = True
    return FunctionTool(
        name=tool.name,
        description=tool.description,
        params_json_schema=tool.parameters,
        on_invoke_tool=invoke,
        strict_json_schema=False,
        **more,
    )
