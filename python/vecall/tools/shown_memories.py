"""Records the memories shown in recent turns, so that tools do not repeat them."""

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
"""A memory that one user may read: its scope, and its id in the scope."""


def key_of(memory: MemoryEntry) -> Key:
    """Return the key of a memory, unique among those that a user may read."""
    return memory.scope, memory.id


class ShownBlock(NamedTuple):
    """The memories shown in one turn.

    Attributes:
        block: The text.
        memories: The memories in it.
    """

    block: str = ""
    memories: frozenset[Key] = frozenset()


class ShownMemories:
    """The newest turns of all users, with the memories shown in each turn.

    `PreloadMemory` records the memories that it shows. The tools that search omit the
    recorded memories. App, user and the caller's turn id identify a turn. All turns
    without an id count as one turn, which lasts until the next block. If turns of one
    user can overlap, pass ids.

    Safe to share between threads and event loops.

    Args:
        max_turns: The limit on turns; the oldest are evicted.
        max_characters: The limit on the characters of all blocks; the oldest turns are
            evicted. The newest turn always stays.

    Raises:
        ConfigError: A limit is below 1.
    """

    def __init__(self, max_turns: int = 1_000, max_characters: int = 4_000_000) -> None:
        """Create the object without turns."""
        if type(max_turns) is not int or max_turns < 1:
            msg = "max_turns: must be an integer of at least 1"
            raise ConfigError(msg)
        self._max_turns = max_turns
        self._max_characters = max_characters
        self._size = 0
        self._shown: OrderedDict[tuple[User, Hashable], ShownBlock] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, user: User, turn: Hashable) -> ShownBlock | None:
        """Return the memories shown in a turn; None for an unknown turn."""
        with self._lock:
            return self._shown.get((user, turn))

    def put(self, user: User, turn: Hashable, given: ShownBlock) -> None:
        """Record the memories shown in a turn."""
        with self._lock:
            before = self._shown.pop((user, turn), ShownBlock())
            self._shown[user, turn] = given
            self._size += len(given.block) - len(before.block)
            while len(self._shown) > self._max_turns or (
                self._size > self._max_characters and len(self._shown) > 1
            ):
                _, oldest = self._shown.popitem(last=False)
                self._size -= len(oldest.block)

    def add(self, user: User, turn: Hashable, memories: frozenset[Key]) -> None:
        """Record memories that a turn got from the block of another turn."""
        self.put(
            user, turn, ShownBlock("", memories | self.already_recalled(user, turn))
        )

    def drop(self, user: User) -> None:
        """Discard the records of a user's turns, because a memory was deleted."""
        with self._lock:
            for key in [key for key in self._shown if key[0] == user]:
                self._size -= len(self._shown.pop(key).block)

    def already_recalled(self, user: User, turn: Hashable) -> frozenset[Key]:
        """Return the keys of the memories shown in a turn."""
        return (self.get(user, turn) or ShownBlock()).memories
