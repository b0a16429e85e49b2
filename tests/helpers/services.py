"""Every kind of memory service, and one way to use them all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vecall import MemoryEntry, MemoryService, StorageOptions, VectorMemoryService
from vecall.other_storage.in_memory import InMemoryMemoryService
from vecall.other_storage.vector_store import VectorStoreMemoryService
from vecall.vector_store import InMemoryVectorStore

from helpers.embedders import Recorder
from helpers.vector_stores.reference import ReferenceVectorStore

ALICE = {"app_name": "app", "user_id": "alice"}
BOB = {"app_name": "app", "user_id": "bob"}

# Pairs of app and user that a joined, folded or escaped key would confuse.
PAIRS = [
    ("a/b", "c"),
    ("a", "b/c"),
    ("a", "b"),
    ("ab", "c"),
    ("a", "bc"),
    ("a:b", "c"),
    ("a", "b:c"),
    ("A", "b"),
    ("a", "B"),
    ("a", "b "),
    ("a", "%"),
    ("a", "_"),
    ("a", "' OR 1=1 --"),
    ("a", "../b"),
    ("a", "\u00e9"),
    ("a", "e\u0301"),
    ("b", "a"),
]


def scope(pair: tuple[str, str]) -> dict[str, str]:
    return {"app_name": pair[0], "user_id": pair[1]}


@dataclass(frozen=True)
class Kind:
    """One kind of service.

    Attributes:
        name: For the tests' ids.
        open: Makes one, given a folder of its own.
        buries: Whether a deleted turn stays deleted when its session is told again.
    """

    name: str
    open: Callable[[Path], AbstractContextManager[Any]]
    buries: bool = True


KINDS = [
    Kind("words", lambda _: MemoryService(embedder=None)),
    Kind(
        "file",
        lambda path: MemoryService(
            path / "m.db", storage=StorageOptions(durability="process"), embedder=None
        ),
    ),
    Kind("hybrid", lambda _: MemoryService(embedder=Recorder())),
    Kind("in memory, substring", lambda _: InMemoryMemoryService()),
    Kind("in memory, words", lambda _: InMemoryMemoryService("words")),
    Kind("vectors", lambda _: VectorMemoryService(Recorder())),
    Kind(
        "vector store",
        lambda _: VectorStoreMemoryService(InMemoryVectorStore(), Recorder()),
        buries=False,
    ),
    Kind(
        "reference store",
        lambda _: VectorStoreMemoryService(ReferenceVectorStore(), Recorder()),
        buries=False,
    ),
]


class Client:
    """A service for code without an event loop; each call runs in a loop of its own."""

    def __init__(self, service: Any, kind: Kind) -> None:
        self.service = service
        self.kind = kind

    def tell(self, *events: Any, id_: str = "s", **who: str) -> list[str]:
        told = {**(who or ALICE), "id": id_, "events": list(events)}
        return asyncio.run(self.service.add_session_to_memory(told))

    def add_events(self, *events: Any, **options: Any) -> list[str]:
        options = {**ALICE, "events": list(events), **options}
        return asyncio.run(self.service.add_events_to_memory(**options))

    def add(self, *memories: Any, **options: Any) -> list[str]:
        options = {**ALICE, "memories": list(memories), **options}
        return asyncio.run(self.service.add_memory(**options))

    def delete(self, memory_id: str | None, **who: str) -> None:
        scope = who or ALICE
        asyncio.run(self.service.delete_memory(**scope, memory_id=memory_id))

    def search(self, query: str = "zebra", **options: Any) -> list[MemoryEntry]:
        options = {**ALICE, "query": query, **options}
        return asyncio.run(self.service.search_memory(**options)).memories

    def texts(self, **who: str) -> list[str]:
        """Every text of a user, each of which is expected to tell of a zebra."""
        return sorted(memory.text for memory in self.search(top_k=1000, **who))


def turn(number: int, text: str | None = None, **more: Any) -> dict[str, Any]:
    return {
        "id": f"e{number}",
        "author": "user",
        "timestamp": float(number),
        "text": f"zebra {number}" if text is None else text,
        **more,
    }
