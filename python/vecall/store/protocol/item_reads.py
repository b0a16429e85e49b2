"""Reads of items: JSON documents under a namespace and a key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from vecall.store.item_records import ItemRow, ItemState, ItemVectors


class ItemReads(Protocol):
    """Reads of the items of one (app, user).

    The row number of an item is `part << 32 | version`. Every write takes the next
    version of its partition, and none is used twice, so a row number stands for one
    content for ever. A reader that knows all versions up to one finds later writes by
    their larger numbers. It finds deletions because the row numbers are missing. The
    pieces of a large value have the versions before that of its item; no read returns
    them as items.

    Expired items are still returned, except where `now` is an argument. Ranges of
    namespaces are in code point order, as `namespace_range` returns them.
    """

    def item_state(self, app: str, user: str) -> ItemState | None:
        """Return what is known about a user's items; None if the user has none."""
        ...

    def items_at(
        self, part: int, places: Sequence[tuple[str, str]], *, pieces: bool = True
    ) -> list[ItemRow | None]:
        """Return the item of each (namespace, key), without vectors.

        Args:
            part: The partition.
            places: Namespaces and keys.
            pieces: Whether the pieces of large values are read.
        """
        ...

    def items_by_number(self, part: int, rids: Sequence[int]) -> list[ItemRow]:
        """Return the items that still exist of some row numbers, with vectors."""
        ...

    def newest_items(
        self,
        part: int,
        low: str,
        high: str | None,
        first: int = 16,
        before: int | None = None,
    ) -> Iterator[ItemRow]:
        """Yield the items of a range of namespaces, latest write first.

        Args:
            part: The partition.
            low: The lowest namespace.
            high: The lowest namespace above the range; None is no upper bound.
            first: The number of items that are read at once at the beginning.
            before: Only versions below this one; None is no bound.
        """
        ...

    def item_vectors(
        self, part: int, namespace: str | None, after: int
    ) -> Iterator[ItemVectors]:
        """Yield items with their vectors; b"" for an item without vectors.

        Args:
            part: The partition.
            namespace: Only this namespace; None is every namespace.
            after: Only versions above this one.
        """
        ...

    def item_namespaces(
        self, part: int, low: str, high: str | None, now: float
    ) -> list[str]:
        """Return the namespaces of a range that have an item, in code point order."""
        ...

    def count_items(self, part: int, low: str, high: str | None, now: float) -> int:
        """Return the number of items in a range of namespaces."""
        ...

    def export_items(self, part: int, vectors: bool) -> Iterator[dict[str, Any]]:
        """Yield the values of each item's export line, in order of their versions."""
        ...
