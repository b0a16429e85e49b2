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
        max_entries: The maximum number of memories in an answer.
        memory: The memory service; default: the Runner's. Required inside an
            `AgentTool`, because google-adk gives its Runner an empty memory service.
        on_missing: Without a memory service, "error" raises an error, which ends the
            run; "empty" returns an empty result, and logs a warning once.
        **look: `max_tokens`, `count_tokens`, `scores`, `neutralise` and `filter`, as in
            `vecall.tools.LoadMemory`. The default filter is that of the
            `VecallMemoryService`.

    Raises:
        InvalidArgumentError: `max_entries` is below 1.
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
        max_limit: The maximum of the model's `limit`.
        memory: As in `LoadMemoryTool`.
        on_missing: As in `LoadMemoryTool`.
        **look: As in `LoadMemoryTool`.

    Raises:
        InvalidArgumentError: `max_limit` is below 1.
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
        InvalidArgumentError: `max_tokens` is not valid.
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
    """A tool whose writes have the calling agent as their author."""

    def bound(self, asking: ToolCaller, **more: Any) -> MemoryTool:
        if not isinstance(asking.memory, vecall.BaseMemoryService | None):
            msg = f"{self.name}: the Runner's memory_service is no VecallMemoryService"
            raise ConfigError(msg)
        return super().bound(asking, author=asking.agent, **more)


class RememberTool(_WritingTool):
    """The tool `remember(text, kind, importance)`; see `vecall.tools.Remember`.

    The author of the memories is the agent that calls the tool.

    Args:
        trust: The trust of the memories that it writes.
        memory: As in `LoadMemoryTool`.
        on_missing: As in `LoadMemoryTool`.

    Raises:
        InvalidArgumentError: `trust` is not valid.
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

    The author of the correction is the agent that calls the tool.

    Args:
        trust: The trust of memories that it may correct, in addition to memories of
            unknown trust.
        memory: As in `LoadMemoryTool`.
        on_missing: As in `LoadMemoryTool`.

    Raises:
        InvalidArgumentError: `trust` is not valid.
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
        max_entries: The maximum number of memories to delete at once.
        ask_user: Whether google-adk's tool confirmation asks the user before a
            deletion. If False, the description instructs the model to ask.
        memory: As in `LoadMemoryTool`.
        on_missing: As in `LoadMemoryTool`.
        **look: As in `LoadMemoryTool`.

    Raises:
        InvalidArgumentError: `max_entries` is below 1.
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
