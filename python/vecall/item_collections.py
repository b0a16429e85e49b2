"""Collections over the items of a user: `ItemCollection`, `ItemLog`."""

from __future__ import annotations

import asyncio
import base64
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from vecall.concurrency.join import run_async
from vecall.errors import ConflictError, LimitExceededError
from vecall.ingest.item_arguments import stored_item_value
from vecall.service._user_items_sync import SyncUserItems
from vecall.service.memory_service import MemoryService
from vecall.types import Drop, Item, Put
from vecall.validation import checked_owner

T = TypeVar("T")


def opened(
    memory: MemoryService | str | Path | None,
    app_name: str,
    user_id: str,
    **options: Any,
) -> tuple[MemoryService, bool]:
    """Check the names; return a service, and whether this call has opened it."""
    if isinstance(memory, MemoryService):
        memory.user(app_name, user_id)  # checks the names
        return memory, False
    checked_owner(app_name, user_id)
    return MemoryService(memory, **options), True


def in_put_batches(values: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield values in lists, each for one transaction."""
    rest = iter(values)
    while batch := list(islice(rest, size)):
        yield batch


def retry_conflicts(work: Callable[[], T], attempts: int) -> T:
    """Do work again if it met another write."""
    for _ in range(attempts - 1):
        with suppress(ConflictError):
            return work()
    return work()


Test = Callable[[Item], bool]

_PAGE = 10_000  # items of one call of `find`, and its maximum offset
_BATCH = 5_000  # operations of one transaction
_ATTEMPTS = 20  # of a change that meets other writes of the same documents


class LazyItems:
    """The items of one (app, user), in a service or a file. Thread-safe.

    The first call opens a file, whose path may be the result of a function. A service
    stays open.
    """

    def __init__(
        self,
        memory: str | Path | MemoryService | Callable[[], str],
        app_name: str,
        user_id: str,
    ) -> None:
        """Check the names; open nothing yet."""
        limits = memory.limits if isinstance(memory, MemoryService) else None
        self._given = memory
        self._owned: MemoryService | None = None
        self._opening = threading.Lock()
        self._owner = checked_owner(app_name, user_id, limits)

    @property
    def _items(self) -> SyncUserItems:
        if isinstance(self._given, MemoryService):
            return self._given.sync.user(**self._owner).items
        with self._opening:
            if self._owned is None:
                path = self._given() if callable(self._given) else self._given
                self._owned = MemoryService(path, embedder=None)
            return self._owned.sync.user(**self._owner).items

    def _find_nearest(
        self,
        namespace: tuple[str, ...],
        vector: Sequence[float],
        limit: int,
        where: Mapping[str, Any] | None,
        test: Test | None,
        least: float = -math.inf,
    ) -> tuple[list[Item], bool]:
        """Return the items next to a vector, best first, and whether these are all."""
        # They pass the test, and their cosines are not below `least`.
        size = min(_PAGE, limit if test is None else 4 * limit + 50)
        found: list[Item] = []
        for offset in range(0, _PAGE + 1, size):
            page = self._items.find(
                namespace,
                vector=vector,
                where=where,
                limit=size,
                offset=offset,
                only_with_vector=True,
            )
            near = [item for item in page if (item.score or 0.0) >= least]
            found += [item for item in near if test is None or test(item)]
            if len(found) >= limit or len(near) < size:
                return found[:limit], True
        return found, False

    def close(self) -> None:
        """Close the file, if this object opened it; the next call opens it again."""
        with self._opening:
            if self._owned is not None:
                self._owned.sync.close()
            self._owned = None


class ItemCollection(LazyItems):
    """The documents of one namespace of one (app, user). Thread-safe.

    A document is an item whose value has it under "document", and a float64 embedding.
    """

    def __init__(
        self,
        memory: str | Path | MemoryService | Callable[[], str],
        app_name: str,
        user_id: str,
        namespace: tuple[str, ...],
    ) -> None:
        """Check the names; open nothing yet."""
        super().__init__(memory, app_name, user_id)
        self._namespace = namespace

    def write_of(
        self,
        key: str,
        document: Mapping[str, Any],
        embedding: Sequence[float] | None,
        if_version: int | None = None,
    ) -> Put:
        """Return the write of a document, which none finds by a zero embedding."""
        value: dict[str, Any] = {"document": document}
        vector = None
        if embedding is not None:
            exact = np.asarray(embedding, "<f8")
            value["embedding"] = base64.b64encode(exact.tobytes()).decode()
            vector = exact.astype(np.float32) if exact.any() else None
        return Put(self._namespace, key, value, vector, if_version=if_version)

    def write(self, puts: Iterable[Put | Drop]) -> None:
        """Write documents; up to 5,000 are one transaction."""
        for batch in in_put_batches(puts, _BATCH):
            self._items.write(batch)

    def get_documents(self, keys: Iterable[str]) -> list[Item | None]:
        """Return documents by key."""
        found: list[Item | None] = []
        for batch in in_put_batches(((self._namespace, key) for key in keys), _BATCH):
            found += self._items.get(batch)
        return found

    def count_documents(self) -> int:
        """Return the number of documents."""
        return self._items.count(self._namespace)

    def delete_all_documents(self) -> None:
        """Delete all documents."""
        self._items.delete(self._namespace)

    def scan(self, where: Mapping[str, Any] | None, test: Test | None) -> list[Item]:
        """Return the documents that meet both conditions, as they were written."""
        found = self._items.find_all(self._namespace, where=where)
        if test is not None:
            found = [item for item in found if test(item)]
        return found[::-1]

    def nearest_documents(
        self,
        vector: Sequence[float],
        limit: int,
        where: Mapping[str, Any] | None,
        test: Test | None,
    ) -> list[tuple[Item, float]]:
        """Return the documents next to an embedding with their cosines, best first."""
        if limit < 1 or not np.any(vector):
            return []
        found, are_all = self._find_nearest(self._namespace, vector, limit, where, test)
        if are_all:
            return [(item, item.score or 0.0) for item in found]
        return self._rank_last_documents(vector, limit, self.scan(where, test))

    def _rank_last_documents(
        self, vector: Sequence[float], limit: int, items: Iterable[Item]
    ) -> list[tuple[Item, float]]:
        """Rank documents that lie behind the last page of the search."""
        query = np.asarray(vector, np.float64)
        query = query / np.linalg.norm(query)
        scored: list[tuple[Item, float]] = []
        for item in items:
            embedding = np.asarray(document_embedding(item) or 0.0)
            if embedding.any():
                cosine = float(query @ embedding / np.linalg.norm(embedding))
                scored.append((item, cosine))
        scored.sort(key=lambda each: (-each[1], -each[0].version))
        return scored[:limit]

    def delete_documents(self, keys: Iterable[str]) -> None:
        """Delete documents by key; unknown keys are ignored."""
        self.write(Drop(self._namespace, key) for key in keys)

    def change(
        self,
        where: Mapping[str, Any] | None,
        test: Test | None,
        changed: Callable[[Item], Put | Drop],
    ) -> int:
        """Change the documents that meet conditions; return their number."""
        # A document that is written meanwhile is read again.
        done: set[str] = set()

        def change() -> int:
            items = [item for item in self.scan(where, test) if item.key not in done]
            for batch in in_put_batches(items, _BATCH):
                self._items.write([changed(item) for item in batch])
                done.update(item.key for item in batch)
            return len(done)

        return retry_conflicts(change, _ATTEMPTS)

    def deletion_of(self, item: Item) -> Drop:
        """Return the deletion of a document in the version that was read."""
        return Drop(self._namespace, item.key, if_version=item.version)


def document_embedding(item: Item, kind: str = "<f8") -> list[float] | None:
    """Return the embedding of a document, if it has one."""
    text = item.value.get("embedding")
    if text is None:
        return None
    numbers: list[float] = np.frombuffer(base64.b64decode(text), kind).tolist()
    return numbers


_STATE = "state"
_MOST = 9_000  # operations of one transaction
_INLINE = 100  # values; more are converted on another thread


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

    `run_async` and `run_sync` run its methods. Every call changes the list in one
    transaction, and returns when it is durable. `clear_log` deletes items after 9,000
    in further transactions. If it is interrupted, the list is empty, and the next
    `append_values` or `clear_log` deletes the rest. Its namespace has no other items.
    """

    def __init__(
        self, memory: MemoryService, app_name: str, user_id: str, place: tuple[str, ...]
    ) -> None:
        """Bind the list to one user; reads and writes nothing."""
        user = memory.user(app_name, user_id)
        self._items = memory.items._items
        self._limits = memory.limits
        self._owner = user.app_name, user.user_id
        self._place = place

    async def read_values(self, last: int | None = None) -> list[Any]:
        """Return the values in order, or so many last ones; below 0 is all."""
        while True:
            state = await self._log_state()
            found = await self._last_values(state, last)
            if found is not None:
                return found

    async def append_values(
        self,
        values: Sequence[Any],
        *,
        new: Callable[[list[Any]], Sequence[Any]] | None = None,
        window: int = 0,
    ) -> None:
        """Add values at the end, all or none but those that are too large."""
        # `new` returns those to add, given the last stored ones, as many as `window`.
        # An error of a value that is too large comes after the others were added.
        failure: LimitExceededError | None = None
        while True:
            state = await self._log_state()
            if state.oldest < state.first:  # before adding, so that an error adds none
                await self._drop_removed_items(state)
                continue
            added = values
            if new is not None:
                stored = await self._last_values(state, window)
                if stored is None:
                    continue
                added = new(stored)
            if failure is not None:
                added = [value for value in added if not self._is_too_large(value)]
            if not added:
                break
            puts = [
                Put(self._place, _log_key(state.next + at), value)
                for at, value in enumerate(added)
            ]
            after = state._replace(next=state.next + len(added))
            try:
                if await self._commit(after, puts):
                    break
            except LimitExceededError as error:
                if failure is not None or not any(map(self._is_too_large, added)):
                    raise
                failure = error
        if failure is not None:
            raise failure

    def _is_too_large(self, value: Any) -> bool:
        try:
            stored_item_value(value, "value", self._limits)
        except LimitExceededError:
            return True
        return False

    async def pop_last_value(self) -> Any:
        """Remove the last value and return it; None if there is none."""
        while True:
            state = await self._log_state()
            if state.first == state.next:
                return None
            found = await self._last_values(state, 1)
            last = state.next - 1
            gone = [Drop(self._place, _log_key(last))]
            if found and await self._commit(state._replace(next=last), gone):
                return found[0]

    async def clear_log(self) -> None:
        """Remove all values, and delete their items."""
        is_empty = False
        while True:
            state = await self._log_state()
            if not is_empty:
                # The numbers are not used again: a reader never mixes old and new
                # values. Those that others add meanwhile stay.
                state = state._replace(first=state.next)
            if state.oldest == state.first:
                return
            if await self._drop_removed_items(state):
                is_empty = True

    async def _log_state(self) -> _State:
        at = [(self._place, _STATE)]
        return _parse_log_state(*await self._items.get_items(*self._owner, at, False))

    async def _last_values(self, state: _State, last: int | None) -> list[Any] | None:
        """Return the last values; None if the list changed meanwhile."""
        first = state.first
        if last is not None and last >= 0:
            first = max(first, state.next - last)
        keys = [(self._place, _log_key(number)) for number in range(first, state.next)]
        values: list[Any] = []
        for start in range(0, len(keys), _MOST):
            wanted = [*keys[start : start + _MOST], (self._place, _STATE)]
            *found, head = await self._items.get_items(*self._owner, wanted, False)
            if _parse_log_state(head).version != state.version or None in found:
                return None
            values += [item.value for item in found if item is not None]
        return values

    async def _drop_removed_items(self, state: _State) -> bool:
        """Write a state and delete removed items; False if the list changed."""
        end = min(state.oldest + _MOST, state.first)
        gone = [Drop(self._place, _log_key(n)) for n in range(state.oldest, end)]
        return await self._commit(state._replace(oldest=end), gone)

    async def _commit(self, after: _State, operations: Sequence[Put | Drop]) -> bool:
        """Write in one transaction; False if the list changed meanwhile."""
        value = {"first": after.first, "next": after.next}
        if after.oldest < after.first:
            value["oldest"] = after.oldest
        head = Put(self._place, _STATE, value, if_version=after.version)
        try:
            await self._items.write(*self._owner, [head, *operations], None)
        except ConflictError:
            return False
        return True


async def read_log_as(log: ItemLog, convert: Callable[[list[Any]], list[T]]) -> list[T]:
    """Return the values of a list, converted; of a long one on another thread."""
    values = await run_async(log.read_values())
    if len(values) > _INLINE:
        return await asyncio.to_thread(convert, values)
    return convert(values)


def _log_key(number: int) -> str:
    return f"{number:012d}"


def _parse_log_state(item: Item | None) -> _State:
    if item is None:
        return _State(0, 0, 0, 0)
    first = item.value["first"]
    oldest = item.value.get("oldest", first)
    return _State(oldest, first, item.value["next"], item.version)
