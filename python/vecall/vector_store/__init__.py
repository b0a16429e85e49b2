"""Vector stores: the protocol, and an in-memory implementation."""

from __future__ import annotations

from vecall.vector_store.base import (
    DeletingVectorStore,
    VectorSearchResult,
    VectorStore,
    VectorStoreFilter,
)
from vecall.vector_store.in_memory import InMemoryVectorStore
from vecall.vector_store.memory_summary import MemorySummary
from vecall.vector_store.optional import has_method, needed_method
from vecall.vector_store.where import applies_where, meets

__all__ = [
    "DeletingVectorStore",
    "InMemoryVectorStore",
    "MemorySummary",
    "VectorSearchResult",
    "VectorStore",
    "VectorStoreFilter",
    "applies_where",
    "has_method",
    "meets",
    "needed_method",
]
