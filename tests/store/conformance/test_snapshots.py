"""A snapshot is read only while it is on record."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from helpers.storage_contents import APP, add, state_of, write
from vecall._core import Engine
from vecall.index.row_cache import add_rows
from vecall.store import (
    DeleteMemories,
    ForgetUser,
    Snapshots,
    SnapshotTag,
    Storage,
)


@pytest.fixture
def snapshots(storage: Storage) -> Snapshots:
    """The snapshots of the storage."""
    if storage.snapshots is None:
        pytest.skip("this storage has no snapshots")
    return storage.snapshots


class Taken(NamedTuple):
    """A snapshot that was taken and is not stored."""

    tag: SnapshotTag
    data: bytes
    generation: int


def take(storage: Storage, snapshots: Snapshots, user: str) -> Taken:
    """What the engine makes of a user, as of now."""
    generation = snapshots.snapshot_generation()
    state = state_of(storage, user)
    assert state.version is not None
    engine = Engine(0, seed=1)
    add_rows(engine, (APP, user), list(state.live.values()), None)
    tag = SnapshotTag.new(storage.identity, state.version, 0)
    data = engine.snapshot((APP, user), tag.pack())
    assert data is not None
    return Taken(tag, data, generation)


def record_of(storage: Storage, user: str) -> bytes | None:
    """What is on record for a user."""
    with storage.read() as reads:
        version = reads.version(APP, user)
        assert version is not None
        state = reads.partition_state(version[0], APP, user)
    assert state is not None
    return state.snap


def test_a_snapshot_that_is_on_record_is_read(
    storage: Storage, snapshots: Snapshots
) -> None:
    add(storage, "a", "1", "2")
    before = storage.version(APP, "a")
    tag, data, generation = take(storage, snapshots, "a")
    assert record_of(storage, "a") is None
    assert snapshots.write_snapshot(APP, "a", tag, data, generation)
    record = record_of(storage, "a")
    assert record is not None
    found = snapshots.read_snapshot(tag.part, record)
    assert found == data
    assert storage.version(APP, "a") == before  # it is no change of the memories
    restored = SnapshotTag.unpack_tag(Engine(0, seed=1).restore((APP, "a"), found))
    assert restored == tag
    assert restored.is_of(storage.identity, tag.part, record, 0)
    assert not restored.is_of(bytes(16), tag.part, record, 0)
    assert not restored.is_of(storage.identity, tag.part + 1, record, 0)
    assert not restored.is_of(storage.identity, tag.part, record, 1)


def test_only_the_one_on_record_is_read(storage: Storage, snapshots: Snapshots) -> None:
    add(storage, "a", "1")
    first = take(storage, snapshots, "a")
    assert snapshots.write_snapshot(APP, "a", *first)
    old = record_of(storage, "a")
    add(storage, "a", "2")
    second = take(storage, snapshots, "a")
    assert snapshots.write_snapshot(APP, "a", *second)
    new = record_of(storage, "a")
    assert old is not None
    assert new is not None
    assert old != new
    assert snapshots.read_snapshot(first.tag.part, old) is None
    assert snapshots.read_snapshot(first.tag.part, new) == second.data
    assert snapshots.read_snapshot(first.tag.part + 1, new) is None


def test_an_older_snapshot_does_not_take_the_place_of_a_newer_one(
    storage: Storage, snapshots: Snapshots
) -> None:
    """Two servers take one, and the one that was taken first is stored last."""
    add(storage, "a", "1")
    older = take(storage, snapshots, "a")
    add(storage, "a", "2")
    newer, same = take(storage, snapshots, "a"), take(storage, snapshots, "a")
    assert snapshots.write_snapshot(APP, "a", *newer)
    record = record_of(storage, "a")
    assert record is not None
    assert not snapshots.write_snapshot(APP, "a", *older)
    assert not snapshots.write_snapshot(APP, "a", *same)
    assert record_of(storage, "a") == record
    assert snapshots.read_snapshot(newer.tag.part, record) == newer.data
    add(storage, "a", "3")
    newest = take(storage, snapshots, "a")
    assert snapshots.write_snapshot(APP, "a", *newest)


def test_a_snapshot_of_another_history_is_not_recorded(
    storage: Storage, snapshots: Snapshots
) -> None:
    """Its number is right, and its random bits are those of a lost change."""
    add(storage, "a", "1")
    tag, data, generation = take(storage, snapshots, "a")
    for wrong in (tag._replace(head=tag.head ^ 2), tag._replace(seq=tag.seq + 1)):
        assert not snapshots.write_snapshot(APP, "a", wrong, data, generation)
    add(storage, "a", "2")
    wrong = tag._replace(head=tag.head ^ 2)
    assert not snapshots.write_snapshot(APP, "a", wrong, data, generation)
    assert snapshots.write_snapshot(APP, "a", tag, data, generation)


def test_a_snapshot_from_before_a_purge_is_not_recorded(
    storage: Storage, snapshots: Snapshots
) -> None:
    """It may hold what was deleted and purged while it was taken."""
    add(storage, "a", "1", "2")
    taken = take(storage, snapshots, "a")
    write(storage, DeleteMemories(APP, "a", ["1"]))
    storage.maintenance.purge()
    assert not snapshots.write_snapshot(APP, "a", *taken)
    assert record_of(storage, "a") is None
    assert snapshots.snapshot_generation() != taken.generation
    assert snapshots.write_snapshot(APP, "a", *take(storage, snapshots, "a"))


def test_a_purge_takes_every_snapshot_off_the_record(
    storage: Storage, snapshots: Snapshots
) -> None:
    add(storage, "a", "1")
    taken = take(storage, snapshots, "a")
    assert snapshots.write_snapshot(APP, "a", *taken)
    record = record_of(storage, "a")
    assert record is not None
    storage.maintenance.purge()
    assert record_of(storage, "a") is None
    assert snapshots.read_snapshot(taken.tag.part, record) is None


def test_a_snapshot_of_a_forgotten_user_is_not_recorded(
    storage: Storage, snapshots: Snapshots
) -> None:
    add(storage, "a", "1")
    taken = take(storage, snapshots, "a")
    write(storage, ForgetUser(APP, "a"))
    assert not snapshots.write_snapshot(APP, "a", *taken)
    add(storage, "a", "new")  # the same names, another partition
    assert not snapshots.write_snapshot(APP, "a", *taken)
    assert record_of(storage, "a") is None


def test_a_removed_snapshot_is_none(storage: Storage, snapshots: Snapshots) -> None:
    add(storage, "a", "1")
    taken = take(storage, snapshots, "a")
    assert snapshots.write_snapshot(APP, "a", *taken)
    record = record_of(storage, "a")
    assert record is not None
    snapshots.remove_snapshot(taken.tag.part)
    snapshots.remove_snapshot(taken.tag.part)
    assert snapshots.read_snapshot(taken.tag.part, record) is None
    assert storage.maintenance.sizes()["snapshot_bytes"] == 0
