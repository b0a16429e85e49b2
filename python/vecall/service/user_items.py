"""UserItems: the items of one user; `_user_items_sync` is its blocking twin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import ArrayLike

from vecall.limits import Owner
from vecall.scalars import repr_of_object
from vecall.service.items import Items
from vecall.types import Drop, Item, Namespace, Page, Put


class UserItems:
    """The items of one user: `memory.user(app, user).items`.

    Each method calls the method of `Items` of the same name, with the app and the user
    bound, and with the same arguments, results and errors.
    """

    __slots__ = ("_items", "_owner")

    _items: Items
    _owner: Owner

    def __init__(self, items: Items, owner: Owner) -> None:
        """Bind the items of a service to an app and a user."""
        self._items = items
        self._owner = owner

    def __repr__(self) -> str:
        """Return both names."""
        return repr_of_object(self, **self._owner)

    # The methods below are generated from the service by .ci/generate_sync.

    async def write(
        self, operations: Sequence[Put | Drop], *, embedder: str | None = None
    ) -> list[int]:
        """Write and delete items in one transaction: all or none.

        See `Items.write`.

        Args:
            operations: The writes and deletions, at most 10,000. They apply in order:
                of two for one item, the later one decides.
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
        return await self._items.write(
            **self._owner, operations=operations, embedder=embedder
        )

    async def get(
        self, keys: Sequence[tuple[Namespace, str]], *, refresh: bool = False
    ) -> list[Item | None]:
        """Return items by namespace and key.

        See `Items.get`.

        Args:
            keys: Pairs (namespace, key), at most 10,000.
            refresh: Begin the TTL of the returned items again. The call does not wait
                until that is written.

        Returns:
            One item for each pair, in order; None where there is none.
        """
        return await self._items.get(**self._owner, keys=keys, refresh=refresh)

    async def find(
        self,
        namespace: Namespace = (),
        *,
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

        See `Items.find`.

        Args:
            namespace: The namespace; () is all of the user's items.
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
        return await self._items.find(
            **self._owner,
            namespace=namespace,
            vector=vector,
            where=where,
            limit=limit,
            offset=offset,
            embedder=embedder,
            refresh=refresh,
            only_with_vector=only_with_vector,
            cursor=cursor,
        )

    async def find_all(
        self, namespace: Namespace = (), *, where: Mapping[str, Any] | None = None
    ) -> list[Item]:
        """Return all items of a namespace and below it, of one state of the storage.

        See `Items.find_all`.

        Args:
            namespace: The namespace; () is all of the user's items.
            where: Conditions, as in `find`.

        Raises:
            InvalidArgumentError: An invalid namespace or condition.
        """
        return await self._items.find_all(
            **self._owner, namespace=namespace, where=where
        )

    async def namespaces(self, namespace: Namespace = ()) -> list[tuple[str, ...]]:
        """Return the namespaces that have items, sorted label by label.

        See `Items.namespaces`.

        Args:
            namespace: Only this namespace and those below it; () is all.
            user_id: The user.
        """
        return await self._items.namespaces(**self._owner, namespace=namespace)

    async def count(
        self, namespace: Namespace = (), *, where: Mapping[str, Any] | None = None
    ) -> int:
        """Return the number of items in a namespace and below it.

        See `Items.count`.

        Args:
            namespace: The namespace; () is all of the user's items.
            where: As in `find`.
        """
        return await self._items.count(**self._owner, namespace=namespace, where=where)

    async def delete(
        self, namespace: Namespace, *, where: Mapping[str, Any] | None = None
    ) -> int:
        """Delete the items of a namespace and below it; return their number.

        See `Items.delete`.

        Args:
            namespace: The namespace; () is all of the user's items.
            where: As in `find`.
        """
        return await self._items.delete(**self._owner, namespace=namespace, where=where)

    async def sweep(self) -> int:
        """Delete the expired items; return their number.

        See `Items.sweep`.
        """
        return await self._items.sweep(**self._owner)
