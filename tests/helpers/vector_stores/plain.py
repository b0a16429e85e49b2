"""Vector stores without an event loop, and rows to fill them with."""

from __future__ import annotations

import asyncio
from typing import Any

from vecall.vector_store import VectorSearchResult, VectorStore, VectorStoreFilter

ALICE = {"app_name": "app", "user_id": "alice"}
X = [1.0, 0.0, 0.0]
TOLERANCE = 2e-6


class Plain:
    """A store for code without an event loop; each call runs in a loop of its own."""

    def __init__(self, store: VectorStore) -> None:
        self.store = store

    def upsert(self, id: Any, embedding: Any, metadata: Any) -> None:
        asyncio.run(self.store.upsert(id, embedding, metadata))

    def put(self, id: str, embedding: Any, **metadata: Any) -> None:
        self.upsert(id, embedding, {**ALICE, **metadata})

    def search(
        self, embedding: Any, top_k: Any = 10, **asked: Any
    ) -> list[VectorSearchResult]:
        asked = VectorStoreFilter(**{**ALICE, **asked})
        return asyncio.run(self.store.search(embedding, top_k, asked))

    def ids(self, *args: Any, **asked: Any) -> list[str]:
        return [hit.id for hit in self.search(*args, **asked)]

    def delete(self, id: Any, **scope: Any) -> bool:
        return asyncio.run(self.store.delete(id, **{**ALICE, **scope}))

    def delete_many(self, **asked: Any) -> int:
        asked = VectorStoreFilter(**{**ALICE, **asked})
        return asyncio.run(self.store.delete_many(asked))


def three(store: Plain) -> Plain:
    """Rows a, b, c by distance to X; sessions s, s, t; times 10, 20, 30."""
    store.put("a", [1.0, 0.0, 0.0], session_id="s", timestamp=10.0)
    store.put("b", [1.0, 1.0, 0.0], session_id="s", timestamp=20.0)
    store.put("c", [0.0, 1.0, 0.0], session_id="t", timestamp=30.0)
    return store
