"""Exports, and care of a whole storage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from helpers.storage_contents import APP, WAIT_S, add, state_of, texts_of, write
from helpers.storage_places import PLACES, Place
from vecall.errors import ConfigError
from vecall.store import (
    AddMemories,
    ArchiveMemories,
    BufferTurns,
    DeleteMemories,
    Draft,
    ImportLines,
    MarkUsed,
    Storage,
    open_storage,
)


def fill(storage: Storage) -> None:
    """Memories of two users in each of the states, with a past and turns."""
    add(storage, "a", "1", "2", "3", "gone")
    turns = [Draft(f"t {n}", f"turn {n}", session="s", ordered=True) for n in range(3)]
    write(storage, AddMemories(APP, "a", turns))
    write(storage, AddMemories(APP, "a", [Draft("1", "other")]))
    write(storage, ArchiveMemories(APP, "a", ["2"]))
    write(storage, MarkUsed(APP, "a", ["3"]))
    write(storage, DeleteMemories(APP, "a", ["gone"]))
    held = Draft("held", "not judged yet", quarantined=True)
    write(storage, AddMemories(APP, "b", [held]))
    waiting = {"w 1": {"content": "said"}, "w 2": None}
    write(storage, BufferTurns(APP, "b", "later", waiting, 60.0))


def exported(storage: Storage) -> dict[str, Any]:
    """All lines of all users, and the first line."""
    with storage.read() as reads:
        lines: dict[str, Any] = {"header": reads.export_header(False)}
        for part, app, user, _ in reads.export_partitions(None, None):
            lines[f"{app} {user}"] = list(reads.export_lines(part, None))
    return lines


def test_what_is_exported_and_imported_is_exported_alike(
    storage: Storage, kind: str, tmp_path: Path
) -> None:
    fill(storage)
    lines = exported(storage)
    assert {name for name, _ in lines["app a"]} >= {"mem", "hist", "tomb", "replaced"}
    (tmp_path / "other").mkdir()
    other_place: Place = PLACES[kind](tmp_path / "other")
    try:
        other = other_place.open()
        for _ in range(2):  # a second time brings nothing
            for key in ("app a", "app b"):
                user = key.split()[1]
                write(other, ImportLines(APP, user, 1.0, lines[key], None, False))
            assert exported(other) == lines
        assert texts_of(other, "a") == texts_of(storage, "a")
    finally:
        other_place.close()


def test_some_partitions_are_exported_by_name(storage: Storage) -> None:
    add(storage, "a", "1")
    add(storage, "b", "1")
    write(storage, AddMemories("other", "a", [Draft("1", "x")]))
    with storage.read() as reads:
        found = {
            names: [(app, user) for _, app, user, _ in reads.export_partitions(*names)]
            for names in ((None, None), (APP, None), (APP, "b"), ("none", None))
        }
    assert found == {
        (None, None): [(APP, "a"), (APP, "b"), ("other", "a")],
        (APP, None): [(APP, "a"), (APP, "b")],
        (APP, "b"): [(APP, "b")],
        ("none", None): [],
    }


def test_a_purge_leaves_what_is_live_and_what_is_gone(storage: Storage) -> None:
    fill(storage)
    before = state_of(storage, "a")
    storage.maintenance.purge()
    assert state_of(storage, "a") == before
    change = add(storage, "a", "gone")  # it stays away
    assert list(change.ids) == []
    assert state_of(storage, "a") == before


def test_a_backup_is_a_storage_of_its_own(
    storage: Storage, kind: str, tmp_path: Path
) -> None:
    fill(storage)
    if kind == "postgres":
        with pytest.raises(ConfigError, match="pg_dump"):
            storage.maintenance.backup(tmp_path / "copy.db")
        return
    lines = exported(storage)
    target = tmp_path / "copy.db"
    storage.maintenance.backup(target)
    with pytest.raises(ConfigError):
        storage.maintenance.backup(target)
    add(storage, "a", "later")
    copy = open_storage(target, "process")
    try:
        assert copy.identity != storage.identity
        assert exported(copy) == lines
        add(copy, "a", "only in the copy")
    finally:
        copy.close()
    assert "only in the copy" not in texts_of(storage, "a")


def test_sizes_are_named_and_there_is_room(storage: Storage) -> None:
    futures = [
        storage.submit(AddMemories(APP, "a", [Draft(f"{n}", "x" * 1_000)]))
        for n in range(50)
    ]
    for future in futures:
        future.result(WAIT_S)
    sizes = storage.maintenance.sizes()
    assert sizes.keys() == {"file_bytes", "wal_bytes", "snapshot_bytes"}
    assert all(size >= 0 for size in sizes.values())
    assert storage.maintenance.has_room(0)
