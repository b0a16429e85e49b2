"""The vectors of items that are loaded, of all users.

They share the budget of the partitions, and the same policy evicts them: users whose
items were not searched lately go first (`PartitionCache.keep_to_budget`).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from vecall.index.item_index import ItemOwner, ItemSearch, Key, forget_items


class ItemCache:
    """What is loaded of the items of all users. Thread-safe."""

    def __init__(self, budget: int) -> None:
        """Start with nothing loaded.

        Args:
            budget: Bytes of one user's loaded vectors above which the namespaces that
                were not searched for the longest time are dropped.
        """
        self._budget = budget
        self._owners: OrderedDict[Key, ItemOwner] = OrderedDict()  # last searched last
        self._bytes = 0
        self._lock = threading.Lock()

    @contextmanager
    def held(self, key: Key, after: Callable[[], object]) -> Iterator[ItemSearch]:
        """Hold what is loaded of a user, for one search; then call `after`.

        Open the read transaction inside: then the states of successive searches come
        in order, and what one found to be gone is gone for all later ones.
        """
        with self._lock:
            owner = self._owners.get(key)
            if owner is None:
                owner = self._owners[key] = ItemOwner()
            self._owners.move_to_end(key)
        with owner.lock:
            try:
                yield ItemSearch(owner, self._budget)
            finally:
                self._count(key, owner)
                after()

    @property
    def nbytes(self) -> int:
        """Bytes of all loaded vectors, and of what belongs to them."""
        return self._bytes

    def drop(self, key: Key) -> int:
        """Free what is loaded of a user, after the search in progress.

        Returns:
            Its bytes.
        """
        with self._lock:
            return self._drop(key)

    def forget(self, key: Key, deleted: Iterable[tuple[str, str, int]]) -> None:
        """Free the vectors of deleted items: namespace, key and version. Never waits.

        A search would find that they are gone, but there may be none.
        """
        owner = self._owners.get(key)
        if owner is None:
            return
        if not owner.lock.acquire(blocking=False):
            self.drop(key)  # a search is in progress; the next one loads them again
            return
        try:
            forget_items(owner, deleted)
            self._count(key, owner)
        finally:
            owner.lock.release()
        if not owner.loaded:
            self.drop(key)

    def evict(self, nbytes: int) -> int:
        """Free the users who were not searched for the longest time.

        Args:
            nbytes: How much to free at least, in bytes.

        Returns:
            The freed bytes; 0 if all users are being searched.
        """
        victims, freed = [], 0
        with self._lock:
            for key, owner in self._owners.items():
                if freed >= nbytes:
                    break
                if not owner.lock.locked():
                    victims.append(key)
                    freed += owner.counted
            for key in victims:
                self._drop(key)
        return freed

    def _drop(self, key: Key) -> int:
        owner = self._owners.pop(key, None)
        if owner is None:
            return 0
        self._bytes -= owner.counted
        return owner.counted

    def _count(self, key: Key, owner: ItemOwner) -> None:
        """Count the bytes of a user, whose lock is held."""
        nbytes = owner.nbytes
        with self._lock:
            if self._owners.get(key) is owner:
                self._bytes += nbytes - owner.counted
                owner.counted = nbytes
