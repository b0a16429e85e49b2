"""A durable session of the SDK in the file of a memory service."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, NamedTuple

from vecall.errors import ConflictError
from vecall.item_types import Drop, Item, Put
from vecall.scopes import Owner
from vecall.service.memory_service import MemoryService
from vecall.validation import check_name

_PLACE = "openai-agents"
_STATE = "state"
_MOST = 9_000  # operations of one transaction


class _State(NamedTuple):
    """The numbers of a session's items: from `first` to `next`, exclusive."""

    first: int
    next: int
    version: int  # of the item that holds the state; 0 if there is none


class VecallSession:
    """The items of one conversation, in the file of a memory service.

    The items are stored under the app and the user, apart from memories: a search does
    not find them; `delete_user` deletes them. Several processes may use one session.
    Every call is one transaction, and returns when it is durable. Use it with
    `IngestingSession` to store what is said as memories, too.

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
        self._items = memory.items
        user = memory.user(app_name, user_id)
        self._owner = Owner(app_name=user.app_name, user_id=user.user_id)
        self._place = (_PLACE, session_id)

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """Return the items in order.

        Args:
            limit: Only the last ones, at most so many; below 0 all. None is the limit
                of `session_settings`.
        """
        most = _limit_of(self.session_settings) if limit is None else limit
        while True:
            state = await self._state()
            first = state.first
            if most is not None and most >= 0:
                first = max(first, state.next - most)
            found = await self._values(range(first, state.next), state)
            if found is not None:
                return found

    async def add_items(self, items: list[Any]) -> None:
        """Add items at the end, all or none.

        Raises:
            InvalidTypeError: An item is not a JSON value; nothing was added.
            LimitExceededError: An item is too large, or there are more than 9,999;
                nothing was added.
        """
        if not items:
            return
        while True:
            state = await self._state()
            puts = [
                Put(self._place, _key(state.next + at), item)
                for at, item in enumerate(items)
            ]
            after = state._replace(next=state.next + len(items))
            if await self._write(after, puts):
                return

    async def pop_item(self) -> Any:
        """Remove the last item and return it; None if there is none."""
        while True:
            state = await self._state()
            if state.first == state.next:
                return None
            last = state.next - 1
            found = await self._values(range(last, state.next), state)
            if found and await self._write(
                state._replace(next=last), [Drop(self._place, _key(last))]
            ):
                return found[0]

    async def clear_session(self) -> None:
        """Remove all items."""
        while True:
            state = await self._state()
            if state.first == state.next:
                return
            gone = [
                Drop(self._place, _key(number))
                for number in range(state.first, state.next)
            ]
            # The numbers are not used again: a reader never mixes old and new items.
            if await self._write(state._replace(first=state.next), gone[:_MOST]):
                for start in range(_MOST, len(gone), _MOST):
                    await self._items.write(gone[start : start + _MOST], **self._owner)
                return

    async def _state(self) -> _State:
        (item,) = await self._items.get([(self._place, _STATE)], **self._owner)
        return _state_of(item)

    async def _values(self, numbers: range, state: _State) -> list[Any] | None:
        """Return the values of items; None if the session changed meanwhile."""
        keys = [(self._place, _key(number)) for number in numbers]
        values: list[Any] = []
        for start in range(0, len(keys), _MOST):
            wanted = [*keys[start : start + _MOST], (self._place, _STATE)]
            *found, head = await self._items.get(wanted, **self._owner)
            if _state_of(head).version != state.version or None in found:
                return None
            values += [item.value for item in found if item is not None]
        return values

    async def _write(self, after: _State, operations: Sequence[Put | Drop]) -> bool:
        """Write in one transaction; False if the session changed meanwhile."""
        value = {"first": after.first, "next": after.next}
        head = Put(self._place, _STATE, value, if_version=after.version)
        try:
            await self._items.write([head, *operations], **self._owner)
        except ConflictError:
            return False
        return True


def _key(number: int) -> str:
    return f"{number:012d}"


def _state_of(item: Item | None) -> _State:
    if item is None:
        return _State(0, 0, 0)
    return _State(item.value["first"], item.value["next"], item.version)


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
