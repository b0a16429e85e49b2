"""Converts items to those of LangGraph."""

from __future__ import annotations

from datetime import datetime, timezone

from langgraph.store.base import Item, SearchItem

from vecall.item_types import Item as StoredItem
from vecall.langgraph.embedding import StoreEmbedding
from vecall.langgraph.values import shown_key


def to_item(item: StoredItem) -> Item:
    """Return an item as LangGraph's `get` returns it."""
    created_at, updated_at = _times(item)
    return Item(
        value=item.value,
        key=shown_key(item.key),
        namespace=item.namespace,
        created_at=created_at,
        updated_at=updated_at,
    )


def to_search_item(item: StoredItem, embedding: StoreEmbedding | None) -> SearchItem:
    """Return an item as LangGraph's `search` returns it."""
    created_at, updated_at = _times(item)
    return SearchItem(
        value=item.value,
        key=shown_key(item.key),
        namespace=item.namespace,
        score=item.score if embedding is None else embedding.score(item.score),
        created_at=created_at,
        updated_at=updated_at,
    )


def _times(item: StoredItem) -> tuple[datetime, datetime]:
    created_at = datetime.fromtimestamp(item.created_at, timezone.utc)
    if item.updated_at == item.created_at:
        return created_at, created_at
    return created_at, datetime.fromtimestamp(item.updated_at, timezone.utc)
