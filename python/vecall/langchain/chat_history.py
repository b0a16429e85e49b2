"""VecallChatMessageHistory: LangChain's chat messages in the service's file."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import BaseMessage, message_to_dict, messages_from_dict

from vecall.item_log import ItemLog
from vecall.service.memory_service import MemoryService
from vecall.validation import check_name

_PLACE = ("langchain", "history")
_INLINE = 100  # messages; more are made on another thread


class VecallChatMessageHistory(BaseChatMessageHistory):
    """The messages of one session of one user, in the file of a memory service.

    Messages are stored apart from memories: a search does not find them; `delete_user`
    deletes them. Several processes may use one session. Every call is one transaction,
    and returns when it is durable. On an event loop, use `aget_messages`,
    `aadd_messages` and `aclear`; the other methods block.

    Args:
        session_id: The id of the session.
        memory: The memory service.
        app_name: The app.
        user_id: The user.

    Raises:
        InvalidArgumentError: An invalid name.
    """

    def __init__(
        self, session_id: str, memory: MemoryService, app_name: str, user_id: str
    ) -> None:
        """Bind the history to one session; reads and writes nothing."""
        self.session_id = check_name(session_id, "session_id", memory.limits)
        self._log = ItemLog(memory, app_name, user_id, (*_PLACE, session_id))

    @property
    def messages(self) -> list[BaseMessage]:
        """The messages, in order; reading it blocks."""
        return _messages_of(self._log.block(self._log.read()))

    async def aget_messages(self) -> list[BaseMessage]:
        """Return the messages, in order."""
        values = await self._log.run(self._log.read())
        if len(values) > _INLINE:
            return await asyncio.to_thread(_messages_of, values)
        return _messages_of(values)

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Add messages at the end, all or none but what is too large.

        Raises:
            InvalidTypeError: A message has a value that JSON does not have; nothing was
                added.
            LimitExceededError: A message is too large; the others were added. Or
                there are more than 9,999; nothing was added.
        """
        self._log.block(self._log.extend(_values_of(messages)))

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Add messages at the end; see `add_messages`."""
        await self._log.run(self._log.extend(_values_of(messages)))

    def clear(self) -> None:
        """Remove all messages."""
        self._log.block(self._log.clear())

    async def aclear(self) -> None:
        """Remove all messages."""
        await self._log.run(self._log.clear())


def _values_of(messages: Sequence[BaseMessage]) -> list[Any]:
    return [message_to_dict(message) for message in messages]


def _messages_of(values: list[Any]) -> list[BaseMessage]:
    messages: list[BaseMessage] = messages_from_dict(values)
    return messages
