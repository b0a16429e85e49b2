"""One lock per key. A lock exists only while a thread holds it or waits for it."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class _Counted:
    __slots__ = ("lock", "users")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users = 0  # threads that hold the lock or wait for it


class KeyLocks(Generic[Key]):
    """Locks by key. Not reentrant. Thread-safe."""

    def __init__(self) -> None:
        """Create the object without locks."""
        self._mutex = threading.Lock()
        self._locks: dict[Key, _Counted] = {}

    @contextmanager
    def held(self, key: Key) -> Iterator[None]:
        """Hold a key's lock in the block; wait for the lock first."""
        counted = self._enter(key)
        try:
            with counted.lock:
                yield
        finally:
            self._leave(key, counted)

    @contextmanager
    def held_if_free(self, key: Key) -> Iterator[bool]:
        """Hold a key's lock in the block if it is free; never wait.

        Yields:
            Whether the block holds the lock.
        """
        counted = self._enter(key)
        try:
            free = counted.lock.acquire(blocking=False)
            try:
                yield free
            finally:
                if free:
                    counted.lock.release()
        finally:
            self._leave(key, counted)

    def __len__(self) -> int:
        """Return the number of keys that have a lock now."""
        return len(self._locks)

    def _enter(self, key: Key) -> _Counted:
        with self._mutex:
            counted = self._locks.get(key)
            if counted is None:
                counted = self._locks[key] = _Counted()
            counted.users += 1
            return counted

    def _leave(self, key: Key, counted: _Counted) -> None:
        with self._mutex:
            counted.users -= 1
            if not counted.users:
                del self._locks[key]
