"""One block of reads sees one state, and no read outlives it."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import Any

import pytest
from helpers.storage_contents import APP, WAIT_S, add, texts_of, write
from helpers.storage_places import Place
from vecall.errors import ClosedError, NotFoundError
from vecall.store import (
    ALWAYS,
    AddMemories,
    ArchiveMemories,
    DeleteMemories,
    Draft,
    Storage,
    StorageReads,
)
from vecall.types import Filter


def all_of(reads: StorageReads, user: str, now: float) -> list[Any]:
    """What several operations say of one user, and of all."""
    version = reads.version(APP, user)
    found: list[Any] = [version, reads.users_of(APP), reads.totals()]
    found.append(reads.listed(APP, user, "live", None, -1, now))
    if version is not None:
        found.append(reads.partition_state(version[0], APP, user))
        found.append(list(reads.load_partition(version[0])))
    return found


def test_a_block_sees_one_state_whatever_is_written_meanwhile(
    place: Place, storage: Storage
) -> None:
    add(storage, "a", "1", "2")
    now = storage.expiry_clock.now()
    with storage.read() as reads:
        first = all_of(reads, "a", now)
        assert first[0] is not None
        job = AddMemories(APP, "a", [Draft("3", "new"), Draft("1", "other")])
        futures = [
            storage.submit(job),
            storage.submit(DeleteMemories(APP, "a", ["2"])),
            storage.submit(AddMemories(APP, "b", [Draft("1", "b")])),
        ]
        if place.is_shared:  # else the one who reads may hold up those who write
            for future in futures:
                future.result(WAIT_S)
        assert all_of(reads, "a", now) == first
    for future in futures:
        future.result(WAIT_S)
    assert texts_of(storage, "a") == {"1": "other", "3": "new"}
    assert texts_of(storage, "b") == {"1": "b"}


def test_pairs_that_are_written_together_are_read_together(storage: Storage) -> None:
    """A reader beside a writer sees both of a pair or none of it."""
    done = threading.Event()
    errors: list[str] = []
    seen: set[int] = set()

    def read() -> None:
        while not done.is_set() and not errors:
            with storage.read() as reads:
                version = reads.version(APP, "a")
                if version is None:
                    continue
                with closing(reads.load_partition(version[0])) as rows:
                    ids = {entry.row.id for entry in rows}
                state = reads.partition_state(version[0], APP, "a")
            seen.add(len(ids))
            pairs = {id_.split()[1] for id_ in ids}
            if ids != {f"{side} {n}" for side in ("l", "r") for n in pairs}:
                errors.append(f"half a pair among {sorted(ids)}")
            if state is None or state.live != len(ids):
                errors.append("other counts than rows")

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for n in range(60):
            add(storage, "a", f"l {n}", f"r {n}")
            if n % 3 == 2:
                gone = [f"l {n - 1}", f"r {n - 1}"]
                write(storage, DeleteMemories(APP, "a", gone))
    finally:
        done.set()
        reader.join(WAIT_S)
    assert not errors
    assert seen  # it has read something, at least once
    assert len(texts_of(storage, "a")) == 80


def test_no_read_survives_its_block(storage: Storage) -> None:
    add(storage, "a", "1")
    with storage.read() as reads:
        assert reads.users_of(APP) == ["a"]
    with pytest.raises(ClosedError):
        reads.users_of(APP)
    with pytest.raises(ClosedError):
        reads.version(APP, "a")


def test_an_error_in_a_block_leaves_the_storage_usable(storage: Storage) -> None:
    add(storage, "a", "1")
    for _ in range(20):
        with pytest.raises(NotFoundError), storage.read() as reads:
            reads.listed(APP, "a", "live", "no such id", -1, 0.0)
    assert texts_of(storage, "a") == {"1": "says 1"}


def test_an_iterator_that_is_left_unfinished_holds_up_no_one(storage: Storage) -> None:
    add(storage, "a", *map(str, range(50)))
    with storage.read() as reads:
        version = reads.version(APP, "a")
        assert version is not None
        rows = reads.load_partition(version[0])
        next(rows)
        rows.close()
    add(storage, "a", "more")
    assert len(texts_of(storage, "a")) == 51


def test_pages_join_to_the_whole_list(storage: Storage) -> None:
    add(storage, "a", *map(str, range(7)))
    write(storage, DeleteMemories(APP, "a", ["3"]))
    now = storage.expiry_clock.now()
    pages, cursor = [], None
    with storage.read() as reads:
        while page := reads.listed(APP, "a", "live", cursor, 2, now):
            pages.append([row.id for row in page])
            cursor = page[-1].id
    assert pages == [["0", "1"], ["2", "4"], ["5", "6"]]


def test_all_rows_that_pass_a_filter_are_likely_ones(storage: Storage) -> None:
    """Metadata may be let through and fail later; labels may not."""
    made = [
        Draft("1", "x", author="ann", meta='{"k": "v"}'),
        Draft("2", "x", author="bob", meta='{"k": "v"}'),
        Draft("3", "x", author="ann", meta='{"k": "other"}'),
        Draft("4", "x", author="ann"),
    ]
    write(storage, AddMemories(APP, "a", made))
    version = storage.version(APP, "a")
    assert version is not None
    wanted = Filter(author="ann", metadata={"k": "v"})
    with storage.read() as reads:
        numbers = {
            entry.row.rid: entry.row.id for entry in reads.load_partition(version[0])
        }
        likely = {row[0]: row[-1] for row in reads.likely_rows(version[0], wanted)}
        bob = Filter(author="bob")
        plain = {row[0]: row[-1] for row in reads.likely_rows(version[0], bob)}
    ids = {numbers[rid] for rid in likely}
    assert "1" in ids
    assert "2" not in ids
    assert {numbers[rid]: meta for rid, meta in likely.items()}["1"] == '{"k": "v"}'
    assert {numbers[rid]: meta for rid, meta in plain.items()} == {"2": None}


def test_memories_that_pass_by_their_metadata_are_told_with_their_version(
    storage: Storage,
) -> None:
    """In any state; those of other users are not among them."""
    made = [
        Draft("1", "x", author="ann", meta='{"k": "v"}'),
        Draft("2", "x", author="bob", meta='{"k": "v"}'),
        Draft("3", "x", author="ann", meta='{"k": "other"}'),
        Draft("4", "x", author="ann"),
        Draft("5", "x", author="ann", meta='{"k": "v", "l": 1}'),
    ]
    write(storage, AddMemories(APP, "a", made))
    write(storage, AddMemories(APP, "b", made[:2]))
    write(storage, ArchiveMemories(APP, "a", ["5"]))
    wanted = Filter(author="ann", metadata={"k": "v"})
    with storage.read() as reads:
        rows = {row.id: row for row in reads.find_many(APP, "a", ["1"], ALWAYS)}
        found = reads.passing(APP, "a", wanted)
        assert reads.passing(APP, "nobody", wanted) == {}
    assert found.keys() == {"1", "5"}
    assert found["1"] == rows["1"].updated_at


def test_of_memories_that_passed_those_are_deleted_that_still_pass(
    storage: Storage,
) -> None:
    """One was updated since and passes, one does not, one was not among them."""
    texts = [Draft(str(n), "x", meta='{"k": "v"}') for n in range(4)]
    write(storage, AddMemories(APP, "a", texts))
    wanted = Filter(metadata={"k": "v"})
    with storage.read() as reads:
        passed = reads.passing(APP, "a", wanted)
    del passed["3"]
    passed["0"] = passed["1"] = -1.0  # as if they were updated since
    changed = Draft("1", "x", meta='{"k": "w"}')
    write(storage, AddMemories(APP, "a", [changed], edit=True))
    change = write(storage, DeleteMemories(APP, "a", filter=wanted, passed=passed))
    assert set(change.ids) == {"0", "2"}
