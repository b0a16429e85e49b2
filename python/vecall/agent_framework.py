"""Memory and history for Microsoft Agent Framework. Needs vecall[agent-framework]."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, get_args
from weakref import WeakKeyDictionary

from vecall.concurrency.join import run_async
from vecall.content import turn_id
from vecall.errors import ConfigError, needs_extra
from vecall.ingest.parts import is_spoken_role, is_user_name
from vecall.item_collections import ItemLog, read_log_as
from vecall.service.memory_service import MemoryService
from vecall.tools import RunOwner
from vecall.tools.preload import RunMemory, UnaskedFloor
from vecall.types import UNSET, Event, Filter
from vecall.validation import check_name

with needs_extra(__name__, "agent-framework-core", "agent-framework"):
    from agent_framework import ContextProvider, HistoryProvider, Message

__all__ = ["Name", "VecallContextProvider", "VecallHistoryProvider"]

Name = str | Callable[[str | None], str]
"""A name, or a function from the id of a session to a name."""

Breadth = Literal["user", "session"]

_log = logging.getLogger("vecall")
_FROM_A_PROVIDER = "_attribution"  # set by `SessionContext.extend_messages`


class VecallContextProvider(ContextProvider):
    """Long-term memory for `Agent(context_providers=[...])`.

    Before a run, it searches for the texts of the input's user messages and adds one
    message with a block of memories to the context. Then the texts of the input become
    memories, also of a run that fails, and after the run those of the response.
    Messages that a provider added are not stored, and recalled text in a message is not
    stored again. If recall or storing fails, the run continues, and a warning without
    content is logged.

    Args:
        memory: The memory service.
        app_name: The app, or a function of the session's id.
        user_id: The user, or a function of the session's id.
        source_id: The name of the provider among those of an agent.
        search: Which memories a run may recall: all of the user ("user"), those of the
            running session ("session"), or none (None). With "session", a run without
            a session id recalls nothing. With "user", turns of the running session are
            left out if the agent loads its history anyway.
        store: Where turns are stored: in the running session ("session"), without a
            session ("user"), or not at all (None).
        max_entries: Maximum number of memories in the block.
        max_tokens: Maximum number of tokens of the block.
        min_confidence: The least confidence of a memory, in [0, 1]; default: see
            `vecall.tools.PreloadMemory`.

    Raises:
        InvalidArgumentError: A name or a number is invalid; for a function, the warning
            of a run says so.
        ConfigError: `search` or `store` is invalid.
    """

    def __init__(
        self,
        memory: MemoryService,
        app_name: Name,
        user_id: Name,
        *,
        source_id: str = "vecall",
        search: Breadth | None = "user",
        store: Breadth | None = "session",
        max_entries: int = 5,
        max_tokens: int = 1_000,
        min_confidence: UnaskedFloor = UNSET,
    ) -> None:
        """Bind the provider to a service and to its users."""
        super().__init__(source_id)
        for name, given in (("search", search), ("store", store)):
            if given is not None and given not in get_args(Breadth):
                raise ConfigError(f'{name}: must be "user", "session" or None')
        self._run = RunMemory[str | None](
            memory,
            app_name,
            user_id,
            max_entries=max_entries,
            max_tokens=max_tokens,
            min_confidence=min_confidence,
        )
        self._search = search
        self._store = store
        self._stored: WeakKeyDictionary[Any, set[Any]] = WeakKeyDictionary()

    async def before_run(
        self, *, agent: Any, session: Any, context: Any, state: dict[str, Any]
    ) -> None:
        """Add the block of memories for the input to the context; store the input."""
        del session, state
        await self._recall_for_agent(agent, context)
        stored = await self._store_messages(context, context.input_messages)
        if stored:
            self._stored[context] = stored

    async def after_run(
        self, *, agent: Any, session: Any, context: Any, state: dict[str, Any]
    ) -> None:
        """Store the texts of the response as memories, and of input that came later."""
        del agent, session, state
        response = context.response
        messages = [
            *context.input_messages,
            *(response.messages if response is not None else ()),
        ]
        stored = self._stored.pop(context, ())
        await self._store_messages(
            context, [each for each in messages if _message_key(each) not in stored]
        )

    async def _recall_for_agent(self, agent: Any, context: Any) -> None:
        session_id, others = context.session_id, None
        if self._search is None or (self._search == "session" and session_id is None):
            return  # a filter without a session would be all memories of the user
        try:
            given = _drop_provided_messages(context.input_messages)
            text = "\n".join(each.text for each in given if is_user_name(each.role))
            if self._search == "session":
                others = Filter(session_id=session_id)
            elif session_id is not None and _has_session_history(agent, context):
                others = Filter(not_session_id=session_id)
            block = await self._run.message_block(session_id, text, others)
        except Exception as error:
            _log.warning("nothing was recalled: %s", type(error).__name__)
            return
        if block:
            context.extend_messages(self, [Message("user", [block])])

    async def _store_messages(self, context: Any, messages: Iterable[Any]) -> set[Any]:
        """Store the texts of messages as memories; return the keys of the messages."""
        if self._store is None:
            return set()
        known: set[Any] = set()

        def turns() -> Iterator[Event]:
            for message in _drop_provided_messages(messages):
                role, id_, text = key = _message_key(message)
                if is_spoken_role(role) and text.strip():
                    known.add(key)
                    name = None if is_user_name(role) else message.author_name
                    turn = turn_id(str(role), id_, text)
                    yield Event(text, author=name or str(role), id=turn)

        session_id = context.session_id
        place = session_id if self._store == "session" else None
        is_known = await self._run.remember_turns(session_id, turns(), place)
        return known if is_known else set()


def _drop_provided_messages(messages: Iterable[Any]) -> list[Any]:
    """Return the messages that no provider added."""
    return [
        message
        for message in messages
        if _FROM_A_PROVIDER not in message.additional_properties
    ]


def _message_key(message: Any) -> tuple[Any, ...]:
    """Return what tells a message of one run from the others."""
    return message.role, message.message_id, message.text


def _has_session_history(agent: Any, context: Any) -> bool:
    """Return whether a request has the earlier turns of its session."""
    return context.service_session_id is not None or any(
        isinstance(provider, HistoryProvider) and provider.load_messages
        for provider in getattr(agent, "context_providers", ())
    )


_PLACE = "agent-framework"


class VecallHistoryProvider(HistoryProvider):
    """The history of sessions, in the file of a memory service.

    Messages are stored under the app and the user, apart from memories: a search does
    not find them; `delete_user` deletes them. Several processes may use one session.
    Every call is one transaction, and returns when it is durable. Errors end the run.

    Args:
        memory: The memory service.
        app_name: The app, or a function of the session's id.
        user_id: The user, or a function of the session's id.
        source_id: The name of the provider among those of an agent. Providers with
            different names store different histories.
        load_messages: Whether a run has the earlier messages.
        store_inputs: Whether input messages are stored.
        store_context_messages: Whether messages of other providers are stored.
        store_context_from: Only those of these providers.
        store_outputs: Whether responses are stored.
        skip_excluded: Whether messages that a compaction marked are not loaded.

    Raises:
        InvalidArgumentError: A name is invalid; for a function, in a run.
    """

    def __init__(
        self,
        memory: MemoryService,
        app_name: Name,
        user_id: Name,
        *,
        source_id: str = "vecall_history",
        load_messages: bool = True,
        store_inputs: bool = True,
        store_context_messages: bool = False,
        store_context_from: set[str] | None = None,
        store_outputs: bool = True,
        skip_excluded: bool = False,
    ) -> None:
        """Bind the provider to a service and to its users."""
        super().__init__(
            source_id,
            load_messages=load_messages,
            store_inputs=store_inputs,
            store_context_messages=store_context_messages,
            store_context_from=store_context_from,
            store_outputs=store_outputs,
        )
        check_name(source_id, "source_id", memory.limits)
        self.skip_excluded = skip_excluded
        self._memory = memory
        self._owner = RunOwner[str | None](memory, app_name, user_id)

    async def get_messages(
        self,
        session_id: str | None,
        *,
        state: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> list[Message]:
        """Return the stored messages of a session, in order."""
        del state, kwargs  # for providers of other kinds
        messages = await read_log_as(
            self._history_log_of_session(session_id), _messages_of_values
        )
        if not self.skip_excluded:
            return messages
        return [m for m in messages if not m.additional_properties.get("_excluded")]

    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[Message],
        *,
        state: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Add messages to a session, all or none but what is too large.

        Messages that repeat the history up to its end are not added again, if one of
        them has a `message_id`: some callers give the whole conversation to each run.

        Raises:
            InvalidTypeError: A message has values that JSON does not have; nothing was
                added.
            LimitExceededError: A message is too large; the others were added. Or
                there are more than 9,999; nothing was added.
        """
        del state, kwargs
        log = self._history_log_of_session(session_id)
        values = [message.to_dict() for message in messages]
        await run_async(
            log.append_values(
                values,
                new=lambda stored: values[_start_of_new_messages(stored, values) :],
                window=len(values) + 1,
            )
        )

    async def clear(self, session_id: str | None) -> None:
        """Delete the messages of a session."""
        await run_async(self._history_log_of_session(session_id).clear_log())

    def _history_log_of_session(self, session_id: str | None) -> ItemLog:
        place: tuple[str, ...] = (_PLACE, self.source_id)
        if session_id is not None:
            place = (*place, check_name(session_id, "session_id", self._memory.limits))
        return ItemLog(self._memory, *self._owner.of(session_id), place)


def _messages_of_values(values: Sequence[Any]) -> list[Message]:
    return [Message.from_dict(value) for value in values]


def _start_of_new_messages(stored: Sequence[Any], given: Sequence[Any]) -> int:
    """Return where the given messages go on after those that repeat stored ones."""
    ends = [_message_identity(message) for message in stored]
    starts = [_message_identity(message) for message in given]
    size = len(ends)
    # The whole history, perhaps behind other messages; then the end of the history.
    places = [(at, at + size) for at in range(len(starts) - size + 1) if size]
    places += [(0, length) for length in range(min(size, len(starts)), 0, -1)]
    for start, stop in places:
        same = ends[start - stop :] == starts[start:stop]
        # Without an id it may be no repetition: people say the same thing twice.
        if same and any(kind == "id" for kind, *_ in starts[start:stop]):
            return stop
    return 0


def _message_identity(message: Any) -> tuple[Any, ...]:
    id_ = message.get("message_id")
    if id_:
        return "id", id_
    return "content", message.get("role"), message.get("contents")
