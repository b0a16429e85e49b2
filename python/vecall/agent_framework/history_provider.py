"""VecallHistoryProvider: the messages of sessions, durable in the service's file."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from agent_framework import HistoryProvider, Message

from vecall.agent_framework.owners import Name
from vecall.item_log import ItemLog
from vecall.service.memory_service import MemoryService
from vecall.tools import RunOwner
from vecall.validation import check_name

_PLACE = "agent-framework"
_INLINE = 100  # messages; more are made on another thread


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
        log = self._log_of(session_id)
        values = await log.run(log.read())
        if len(values) > _INLINE:
            messages = await asyncio.to_thread(_messages_of, values)
        else:
            messages = _messages_of(values)
        if self.skip_excluded:
            messages = [
                message
                for message in messages
                if not message.additional_properties.get("_excluded")
            ]
        return messages

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
        log = self._log_of(session_id)
        values = [message.to_dict() for message in messages]
        await log.run(
            log.extend(
                values,
                new=lambda stored: values[_repeated(stored, values) :],
                window=len(values) + 1,
            )
        )

    async def clear(self, session_id: str | None) -> None:
        """Delete the messages of a session."""
        log = self._log_of(session_id)
        await log.run(log.clear())

    def _log_of(self, session_id: str | None) -> ItemLog:
        place: tuple[str, ...] = (_PLACE, self.source_id)
        if session_id is not None:
            place = (*place, check_name(session_id, "session_id", self._memory.limits))
        return ItemLog(self._memory, *self._owner.of(session_id), place)


def _messages_of(values: Sequence[Any]) -> list[Message]:
    return [Message.from_dict(value) for value in values]


def _repeated(stored: Sequence[Any], given: Sequence[Any]) -> int:
    """Return where the given messages go on after those that repeat stored ones.

    Args:
        stored: The last stored messages; all of them, if they are not more than given.
        given: The messages to store.
    """
    ends = [_identity(message) for message in stored]
    starts = [_identity(message) for message in given]
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


def _identity(message: Any) -> tuple[Any, ...]:
    id_ = message.get("message_id")
    if id_:
        return "id", id_
    return "content", message.get("role"), message.get("contents")
