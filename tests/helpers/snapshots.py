"""Large partitions with a snapshot, and what searches of them return."""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from vecall import Filter, MemoryEntry, MemoryService

from helpers.memories import ALICE

ROWS = 520
QUERIES = ["zebra", "okapi word11", "changed new", "user word3 number77"]


def entries(*numbers: int, word: str = "zebra") -> list[MemoryEntry]:
    return [
        MemoryEntry(
            f"{word} word{i % 37} {'okapi' if i % 5 else 'tapir'} number{i}",
            id=f"m{i}",
            session_id=f"s{i % 9}",
            author=("user", "agent")[i % 2],
            timestamp=1e9 + i,
        )
        for i in numbers
    ]


def answers(service: MemoryService, **who: str) -> list[Any]:
    """Ids, texts and scores of many searches."""
    found = []
    for query in QUERIES:
        for filter_ in (None, Filter(session_id="s4", after=1e9 + 300)):
            memories = service.sync.search_memory(
                **(who or ALICE), query=query, top_k=1000, filter=filter_
            ).memories
            found.append([(m.id, m.text, m.score, m.similarity) for m in memories])
    assert any(found)
    return found


def folder(path: Path) -> Path:
    return path.with_name(path.name + ".snap")


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 15
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.005)


def written(service: MemoryService, path: Path, part: int = 1) -> Path:
    """The snapshot of a partition once it is there and on record."""
    file = folder(path) / f"{part}.vs"
    until(file.exists)
    service.close()  # finishes what is being written
    return file


def large(
    open_service: Callable[..., MemoryService], path: Path, **options: Any
) -> Path:
    """A closed file with one snapshot, which is returned."""
    service = open_service(path, durability="process", **options)
    service.sync.add_memory(**ALICE, memories=entries(*range(ROWS)))
    service.sync.admin.warm(**ALICE)
    return written(service, path)


def from_rows(
    open_service: Callable[..., MemoryService], path: Path, **options: Any
) -> list[Any]:
    """The answers of a copy of the closed file without any snapshot."""
    copy = path.with_name("copy.db")
    shutil.rmtree(folder(copy), ignore_errors=True)
    shutil.copyfile(path, copy)
    with open_service(copy, durability="process", **options) as service:
        found = answers(service)
    copy.unlink()
    return found


def reopened(
    open_service: Callable[..., MemoryService], path: Path, **options: Any
) -> list[Any]:
    with open_service(path, durability="process", **options) as service:
        return answers(service)


def is_used(path: Path, file: Path) -> bool:
    """Whether a snapshot is the one on record: it has the nonce."""
    data = file.read_bytes()
    with closing(sqlite3.connect(path)) as connection:
        (record,) = connection.execute("SELECT snap FROM part WHERE id = 1").fetchone()
    return record is not None and record[:8] in data
