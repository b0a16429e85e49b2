"""The tools that a model calls: two that look things up, and two that write."""

from __future__ import annotations

from typing import Any

from google.adk.tools.tool_context import ToolContext

from vecall import tools
from vecall.adk.memory_service import VecallMemoryService
from vecall.adk.tool import Asking, VecallTool
from vecall.tools import MemoryTool


class _SearchTool(VecallTool):
    """Leaves out what was preloaded in the same invocation."""

    def bound(self, asking: Asking, **more: Any) -> MemoryTool:
        turns = None if asking.service is None else asking.service.turns
        return super().bound(asking, turns=turns, **more)


class LoadMemoryTool(_SearchTool):
    """The tool `load_memory(query)`; see `vecall.tools.LoadMemory`.

    Args:
        max_entries: At most this many memories in an answer.
        memory: The memory; without it that of the Runner. Inside an `AgentTool`, whose
            Runner google-adk gives an empty memory, there is no other way.

    Raises:
        InvalidArgumentError: `max_entries` below 1.
    """

    def __init__(
        self, *, max_entries: int = 5, memory: VecallMemoryService | None = None
    ) -> None:
        """Check the number."""
        super().__init__(tools.LoadMemory, memory, {"max_entries": max_entries})


class RecallMemoryTool(_SearchTool):
    """The tool `recall_memory(query, limit)`; see `vecall.tools.RecallMemory`.

    Args:
        max_limit: At most this many memories in an answer, whatever the model asks.
        memory: As in `LoadMemoryTool`.

    Raises:
        InvalidArgumentError: `max_limit` below 1.
    """

    def __init__(
        self, *, max_limit: int = 20, memory: VecallMemoryService | None = None
    ) -> None:
        """Check the number."""
        super().__init__(tools.RecallMemory, memory, {"max_limit": max_limit})


class RememberTool(VecallTool):
    """The tool `remember(text, kind, importance)`; see `vecall.tools.Remember`.

    The author of what it writes is the agent that calls it.

    Args:
        trust: How far what it writes is trusted.
        memory: As in `LoadMemoryTool`.

    Raises:
        InvalidArgumentError: A trust that cannot be one.
    """

    def __init__(
        self, *, trust: str = "unknown", memory: VecallMemoryService | None = None
    ) -> None:
        """Check the trust."""
        super().__init__(tools.Remember, memory, {"trust": trust})

    async def run_async(
        self, *, args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any]:
        """Answer a model's call, as `VecallTool.run_async` does."""
        bound = self.bound(self.asking(tool_context), author=tool_context.agent_name)
        return await bound.call(args)


class ForgetMemoryTool(VecallTool):
    """The tool `forget_memory(query, token, ids)`; see `vecall.tools.ForgetMemory`.

    Args:
        max_entries: At most this many memories go at once.
        ask_user: Have google-adk ask the user before anything is deleted, as its
            confirmation of tools does; without it the model is only told to ask.
        memory: As in `LoadMemoryTool`.

    Raises:
        InvalidArgumentError: `max_entries` below 1.
    """

    def __init__(
        self,
        *,
        max_entries: int = 5,
        ask_user: bool = False,
        memory: VecallMemoryService | None = None,
    ) -> None:
        """Check the number."""
        super().__init__(tools.ForgetMemory, memory, {"max_entries": max_entries})
        self._ask_user = ask_user

    async def run_async(
        self, *, args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any]:
        """Answer a model's call, as `VecallTool.run_async` does."""
        asking = self.asking(tool_context)
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
        # A block that was made before must not say it again in this turn.
        if answer.get("status") == "forgotten" and asking.service is not None:
            asking.service.turns.drop((asking.app_name, asking.user_id))
        return answer


load_memory = LoadMemoryTool()
recall_memory = RecallMemoryTool()
remember = RememberTool()
forget_memory = ForgetMemoryTool()
