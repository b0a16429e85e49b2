"""Agents of LangChain with vecall's middleware, over a model with given answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.outputs import ChatGeneration, ChatResult
from vecall import MemoryService
from vecall.langchain.middleware import VecallMemoryMiddleware

_OPTIONS = ("preload", "remember", "max_entries", "max_tokens", "min_confidence")


class Model(BaseChatModel):
    """Answers with given messages, or raises given errors; keeps what it was asked."""

    answers: list[Any]
    asked: list[Any] = []  # noqa: RUF012

    @property
    def _llm_type(self) -> str:
        return "given"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self

    def _generate(self, messages: Any, *args: Any, **options: Any) -> ChatResult:
        self.asked.append(messages)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return ChatResult(generations=[ChatGeneration(message=answer)])


def agent_of(
    memory: MemoryService,
    who: Any,
    *answers: Any,
    middleware: Sequence[Any] = (),
    inner: Sequence[Any] = (),
    **options: Any,
) -> tuple[Any, Model]:
    """Return an agent, and its model.

    Args:
        memory: The memory service.
        who: The app and the user.
        *answers: What the model answers.
        middleware: Other middleware, before vecall's.
        inner: Other middleware, after it.
        **options: Those of vecall's middleware, and of the agent.
    """
    model = Model(answers=list(answers), asked=[])
    own = {name: options.pop(name) for name in _OPTIONS if name in options}
    mine = VecallMemoryMiddleware(memory, *who, **own)
    return create_agent(model, middleware=[*middleware, mine, *inner], **options), model
