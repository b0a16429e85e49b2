"""Generated from Items by .ci/generate_sync; do not edit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import ArrayLike

from vecall.concurrency.join import run_sync
from vecall.operations.items import ItemOperations
from vecall.types import Drop, Item, Namespace, Page, Put


class SyncItems:
    """The methods of `Items` for callers without an event loop.

    Each does exactly what its namesake does, and blocks until it is done.
    """

    def __init__(self, items: ItemOperations) -> None:
        """Share the parts of a service."""
        self._items = items

    def __repr__(self) -> str:
        """Return where they are."""
        return f"<{type(self).__name__} {self._items.memory.place}>"

    def write(
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
        return run_sync(self._items.write(app_name, user_id, operations, embedder))

    def get(
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
        return run_sync(self._items.get_items(app_name, user_id, keys, refresh))

    def find(
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
        return run_sync(
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

    def find_all(
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
        return run_sync(self._items.find_all_items(app_name, user_id, namespace, where))

    def namespaces(
        self, namespace: Namespace = (), *, app_name: str, user_id: str
    ) -> list[tuple[str, ...]]:
        """Return the namespaces that have items, sorted label by label.

        Args:
            namespace: Only this namespace and those below it; () is all.
            app_name: The app.
            user_id: The user.
        """
        return run_sync(self._items.namespaces(app_name, user_id, namespace))

    def count(
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
        return run_sync(self._items.count(app_name, user_id, namespace, where))

    def delete(
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
        return run_sync(self._items.delete(app_name, user_id, namespace, where))

    def sweep(self, *, app_name: str, user_id: str) -> int:
        """Delete the expired items of a user; return their number.

        Expired items are not found even before. The maintenance of the service sweeps
        the items of all users.
        """
        return run_sync(self._items.sweep_items(app_name, user_id))
