"""A file whose history goes back under running services: no ghosts, nothing missing.

SQLite's backup API, which `.restore` of its shell uses, writes an older copy into the
file in one transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from helpers.memories import ALICE
from vecall import Drop, MemoryService, Put

Open = Callable[..., MemoryService]
MANY = 600  # more than a snapshot needs


def found(memory: MemoryService, query: str) -> set[str]:
    """The texts that a search finds."""
    hits = memory.sync.search_memory(**ALICE, query=query, top_k=50).memories
    return {hit.text for hit in hits}


def write(memory: MemoryService, word: str, count: int) -> set[str]:
    """Memories in a transaction each; return their texts."""
    texts = [f"{word} {n}" for n in range(count)]
    for text in texts:
        memory.sync.add_memory(**ALICE, memories=[text])
    return set(texts)


def copy_into(source: Path, target: Path) -> None:
    """Make the content of a database that of another, in one transaction."""
    with (
        closing(sqlite3.connect(source)) as old,
        closing(sqlite3.connect(target)) as to,
    ):
        old.backup(to)


@pytest.fixture(params=[1, MANY], ids=["from rows", "with a snapshot"])
def service(open_service: Open, tmp_path: Path, request) -> Iterator[MemoryService]:
    """A service with what is in the backup, in one file and in a copy of it."""
    with open_service(tmp_path / "m.db", durability="process") as opened:
        opened.sync.add_memory(
            **ALICE, memories=[f"okapi {n}" for n in range(request.param)]
        )
        copy_into(tmp_path / "m.db", tmp_path / "old.db")
        yield opened


@pytest.mark.parametrize("after", [0, 2, 3, 5], ids="then {} writes".format)
def test_a_restored_file_under_services_is_answered_as_it_is_now(
    service, open_service, tmp_path, after
):
    """Whether its newest change has a smaller, an equal or a greater number."""
    path = tmp_path / "m.db"
    reader, writer = open_service(path), open_service(path)
    inode = path.stat().st_ino
    write(service, "zebra", 3)
    for each in (service, reader, writer):
        assert len(found(each, "zebra")) == 3
    copy_into(tmp_path / "old.db", path)
    assert path.stat().st_ino == inode
    gnus = write(writer, "gnu", after)
    for each in (service, reader, writer):
        assert (found(each, "zebra"), found(each, "gnu")) == (set(), gnus)
        assert found(each, "okapi")
    assert write(service, "ibex", 1) <= found(reader, "ibex")
    with open_service(path) as new:
        assert (found(new, "zebra"), found(new, "gnu")) == (set(), gnus)


def test_a_copy_that_went_on_elsewhere_takes_the_place_of_the_file(
    service, open_service, tmp_path
):
    """Both histories have the same numbers, and another change behind each."""
    other = tmp_path / "old.db"
    with open_service(other, durability="process") as elsewhere:
        gnus = write(elsewhere, "gnu", 3)
    write(service, "zebra", 3)
    assert len(found(service, "zebra")) == 3
    copy_into(other, tmp_path / "m.db")
    assert (found(service, "zebra"), found(service, "gnu")) == (set(), gnus)


def put(
    memory: MemoryService, word: str, vector: list[float], count: int, label: str = "a"
) -> None:
    """Items with one vector, in a transaction each."""
    for n in range(count):
        memory.items.sync.write([Put((label,), f"{word} {n}", 1, vector)], **ALICE)


def nearest(memory: MemoryService, label: str = "a") -> set[str]:
    """The words of the items of a namespace that have a vector."""
    items = memory.items.sync.find(
        (label,), **ALICE, vector=[1.0, 1.0], limit=100, only_with_vector=True
    )
    return {item.key.split()[0] for item in items}


@pytest.mark.parametrize("lost", [1, 3, 40])
@pytest.mark.parametrize("after", [0, 1, 3, 5, 40], ids="then {} writes".format)
def test_items_of_a_restored_file_are_found_by_vector_as_they_are_now(
    open_service, tmp_path, lost, after
):
    """Whether the newest item has a smaller, an equal or a greater version."""
    path = tmp_path / "m.db"
    service = open_service(path, durability="process")
    reader = open_service(path, durability="process")
    for label in ("a", "b"):
        put(service, "okapi", [1.0, 0.5], 1, label)
    copy_into(path, tmp_path / "old.db")
    put(service, "zebra", [1.0, 1.0], lost)
    for each in (service, reader):
        assert nearest(each, "a") == {"okapi", "zebra"}
        assert nearest(each, "b") == {"okapi"}
    copy_into(tmp_path / "old.db", path)
    put(service, "gnu", [0.5, 1.0], after, "b")
    for each in (service, reader):
        assert nearest(each, "a") == {"okapi"}
        assert nearest(each, "b") == {"okapi"} | ({"gnu"} if after else set())
    put(reader, "ibex", [0.0, 1.0], 1)
    assert "ibex" in nearest(service)


def test_deletions_of_another_history_are_not_those_of_this_one(open_service, tmp_path):
    """Both histories have the same numbers of writes and of deletions."""
    path = tmp_path / "m.db"
    service = open_service(path, durability="process")
    for word in ("okapi", "gnu"):
        put(service, word, [1.0, 0.5], 1)
    copy_into(path, tmp_path / "old.db")
    with open_service(tmp_path / "old.db", durability="process") as elsewhere:
        elsewhere.items.sync.write([Drop(("a",), "gnu 0")], **ALICE)
    service.items.sync.write([Drop(("a",), "okapi 0")], **ALICE)
    assert nearest(service) == {"gnu"}
    copy_into(tmp_path / "old.db", path)
    assert nearest(service) == {"okapi"}


@pytest.mark.parametrize("writes", [1, 31, 32, 33, 200])
def test_a_reader_behind_many_writes_of_items_finds_them_all(
    open_service, tmp_path, writes
):
    path = tmp_path / "m.db"
    service = open_service(path, durability="process")
    reader = open_service(path, durability="process")
    put(service, "okapi", [1.0, 0.5], 1)
    assert nearest(reader) == {"okapi"}
    for n in range(writes):
        put(service, f"gnu{n}", [0.5, 1.0], 1)
    found = reader.items.sync.find(**ALICE, vector=[0.5, 1.0], limit=1_000)
    assert {item.key for item in found[:-1]} == {f"gnu{n} 0" for n in range(writes)}
    assert found[-1].key == "okapi 0"
