"""Items: what a storage promises about JSON documents under a namespace and a key."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from helpers.clocks import SettableClock
from helpers.storage_contents import APP, WAIT_S
from helpers.storage_places import Place
from vecall.errors import ConflictError, DimensionError, EmbeddingMismatchError
from vecall.store import (
    ForgetUser,
    ItemDrop,
    ItemPut,
    ItemRow,
    ItemState,
    Storage,
    Sweep,
    SweepItems,
    TouchItems,
    WriteItems,
    encode_namespace,
    namespace_range,
)

NOTES = encode_namespace(("notes",))
FINISHED = encode_namespace(("notes", "old"))
EVERY = namespace_range(())


def vector(*numbers: float) -> bytes:
    return np.array(numbers, np.float32).tobytes()


def write(
    storage: Storage, *operations: Any, user: str = "a", **named: Any
) -> list[int]:
    job = WriteItems(APP, user, operations, **named)
    storage.submit(job).result(WAIT_S)
    return job.versions


def state_of(storage: Storage, user: str = "a") -> ItemState:
    with storage.read(APP, user) as reads:
        found = reads.item_state(APP, user)
    assert found is not None
    return found


def stored(
    storage: Storage, *, user: str = "a", within: tuple[str, ...] = ()
) -> list[ItemRow]:
    with storage.read(APP, user) as reads:
        state = reads.item_state(APP, user)
        if state is None:
            return []
        return list(reads.newest_items(state.part, *namespace_range(within)))


def values(storage: Storage, **named: Any) -> dict[tuple[str, str], Any]:
    return {
        (row.ns, row.key): json.loads(row.value) for row in stored(storage, **named)
    }


def test_items_come_back_latest_first_with_their_versions(storage: Storage) -> None:
    text = '{"b": 1, "a": [null, "\\u0000\\u0001", 12345678901234567890]}'
    first = write(storage, ItemPut(NOTES, "k", text), ItemPut(FINISHED, "k\x01", "2"))
    again = write(storage, ItemPut(NOTES, "k", "3"))
    assert first == [1, 2]
    assert again == [3]
    rows = stored(storage)
    assert [(row.version, row.key, row.value) for row in rows] == [
        (3, "k", "3"),
        (2, "k\x01", "2"),
    ]
    assert rows[0].created_at <= rows[0].updated_at
    assert state_of(storage)[1:3] == (3, 1)


def test_one_item_is_read_as_several_are(storage: Storage) -> None:
    vectors = vector(1, 2) + vector(3, 4)
    write(storage, ItemPut(NOTES, "k", "1", vectors, 60.0), dim=2)
    write(storage, ItemPut(NOTES, "k", "2"), ItemPut(FINISHED, "k", "3"))
    write(storage, ItemPut(NOTES, "k", "4"), user="b")
    places = [(NOTES, "k"), (FINISHED, "k"), (NOTES, "missing"), ("", "k")]
    for user in ("a", "b"):
        part = state_of(storage, user).part
        with storage.read(APP, user) as reads:
            several = reads.items_at(part, places)
        alone = [storage.item_at(APP, user, *place) for place in places]
        assert alone == several
        assert [row is None for row in alone] == [False, user == "b", True, True]
    assert storage.item_at(APP, "unknown", NOTES, "k") is None
    assert storage.item_at("another app", "a", NOTES, "k") is None


@pytest.mark.parametrize("first", [1, 2, 7, 8, 300])
def test_the_newest_items_are_all_returned_whatever_is_read_at_first(
    storage: Storage, first: int
) -> None:
    for number in range(7):
        write(storage, ItemPut(NOTES, f"{number}", "1"), ItemPut("", f"{number}", "2"))
    write(storage, ItemDrop(NOTES, "4"), ItemPut(NOTES, "1", "3"))
    part = state_of(storage).part
    with storage.read(APP, "a") as reads:
        found = list(reads.newest_items(part, *namespace_range(("notes",)), first))
    assert [row.key for row in found] == ["1", "6", "5", "3", "2", "0"]
    middle = found[2].version  # of "5"
    for before, keys in ((middle, ["3", "2", "0"]), (1, []), (1 << 32, found)):
        with storage.read(APP, "a") as reads:
            some = list(
                reads.newest_items(part, *namespace_range(("notes",)), first, before)
            )
        assert [row.key for row in some] == [getattr(k, "key", k) for k in keys]


def test_a_failed_write_leaves_nothing_of_its_operations(storage: Storage) -> None:
    write(storage, ItemPut(NOTES, "k", "1"))
    before = state_of(storage), values(storage)
    wrong = [
        (ConflictError, ItemPut(NOTES, "k", "2", if_version=0), {}),
        (ConflictError, ItemPut(NOTES, "k", "2", if_version=7), {}),
        (ConflictError, ItemDrop(NOTES, "gone", if_version=1), {}),
    ]
    for error, operation, named in wrong:
        with pytest.raises(error):
            write(storage, ItemPut(NOTES, "new", "9"), operation, **named)
        assert (state_of(storage), values(storage)) == before
    assert write(storage, ItemPut(NOTES, "k", "2", if_version=1)) == [2]
    assert write(storage, ItemDrop(NOTES, "k", if_version=2)) == [2]
    assert write(storage, ItemDrop(NOTES, "k")) == [0]
    assert values(storage) == {}


def test_the_first_vectors_decide_on_dimension_and_embedder(storage: Storage) -> None:
    put = ItemPut(NOTES, "k", "1", vector(1, 2) + vector(3, 4))
    write(storage, put, dim=2, embedder="one")
    with pytest.raises(DimensionError):
        write(storage, ItemPut(NOTES, "l", "1", vector(1, 2, 3)), dim=3)
    with pytest.raises(EmbeddingMismatchError):
        write(storage, ItemPut(NOTES, "l", "1", vector(1, 2)), dim=2, embedder="two")
    state = state_of(storage)
    assert (state.dim, state.embedder) == (2, "one")
    write(storage, ItemPut(FINISHED, "m", "2"))
    with storage.read(APP, "a") as reads:
        found = list(reads.item_vectors(state.part, None, 0))
        later = list(reads.item_vectors(state.part, None, 1))
        some = list(reads.item_vectors(state.part, NOTES, 0))
        rids = [entry.rid for entry in found]
        rows = reads.items_by_number(state.part, [*rids, rids[0] + 77])
    assert [(entry.key, entry.vectors) for entry in found] == [
        ("k", put.vectors),
        ("m", b""),
    ]
    assert later == found[1:]
    assert some == found[:1]
    assert sorted(row.rid for row in rows) == rids


def test_namespaces_are_ranges_and_those_without_items_are_not_listed(
    storage: Storage,
) -> None:
    names = [("a",), ("a", "b"), ("a", "b", "c"), ("ab",), ("a\x1f",), ("é", "z")]
    for name in names:
        write(storage, ItemPut(encode_namespace(name), "k", "1"))
    write(storage, ItemPut(encode_namespace(("gone",)), "k", "1"))
    write(storage, ItemDrop(encode_namespace(("gone",)), "k"))
    part = state_of(storage).part
    with storage.read(APP, "a") as reads:
        listed = reads.item_namespaces(part, *EVERY, 0.0)
        assert listed == sorted(map(encode_namespace, names))
        for prefix in [("a",), ("a", "b"), ("b",), ("a\x1f",)]:
            below = {
                encode_namespace(name)
                for name in names
                if name[: len(prefix)] == prefix
            }
            ranged = namespace_range(prefix)
            assert set(reads.item_namespaces(part, *ranged, 0.0)) == below
            assert reads.count_items(part, *ranged, 0.0) == len(below)


def test_expired_items_are_swept_and_a_touch_moves_the_expiry(place: Place) -> None:
    clock = SettableClock()
    storage = place.open(clock)
    write(storage, *(ItemPut(NOTES, key, "1", ttl=10.0) for key in "abc"))
    write(storage, ItemPut(NOTES, "d", "1"))
    rid = next(row.rid for row in stored(storage) if row.key == "a")
    clock.let_pass(9)
    now = storage.expiry_clock.now()
    storage.submit(TouchItems(APP, "a", {rid: now + 10, rid + 99: now})).result(WAIT_S)
    storage.submit(TouchItems(APP, "a", {rid: now + 2})).result(WAIT_S)
    clock.let_pass(5)
    now = storage.expiry_clock.now()
    part = state_of(storage).part
    with storage.read() as reads:
        assert reads.due_users(now) == [(APP, "a")]
    with storage.read(APP, "a") as reads:
        assert reads.count_items(part, *EVERY, now) == 2
        assert reads.item_namespaces(part, *EVERY, now + 99) == [NOTES]
    # An expired item is as good as none.
    assert write(storage, ItemPut(NOTES, "b", "2", if_version=0)) == [5]
    job = SweepItems(APP, "a")
    storage.submit(job).result(WAIT_S)
    assert job.swept == 1
    assert {row.key for row in stored(storage)} == {"a", "b", "d"}
    clock.let_pass(20)
    storage.submit(Sweep(APP, "a", 100)).result(WAIT_S)
    assert {row.key for row in stored(storage)} == {"b", "d"}


def test_users_have_items_of_their_own_and_forgetting_one_takes_them(
    storage: Storage,
) -> None:
    write(storage, ItemPut(NOTES, "k", "1"))
    write(storage, ItemPut(NOTES, "k", "2"), user="b")
    before = state_of(storage).part
    storage.submit(ForgetUser(APP, "a")).result(WAIT_S)
    assert stored(storage) == []
    assert values(storage, user="b") == {(NOTES, "k"): 2}
    write(storage, ItemPut(NOTES, "k", "3"))
    assert state_of(storage).part > before


def test_items_are_there_after_a_reopening(shared: Place) -> None:
    first, other = shared.open(), shared.open()
    write(first, ItemPut(NOTES, "k", "1", vector(1, 0)), dim=2)
    first.close()
    assert write(other, ItemPut(NOTES, "k", "2", if_version=1)) == [2]
    other.close()
    assert values(shared.open()) == {(NOTES, "k"): 2}


def test_an_export_has_all_items(storage: Storage) -> None:
    write(storage, ItemPut(NOTES, "k", '{"b":1}', vector(1, 2)), dim=2, embedder="e")
    write(storage, ItemPut(FINISHED, "l", "null", ttl=50.0))
    part = state_of(storage).part
    with storage.read(APP, "a") as reads:
        lines = list(reads.export_items(part, vectors=True))
        bare = list(reads.export_items(part, vectors=False))
    assert [(line["ns"], line["key"]) for line in lines] == [
        (["notes"], "k"),
        (["notes", "old"], "l"),
    ]
    assert (lines[0]["dim"], lines[0]["embedder"]) == (2, "e")
    assert lines[1]["ttl"] == 50.0
    assert not any("vecs" in line for line in bare)


def test_a_large_value_goes_with_its_pieces(storage: Storage) -> None:
    """Replaced, dropped, swept or forgotten; no read shows a piece as an item."""
    pieces = ("one", "two \u00e9", "x" * 70_000)
    large = ItemPut(NOTES, "l", "@3,0:[null,[[0,3,0]]]", pieces=pieces)
    small = ItemPut(NOTES, "s", "1")
    (first, second) = write(storage, large, small)
    assert (first, second) == (4, 5)
    for replaced in (large, small):
        assert [(row.key, row.pieces) for row in stored(storage)] == [
            ("s", ()),
            ("l", pieces),
        ][:: 1 if replaced is large else -1]
        write(storage, replaced)
    part = state_of(storage).part
    with storage.read(APP, "a") as reads:
        (head,) = reads.items_at(part, [(NOTES, "l")], pieces=False)
        (whole,) = reads.items_at(part, [(NOTES, "l")])
        assert head is not None
        assert whole == head._replace(pieces=pieces)
        numbered = reads.items_by_number(part, range(part << 32, (part << 32) + 99))
        assert [(row.key, row.pieces) for row in numbered] == [("l", pieces), ("s", ())]
        assert reads.count_items(part, *EVERY, 0.0) == 2
        assert reads.item_namespaces(part, *EVERY, 0.0) == [NOTES]
        assert [e.key for e in reads.item_vectors(part, None, 0)] == ["l", "s"]
        assert [e["key"] for e in reads.export_items(part, False)] == ["l", "s"]
    write(storage, ItemDrop(NOTES, "l"))
    with storage.read(APP, "a") as reads:
        assert [e.key for e in reads.item_vectors(part, None, 0)] == ["s"]
