"""Files of older schemas, and what is in them."""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from vecall import MemoryService

from helpers.clocks import SettableClock
from helpers.memories import texts as found_texts

FIXTURES = Path(__file__).parents[1] / "fixtures"
NEWEST = 7
OLD = [1, 2, 3, 4, 5, 6]
MADE_AT = 1_795_355_200.0  # a minute after the files of schemas 2 to 4 were made
# How many memories each user has, by the file's schema.
USERS = {
    1: {"alice": 8, "bob": 6, "carol": 1},
    2: {"alice": 8, "bob": 1},
    3: {"alice": 8, "bob": 1},
    4: {"alice": 8, "bob": 1},
    5: {"alice": 8, "bob": 1},
    6: {"alice": 8, "bob": 1},
}
ZEBRAS = {
    1: [f"alice says zebra number {number}" for number in range(6)],
    2: ["zebra number zero, corrected", *(f"zebra number {n}" for n in range(1, 5))],
    3: [f"zebra number {number}" for number in range(5)],
    4: [f"zebra number {number}" for number in range(5)],
    5: [f"zebra number {number}" for number in range(5)],
    6: [f"zebra number {number}" for number in range(5)],
}
# What schema 1 knew; idem and vec_next of the old files are empty, or of schema 2.
TABLES = {
    "model": "id, name, dim, fingerprint, state",
    "part": "id, app, user, seq, live, bytes, created_at",
    "mem": "rid, part, id, seq, session, event, pos, ts, created_at, updated_at, "
    "expires_at, valid_until, author, kind, source, trust, text, content, meta, "
    "importance_prior, last_used, uses, state, supersedes, hash, vec, model, crc",
    "chg": "part, seq, rid, op",
    "tomb": "part, id, at",
    "hist": "part, id, seq, at, op, old",
    "idem": "part, key, at",
}


class Hashed:
    """The embedder that the old file was made with."""

    model_id = "hashed"
    dimensions = 8

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [self.vector(text) for text in texts]

    def vector(self, text: str) -> list[float]:
        return [byte - 127.5 for byte in hashlib.sha256(text.encode()).digest()[:8]]


def copied(schema: int, path: Path) -> Path:
    shutil.copyfile(FIXTURES / f"schema-{schema}.db", path)
    return path


def contents(path: Path) -> dict[str, list[Any]]:
    """What schema 1 knew of a closed file, which is whole."""
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return {
            table: connection.execute(
                f"SELECT {columns} FROM {table} ORDER BY 1, 2, 3"
            ).fetchall()
            for table, columns in TABLES.items()
        }


def version(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


def shape(path: Path) -> list[tuple[str, ...]]:
    """Tables and indexes, and the columns of each in any order."""
    with closing(sqlite3.connect(path)) as connection:
        names = connection.execute(
            "SELECT type, name FROM sqlite_master ORDER BY 1, 2"
        ).fetchall()
        return [
            (kind, name, *sorted(_columns(connection, name))) for kind, name in names
        ]


def _columns(connection: sqlite3.Connection, name: str) -> Iterator[str]:
    for table in ("pragma_table_info", "pragma_index_info"):
        found = connection.execute(f"SELECT name FROM {table}(?)", (name,))
        yield from (str(column) for (column,) in found)


def texts(service: MemoryService, user: str, query: str) -> list[str]:
    return found_texts(service, query, app_name="app", user_id=user)


def opener_of(
    old: Path, open_service: Callable[..., MemoryService]
) -> Callable[..., MemoryService]:
    """What opens an old file with its embedder, at the time when it was made."""

    def open_one(path: Path = old, **options: Any) -> MemoryService:
        clock = SettableClock(MADE_AT)
        told = {"embedder": Hashed(), "clock": clock, "maintenance_interval": None}
        return open_service(path, **{**told, **options})

    return open_one
