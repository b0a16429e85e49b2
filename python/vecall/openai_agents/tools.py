"""Memory tools as function tools of the SDK."""

from __future__ import annotations

import json
from typing import Any

from agents import FunctionTool

from vecall.errors import ConfigError
from vecall.protocols import MemoryProtocol
from vecall.tools import ForgetMemory, MemoryTool
from vecall.tools import memory_tools as plain_tools


def memory_tools(
    memory: MemoryProtocol,
    app_name: str,
    user_id: str,
    *,
    write: bool = False,
    needs_approval: bool = False,
    **options: Any,
) -> list[FunctionTool]:
    """Return the memory tools of one user for `Agent(tools=...)`.

    The tools and their schemas are those of `vecall.tools.memory_tools`. No argument of
    a model chooses the app or the user. Invalid arguments are answered with
    `{"error": ...}`.

    Args:
        memory: The memory service.
        app_name: The app.
        user_id: The user.
        write: Whether the model may also write.
        needs_approval: Whether forgetting needs the approval of a person; needs a
            version of the SDK with approvals.
        **options: As in `vecall.tools.memory_tools`.

    Raises:
        InvalidArgumentError: A name or an option is invalid.
        ConfigError: The service supports no writing tool, or this version of the SDK
            has no approvals.
    """
    found = plain_tools(memory, app_name, user_id, write=write, **options)
    return [_function_tool(tool, needs_approval) for tool in found]


def _function_tool(tool: MemoryTool, needs_approval: bool) -> FunctionTool:
    async def invoke(_context: Any, arguments: str) -> str:
        try:
            given = json.loads(arguments or "{}")
        except (ValueError, RecursionError):
            return json.dumps({"error": "arguments: expected a JSON object"})
        return json.dumps(await tool.call(given), ensure_ascii=False)

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
