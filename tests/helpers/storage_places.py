"""Places where a storage can be: what the conformance suite runs over."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import pytest
from vecall.clock import Clock
from vecall.store import Storage, open_storage

from helpers.postgres_server import MISSING, Schema, is_available


class Place(Protocol):
    """Where one storage is.

    Attributes:
        is_shared: Whether it can be opened several times, and again after a close.
    """

    is_shared: bool

    def open(self, clock: Clock | None = None) -> Storage:
        """Open the storage, or make it."""
        ...

    def close(self) -> None:
        """Close all that was opened and is still open."""
        ...


class _SqlitePlace:
    is_shared: bool

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._opened: list[Storage] = []

    def open(self, clock: Clock | None = None) -> Storage:
        storage = open_storage(self._path, "process", clock=clock)
        self._opened.append(storage)
        return storage

    def close(self) -> None:
        while self._opened:
            self._opened.pop().close()


class SqliteFile(_SqlitePlace):
    """A SQLite file."""

    is_shared = True

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "m.db")


class SqliteMemory(_SqlitePlace):
    """A SQLite database in memory."""

    is_shared = False

    def __init__(self, _: Path) -> None:
        super().__init__(None)


class PostgresSchema:
    """A schema of a PostgreSQL server."""

    is_shared = True

    def __init__(self, _: Path) -> None:
        """Create the schema."""
        if not is_available():
            pytest.skip(MISSING)
        self._schema = Schema()
        self._opened: list[Storage] = []

    def open(self, clock: Clock | None = None) -> Storage:
        """Open the storage."""
        from vecall.store.postgres.storage import open_postgres

        storage = open_postgres(self._schema.url, "process", clock=clock)
        self._opened.append(storage)
        return storage

    def close(self) -> None:
        """Close all that is open, and drop the schema."""
        while self._opened:
            self._opened.pop().close()
        self._schema.drop()


PLACES: dict[str, Any] = {
    "sqlite file": SqliteFile,
    "sqlite memory": SqliteMemory,
    "postgres": PostgresSchema,
}
"""Makes of a place from an empty folder; another implementation comes in here."""
