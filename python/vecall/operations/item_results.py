"""Makes items of the rows that a storage returned."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from vecall.errors import (
    DimensionError,
    EmbeddingMismatchError,
    InvalidArgumentError,
    InvalidTypeError,
)
from vecall.item_types import Item
from vecall.store import ItemRow, ItemState, decode_namespace, parsed_value

_CURSOR = re.compile(r"(?:(-?\d(?:\.\d+)?(?:e-\d+)?):)?(\d{1,10})", re.ASCII)


class Place(NamedTuple):
    """The place of an item in a list: after better scores and later versions.

    Attributes:
        score: Its cosine; None for one without a vector, and in a list without scores.
        version: Its version.
    """

    score: float | None
    version: int

    @property
    def cursor(self) -> str:
        """The cursor of the page that begins after the place."""
        number = str(self.version)
        return number if self.score is None else f"{self.score!r}:{number}"


def checked_cursor(cursor: object, *, scored: bool) -> Place | None:
    """Return the place that a cursor names; None for none.

    Args:
        cursor: The argument.
        scored: Whether the list has scores.

    Raises:
        InvalidTypeError: Not a string.
        InvalidArgumentError: Not a cursor of such a list.
    """
    if cursor is None:
        return None
    if not isinstance(cursor, str):
        msg = "cursor: expected the `next` of a page"
        raise InvalidTypeError(msg)
    found = _CURSOR.fullmatch(cursor)
    if found is None or (found[1] and not scored):
        msg = "cursor: expected the `next` of a page of the same list"
        raise InvalidArgumentError(msg)
    return Place(float(found[1]) if found[1] else None, int(found[2]))


def parsed(row: ItemRow) -> Any:
    """Return the value of a row."""
    return parsed_value(row.value, row.pieces)


def items_of(rows: Iterable[ItemRow | None], now: float) -> list[Item | None]:
    """Return the items of rows; None where there is no row."""
    return [None if row is None else item_of(row, now) for row in rows]


def item_of(
    row: ItemRow, now: float, score: float | None = None, value: Any = ...
) -> Item:
    """Return the item of a row.

    Args:
        row: The row.
        now: The time by which items expire.
        score: The cosine of a search.
        value: Its value, if it has been parsed.
    """
    return Item(
        decode_namespace(row.ns),
        row.key,
        parsed(row) if value is ... else value,
        row.version,
        row.created_at,
        row.updated_at,
        row.ttl,
        None if row.expires_at is None else max(0.0, row.expires_at - now),
        score,
    )


def require_fit(state: ItemState, query: Any, embedder: str | None) -> None:
    """Check that a query fits the vectors of a user's items.

    Raises:
        EmbeddingMismatchError: It comes from another embedder.
        DimensionError: It has another dimension.
    """
    if None not in (state.embedder, embedder) and state.embedder != embedder:
        msg = (
            f"the items' vectors come from {state.embedder}, not from {embedder}; "
            "search with the same embedder"
        )
        raise EmbeddingMismatchError(msg)
    if len(query) != state.dim:
        msg = f"vector: expected {state.dim} numbers, as in the user's items"
        raise DimensionError(msg)
