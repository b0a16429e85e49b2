"""`preload_memory`: adds recalled memories to each request of a turn."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.models.llm_request import LlmRequest
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from vecall import tools
from vecall.adk.base_tool import VecallTool
from vecall.tools import DEFAULT_MAX_TOKENS, Placement, PreloadFormat, UnaskedFloor
from vecall.types import UNSET, FilterLike

_log = logging.getLogger("vecall")


class PreloadMemoryTool(VecallTool):
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
        min_confidence: The least confidence of a memory, in [0, 1]; default: 0.2, or
            that of the service. See `vecall.tools.PreloadMemory`.
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
        max_tokens: int | None = DEFAULT_MAX_TOKENS,
        min_confidence: UnaskedFloor = UNSET,
        format: PreloadFormat = "past_conversations",
        placement: Placement = "user",
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
        super().__init__(tools.PreloadMemory, memory, options)
        self._placement = placement
        self._filter = filter
        self._warned = False

    async def process_llm_request(
        self, *, tool_context: ToolContext, llm_request: LlmRequest
    ) -> None:
        """Insert the block of this invocation into a request.

        Args:
            tool_context: The context, with the app, the user and the user's message.
            llm_request: The request; it is modified.
        """
        asking = self.asking(tool_context)
        if asking.memory is None:
            self._warn()
            return
        wanted = asking.filter if self._filter is None else self._filter
        preload = tools.PreloadMemory(
            asking.memory,
            asking.app_name,
            asking.user_id,
            turns=asking.turns,
            **{**self._options, "filter": wanted},
        )
        # Agents with this tool share its block. Only agents whose requests contain the
        # block have seen its memories.
        turns, user = asking.turns, (asking.app_name, asking.user_id)
        shared = (asking.turn, self)
        block = await preload.block(asking.said, turn=shared)
        if not block:
            return
        turns.add(
            user, (asking.turn, asking.agent), turns.already_recalled(user, shared)
        )
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

    def _warn(self) -> None:
        if not self._warned:
            self._warned = True
            _log.warning("preload_memory has no memory service and finds nothing")


preload_memory = PreloadMemoryTool()
