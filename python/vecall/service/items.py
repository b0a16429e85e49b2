"""Items: JSON documents under a namespace and a key; `sync` is its blocking twin."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypedDict, TypeVar

from numpy.typing import ArrayLike

from vecall.concurrency.join import run_async
from vecall.errors import NotFoundError
from vecall.limits import Limits, Trigger
from vecall.operations.consolidation import ConsolidationPlan
from vecall.operations.items import ItemOperations
from vecall.operations.options import StorageOptions, WritePolicy
from vecall.search.searcher import SearchOptions
from vecall.service._items_sync import SyncItems
from vecall.summaries import SummaryProvider
from vecall.types import Drop, Item, MemoryEntry, Namespace, Page, Put

Method = TypeVar("Method", bound=Callable[..., object])


def bound_as(
    name: str, *positional: str, required: bool = False
) -> Callable[[Method], Method]:
    """Declare the method of a user's handle that calls this one.

    `.ci/generate_sync` writes it, with the app and the user bound. It takes some of the
    arguments by position, too. The first of these, if `required`, has no default there,
    and what stands before it here is left out.
    """
    del name, positional, required
    return lambda method: method


class Items:
    """Durable JSON documents in the file of a service: `MemoryService.items`.

    An item has a namespace, a key, a JSON value, 0 to 1,024 vectors and an optional
    TTL. Items belong to one (app, user), like memories; no call reads or writes those
    of another. They have no history and no tombstones. `delete_user`, `delete_app`,
    `backup`, `purge`, `export_jsonl` and `import_jsonl` include them. A user's quota
    counts memories, not items.

    Every method has a blocking twin of the same name on `sync`.
    """

    _items: ItemOperations

    def __init__(self, items: ItemOperations) -> None:
        """Share the parts of a service."""
        self._items = items
        self._sync = SyncItems(items)

    def __repr__(self) -> str:
        """Return where they are."""
        return f"<{type(self).__name__} {self._items.memory.place}>"

    @property
    def sync(self) -> SyncItems:
        """The same methods for callers without an event loop."""
        return self._sync

    @bound_as("write", "operations")
    async def write(
        self,
        operations: Sequence[Put | Drop],
        *,
        app_name: str,
        user_id: str,
        embedder: str | None = None,
    ) -> list[int]:
        """Write and delete items of one user in one transaction: all or none.

        Args:
            operations: The writes and deletions, at most 10,000. They apply in order:
                of two for one item, the later one decides.
            app_name: The app.
            user_id: The user.
            embedder: The name of the vectors' embedder. The first name is recorded for
                all vectors of the user's items; None is not checked.

        Returns:
            For each operation the version that it wrote or deleted; 0 for a deletion
            that found nothing.

        Raises:
            InvalidTypeError: A value that JSON does not have, or a wrong type.
            InvalidArgumentError: An invalid namespace, key, vector or TTL.
            ConflictError: An item is not in the version that `if_version` names.
            DimensionError: A vector has another dimension than the user's items.
            EmbeddingMismatchError: The user's items have vectors of another embedder.
            LimitExceededError: A value, a name or the batch is too large.
            StorageFullError: The disk is full.
        """
        return await run_async(
            self._items.write(app_name, user_id, operations, embedder)
        )

    @bound_as("get", "keys")
    async def get(
        self,
        keys: Sequence[tuple[Namespace, str]],
        *,
        app_name: str,
        user_id: str,
        refresh: bool = False,
    ) -> list[Item | None]:
        """Return items by namespace and key.

        Args:
            keys: Pairs (namespace, key), at most 10,000.
            app_name: The app.
            user_id: The user.
            refresh: Begin the TTL of the returned items again. The call does not wait
                until that is written.

        Returns:
            One item for each pair, in order; None where there is none.
        """
        return await run_async(self._items.get_items(app_name, user_id, keys, refresh))

    @bound_as("find", "namespace")
    async def find(
        self,
        namespace: Namespace = (),
        *,
        app_name: str,
        user_id: str,
        vector: ArrayLike | None = None,
        where: Mapping[str, Any] | None = None,
        limit: int = 10,
        offset: int = 0,
        embedder: str | None = None,
        refresh: bool = False,
        only_with_vector: bool = False,
        cursor: str | None = None,
    ) -> Page[Item]:
        """Return a page of the items of a namespace and of all namespaces below it.

        With a vector, items come by their cosine with it, best first; an item with
        several vectors counts by its nearest. Then come the items without a vector.
        Otherwise, among these and of equal vectors, the latest write comes first. An
        item that is written again may so move to a page before; `find_all` returns the
        items of one state.

        Args:
            namespace: The namespace; () is all of the user's items.
            app_name: The app.
            user_id: The user.
            vector: Numbers (dim,), finite and not zero.
            where: Conditions on the values, such as `{"kind": "note", "size": {"$gt":
                3}}`. Operators are `$eq $ne $gt $gte $lt $lte $in $nin $contains $all
                $any $exists $not`; `$and`, `$or` and `$not` combine conditions. Dots
                separate the keys of nested mappings.
            limit: Maximum number of items, 1 to 10,000.
            offset: Number of items to skip first, up to 10,000.
            embedder: The name of the vector's embedder; None is not checked.
            refresh: As in `get`.
            only_with_vector: With a vector, omit the items that have none.
            cursor: The `next` of the previous page of the same list; `offset` counts
                from there. A page of a search by vector reads all items before it.

        Returns:
            A list with the attribute `next`, which is None at the end.

        Raises:
            DimensionError: The vector has another dimension than the user's items.
            EmbeddingMismatchError: The user's items have vectors of another embedder.
            InvalidArgumentError: An invalid namespace, condition, limit, vector or
                cursor.
        """
        return await run_async(
            self._items.find_items(
                app_name,
                user_id,
                namespace,
                vector,
                where,
                limit,
                offset,
                embedder,
                refresh,
                only_with_vector,
                cursor,
            )
        )

    @bound_as("find_all", "namespace")
    async def find_all(
        self,
        namespace: Namespace = (),
        *,
        app_name: str,
        user_id: str,
        where: Mapping[str, Any] | None = None,
    ) -> list[Item]:
        """Return all items of a namespace and below it, of one state of the storage.

        The latest write comes first. All of them are in memory at once, so `find` is
        for those who need a few.

        Args:
            namespace: The namespace; () is all of the user's items.
            app_name: The app.
            user_id: The user.
            where: Conditions, as in `find`.

        Raises:
            InvalidArgumentError: An invalid namespace or condition.
        """
        return await run_async(
            self._items.find_all_items(app_name, user_id, namespace, where)
        )

    @bound_as("namespaces", "namespace")
    async def namespaces(
        self, namespace: Namespace = (), *, app_name: str, user_id: str
    ) -> list[tuple[str, ...]]:
        """Return the namespaces that have items, sorted label by label.

        Args:
            namespace: Only this namespace and those below it; () is all.
            app_name: The app.
            user_id: The user.
        """
        return await run_async(self._items.namespaces(app_name, user_id, namespace))

    @bound_as("count", "namespace")
    async def count(
        self,
        namespace: Namespace = (),
        *,
        app_name: str,
        user_id: str,
        where: Mapping[str, Any] | None = None,
    ) -> int:
        """Return the number of items in a namespace and below it.

        Args:
            namespace: The namespace; () is all of the user's items.
            app_name: The app.
            user_id: The user.
            where: As in `find`.
        """
        return await run_async(self._items.count(app_name, user_id, namespace, where))

    @bound_as("delete", "namespace")
    async def delete(
        self,
        namespace: Namespace,
        *,
        app_name: str,
        user_id: str,
        where: Mapping[str, Any] | None = None,
    ) -> int:
        """Delete the items of a namespace and below it; return their number.

        It deletes the items that match when it begins, in transactions of up to 1,000.
        An item that is written meanwhile stays.

        Args:
            namespace: The namespace; () is all of the user's items.
            app_name: The app.
            user_id: The user.
            where: As in `find`.
        """
        return await run_async(self._items.delete(app_name, user_id, namespace, where))

    @bound_as("sweep")
    async def sweep(self, *, app_name: str, user_id: str) -> int:
        """Delete the expired items of a user; return their number.

        Expired items are not found even before. The maintenance of the service sweeps
        the items of all users.
        """
        return await run_async(self._items.sweep_items(app_name, user_id))


class CommonKeywords(TypedDict, total=False):
    """Options that both of the following have."""

    min_confidence: float | None
    ttl: float | timedelta | str | None
    read_only: bool
    storage: StorageOptions | None
    writes: WritePolicy | None
    limits: Limits | None
    consolidation: ConsolidationPlan | None


class ServiceKeywords(CommonKeywords, total=False):
    """Options of `MemoryService` except path, embedder, top_k and search."""

    summarizer: SummaryProvider | None
    trigger: Trigger | str | Mapping[str, Any] | None


class BuildKeywords(CommonKeywords, total=False):
    """Options of `MemoryConfig.build` that the configuration lacks."""

    search: SearchOptions | None


# All memories of a list, page by page, while other callers delete some.

ReadPage = Callable[[str | None, int], Awaitable[Page[MemoryEntry]]]
"""Returns the page after a cursor, given the cursor and the size of the page."""


async def in_pages(
    read: ReadPage, size: int, most: int | None = None
) -> AsyncIterator[list[MemoryEntry]]:
    """Yield memories in order of creation, page by page, each memory once.

    A page begins after the last memory of the page before. If that memory was deleted
    in between, so that `read` raises NotFoundError, it begins after an earlier one.
    """
    ids: list[str] = []
    place: dict[str, int] = {}
    at, step = -1, 1  # the page begins after ids[at]
    while most is None or len(ids) < most:
        left = size if most is None else most - len(ids)
        # After a step back, most of a page may be known.
        limit = min(size, left) if at == len(ids) - 1 else size
        try:
            page = await read(ids[at] if at >= 0 else None, limit)
        except NotFoundError:
            if at < 0:
                raise
            at, step = max(at - step, -1), step * 2
            continue
        new = [each for each in page if each.id not in place][:left]
        for each in new:
            assert each.id is not None
            place[each.id] = len(ids)
            ids.append(each.id)
        if new:
            yield new
        if page.next is None:
            return
        at, step = place.get(page[-1].id or "", len(ids) - 1), 1
