"""Memory for the OpenAI Agents SDK: tools, sessions and recall.

Needs vecall[openai-agents].
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable
from dataclasses import fields
from functools import partial
from typing import Any

from vecall.concurrency.join import run_async
from vecall.content import get_field
from vecall.errors import ConfigError, needs_extra
from vecall.ingest.parts import is_spoken_role, is_user_name
from vecall.item_collections import ItemLog
from vecall.protocols import MemoryProtocol
from vecall.service.memory_service import MemoryService
from vecall.tools import ForgetMemory, MemoryTool, RunOwner
from vecall.tools import memory_tools as plain_tools
from vecall.tools.preload import RunMemory
from vecall.types import Event, Filter
from vecall.validation import check_name

with needs_extra(__name__, "openai-agents", "openai-agents"):
    from agents import FunctionTool, Tool
    from agents.run import CallModelData, ModelInputData

__all__ = ["IngestingSession", "VecallSession", "memory_tools", "recall_filter"]

_PLACE = "openai-agents"


class VecallSession:
    """The items of one conversation, in the file of a memory service.

    The items are stored under the app and the user, apart from memories: a search does
    not find them; `delete_user` deletes them. Several processes may use one session.
    Every call changes them in one transaction, and returns when it is durable; see
    `vecall.item_collections` for more than 9,000 items. Use it with `IngestingSession`
    to store what is said as memories, too.

    Args:
        session_id: The id of the session.
        memory: The memory service.
        app_name: The app.
        user_id: The user.
        session_settings: The SDK's `SessionSettings`, or a dict of its fields. `limit`
            is the default of `get_items`.

    Raises:
        InvalidArgumentError: An invalid name.
    """

    def __init__(
        self,
        session_id: str,
        memory: MemoryService,
        app_name: str,
        user_id: str,
        *,
        session_settings: Any = None,
    ) -> None:
        """Bind the session to one user; reads and writes nothing."""
        self.session_id = check_name(session_id, "session_id", memory.limits)
        self.session_settings = _checked_session_settings(session_settings)
        self._log = ItemLog(memory, app_name, user_id, (_PLACE, session_id))

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """Return the items in order.

        Args:
            limit: Only the last ones, at most so many; below 0 all. None is the limit
                of `session_settings`.
        """
        if limit is None:
            limit = getattr(self.session_settings, "limit", None)
        return await run_async(self._log.read_values(limit))

    async def add_items(self, items: list[Any]) -> None:
        """Add items at the end, all or none but what is too large.

        Raises:
            InvalidTypeError: An item is not a JSON value; nothing was added.
            LimitExceededError: An item is too large; the others were added. Or
                there are more than 9,999; nothing was added.
        """
        await run_async(self._log.append_values(items))

    async def pop_item(self) -> Any:
        """Remove the last item and return it; None if there is none."""
        return await run_async(self._log.pop_last_value())

    async def clear_session(self) -> None:
        """Remove all items."""
        await run_async(self._log.clear_log())


def _checked_session_settings(given: Any) -> Any:
    try:
        from agents.memory import SessionSettings
    except ImportError:  # an SDK without settings
        return given
    if given is None:
        return SessionSettings()
    if not isinstance(given, dict):
        return given
    unknown = given.keys() - {field.name for field in fields(SessionSettings)}
    if unknown:
        msg = f"Unknown session settings: {', '.join(sorted(map(str, unknown)))}"
        raise TypeError(msg)
    return SessionSettings(**given)


Name = str | Callable[[Any], str]
"""A name, or a function of an object whose `context` is the context of the run."""

_TEXTS = ("input_text", "output_text", "text")


def role_of_item(item: Any) -> str | None:
    """Return the role of a message; None for a call, a result or a reasoning."""
    role = get_field(item, "role")
    kind = get_field(item, "type")
    return role if isinstance(role, str) and kind in (None, "message") else None


def text_of_item(item: Any) -> str:
    """Return the text of a message, its parts joined by newlines."""
    content = get_field(item, "content")
    if isinstance(content, str):
        return content
    if not isinstance(content, list | tuple):
        return ""
    texts = [
        get_field(part, "text") for part in content if get_field(part, "type") in _TEXTS
    ]
    return "\n".join(text for text in texts if isinstance(text, str))


def _property_of_inner_session(name: str) -> Any:
    """Return a property that is an attribute of the other session, or None."""
    return property(
        lambda session: getattr(session._inner, name, None),
        lambda session, value: setattr(session._inner, name, value),
    )


class IngestingSession:
    """Any session of the SDK, whose messages also become memories.

    It has everything that the other session has, such as `run_compaction`, and counts
    as one of its class. All calls go to the other session first. Then the texts of user
    and assistant messages are stored as turns of the session with the same id. Calls,
    their results and reasoning are not stored as memories. `pop_item` and
    `clear_session` do not forget memories. Recalled text in a message is not stored
    again. If storing memories fails, the run continues and a warning with the kind of
    the error is logged.

    Args:
        inner: The session that holds the conversation.
        memory: The memory service.
        app_name: The app.
        user_id: The user.

    Raises:
        InvalidArgumentError: An invalid name.
    """

    # Attributes for type checkers, as the SDK's protocol has them.
    session_id: str = _property_of_inner_session("session_id")
    session_settings: Any = _property_of_inner_session("session_settings")

    def __init__(
        self, inner: Any, memory: MemoryService, app_name: str, user_id: str
    ) -> None:
        """Bind the session to one user."""
        self._inner = inner
        self._memory = RunMemory[None](memory, app_name, user_id)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """The class of the other session, for which the SDK's runner asks."""
        return type(self._inner)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the other session."""
        if name == "_inner":  # not set yet, in a copy
            raise AttributeError(name)
        return getattr(self._inner, name)

    async def get_items(self, limit: int | None = None, *, wrapper: Any = None) -> Any:
        """Return the items of the other session.

        Args:
            limit: As the other session takes it.
            wrapper: The context of the run, for a session that takes one.
        """
        return await _call_session(self._inner.get_items, limit, wrapper=wrapper)

    async def add_items(self, items: list[Any], *, wrapper: Any = None) -> None:
        """Add items to the other session, then store their texts as memories."""
        await _call_session(self._inner.add_items, items, wrapper=wrapper)
        turns = (
            Event(text_of_item(item), author=role_of_item(item), id=_id_of_item(item))
            for item in items
            if is_spoken_role(role_of_item(item)) and text_of_item(item).strip()
        )
        await self._memory.remember_turns(None, turns, self.session_id)

    async def pop_item(self, *, wrapper: Any = None) -> Any:
        """Remove the last item of the other session and return it."""
        return await _call_session(self._inner.pop_item, wrapper=wrapper)

    async def clear_session(self, *, wrapper: Any = None) -> None:
        """Remove all items of the other session."""
        await _call_session(self._inner.clear_session, wrapper=wrapper)


async def _call_session(method: Callable[..., Any], *given: Any, wrapper: Any) -> Any:
    """Call a method of a session, with the run's context if it takes one."""
    if wrapper is not None and "wrapper" in inspect.signature(method).parameters:
        return await method(*given, wrapper=wrapper)
    return await method(*given)


def _id_of_item(item: Any) -> str | None:
    id_ = item.get("id") if isinstance(item, dict) else getattr(item, "id", None)
    # Some models of the SDK give all messages the same placeholder.
    return id_ if isinstance(id_, str) and id_ and not id_.startswith("__") else None


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
    options["max_tokens"] = max_tokens
    if session_id is not None and not callable(session_id):
        options["filter"] = Filter(not_session_id=session_id)
    run = RunMemory[Any](memory, app_name, user_id, **options)

    async def insert(data: CallModelData[Any]) -> ModelInputData:
        given = data.model_data
        items = list(given.input)
        users = [at for at, one in enumerate(items) if is_user_name(role_of_item(one))]
        if not users:
            return given
        session = session_id(data) if callable(session_id) else None
        others = None if session is None else Filter(not_session_id=session)
        block = await run.message_block(data, text_of_item(items[users[-1]]), others)
        if not block:
            return given
        items.insert(users[-1], {"role": "user", "content": block})
        return ModelInputData(input=items, instructions=given.instructions)

    return insert


def memory_tools(
    memory: MemoryProtocol,
    app_name: Name,
    user_id: Name,
    *,
    write: bool = False,
    needs_approval: bool = False,
    **options: Any,
) -> list[Tool]:
    """Return the memory tools of a user for `Agent(tools=...)`.

    The tools and their schemas are those of `vecall.tools.memory_tools`. No argument of
    a model chooses the app or the user. Invalid arguments are answered with
    `{"error": ...}`.

    Args:
        memory: The memory service.
        app_name: The app, or a function as for `user_id`.
        user_id: The user, or a function that returns it. The function is called with
            what the SDK hands to a tool: `context.context` is the context of the run.
            If it fails or returns no valid name, the call of the tool fails.
        write: Whether the model may also write.
        needs_approval: Whether forgetting needs the approval of a person; needs a
            version of the SDK with approvals.
        **options: As in `vecall.tools.memory_tools`.

    Raises:
        InvalidArgumentError: A name or an option is invalid.
        ConfigError: The service supports no writing tool, or this version of the SDK
            has no approvals.
    """
    owner = RunOwner[Any](memory, app_name, user_id)
    options["write"] = write

    def bound(app: str, user: str) -> list[MemoryTool]:
        return plain_tools(memory, app, user, **options)

    known = bound(*owner.of(None)) if owner.is_fixed else bound("app", "user")

    def of_run(context: Any, at: int) -> MemoryTool:
        return known[at] if owner.is_fixed else bound(*owner.of(context))[at]

    return [
        _function_tool(tool, partial(of_run, at=at), needs_approval)
        for at, tool in enumerate(known)
    ]


def _function_tool(
    tool: MemoryTool, bound: Callable[[Any], MemoryTool], needs_approval: bool
) -> FunctionTool:
    """Return a function tool."""

    async def invoke(context: Any, arguments: str) -> str:
        try:
            given = json.loads(arguments or "{}")
        except (ValueError, RecursionError):
            return json.dumps({"error": "arguments: expected a JSON object"})
        return json.dumps(await bound(context).call(given), ensure_ascii=False)

    more: dict[str, Any] = {}
    if needs_approval and isinstance(tool, ForgetMemory):
        if not hasattr(FunctionTool, "needs_approval"):
            msg = "needs_approval: this version of openai-agents has no approvals"
            raise ConfigError(msg)
        more["needs_approval"] = True
    return FunctionTool(
        name=tool.name,
        description=tool.description,
        params_json_schema=tool.parameters,
        on_invoke_tool=invoke,
        strict_json_schema=False,
        **more,
    )
