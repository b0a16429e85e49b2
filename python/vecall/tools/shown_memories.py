"""What the newest turns were given already, so that nothing is given twice."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import NamedTuple

from vecall.errors import ConfigError
from vecall.types import MemoryEntry

User = tuple[str, str]
"""A user: app and user id."""

Key = tuple[str, str | None]
"""A memory of what one user may read: its scope, and its id there."""


def key_of(memory: MemoryEntry) -> Key:
    """Return what tells a memory from all others that the same user may read."""
    return memory.scope, memory.id


class ShownBlock(NamedTuple):
    """What one turn was given.

    Attributes:
        block: The text.
        memories: The memories in it.
    """

    block: str = ""
    memories: frozenset[Key] = frozenset()


class ShownMemories:
    """The newest turns of any number of users, each with what it was given.

    `PreloadMemory` writes here, the tools that search leave out what they read here.
    A turn is known by app, user and the id that the caller has for it. Turns without
    an id are one turn, which lasts until the next block: where turns of one user may
    overlap, give ids.

    Safe to share between threads and event loops.

    Args:
        most: How many turns are kept; of more, the oldest are let go.
        most_characters: How long their blocks are together, likewise; the newest turn
            stays, however long.

    Raises:
        ConfigError: Fewer than one.
    """

    def __init__(self, most: int = 1_000, most_characters: int = 4_000_000) -> None:
        """Start without turns."""
        if type(most) is not int or most < 1:
            msg = "most: must be an integer of at least 1"
            raise ConfigError(msg)
        self._most = most
        self._most_characters = most_characters
        self._size = 0
        self._given: OrderedDict[tuple[User, Hashable], ShownBlock] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, user: User, turn: Hashable) -> ShownBlock | None:
        """Return what a turn was given, or None where it has not begun."""
        with self._lock:
            return self._given.get((user, turn))

    def put(self, user: User, turn: Hashable, given: ShownBlock) -> None:
        """Keep what a turn was given."""
        with self._lock:
            before = self._given.pop((user, turn), ShownBlock())
            self._given[user, turn] = given
            self._size += len(given.block) - len(before.block)
            while len(self._given) > self._most or (
                self._size > self._most_characters and len(self._given) > 1
            ):
                _, oldest = self._given.popitem(last=False)
                self._size -= len(oldest.block)

    def add(self, user: User, turn: Hashable, memories: frozenset[Key]) -> None:
        """Note memories that a turn was given in a block of another."""
        self.put(
            user, turn, ShownBlock("", memories | self.already_recalled(user, turn))
        )

    def drop(self, user: User) -> None:
        """Let go of all that a user's turns were given, as some of it was forgotten."""
        with self._lock:
            for key in [key for key in self._given if key[0] == user]:
                self._size -= len(self._given.pop(key).block)

    def already_recalled(self, user: User, turn: Hashable) -> frozenset[Key]:
        """Return the memories that a turn was given."""
        return (self.get(user, turn) or ShownBlock()).memories
