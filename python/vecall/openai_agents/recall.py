"""Recalls memories before each call of the model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from agents.run import CallModelData, ModelInputData

from vecall.errors import ConfigError
from vecall.openai_agents.texts import Name, role_of, text_of
from vecall.protocols import MemoryProtocol
from vecall.tools import PreloadMemory, RunOwner
from vecall.types import Filter


def recall_filter(
    memory: MemoryProtocol,
    app_name: Name,
    user_id: Name,
    *,
    session_id: Name | None = None,
    max_tokens: int = 1_000,
    **options: Any,
) -> Callable[[CallModelData[Any]], Awaitable[ModelInputData]]:
    """Return a function for `RunConfig(call_model_input_filter=...)`.

    It searches for the last user message and inserts one block of memories before it.
    The block is part of the request only; a session does not store it. A failing search
    inserts nothing.

    Args:
        memory: The memory service.
        app_name: The app, or a function as for `user_id`.
        user_id: The user, or a function that returns it. The function is called with
            the SDK's `CallModelData`: `data.context` is the context of the run. If it
            fails or returns no valid name, the run fails.
        session_id: The running session, whose turns are left out: the request already
            has them. Or a function as for `user_id`.
        max_tokens: Maximum number of tokens of the block.
        **options: As in `vecall.tools.PreloadMemory`, such as `min_confidence`, except
            `filter` together with `session_id`.

    Raises:
        InvalidArgumentError: A name or an option is invalid.
        ConfigError: `filter` together with `session_id`.
    """
    if session_id is not None and options.get("filter") is not None:
        msg = "filter: not together with session_id; use its not_session_id"
        raise ConfigError(msg)
    owner = RunOwner[Any](memory, app_name, user_id)
    options = {"max_tokens": max_tokens, "format": "secure", **options}

    def bound(app: str, user: str, session: str | None) -> PreloadMemory:
        if session is not None:
            own = {**options, "filter": Filter(not_session_id=session)}
            return PreloadMemory(memory, app, user, **own)
        return PreloadMemory(memory, app, user, **options)

    is_fixed = owner.is_fixed and not callable(session_id)
    fixed = None if callable(session_id) else session_id
    known = bound(*(owner.of(None) if owner.is_fixed else ("app", "user")), fixed)

    def of_run(data: Any) -> PreloadMemory:
        if is_fixed:
            return known
        session = session_id(data) if callable(session_id) else session_id
        return bound(*owner.of(data), session)

    async def insert(data: CallModelData[Any]) -> ModelInputData:
        given = data.model_data
        items = list(given.input)
        users = [at for at, item in enumerate(items) if role_of(item) == "user"]
        if not users:
            return given
        block = await of_run(data).block(text_of(items[users[-1]]))
        if not block:
            return given
        items.insert(users[-1], {"role": "user", "content": block})
        return ModelInputData(input=items, instructions=given.instructions)

    return insert
