"""A durable session of the SDK in the file of a memory service."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from vecall.item_log import ItemLog
from vecall.service.memory_service import MemoryService
from vecall.validation import check_name

_PLACE = "openai-agents"


class VecallSession:
    """The items of one conversation, in the file of a memory service.

    The items are stored under the app and the user, apart from memories: a search does
    not find them; `delete_user` deletes them. Several processes may use one session.
    Every call changes them in one transaction, and returns when it is durable; see
    `vecall.item_log` for more than 9,000 items. Use it with `IngestingSession` to store
    what is said as memories, too.

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
        self.session_settings = _checked_settings(session_settings)
        self._log = ItemLog(memory, app_name, user_id, (_PLACE, session_id))

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """Return the items in order.

        Args:
            limit: Only the last ones, at most so many; below 0 all. None is the limit
                of `session_settings`.
        """
        most = _limit_of(self.session_settings) if limit is None else limit
        return await self._log.run(self._log.read(most))

    async def add_items(self, items: list[Any]) -> None:
        """Add items at the end, all or none but what is too large.

        Raises:
            InvalidTypeError: An item is not a JSON value; nothing was added.
            LimitExceededError: An item is too large; the others were added. Or
                there are more than 9,999; nothing was added.
        """
        await self._log.run(self._log.extend(items))

    async def pop_item(self) -> Any:
        """Remove the last item and return it; None if there is none."""
        return await self._log.run(self._log.pop())

    async def clear_session(self) -> None:
        """Remove all items."""
        await self._log.run(self._log.clear())


def _checked_settings(given: Any) -> Any:
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


def _limit_of(settings: Any) -> int | None:
    limit: int | None = getattr(settings, "limit", None)
    return limit
