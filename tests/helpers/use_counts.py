"""Reads the use counts of memories from the file, with sqlite3 only."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from vecall import MemoryEntry, MemoryService

from helpers.memories import ALICE


def uses(path: Path, user: str = "alice") -> dict[str, int | None]:
    """How often each memory was used, by id."""
    return {row[0]: row[1] for row in _rows(path, user)}


def used_at(path: Path, user: str = "alice") -> dict[str, float | None]:
    """When each memory was used last, by id."""
    return {row[0]: row[2] for row in _rows(path, user)}


def state(path: Path) -> list[Any]:
    """All that the file has of memories, users and changes."""
    with closing(sqlite3.connect(path)) as connection:
        return [
            connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall()
            for table in ("mem", "part", "chg")
        ]


def changed(path: Path, statement: str, *values: object) -> int:
    """Changes the file behind vecall's back; returns how many rows."""
    with closing(sqlite3.connect(path)) as connection, connection:
        return connection.execute(statement, values).rowcount


def told(*ids: str, word: str = "zebra") -> list[MemoryEntry]:
    return [MemoryEntry(f"{word} {id_}", id=id_) for id_ in ids]


def mark(service: MemoryService, *ids: str, **scope: str) -> int:
    return service.sync.mark_used(**(scope or ALICE), memory_ids=ids)


def _rows(path: Path, user: str) -> list[tuple[str, int | None, float | None]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(
            "SELECT mem.id, uses, last_used FROM mem JOIN part ON part.id = mem.part "
            "WHERE app = 'app' AND user = ? ORDER BY mem.id",
            (user,),
        ).fetchall()
