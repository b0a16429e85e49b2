"""Vector stores: the protocol, and stores in memory, PostgreSQL and Redis.

`PgVectorStore` and `RedisVectorStore` are imported when first accessed, so that
`import vecall` stays fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from vecall.vector_store.base import (
    DeletingVectorStore,
    MemorySummary,
    VectorSearchResult,
    VectorStore,
    VectorStoreFilter,
    applies_where,
    has_method,
    meets,
    needed_method,
)
from vecall.vector_store.in_memory import InMemoryVectorStore

if TYPE_CHECKING:
    from vecall.vector_store.pgvector import PgVectorStore
    from vecall.vector_store.redis import RedisVectorStore

__all__ = [
    "DeletingVectorStore",
    "InMemoryVectorStore",
    "MemorySummary",
    "PgVectorStore",
    "RedisVectorStore",
    "VectorSearchResult",
    "VectorStore",
    "VectorStoreFilter",
    "applies_where",
    "has_method",
    "meets",
    "needed_method",
]

_LAZY = {"PgVectorStore": "pgvector", "RedisVectorStore": "redis"}


def __getattr__(name: str) -> Any:
    """Import a lazy name when it is first accessed."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)


def __dir__() -> list[str]:
    """Return the names of this package, imported or not."""
    return sorted(set(globals()) | set(__all__))
