"""The version of a user changes with each change and only then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from helpers.storage_contents import APP, add, replayed, state_of, write
from vecall.errors import CorruptFileError
from vecall.filters.rights import FULL
from vecall.store import (
    AddMemories,
    ArchiveMemories,
    DeleteMemories,
    Draft,
    ForgetUser,
    MarkUsed,
    RestoreMemory,
    Storage,
    Sweep,
)

CHANGES: dict[str, Callable[[], Any]] = {
    "new": lambda: AddMemories(APP, "a", [Draft("9", "new")]),
    "updated": lambda: AddMemories(APP, "a", [Draft("1", "other")]),
    "marked": lambda: MarkUsed(APP, "a", ["1"]),
    "archived": lambda: ArchiveMemories(APP, "a", ["1"]),
    "restored": lambda: RestoreMemory(APP, "a", "old"),
    "deleted": lambda: DeleteMemories(APP, "a", ["1", "2"]),
    "all deleted": lambda: DeleteMemories(APP, "a"),
}
NO_CHANGES: dict[str, Callable[[], Any]] = {
    "nothing": lambda: AddMemories(APP, "a", []),
    "the same": lambda: AddMemories(APP, "a", [Draft("1", "says 1")]),
    "deleted before": lambda: AddMemories(APP, "a", [Draft("gone", "says gone")]),
    "archived before": lambda: AddMemories(APP, "a", [Draft("old", "says old")]),
    "not there": lambda: DeleteMemories(APP, "a", ["unknown"]),
    "nothing live": lambda: ArchiveMemories(APP, "a", ["old", "gone"]),
    "nothing used": lambda: MarkUsed(APP, "a", ["old", "gone"]),
    "nothing expired": lambda: Sweep(APP, "a", 100),
    "of others": lambda: AddMemories(APP, "b", [Draft("1", "other")]),
    "of another app": lambda: AddMemories("APP", "a", [Draft("1", "other")]),
}


def filled(storage: Storage) -> None:
    add(storage, "a", "1", "2", "old", "gone")
    write(storage, ArchiveMemories(APP, "a", ["old"]))
    write(storage, DeleteMemories(APP, "a", ["gone"]))


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_gives_a_newer_version_and_is_in_the_log(
    storage: Storage, name: str
) -> None:
    filled(storage)
    before = state_of(storage, "a")
    assert before.version is not None
    change = write(storage, CHANGES[name]())
    after = state_of(storage, "a")
    assert after.version is not None
    assert after.version == storage.version(APP, "a")
    assert after.version[0] == before.version[0]
    assert after.version[1] > before.version[1]
    assert replayed(storage, "a", before) == after
    with storage.read() as reads:
        logged = reads.changed_since(*before.version)
    assert logged is not None
    written = {entry.row.rid for entry in change.stored} | set(change.removed)
    assert set(logged.written) == written
    assert set(logged.marked) == {row.rid for row in change.marked}


@pytest.mark.parametrize("name", NO_CHANGES)
def test_what_changes_nothing_of_a_user_leaves_the_version(
    storage: Storage, name: str
) -> None:
    filled(storage)
    before = state_of(storage, "a")
    write(storage, NO_CHANGES[name]())
    assert state_of(storage, "a") == before


def test_users_are_told_apart_by_every_character_of_both_names(
    storage: Storage,
) -> None:
    names = [("a", "b"), ("A", "b"), ("a", "B"), ("a", "b "), ("ab", ""), ("a", "b\0")]
    names += [("á", "b"), ("a\u0301", "b"), ("a", "%"), ("a", "_")]
    names = [each for each in names if all(each)]
    for number, (app, user) in enumerate(names):
        draft = Draft("1", f"says {number}")
        write(storage, AddMemories(app, user, [draft]))
    now = storage.expiry_clock.now()
    found = {storage.version(app, user) for app, user in names}
    assert len(found) == len(names)
    with storage.read() as reads:
        for number, (app, user) in enumerate(names):
            row = reads.find(app, user, "1", now, FULL)
            assert row is not None
            assert row.text == f"says {number}"
            version = reads.version(app, user)
            assert version is not None
            assert reads.partition_names(version[0]) == (app, user)


def test_a_forgotten_user_is_unknown_and_gets_another_number(storage: Storage) -> None:
    numbers = set()
    for _ in range(3):
        add(storage, "a", "1")
        version = storage.version(APP, "a")
        assert version is not None
        numbers.add(version[0])
        change = write(storage, ForgetUser(APP, "a"))
        assert change.forgotten
        assert storage.version(APP, "a") is None
        with storage.read() as reads:
            reads.require_gone(APP, "a")
            assert reads.partition_state(version[0], APP, "a") is None
            assert reads.partition_names(version[0]) is None
            assert list(reads.load_partition(version[0])) == []
    assert len(numbers) == 3
    add(storage, "a", "1")  # no tombstone is left
    assert state_of(storage, "a").texts == {"1": "says 1"}


def test_a_user_who_is_there_is_not_gone(storage: Storage) -> None:
    add(storage, "a", "1")
    add(storage, "b", "1")
    version = storage.version(APP, "a")
    assert version is not None
    with storage.read() as reads:
        with pytest.raises(CorruptFileError):
            reads.require_gone(APP, "a")
        with pytest.raises(CorruptFileError):
            reads.partition_state(version[0], APP, "b")


def test_a_row_number_begins_with_its_partition_and_is_never_used_again(
    storage: Storage,
) -> None:
    seen: set[int] = set()
    for _ in range(5):
        rows = {entry.row.rid for entry in add(storage, "a", "1", "2").stored}
        assert len(rows) == 2
        assert not rows & seen
        seen |= rows
        version = storage.version(APP, "a")
        assert version is not None
        assert {rid >> 32 for rid in rows} == {version[0]}
        write(storage, DeleteMemories(APP, "a", ["1", "2"]))
        for id_ in ("1", "2"):
            job = AddMemories(APP, "a", [Draft(id_, f"says {id_}")], restore=True)
            (entry,) = write(storage, job).stored
            assert entry.row.rid not in seen
            seen.add(entry.row.rid)
        write(storage, ForgetUser(APP, "a"))


def test_the_log_of_changes_ends_or_is_whole(storage: Storage) -> None:
    """A reader that is far behind is told so; it never misses a change silently."""
    add(storage, "a", "1")
    first = state_of(storage, "a")
    for number in range(30):
        ids = [f"{number} {n}" for n in range(100)]
        add(storage, "a", *ids)
    last = state_of(storage, "a")
    assert replayed(storage, "a", first) in (None, last)
    recent = add(storage, "a", "one more")
    assert recent.seq_before == (last.version or (0, 0))[1]
    assert replayed(storage, "a", last) == state_of(storage, "a")
