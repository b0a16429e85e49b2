"""The tools that a model calls: three that read, and three that write."""

from __future__ import annotations

from typing import Any

from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.tools.tool_context import ToolContext

import vecall
from vecall import tools
from vecall.adk.base_tool import ToolCaller, VecallTool
from vecall.errors import ConfigError
from vecall.tools import MemoryTool, OnMissing


class _SearchTool(VecallTool):
    """Omits memories that were preloaded in the same invocation."""

    def bound(self, asking: ToolCaller, **more: Any) -> MemoryTool:
        if self._options.get("filter") is None:
            more["filter"] = asking.filter
        return super().bound(asking, turns=asking.turns, **more)


class LoadMemoryTool(_SearchTool):
    """The tool `load_memory(query)`; see `vecall.tools.LoadMemory`.

    Args:
        max_entries: At most this many memories in an answer.
        memory: The memory; without it that of the Runner. Inside an `AgentTool`, whose
            Runner google-adk gives an empty memory, there is no other way.
        on_missing: Where there is no memory, "error" raises, which ends the run;
            "empty" answers as if nothing were remembered, and logs so once.
        **look: `max_tokens`, `count_tokens`, `scores`, `neutralise` and `filter`, as in
            `vecall.tools.LoadMemory`. Without a filter, that of the
            `VecallMemoryService` applies.

    Raises:
        InvalidArgumentError: `max_entries` below 1.
    """

    def __init__(
        self,
        *,
        max_entries: int = 5,
        memory: BaseMemoryService | None = None,
        on_missing: OnMissing = "error",
        **look: Any,
    ) -> None:
        """Check the options."""
        options = {"max_entries": max_entries, **look}
        super().__init__(tools.LoadMemory, memory, options, on_missing)


class RecallMemoryTool(_SearchTool):
    """The tool `recall_memory(query, limit)`; see `vecall.tools.RecallMemory`.

    Args:
        max_limit: The upper bound of the model's `limit`.
        memory: As in `LoadMemoryTool`.
        on_missing: As in `LoadMemoryTool`.
        **look: As in `LoadMemoryTool`.

    Raises:
        InvalidArgumentError: `max_limit` below 1.
    """

    def __init__(
        self,
        *,
        max_limit: int = 20,
        memory: BaseMemoryService | None = None,
        on_missing: OnMissing = "error",
        **look: Any,
    ) -> None:
        """Check the options."""
        options = {"max_limit": max_limit, **look}
        super().__init__(tools.RecallMemory, memory, options, on_missing)


class ExpandSessionTool(VecallTool):
    """The tool `expand_session(id, turns_before, turns_after, begin)`.

    See `vecall.tools.ExpandSession`.

    Args:
        memory: As in `LoadMemoryTool`.
        on_missing: As in `LoadMemoryTool`.
        **look: `max_tokens`, `count_tokens` and `neutralise`, as in `LoadMemoryTool`.

    Raises:
        InvalidArgumentError: A number that cannot be one.
    """

    def __init__(
        self,
        *,
        memory: BaseMemoryService | None = None,
        on_missing: OnMissing = "error",
        **look: Any,
    ) -> None:
        """Check the options."""
        super().__init__(tools.ExpandSession, memory, look, on_missing)


class _WritingTool(VecallTool):
    """Writes as the agent that calls it."""

    def bound(self, asking: ToolCaller, **more: Any) -> MemoryTool:
        if not isinstance(asking.memory, vecall.BaseMemoryService | None):
            msg = f"{self.name}: the Runner's memory_service is no VecallMemoryService"
            raise ConfigError(msg)
        return super().bound(asking, author=asking.agent, **more)


class RememberTool(_WritingTool):
    """The tool `remember(text, kind, importance)`; see `vecall.tools.Remember`.

    The author of what it writes is the agent that calls it.

    Args:
        trust: How far what it writes is trusted.
        memory: As in `LoadMemoryTool`.
        on_missing: As in `LoadMemoryTool`.

    Raises:
        InvalidArgumentError: A trust that cannot be one.
    """

    def __init__(
        self,
        *,
        trust: str = "unknown",
        memory: BaseMemoryService | None = None,
        on_missing: OnMissing = "error",
    ) -> None:
        """Check the trust."""
        super().__init__(tools.Remember, memory, {"trust": trust}, on_missing)


class UpdateMemoryTool(_WritingTool):
    """The tool `update_memory(id, text, importance)`; see `vecall.tools.UpdateMemory`.

    The author of the correction is the agent that calls it.

    Args:
        trust: Which memories may be corrected beside those of unknown trust.
        memory: As in `LoadMemoryTool`.
        on_missing: As in `LoadMemoryTool`.

    Raises:
        InvalidArgumentError: A trust that cannot be one.
    """

    def __init__(
        self,
        *,
        trust: str = "unknown",
        memory: BaseMemoryService | None = None,
        on_missing: OnMissing = "error",
    ) -> None:
        """Check the trust."""
        super().__init__(tools.UpdateMemory, memory, {"trust": trust}, on_missing)


class ForgetMemoryTool(VecallTool):
    """The tool `forget_memory(query, token, ids)`; see `vecall.tools.ForgetMemory`.

    Args:
        max_entries: At most this many memories go at once.
        ask_user: Have google-adk ask the user before anything is deleted, as its
            confirmation of tools does. Without it the description tells the model to.
        memory: As in `LoadMemoryTool`.
        on_missing: As in `LoadMemoryTool`.
        **look: As in `LoadMemoryTool`.

    Raises:
        InvalidArgumentError: `max_entries` below 1.
    """

    def __init__(
        self,
        *,
        max_entries: int = 5,
        ask_user: bool = False,
        memory: BaseMemoryService | None = None,
        on_missing: OnMissing = "error",
        **look: Any,
    ) -> None:
        """Check the options."""
        options = {"max_entries": max_entries, **look}
        super().__init__(tools.ForgetMemory, memory, options, on_missing)
        self._ask_user = ask_user

    async def run_async(
        self, *, args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any]:
        """Answer a model's call, as `VecallTool.run_async` does."""
        asking = self.asking(tool_context)
        if (missing := self.without_memory(asking)) is not None:
            return missing
        bound = self.bound(asking)
        if self._ask_user and args.get("token"):
            confirmed = tool_context.tool_confirmation
            if confirmed is None:
                hint = "May what was just shown be forgotten for good?"
                tool_context.request_confirmation(hint=hint)
                tool_context.actions.skip_summarization = True
                return {"status": "waiting_for_the_user"}
            if not confirmed.confirmed:
                return {"status": "refused_by_the_user"}
        answer = await bound.call(args)
        # A block of this turn must not show a deleted memory again.
        if answer.get("status") == "forgotten":
            asking.turns.drop((asking.app_name, asking.user_id))
        return answer


load_memory = LoadMemoryTool()
recall_memory = RecallMemoryTool()
expand_session = ExpandSessionTool()
remember = RememberTool()
update_memory = UpdateMemoryTool()
forget_memory = ForgetMemoryTool()
