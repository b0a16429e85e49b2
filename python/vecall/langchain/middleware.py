"""VecallMemoryMiddleware: recall before a model's call, and what is remembered.

Needs vecall[langchain-agents].
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from vecall.content import turn_id
from vecall.errors import needs_extra
from vecall.ingest.drafts import memory_ids_of
from vecall.service.memory_service import MemoryService
from vecall.tools.preload import RunMemory, UnaskedFloor
from vecall.types import UNSET, Event, Filter
from vecall.validation import MOST_IDS

with needs_extra(__name__, "langchain", "langchain-agents"):
    from langchain.agents.middleware import AgentMiddleware
    from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

__all__ = ["Name", "VecallMemoryMiddleware"]

T = TypeVar("T")

Name = str | Callable[[Any], str]
"""A name, or a function of LangGraph's `Runtime` of a run, which has its `context`."""

_SAID = (HumanMessage, AIMessage)


class VecallMemoryMiddleware(AgentMiddleware[Any, Any]):
    """Long-term memory for `create_agent(middleware=[...])`.

    Before each call of the model, it searches for the last user message and inserts one
    block of memories before it. The block is part of the request only, not of the
    agent's state, so no checkpoint has it. Messages that the request has are left out.

    The new user messages become memories before the first call of the model, so also
    those of a run that fails; the texts of the agent at the end of the run. They are
    turns of the session that is the run's thread. Summaries of LangChain's middleware
    are not stored, and recalled text in a message is not stored again. If recall or
    storing fails, the run continues, and a warning without content is logged.

    Args:
        memory: The memory service.
        app_name: The app, or a function of the run's `Runtime`.
        user_id: The user, or a function of the run's `Runtime`, such as `lambda
            runtime: runtime.context.user_id`. If it fails or returns no valid name, the
            run fails.
        preload: Whether memories are inserted before the user message.
        remember: Whether messages become memories.
        max_entries: Maximum number of memories in the block.
        max_tokens: Maximum number of tokens of the block.
        min_confidence: The least confidence of a memory, in [0, 1]; default: see
            `vecall.tools.PreloadMemory`.

    Raises:
        InvalidArgumentError: A name or a number is invalid; for a function, in a run.
    """

    def __init__(
        self,
        memory: MemoryService,
        app_name: Name,
        user_id: Name,
        *,
        preload: bool = True,
        remember: bool = True,
        max_entries: int = 5,
        max_tokens: int = 1_000,
        min_confidence: UnaskedFloor = UNSET,
    ) -> None:
        """Bind the middleware to a service and to its users."""
        super().__init__()
        self._run = RunMemory[Any](
            memory,
            app_name,
            user_id,
            max_entries=max_entries,
            max_tokens=max_tokens,
            min_confidence=min_confidence,
        )
        self._preload = preload
        self._remember = remember

    def wrap_model_call(self, request: Any, handler: Callable[[Any], T]) -> T:
        """Call the model with memories; store the user's new messages."""
        return handler(_run_coroutine(self._prepare_request(request)))

    async def awrap_model_call(
        self, request: Any, handler: Callable[[Any], Awaitable[T]]
    ) -> T:
        """As `wrap_model_call`."""
        return await handler(await self._prepare_request(request))

    def after_agent(self, state: Any, runtime: Any) -> None:
        """Store the texts of the agent."""
        _run_coroutine(self.aafter_agent(state, runtime))

    async def aafter_agent(self, state: Any, runtime: Any) -> None:
        """As `after_agent`."""
        messages = state["messages"]
        last = _last_message_index(messages, _is_user_message)
        await self._store_turns(runtime, filter(_is_of_agent, messages[last + 1 :]))

    async def _prepare_request(self, request: Any) -> Any:
        """Return a request with memories, after its new messages are stored."""
        messages = request.messages
        self._run.of(request.runtime)  # a run without valid names fails
        at = _last_message_index(messages, _is_user_message)
        block = ""
        if self._preload and at >= 0:
            said = [each for each in messages if isinstance(each, _SAID)]
            turns = map(_message_as_turn, said[-MOST_IDS:])
            present = memory_ids_of(turns, _thread_id_of_run(request.runtime))
            others = Filter(not_id=present) if present else None
            text = messages[at].content
            block = await self._run.message_block(request.runtime, text, others)
        new = messages[_last_message_index(messages, _is_of_agent) + 1 :]
        await self._store_turns(request.runtime, filter(_is_user_message, new))
        if not block:
            return request
        shown = [*messages[:at], HumanMessage(block), *messages[at:]]
        return request.override(messages=shown)

    async def _store_turns(self, runtime: Any, messages: Iterable[BaseMessage]) -> None:
        if self._remember:
            turns = map(_message_as_turn, messages)
            await self._run.remember_turns(runtime, turns, _thread_id_of_run(runtime))


def _run_coroutine(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine; block the calling thread, which may have an event loop."""
    context = contextvars.copy_context()
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(context.run, asyncio.run, work).result()


def _thread_id_of_run(runtime: Any) -> str | None:
    """Return the id of a run's thread, if it has one."""
    run = getattr(runtime, "execution_info", None)
    return None if run is None or run.thread_id is None else str(run.thread_id)


def _is_user_message(message: BaseMessage) -> bool:
    """Whether a user said a message; LangChain's summaries have their type."""
    return (
        isinstance(message, HumanMessage)
        and "lc_source" not in message.additional_kwargs
    )


def _is_of_agent(message: BaseMessage) -> bool:
    return isinstance(message, AIMessage)


def _last_message_index(
    messages: Sequence[BaseMessage], test: Callable[[BaseMessage], bool]
) -> int:
    """Return the index of the last message that passes a test; -1 if none does."""
    ats = reversed(range(len(messages)))
    return next((at for at in ats if test(messages[at])), -1)


def _message_as_turn(message: BaseMessage) -> Event:
    author = "user" if _is_user_message(message) else message.name or "assistant"
    id_ = turn_id(message.type, message.id, message.text)
    return Event(message.content, author=author, id=id_)
