"""The newest change of each partition of a database in memory."""

from __future__ import annotations

from vecall.index.rows import Key
from vecall.store import Change, Version


class NewestChanges:
    """Returns what `Storage.version` would, without the database's only lock.

    A transaction may hold that lock for seconds, and a search on an event loop must not
    wait. The writer's thread records every commit before acknowledging it. Thread-safe.
    """

    def __init__(self) -> None:
        """Begin with an empty database."""
        self._found: dict[Key, Version] = {}

    def get(self, key: Key) -> Version | None:
        """Return the version of a partition; None if there is none."""
        return self._found.get(key)

    def note(self, change: Change) -> None:
        """Record a commit."""
        key = (change.app, change.user)
        if change.forgotten:
            self._found.pop(key, None)
        elif change.part:
            self._found[key] = (change.part, change.seq, change.head)
