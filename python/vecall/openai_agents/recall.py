"""Recalls memories before each call of the model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from agents.run import CallModelData, ModelInputData

from vecall.openai_agents.texts import role_of, text_of
from vecall.protocols import MemoryProtocol
from vecall.tools import PreloadMemory
from vecall.types import Filter


def recall_filter(
    memory: MemoryProtocol,
    app_name: str,
    user_id: str,
    *,
    session_id: str | None = None,
    max_tokens: int = 1_000,
    **options: Any,
) -> Callable[[CallModelData[Any]], Awaitable[ModelInputData]]:
    """Return a function for `RunConfig(call_model_input_filter=...)`.

    It searches for the last user message and inserts one block of memories before it.
    The block is part of the request only; a session does not store it. A failing search
    inserts nothing.

    Args:
        memory: The memory service.
        app_name: The app.
        user_id: The user.
        session_id: The running session, whose turns are left out: the request already
            has them.
        max_tokens: Maximum number of tokens of the block.
        **options: As in `vecall.tools.PreloadMemory`, such as `min_confidence`, except
            `filter` together with `session_id`.

    Raises:
        InvalidArgumentError: A name or an option is invalid.
    """
    if session_id is not None:
        options["filter"] = Filter(not_session_id=session_id)
    preload = PreloadMemory(
        memory,
        app_name,
        user_id,
        max_tokens=max_tokens,
        **{"format": "secure", **options},
    )

    async def insert(data: CallModelData[Any]) -> ModelInputData:
        given = data.model_data
        items = list(given.input)
        users = [at for at, item in enumerate(items) if role_of(item) == "user"]
        if not users:
            return given
        block = await preload.block(text_of(items[users[-1]]))
        if not block:
            return given
        items.insert(users[-1], {"role": "user", "content": block})
        return ModelInputData(input=items, instructions=given.instructions)

    return insert
