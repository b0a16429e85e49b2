"""Generated from UserItems by .ci/generate_sync; do not edit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import ArrayLike

from vecall.item_types import Drop, Item, Namespace, Put
from vecall.reprs import shown
from vecall.scopes import Owner
from vecall.service._items_sync import SyncItems


class SyncUserItems:
    """The methods of `UserItems` for callers without an event loop.

    Each does exactly what its namesake does, and blocks until it is done.
    """

    __slots__ = ("_items", "_owner")

    def __init__(
        self,
        items: SyncItems,
        owner: Owner,
    ) -> None:
        """Share the parts of a service."""
        self._items = items
        self._owner = owner

    def __repr__(self) -> str:
        """Return both names."""
        return shown(self, **self._owner)

    def write(
        self, operations: Sequence[Put | Drop], *, embedder: str | None = None
    ) -> list[int]:
        """Write and delete items in one transaction; see `Items.write`."""
        return self._items.write(operations, **self._owner, embedder=embedder)

    def get(
        self, keys: Sequence[tuple[Namespace, str]], *, refresh: bool = False
    ) -> list[Item | None]:
        """Return items by namespace and key; see `Items.get`."""
        return self._items.get(keys, **self._owner, refresh=refresh)

    def find(
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
        return self._items.find(
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

    def find_all(
        self, namespace: Namespace = (), *, where: Mapping[str, Any] | None = None
    ) -> list[Item]:
        """Return all items of a namespace and below it; see `Items.find_all`."""
        return self._items.find_all(namespace, **self._owner, where=where)

    def namespaces(self, namespace: Namespace = ()) -> list[tuple[str, ...]]:
        """Return the namespaces that have items; see `Items.namespaces`."""
        return self._items.namespaces(namespace, **self._owner)

    def count(
        self, namespace: Namespace = (), *, where: Mapping[str, Any] | None = None
    ) -> int:
        """Return the number of items; see `Items.count`."""
        return self._items.count(namespace, **self._owner, where=where)

    def delete(
        self, namespace: Namespace, *, where: Mapping[str, Any] | None = None
    ) -> int:
        """Delete the items of a namespace and below it; see `Items.delete`."""
        return self._items.delete(namespace, **self._owner, where=where)

    def sweep(self) -> int:
        """Delete the expired items; see `Items.sweep`."""
        return self._items.sweep(**self._owner)
