"""Memory as a capability of pydantic-ai. Needs vecall[pydantic-ai].

`vecall.pydantic_ai.harness_store` is the store of pydantic-ai-harness' notebook.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from vecall.errors import needs_extra
from vecall.service.memory_service import MemoryService
from vecall.tools import memory_tools
from vecall.tools.preload import RunMemory, UnaskedFloor
from vecall.types import UNSET, Event, Filter

with needs_extra(__name__, "pydantic-ai", "pydantic-ai"):
    from pydantic_ai import FunctionToolset, RunContext
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.messages import ModelRequest, SystemPromptPart, UserPromptPart

__all__ = ["Name", "VecallMemory"]

_INSTRUCTIONS = (
    "You have a long-term memory of this user. Use its tools when earlier "
    "conversations may help."
)

Name = str | Callable[[RunContext[Any]], str]
"""A name, or a function from the context of a run to a name."""


class VecallMemory(AbstractCapability[Any]):
    """Long-term memory for `Agent(capabilities=[...])`.

    Before each request of a run, the block of memories for the run's user prompt is
    inserted before that prompt. The block is part of the request only, not of the
    message history. If the run has a message history, turns of its conversation are
    left out: the request has them already. After the run, its user prompts and its text
    output become memories of the conversation; of a run that fails or is cancelled, its
    prompt. Recalled text is not stored again. If
    recall or storing fails, the run continues, and a warning without content is logged.

    Args:
        memory: The memory service.
        app_name: The app, or a function of the run's context.
        user_id: The user, or a function of the run's context.
        write: Whether the model has tools that write.
        preload: Whether memories are inserted before the user prompt.
        remember: Whether prompts and outputs become memories.
        max_tokens: Maximum number of tokens of the block.
        min_confidence: The least confidence of a memory, in [0, 1]; default: see
            `vecall.tools.PreloadMemory`.

    Raises:
        InvalidArgumentError: A name is invalid; for a function, when a run begins. Or
            the confidence is.
    """

    def __init__(
        self,
        memory: MemoryService,
        app_name: Name,
        user_id: Name,
        *,
        write: bool = True,
        preload: bool = True,
        remember: bool = True,
        max_tokens: int = 1_000,
        min_confidence: UnaskedFloor = UNSET,
    ) -> None:
        """Bind the capability to a service and to its users."""
        self._memory = memory
        self._run = RunMemory[RunContext[Any]](
            memory,
            app_name,
            user_id,
            max_tokens=max_tokens,
            min_confidence=min_confidence,
        )
        self._write = write
        self._remember = remember
        self._preload = preload
        self._finished: set[str | None] = set()  # runs whose turns were stored

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """Return None: an agent's file cannot name a service."""
        return None

    def get_instructions(self) -> str:
        """Return one sentence about the memory."""
        return _INSTRUCTIONS

    def get_toolset(self) -> Any:
        """Return a function that makes the memory tools of a run's user."""

        def toolset(ctx: RunContext[Any]) -> FunctionToolset[Any]:
            tools = memory_tools(self._memory, *self._run.of(ctx), write=self._write)
            return FunctionToolset([tool.as_function() for tool in tools])

        return toolset

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: Any
    ) -> Any:
        """Insert the block of memories before the last user prompt."""
        if not self._preload:
            return request_context
        messages = list(request_context.messages)
        for at in reversed(range(len(messages))):
            text = _user_prompt_of(messages[at])
            if text is not None:
                break
        else:
            return request_context
        conversation = _conversation_id_of_run(ctx)
        others = Filter(not_session_id=conversation) if at and conversation else None
        block = await self._run.message_block(ctx, text, others)
        if not block:
            return request_context
        parts = [SystemPromptPart(block), *messages[at].parts]
        messages[at] = replace(messages[at], parts=parts)
        return replace(request_context, messages=messages)

    async def after_run(self, ctx: RunContext[Any], *, result: Any) -> Any:
        """Store the run's user prompts and its text output as memories."""
        self._finished.add(ctx.run_id)
        prompts = [_user_prompt_of(message) for message in result.new_messages()]
        turns = [("user", text) for text in prompts if text]
        if isinstance(result.output, str):
            turns.append(("assistant", result.output))
        await self._store_run_turns(ctx, turns)
        return result

    async def wrap_run(self, ctx: RunContext[Any], *, handler: Any) -> Any:
        """Run, and store the user prompt if the run does not come to its end."""
        try:
            return await handler()
        except (Exception, asyncio.CancelledError):
            if ctx.run_id not in self._finished:
                await self._store_run_turns(
                    ctx, [("user", _text_of_user_prompt(ctx.prompt))]
                )
            raise
        finally:
            self._finished.discard(ctx.run_id)

    async def _store_run_turns(
        self, ctx: RunContext[Any], turns: list[tuple[str, str]]
    ) -> None:
        if self._remember:
            events = (Event(text, author=who) for who, text in turns if text.strip())
            await self._run.remember_turns(ctx, events, _conversation_id_of_run(ctx))


def _conversation_id_of_run(ctx: RunContext[Any]) -> str | None:
    return getattr(ctx, "conversation_id", None)


def _user_prompt_of(message: Any) -> str | None:
    """Return the text of a request's user prompts; None for another message."""
    if not isinstance(message, ModelRequest):
        return None
    texts = [
        _text_of_user_prompt(part.content)
        for part in message.parts
        if isinstance(part, UserPromptPart)
    ]
    return "\n".join(texts) if any(text.strip() for text in texts) else None


def _text_of_user_prompt(content: Any) -> str:
    """Return the texts of a user prompt, joined by newlines."""
    parts = [content] if isinstance(content, str) else content or ()
    return "\n".join(part for part in parts if isinstance(part, str))
