"""UserItems: the items of one user; `_user_items_sync` is its blocking twin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import ArrayLike

from vecall.item_types import Drop, Item, Namespace, Put
from vecall.reprs import shown
from vecall.scopes import Owner
from vecall.service.items import Items


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
        return shown(self, **self._owner)

    async def write(
        self, operations: Sequence[Put | Drop], *, embedder: str | None = None
    ) -> list[int]:
        """Write and delete items in one transaction; see `Items.write`."""
        return await self._items.write(operations, **self._owner, embedder=embedder)

    async def get(
        self, keys: Sequence[tuple[Namespace, str]], *, refresh: bool = False
    ) -> list[Item | None]:
        """Return items by namespace and key; see `Items.get`."""
        return await self._items.get(keys, **self._owner, refresh=refresh)

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
    ) -> list[Item]:
        """Return the items of a namespace and below it; see `Items.find`."""
        return await self._items.find(
            namespace,
            **self._owner,
            vector=vector,
            where=where,
            limit=limit,
            offset=offset,
            embedder=embedder,
            refresh=refresh,
            only_with_vector=only_with_vector,
        )

    async def find_all(
        self, namespace: Namespace = (), *, where: Mapping[str, Any] | None = None
    ) -> list[Item]:
        """Return all items of a namespace and below it; see `Items.find_all`."""
        return await self._items.find_all(namespace, **self._owner, where=where)

    async def namespaces(self, namespace: Namespace = ()) -> list[tuple[str, ...]]:
        """Return the namespaces that have items; see `Items.namespaces`."""
        return await self._items.namespaces(namespace, **self._owner)

    async def count(
        self, namespace: Namespace = (), *, where: Mapping[str, Any] | None = None
    ) -> int:
        """Return the number of items; see `Items.count`."""
        return await self._items.count(namespace, **self._owner, where=where)

    async def delete(
        self, namespace: Namespace, *, where: Mapping[str, Any] | None = None
    ) -> int:
        """Delete the items of a namespace and below it; see `Items.delete`."""
        return await self._items.delete(namespace, **self._owner, where=where)

    async def sweep(self) -> int:
        """Delete the expired items; see `Items.sweep`."""
        return await self._items.sweep(**self._owner)
