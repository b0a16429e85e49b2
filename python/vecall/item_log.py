"""A list of JSON values in items, such as the messages of a conversation."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple, TypeVar

from vecall.errors import ConflictError, LimitExceededError
from vecall.ingest.item_arguments import stored_value
from vecall.item_types import Drop, Item, Put
from vecall.scopes import Owner
from vecall.service.memory_service import MemoryService

T = TypeVar("T")
Call = Callable[[Any], Any]  # of a method of `Items` or of its blocking twin
Steps = Generator[Call, Any, T]

_STATE = "state"
_MOST = 9_000  # operations of one transaction


class _State(NamedTuple):
    """The numbers of the values: from `first` to `next`, exclusive.

    Items with numbers from `oldest` to `first` belong to values that were removed.
    """

    oldest: int
    first: int
    next: int
    version: int  # of the item that holds the state; 0 if there is none


class ItemLog:
    """A durable list of JSON values of one user. Several processes may use one list.

    `read`, `extend`, `pop` and `clear` return steps. `run` awaits them, `block` runs
    them without an event loop. Every call changes the list in one transaction, and
    returns when it is durable. `clear` deletes the items of more than 9,000 values in
    further transactions. If it is interrupted, the list is empty, and the next
    `extend` or `clear` deletes the rest of the items.

    Args:
        memory: The memory service.
        app_name: The app.
        user_id: The user.
        namespace: The namespace of the list, which has no other items.

    Raises:
        InvalidArgumentError: An invalid app or user.
    """

    def __init__(
        self,
        memory: MemoryService,
        app_name: str,
        user_id: str,
        namespace: tuple[str, ...],
    ) -> None:
        """Bind the list to one user; reads and writes nothing."""
        user = memory.user(app_name, user_id)
        self._items = memory.items
        self._limits = memory.limits
        self._owner = Owner(app_name=user.app_name, user_id=user.user_id)
        self._place = namespace

    async def run(self, steps: Steps[T]) -> T:
        """Await steps."""
        try:
            call = next(steps)
            while True:
                try:
                    value = await call(self._items)
                except Exception as error:
                    call = steps.throw(error)
                else:
                    call = steps.send(value)
        except StopIteration as finished:
            result: T = finished.value
            return result

    def block(self, steps: Steps[T]) -> T:
        """Run steps; block the calling thread meanwhile."""
        try:
            call = next(steps)
            while True:
                try:
                    value = call(self._items.sync)
                except Exception as error:
                    call = steps.throw(error)
                else:
                    call = steps.send(value)
        except StopIteration as finished:
            result: T = finished.value
            return result

    def read(self, last: int | None = None) -> Steps[list[Any]]:
        """Return the values in order.

        Args:
            last: Only the last ones, at most so many; None or below 0 is all.
        """
        while True:
            state = yield from self._state()
            found = yield from self._last(state, last)
            if found is not None:
                return found

    def extend(
        self,
        values: Sequence[Any],
        *,
        new: Callable[[list[Any]], Sequence[Any]] | None = None,
        window: int = 0,
    ) -> Steps[None]:
        """Add values at the end, all or none but those that are too large.

        Args:
            values: The values.
            new: Returns those of the values to add, given the last stored ones.
            window: How many of the last stored values `new` is given.

        Raises:
            InvalidTypeError: A value that JSON does not have; nothing was added.
            LimitExceededError: A value is too large; the others were added. Or there
                are more than 9,999; nothing was added.
        """
        failure: LimitExceededError | None = None
        while True:
            state = yield from self._state()
            if state.oldest < state.first:  # before adding, so that an error adds none
                yield from self._drop(state)
                continue
            added = values
            if new is not None:
                stored = yield from self._last(state, window)
                if stored is None:
                    continue
                added = new(stored)
            if failure is not None:
                added = [value for value in added if not self._is_too_large(value)]
            if not added:
                break
            puts = [
                Put(self._place, _key(state.next + at), value)
                for at, value in enumerate(added)
            ]
            after = state._replace(next=state.next + len(added))
            try:
                if (yield from self._write(after, puts)):
                    break
            except LimitExceededError as error:
                if failure is not None or not any(map(self._is_too_large, added)):
                    raise
                failure = error
        if failure is not None:
            raise failure

    def _is_too_large(self, value: Any) -> bool:
        try:
            stored_value(value, "value", self._limits)
        except LimitExceededError:
            return True
        return False

    def pop(self) -> Steps[Any]:
        """Remove the last value and return it; None if there is none."""
        while True:
            state = yield from self._state()
            if state.first == state.next:
                return None
            found = yield from self._last(state, 1)
            last = state.next - 1
            if found and (
                yield from self._write(
                    state._replace(next=last), [Drop(self._place, _key(last))]
                )
            ):
                return found[0]

    def clear(self) -> Steps[None]:
        """Remove all values, and delete their items."""
        is_empty = False
        while True:
            state = yield from self._state()
            if not is_empty:
                # The numbers are not used again: a reader never mixes old and new
                # values. Those that others add meanwhile stay.
                state = state._replace(first=state.next)
            if state.oldest == state.first:
                return
            if (yield from self._drop(state)):
                is_empty = True

    def _call(self, method: str, argument: Any) -> Call:
        return lambda items: getattr(items, method)(argument, **self._owner)

    def _state(self) -> Steps[_State]:
        (item,) = yield self._call("get", [(self._place, _STATE)])
        return _state_of(item)

    def _last(self, state: _State, last: int | None) -> Steps[list[Any] | None]:
        """Return the last values; None if the list changed meanwhile."""
        first = state.first
        if last is not None and last >= 0:
            first = max(first, state.next - last)
        keys = [(self._place, _key(number)) for number in range(first, state.next)]
        values: list[Any] = []
        for start in range(0, len(keys), _MOST):
            wanted = [*keys[start : start + _MOST], (self._place, _STATE)]
            *found, head = yield self._call("get", wanted)
            if _state_of(head).version != state.version or None in found:
                return None
            values += [item.value for item in found]
        return values

    def _drop(self, state: _State) -> Steps[bool]:
        """Write a state and delete removed items; False if the list changed."""
        end = min(state.oldest + _MOST, state.first)
        gone = [Drop(self._place, _key(number)) for number in range(state.oldest, end)]
        return (yield from self._write(state._replace(oldest=end), gone))

    def _write(self, after: _State, operations: Sequence[Put | Drop]) -> Steps[bool]:
        """Write in one transaction; False if the list changed meanwhile."""
        value = {"first": after.first, "next": after.next}
        if after.oldest < after.first:
            value["oldest"] = after.oldest
        head = Put(self._place, _STATE, value, if_version=after.version)
        try:
            yield self._call("write", [head, *operations])
        except ConflictError:
            return False
        return True


def _key(number: int) -> str:
    return f"{number:012d}"


def _state_of(item: Item | None) -> _State:
    if item is None:
        return _State(0, 0, 0, 0)
    first = item.value["first"]
    oldest = item.value.get("oldest", first)
    return _State(oldest, first, item.value["next"], item.version)
