"""A session that also stores what users and agents say as memories."""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Callable
from typing import Any

from vecall.openai_agents.texts import role_of, text_of
from vecall.service.memory_service import MemoryService
from vecall.types import Event

_log = logging.getLogger("vecall")
_AUTHORS = ("user", "assistant")


def _of_inner(name: str) -> Any:
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
    session_id: str = _of_inner("session_id")
    session_settings: Any = _of_inner("session_settings")

    def __init__(
        self, inner: Any, memory: MemoryService, app_name: str, user_id: str
    ) -> None:
        """Bind the session to one user."""
        self._inner = inner
        self._user = memory.user(app_name, user_id)

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
        return await _called(self._inner.get_items, limit, wrapper=wrapper)

    async def add_items(self, items: list[Any], *, wrapper: Any = None) -> None:
        """Add items to the other session, then store their texts as memories."""
        await _called(self._inner.add_items, items, wrapper=wrapper)
        now = time.time()
        events = [
            Event(
                text_of(item),
                author=role_of(item),
                timestamp=now + at / 1e6,
                id=_id_of(item),
            )
            for at, item in enumerate(items)
            if role_of(item) in _AUTHORS and text_of(item).strip()
        ]
        if not events:
            return
        try:
            await self._user.add_events(events, session_id=self.session_id)
        except Exception as error:
            _log.warning("turns were not remembered: %s", type(error).__name__)

    async def pop_item(self, *, wrapper: Any = None) -> Any:
        """Remove the last item of the other session and return it."""
        return await _called(self._inner.pop_item, wrapper=wrapper)

    async def clear_session(self, *, wrapper: Any = None) -> None:
        """Remove all items of the other session."""
        await _called(self._inner.clear_session, wrapper=wrapper)


async def _called(method: Callable[..., Any], *given: Any, wrapper: Any) -> Any:
    """Call a method of a session, with the run's context if it takes one."""
    if wrapper is not None and "wrapper" in inspect.signature(method).parameters:
        return await method(*given, wrapper=wrapper)
    return await method(*given)


def _id_of(item: Any) -> str | None:
    id_ = item.get("id") if isinstance(item, dict) else getattr(item, "id", None)
    # Some models of the SDK give all messages the same placeholder.
    return id_ if isinstance(id_, str) and id_ and not id_.startswith("__") else None
