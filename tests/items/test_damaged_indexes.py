"""An index that leads to another user or item is an error, and shows nothing of it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from helpers.memories import ALICE
from vecall import CorruptFileError, MemoryService, Put

BOB = {"app_name": ALICE["app_name"], "user_id": "bob"}
NOTES, PLANS = ("notes",), ("plans",)
WRITTEN = [
    (ALICE, NOTES, "of alice", [1.0, 0.0]),
    (BOB, NOTES, "of bob", [1.0, 0.1]),
    (BOB, PLANS, "a plan", [1.0, 0.2]),
]
CALLS: dict[str, Any] = {
    "get": lambda items, who: items.get([(NOTES, "k")], **who),
    "get two": lambda items, who: items.get([(NOTES, "k"), (PLANS, "k")], **who),
    "list": lambda items, who: items.find(NOTES, **who),
    "search": lambda items, who: items.find(NOTES, vector=[1.0, 0.0], **who),
    "filter": lambda items, who: items.find(NOTES, where={"$not": {"a": 1}}, **who),
}


def written(path: Path) -> None:
    with MemoryService(path, embedder=None) as service:
        for who, namespace, value, vector in WRITTEN:
            service.items.sync.write([Put(namespace, "k", value, vector)], **who)


def swap(path: Path, table: str, columns: str, one: int, other: int) -> None:
    """Let the entries of an index lead to each other's rows.

    The entries are those of another table, in which the rows have swapped numbers.
    """
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        execute = connection.execute
        about = execute(f"PRAGMA table_info({table})")
        (key,) = (name for _, name, *_, is_key in about if is_key)
        execute(f"CREATE TABLE o ({key} INTEGER PRIMARY KEY, {columns})")
        execute(f"CREATE UNIQUE INDEX swapped ON o ({columns})")
        execute(
            f"INSERT INTO o SELECT CASE {key} WHEN {one} THEN {other} WHEN {other} "
            f"THEN {one} ELSE {key} END, {columns} FROM {table}"
        )
        execute("PRAGMA writable_schema = ON")
        ours = f"sqlite_autoindex_{table}_1"
        root = dict(execute("SELECT name, rootpage FROM sqlite_master"))
        for name, page in ((ours, root["swapped"]), ("swapped", root[ours])):
            execute(
                "UPDATE sqlite_master SET rootpage = ? WHERE name = ?", (page, name)
            )
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("DROP TABLE o")


def outcome(call: Any, items: Any, who: dict[str, str]) -> Any:
    found = call(items, who)
    return [item and item.value for item in found]


@pytest.mark.parametrize("name", CALLS)
def test_without_damage_each_user_finds_their_own(tmp_path, name):
    written(tmp_path / "m.db")
    swap(tmp_path / "m.db", "part", "app,user", 1, 1)  # every entry leads to its row
    with MemoryService(tmp_path / "m.db", embedder=None) as service:
        for who, value in ((ALICE, "of alice"), (BOB, "of bob")):
            assert outcome(CALLS[name], service.items.sync, who)[0] == value


@pytest.mark.parametrize("name", CALLS)
def test_an_index_of_users_that_leads_to_another_user_is_refused(tmp_path, name):
    written(tmp_path / "m.db")
    swap(tmp_path / "m.db", "part", "app,user", 1, 2)
    with MemoryService(tmp_path / "m.db", embedder=None) as service:
        for who in (ALICE, BOB):
            with pytest.raises(CorruptFileError):
                outcome(CALLS[name], service.items.sync, who)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(
    ("of", "other"), [((1, 1), (2, 1)), ((2, 1), (2, 2))], ids=["user", "namespace"]
)
def test_an_index_of_items_that_leads_to_another_item_is_refused(
    tmp_path, name, of, other
):
    written(tmp_path / "m.db")
    rids = (part << 32 | version for part, version in (of, other))
    swap(tmp_path / "m.db", "item", "part,ns,key", *rids)
    with MemoryService(tmp_path / "m.db", embedder=None) as service:
        who = ALICE if of[0] == 1 else BOB
        with pytest.raises(CorruptFileError):
            outcome(CALLS[name], service.items.sync, who)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("table", ["part", "item"])
def test_an_index_that_leads_to_no_row_is_refused(tmp_path, name, table):
    written(tmp_path / "m.db")
    one, columns = (2, "app,user") if table == "part" else (2 << 32 | 1, "part,ns,key")
    swap(tmp_path / "m.db", table, columns, one, one + 77)
    opened = MemoryService(tmp_path / "m.db", embedder=None)
    with opened as service, pytest.raises(CorruptFileError):
        outcome(CALLS[name], service.items.sync, BOB)


def test_loaded_vectors_that_the_file_has_lost_are_noticed(tmp_path):
    with MemoryService(tmp_path / "m.db", embedder=None) as service:
        items = service.items.sync
        two = [[1.0, 0.0], [0.0, 1.0]]
        items.write([Put(NOTES, "a", 1, two), Put(NOTES, "b", 1, [1.0, 1.0])], **ALICE)
        assert len(items.find(NOTES, vector=[1.0, 0.0], **ALICE)) == 2
        with closing(sqlite3.connect(tmp_path / "m.db")) as connection, connection:
            connection.execute("UPDATE item SET vecs = NULL WHERE key = 'b'")
        with pytest.raises(CorruptFileError):
            items.find(NOTES, vector=[1.0, 0.0], **ALICE)


def test_a_search_that_failed_while_it_loaded_leaves_nothing_half_loaded(tmp_path):
    path = tmp_path / "m.db"
    puts = [Put(NOTES, f"k{n}", n, [1.0, n]) for n in range(5)]
    with MemoryService(path, embedder=None) as service:
        service.items.sync.write(puts, **ALICE)
    with closing(sqlite3.connect(path)) as file, file:
        (right,) = file.execute("SELECT vecs FROM item WHERE key = 'k3'").fetchone()
        file.execute("UPDATE item SET vecs = zeroblob(8) WHERE key = 'k3'")
    with MemoryService(path, embedder=None) as service:
        items = service.items.sync
        for _ in range(3):
            with pytest.raises(CorruptFileError):
                items.find(NOTES, vector=[1.0, 0.0], **ALICE)
        with closing(sqlite3.connect(path)) as file, file:
            file.execute("UPDATE item SET vecs = ? WHERE key = 'k3'", (right,))
        found = items.find(NOTES, vector=[1.0, 0.0], **ALICE)
        assert [item.key for item in found] == [f"k{n}" for n in range(5)]
