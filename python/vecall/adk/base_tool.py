"""The base class of vecall's tools for google-adk."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Hashable, Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple, get_args
from weakref import WeakKeyDictionary

from google.adk.agents.invocation_context import InvocationContext
from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from vecall.adk.memory_service import VecallMemoryService
from vecall.errors import ConfigError, MemoryNotConfiguredError
from vecall.limits import Limits
from vecall.tools import MemoryTool, OnMissing, ShownMemories
from vecall.types import Filter

# A placeholder for a memory service, to check the options of a tool.
_METHODS = (
    "add_memory add_session_to_memory confirm_forget expand_session get_memory "
    "propose_forget search_memory update_memory"
).split()
_log = logging.getLogger("vecall")


def _takes_anything(**_: object) -> None:
    """A placeholder method."""


_UNBOUND: Any = SimpleNamespace(
    limits=Limits(), **dict.fromkeys(_METHODS, _takes_anything)
)


# Memories shown in recent turns, by memory service of another class than vecall's.
_turns: WeakKeyDictionary[object, ShownMemories] = WeakKeyDictionary()


def _turns_of(service: object) -> ShownMemories:
    try:
        return _turns.setdefault(service, ShownMemories())
    except TypeError:  # not weakly referenceable, or not hashable
        return ShownMemories()


class ToolCaller(NamedTuple):
    """The user, the memory and the turn of an invocation.

    Attributes:
        memory: The `vecall.MemoryService`, or the Runner's memory service of another
            class; None if no memory service is configured.
        turns: The memories shown in recent turns.
        app_name: The app.
        user_id: The user.
        turn: The unique key of this turn of the user.
        agent: The name of the agent. Only its requests contain its blocks.
        said: The user's message, or None.
        filter: The filter of searches if the tool has no filter of its own; None: no
            filter.
    """

    memory: Any
    turns: ShownMemories
    app_name: str
    user_id: str
    turn: Hashable
    agent: str
    said: types.Content | None
    filter: Filter | None = None


class VecallTool(BaseTool):
    """A vecall tool that finds the user and the memory in the invocation.

    Args:
        make: Creates the tool for one user; called with memory, app name, user id and
            options.
        memory: The memory service; default: the Runner's.
        options: Further arguments of `make`.
        on_missing: Without a memory service, "error" raises an error, which ends the
            run; "empty" returns an empty result, and logs a warning once.

    Raises:
        ConfigError: An option is not valid.
        InvalidArgumentError: A number or a name is not valid.
    """

    def __init__(
        self,
        make: Callable[..., MemoryTool],
        memory: BaseMemoryService | None,
        options: Mapping[str, Any],
        on_missing: OnMissing = "error",
    ) -> None:
        """Check the options, and copy name and description."""
        if on_missing not in get_args(OnMissing):
            msg = 'on_missing: must be "error" or "empty"'
            raise ConfigError(msg)
        unbound = make(_UNBOUND, "app", "user", **options)
        super().__init__(name=unbound.name, description=unbound.description)
        self._make = make
        self._memory = memory
        self._options = dict(options)
        self._declared = unbound.declaration()
        self._on_missing = on_missing
        self._without_memory = dict(unbound._without_memory)
        self._warned = False

    def asking(self, context: ToolContext) -> ToolCaller:
        """Return the user, the memory and the turn of this context."""
        invocation: InvocationContext = context._invocation_context
        service = self._memory or invocation.memory_service
        if isinstance(service, VecallMemoryService):
            memory: object = service.memory
            turns, by_default = service.turns, service.filter
        else:
            memory, turns, by_default = service, _turns_of(service), None
        return ToolCaller(
            memory,
            turns,
            invocation.app_name,
            invocation.user_id,
            (invocation.session.id, invocation.invocation_id),
            context.agent_name,
            invocation.user_content,
            by_default,
        )

    def without_memory(self, asking: ToolCaller) -> dict[str, Any] | None:
        """Return the answer without a memory service, with `on_missing="empty"`."""
        if asking.memory is not None or self._on_missing == "error":
            return None
        if not self._warned:
            self._warned = True
            _log.warning("%s has no memory service and finds nothing", self.name)
        return copy.deepcopy(self._without_memory)

    def bound(self, asking: ToolCaller, **more: Any) -> MemoryTool:
        """Return the tool, bound to the caller.

        Raises:
            MemoryNotConfiguredError: No memory service is configured.
        """
        if asking.memory is None:
            msg = f"{self.name}: the Runner has no memory_service"
            raise MemoryNotConfiguredError(msg)
        return self._make(
            asking.memory,
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
            args: The model's arguments; names that are not declared are ignored.
            tool_context: The context, with the app and the user.

        Raises:
            MemoryNotConfiguredError: No memory service is configured, and `on_missing`
                is "error".
            ConfigError: The memory service lacks a method that the tool needs.
            VecallError: The memory service failed.
        """
        asking = self.asking(tool_context)
        if (answer := self.without_memory(asking)) is not None:
            return answer
        return await self.bound(asking).call(args, turn=(asking.turn, asking.agent))
