"""The tools that a model calls: three that read, and three that write."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Hashable, Mapping
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple, get_args
from weakref import WeakKeyDictionary

from google.adk.agents.invocation_context import InvocationContext
from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.models.llm_request import LlmRequest
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

import vecall
from vecall import tools
from vecall.adk.memory_service import VecallMemoryService
from vecall.errors import ConfigError, MemoryNotConfiguredError
from vecall.limits import Limits
from vecall.types import UNSET, Filter, FilterLike

# A placeholder for a memory service, to check the options of a tool; `dict` takes all
# arguments.
_METHODS = (
    "add_memory add_session_to_memory confirm_forget expand_session get_memory "
    "propose_forget search_memory update_memory"
).split()
_UNBOUND: Any = SimpleNamespace(limits=Limits(), **dict.fromkeys(_METHODS, dict))
_log = logging.getLogger("vecall")


# Memories shown in recent turns, by memory service of another class than vecall's.
_turns: WeakKeyDictionary[object, tools.ShownMemories] = WeakKeyDictionary()


def _turns_of(service: object) -> tools.ShownMemories:
    try:
        return _turns.setdefault(service, tools.ShownMemories())
    except TypeError:  # not weakly referenceable, or not hashable
        return tools.ShownMemories()


class ToolCaller(NamedTuple):
    """The user, the memory and the turn of an invocation."""

    memory: Any  # the `vecall.MemoryService`, or one of another class
    turns: tools.ShownMemories  # the memories shown in recent turns
    user: tuple[str, str]  # app and user id
    turn: Hashable  # unique among the turns of the user
    agent: str  # only its requests contain its blocks
    said: types.Content | None  # the user's message
    filter: Filter | None = None  # of searches of a tool without one


class VecallTool(BaseTool):
    """A vecall tool that finds the user and the memory in the invocation.

    `make` creates the tool for one user; `options` are further arguments of it. Without
    a memory service, "error" raises an error, which ends the run; "empty" returns an
    empty result, and logs a warning once.
    """

    def __init__(
        self,
        make: Callable[..., tools.MemoryTool],
        memory: BaseMemoryService | None,
        options: Mapping[str, Any],
        on_missing: tools.OnMissing = "error",
    ) -> None:
        """Check the options, and copy name and description."""
        if on_missing not in get_args(tools.OnMissing):
            raise ConfigError('on_missing: must be "error" or "empty"')
        unbound = make(_UNBOUND, "app", "user", **options)
        super().__init__(name=unbound.name, description=unbound.description)
        self._make = make
        self._memory = memory
        self._options = dict(options)
        self._declared = unbound.declaration()
        self._on_missing = on_missing
        self._without_memory = dict(unbound._without_memory)
        self._warned = False

    def tool_caller(self, context: ToolContext) -> ToolCaller:
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
            (invocation.app_name, invocation.user_id),
            (invocation.session.id, invocation.invocation_id),
            context.agent_name,
            invocation.user_content,
            by_default,
        )

    def answer_without_memory(self, asking: ToolCaller) -> dict[str, Any] | None:
        """Return the answer without a memory service, with `on_missing="empty"`."""
        if asking.memory is not None or self._on_missing == "error":
            return None
        if not self._warned:
            self._warned = True
            _log.warning("%s has no memory service and finds nothing", self.name)
        return copy.deepcopy(self._without_memory)

    def bind_tool(self, asking: ToolCaller, **more: Any) -> tools.MemoryTool:
        """Return the tool, bound to the caller, who must have a memory service."""
        if asking.memory is None:
            msg = f"{self.name}: the Runner has no memory_service"
            raise MemoryNotConfiguredError(msg)
        return self._make(asking.memory, *asking.user, **{**self._options, **more})

    def _get_declaration(self) -> types.FunctionDeclaration | None:
        if self._declared is None:
            return None
        return types.FunctionDeclaration.model_validate(self._declared)

    async def run_async(
        self, *, args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any]:
        """Answer a model's call; arguments that are not declared are ignored."""
        asking = self.tool_caller(tool_context)
        if (answer := self.answer_without_memory(asking)) is not None:
            return answer
        return await self.bind_tool(asking).call(args, turn=(asking.turn, asking.agent))


class _RecallingTool(VecallTool):
    """Shows a memory once in an invocation; the service has a filter by default."""

    def bind_tool(self, asking: ToolCaller, **more: Any) -> tools.MemoryTool:
        if self._options.get("filter") is None:
            more["filter"] = asking.filter
        return super().bind_tool(asking, turns=asking.turns, **more)


class PreloadMemoryTool(_RecallingTool):
    """Recalls memories for every turn of a user, without a tool call by the model.

    The tool searches once for each invocation. All requests of the invocation contain
    the same block. With placement "user" the block is the last content of the request,
    so that a provider's prompt cache still covers the system instruction, the tools and
    the history. The block is never part of the session. The request does not change if
    the Runner has no memory service, if the search finds nothing, or after a failure.

    Args:
        max_entries: The maximum number of memories in a block.
        max_tokens: The maximum number of tokens in a block, including its frame; None:
            no limit. Long texts are cut, as in `vecall.tools.PreloadMemory`.
        min_confidence: The least confidence of a memory, in [0, 1]; default: see
            `vecall.tools.PreloadMemory`.
        format: "past_conversations", "bullets", "json" or "secure"; see
            `vecall.prompts.render.render`.
        placement: "user", or "system" for the end of the system instruction.
        scores: Whether to show confidence and importance.
        secret: As in `render`, for the format "secure".
        count_tokens: Returns the number of your model's tokens in a text; default:
            `estimate_tokens`.
        memory: As in `LoadMemoryTool`.
        filter: The filter of memories: a `vecall.Filter`, or a mapping with its fields.
            Default: the filter of the `VecallMemoryService`.

    Raises:
        InvalidArgumentError: A number, the filter or the secret is not valid.
        ConfigError: The format or the placement is not valid.
    """

    def __init__(
        self,
        *,
        max_entries: int = 5,
        max_tokens: int | None = tools.DEFAULT_MAX_TOKENS,
        min_confidence: tools.UnaskedFloor = UNSET,
        format: tools.PreloadFormat = "past_conversations",
        placement: tools.Placement = "user",
        scores: bool = False,
        secret: bytes | str | None = None,
        count_tokens: Callable[[str], int] | None = None,
        memory: BaseMemoryService | None = None,
        filter: FilterLike | None = None,
    ) -> None:
        """Check the options."""
        options = {
            "max_entries": max_entries,
            "max_tokens": max_tokens,
            "min_confidence": min_confidence,
            "format": format,
            "placement": placement,
            "scores": scores,
            "secret": secret,
            "count_tokens": count_tokens,
            "filter": filter,
        }
        super().__init__(tools.PreloadMemory, memory, options, "empty")
        self._placement = placement

    async def process_llm_request(
        self, *, tool_context: ToolContext, llm_request: LlmRequest
    ) -> None:
        """Insert the block of this invocation into a request, which is modified."""
        asking = self.tool_caller(tool_context)
        if self.answer_without_memory(asking) is not None:
            return
        preload = self.bind_tool(asking)
        assert isinstance(preload, tools.PreloadMemory)
        # Agents with this tool share its block. Only agents whose requests contain the
        # block have seen its memories.
        turns, user, shared = asking.turns, asking.user, (asking.turn, self)
        block = await preload.block(asking.said, turn=shared)
        if not block:
            return
        seen = turns.already_recalled(user, shared)
        turns.add(user, (asking.turn, asking.agent), seen)
        if self._placement == "system":
            llm_request.append_instructions([block])
            return
        part = types.Part(text=block)
        llm_request.contents.append(types.Content(role="user", parts=[part]))

    async def run_async(
        self,
        *,
        args: dict[str, Any],  # noqa: ARG002
        tool_context: ToolContext,  # noqa: ARG002
    ) -> dict[str, Any]:
        """Return an error: models cannot call it."""
        return {"status": "passive_only"}


preload_memory = PreloadMemoryTool()


class LoadMemoryTool(_RecallingTool):
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
        on_missing: tools.OnMissing = "error",
        **look: Any,
    ) -> None:
        """Check the options."""
        options = {"max_entries": max_entries, **look}
        super().__init__(tools.LoadMemory, memory, options, on_missing)


class RecallMemoryTool(_RecallingTool):
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
        on_missing: tools.OnMissing = "error",
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
        on_missing: tools.OnMissing = "error",
        **look: Any,
    ) -> None:
        """Check the options."""
        super().__init__(tools.ExpandSession, memory, look, on_missing)


class _WritingTool(VecallTool):
    """A tool whose writes have the calling agent as their author."""

    _tool: ClassVar[Any]

    def __init__(
        self,
        *,
        trust: str = "unknown",
        memory: BaseMemoryService | None = None,
        on_missing: tools.OnMissing = "error",
    ) -> None:
        """Check the trust."""
        super().__init__(self._tool, memory, {"trust": trust}, on_missing)

    def bind_tool(self, asking: ToolCaller, **more: Any) -> tools.MemoryTool:
        if not isinstance(asking.memory, vecall.BaseMemoryService | None):
            msg = f"{self.name}: the Runner's memory_service is no VecallMemoryService"
            raise ConfigError(msg)
        return super().bind_tool(asking, author=asking.agent, **more)


class RememberTool(_WritingTool):
    """The tool `remember`; see `vecall.tools.Remember`.

    The author of the memories is the agent that calls the tool.

    Args:
        trust: The trust of the memories that it writes.
        memory: As in `LoadMemoryTool`.
        on_missing: As in `LoadMemoryTool`.

    Raises:
        InvalidArgumentError: `trust` is not valid.
    """

    _tool = tools.Remember


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

    _tool = tools.UpdateMemory


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
        on_missing: tools.OnMissing = "error",
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
        asking = self.tool_caller(tool_context)
        if (missing := self.answer_without_memory(asking)) is not None:
            return missing
        bound = self.bind_tool(asking)
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
            asking.turns.drop(asking.user)
        return answer


load_memory = LoadMemoryTool()
recall_memory = RecallMemoryTool()
expand_session = ExpandSessionTool()
remember = RememberTool()
update_memory = UpdateMemoryTool()
forget_memory = ForgetMemoryTool()
