"""Documents with embeddings as items, for the adapters of document stores."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vecall.errors import ConflictError
from vecall.item_types import Drop, Item, Put
from vecall.scopes import Owner
from vecall.service._items_sync import SyncItems
from vecall.service.memory_service import MemoryService
from vecall.validation import checked_owner

Test = Callable[[Item], bool]

_PAGE = 10_000  # items of one call of `find`, and its maximum offset
_BATCH = 5_000  # operations of one transaction
_ATTEMPTS = 20  # of a change that meets other writes of the same documents


class ItemCollection:
    """The documents of one namespace of one (app, user). Thread-safe.

    A document is an item: the value has the document under "document", and its
    embedding in float64.

    Args:
        memory: The path of the file, or ":memory:", which the first call opens; or a
            function that returns it; or a service, which stays open.
        app_name: The app.
        user_id: The user.
        namespace: The namespace.

    Raises:
        InvalidArgumentError: An invalid name.
    """

    def __init__(
        self,
        memory: str | Path | MemoryService | Callable[[], str],
        app_name: str,
        user_id: str,
        namespace: tuple[str, ...],
    ) -> None:
        """Check the names; open nothing yet."""
        limits = memory.limits if isinstance(memory, MemoryService) else None
        self._given = memory
        self._owned: MemoryService | None = None
        self._opening = threading.Lock()
        self._whose: Owner = checked_owner(app_name, user_id, limits)
        self._namespace = namespace

    @property
    def _items(self) -> SyncItems:
        if isinstance(self._given, MemoryService):
            return self._given.items.sync
        with self._opening:
            if self._owned is None:
                path = self._given() if callable(self._given) else self._given
                self._owned = MemoryService(path, embedder=None)
            return self._owned.items.sync

    def close(self) -> None:
        """Close the file, if this object opened it; the next call opens it again."""
        with self._opening:
            if self._owned is not None:
                self._owned.sync.close()
            self._owned = None

    def put_of(
        self,
        key: str,
        document: Mapping[str, Any],
        embedding: Sequence[float] | None,
        if_version: int | None = None,
    ) -> Put:
        """Return the write of a document.

        A zero embedding is stored, but no search finds the document.
        """
        value: dict[str, Any] = {"document": document}
        vector = None
        if embedding is not None:
            exact = np.asarray(embedding, "<f8")
            value["embedding"] = base64.b64encode(exact.tobytes()).decode()
            vector = exact.astype(np.float32) if exact.any() else None
        return Put(self._namespace, key, value, vector, if_version=if_version)

    def write(self, puts: Sequence[Put]) -> None:
        """Write documents; up to 5,000 are one transaction."""
        for start in range(0, len(puts), _BATCH):
            self._items.write(puts[start : start + _BATCH], **self._whose)

    def get(self, keys: Iterable[str]) -> list[Item | None]:
        """Return documents by key."""
        places = [(self._namespace, key) for key in keys]
        found: list[Item | None] = []
        for start in range(0, len(places), _BATCH):
            found += self._items.get(places[start : start + _BATCH], **self._whose)
        return found

    def count(self) -> int:
        """Return the number of documents."""
        return self._items.count(self._namespace, **self._whose)

    def clear(self) -> None:
        """Delete all documents."""
        self._items.delete(self._namespace, **self._whose)

    def scan(self, where: Mapping[str, Any] | None, test: Test | None) -> list[Item]:
        """Return the documents that meet conditions, in the order of their writes.

        Args:
            where: Conditions for `Items.find`.
            test: A further condition.
        """
        found = self._items.find_all(self._namespace, where=where, **self._whose)
        if test is not None:
            found = [item for item in found if test(item)]
        return found[::-1]

    def nearest(
        self,
        vector: Sequence[float],
        limit: int,
        where: Mapping[str, Any] | None,
        test: Test | None,
    ) -> list[tuple[Item, float]]:
        """Return the documents next to an embedding with their cosines, best first.

        Args:
            vector: Numbers (dim,).
            limit: Maximum number of documents.
            where: Conditions for `Items.find`.
            test: A further condition.

        Raises:
            DimensionError: The documents have embeddings of another dimension.
        """
        if limit < 1 or not np.any(vector):
            return []
        size = min(_PAGE, limit if test is None else 4 * limit + 50)
        found: list[Item] = []
        for offset in range(0, _PAGE + 1, size):
            page = self._items.find(
                self._namespace,
                vector=vector,
                where=where,
                limit=size,
                offset=offset,
                only_with_vector=True,
                **self._whose,
            )
            found += [item for item in page if test is None or test(item)]
            if len(found) >= limit or len(page) < size:
                return [(item, item.score or 0.0) for item in found[:limit]]
        return self._ranked(vector, limit, self.scan(where, test))

    def _ranked(
        self, vector: Sequence[float], limit: int, items: Iterable[Item]
    ) -> list[tuple[Item, float]]:
        """Rank documents that lie behind the last page of the search."""
        query = np.asarray(vector, np.float64)
        query = query / np.linalg.norm(query)
        scored: list[tuple[Item, float]] = []
        for item in items:
            embedding = np.asarray(embedding_of(item) or 0.0)
            if embedding.any():
                cosine = float(query @ embedding / np.linalg.norm(embedding))
                scored.append((item, cosine))
        scored.sort(key=lambda each: (-each[1], -each[0].version))
        return scored[:limit]

    def delete(self, keys: Iterable[str]) -> None:
        """Delete documents by key; unknown keys are ignored."""
        drops = [Drop(self._namespace, key) for key in keys]
        for start in range(0, len(drops), _BATCH):
            self._items.write(drops[start : start + _BATCH], **self._whose)

    def change(
        self,
        where: Mapping[str, Any] | None,
        test: Test | None,
        changed: Callable[[Item], Put | Drop],
    ) -> int:
        """Change the documents that meet conditions; return their number.

        A document that is written meanwhile is read again.

        Args:
            where: Conditions for `Items.find`.
            test: A further condition.
            changed: Returns the change of a document, with its version.
        """
        done: set[str] = set()
        for _ in range(_ATTEMPTS - 1):
            try:
                return self._changed_once(where, test, changed, done)
            except ConflictError:
                continue
        return self._changed_once(where, test, changed, done)

    def _changed_once(
        self,
        where: Mapping[str, Any] | None,
        test: Test | None,
        changed: Callable[[Item], Put | Drop],
        done: set[str],
    ) -> int:
        items = [item for item in self.scan(where, test) if item.key not in done]
        for start in range(0, len(items), _BATCH):
            batch = items[start : start + _BATCH]
            self._items.write([changed(item) for item in batch], **self._whose)
            done.update(item.key for item in batch)
        return len(done)

    def drop_of(self, item: Item) -> Drop:
        """Return the deletion of a document in the version that was read."""
        return Drop(self._namespace, item.key, if_version=item.version)


def embedding_of(item: Item) -> list[float] | None:
    """Return the embedding of a document, if it has one."""
    text = item.value.get("embedding")
    if text is None:
        return None
    numbers: list[float] = np.frombuffer(base64.b64decode(text), "<f8").tolist()
    return numbers
