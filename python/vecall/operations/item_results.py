"""Makes items of the rows that a storage returned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vecall.item_types import Item
from vecall.store import ItemRow, decode_namespace, parsed_value


def parsed(row: ItemRow) -> Any:
    """Return the value of a row."""
    return parsed_value(row.value, row.pieces)


def items_of(rows: Sequence[ItemRow | None], now: float) -> list[Item | None]:
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
