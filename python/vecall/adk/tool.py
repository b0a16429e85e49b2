"""What vecall's tools have in common as tools of google-adk."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

from google.adk.agents.invocation_context import InvocationContext
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from vecall.adk.memory_service import VecallMemoryService
from vecall.config import Limits
from vecall.errors import MemoryNotConfiguredError
from vecall.service import MemoryService
from vecall.tools import MemoryTool

_UNBOUND = cast("MemoryService", SimpleNamespace(limits=Limits()))


class Asking(NamedTuple):
    """Who asks in an invocation, and whom.

    Attributes:
        service: The memory; None where the Runner has none, or one of another kind.
        app_name: The app.
        user_id: The user.
        turn: What tells this turn of the user from all others.
        agent: Whose requests and calls these are; a block is in no other agent's.
        said: What the user said, or None.
    """

    service: VecallMemoryService | None
    app_name: str
    user_id: str
    turn: Hashable
    agent: str
    said: types.Content | None


class VecallTool(BaseTool):
    """A vecall tool that finds the user and the memory in the invocation.

    Args:
        make: Makes the tool for one user: takes memory, app name, user id and options.
        memory: The memory; without it that of the Runner.
        options: What `make` takes besides.

    Raises:
        ConfigError: An option that cannot be used.
        InvalidArgumentError: A number or a name that cannot be one.
    """

    def __init__(
        self,
        make: Callable[..., MemoryTool],
        memory: VecallMemoryService | None,
        options: Mapping[str, Any],
    ) -> None:
        """Check the options, and take over name and description."""
        told = make(_UNBOUND, "app", "user", **options)
        super().__init__(name=told.name, description=told.description)
        self._make = make
        self._memory = memory
        self._options = dict(options)
        self._declared = told.declaration()

    def asking(self, context: ToolContext) -> Asking:
        """Return who asks in this context, and whom."""
        invocation: InvocationContext = context._invocation_context
        service: object = self._memory or invocation.memory_service
        return Asking(
            service if isinstance(service, VecallMemoryService) else None,
            invocation.app_name,
            invocation.user_id,
            (invocation.session.id, invocation.invocation_id),
            context.agent_name,
            invocation.user_content,
        )

    def bound(self, asking: Asking, **more: Any) -> MemoryTool:
        """Return the tool for who asks.

        Raises:
            MemoryNotConfiguredError: There is no memory to ask.
        """
        if asking.service is None:
            msg = f"{self.name}: the Runner's memory_service is no VecallMemoryService"
            raise MemoryNotConfiguredError(msg)
        return self._make(
            asking.service.memory,
            asking.app_name,
            asking.user_id,
            **self._options,
            **more,
        )

    def _get_declaration(self) -> types.FunctionDeclaration | None:
        if self._declared is None:
            return None
        return types.FunctionDeclaration.model_validate(self._declared)

    async def run_async(
        self, *, args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any]:
        """Answer a model's call.

        Args:
            args: What the model gave; names that the declaration lacks are ignored.
            tool_context: Says whose memory it is.

        Raises:
            MemoryNotConfiguredError: There is no memory to ask.
            VecallError: The memory failed.
        """
        asking = self.asking(tool_context)
        return await self.bound(asking).call(args, turn=(asking.turn, asking.agent))
