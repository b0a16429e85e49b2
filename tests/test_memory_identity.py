"""Which memory is which: ids, upserts, absence, order, replacement, tombstones."""

from __future__ import annotations

import itertools
import random
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from vecall import MemoryEntry, MemoryService, NotFoundError

ALICE = {"app_name": "app", "user_id": "alice"}
BOB = {"app_name": "app", "user_id": "bob"}


def session(*events: Any, id_: str = "s", **who: str) -> dict[str, Any]:
    return {**(who or ALICE), "id": id_, "events": list(events)}


def turn(number: int, text: str | None = None) -> dict[str, Any]:
    return {
        "id": f"e{number}",
        "author": "user",
        "timestamp": float(number),
        "text": text or f"turn word{number}",
    }


def turns(*numbers: int) -> list[dict[str, Any]]:
    return [turn(number) for number in numbers]


def remembered(service: MemoryService, query: str = "turn") -> list[str]:
    found = service.sync.search_memory(**ALICE, query=query, top_k=1000)
    return sorted(memory.text for memory in found.memories)


def stored_order(path: Path, session_id: str = "s") -> list[str]:
    """The events of a session by position, from the closed file."""
    connection = sqlite3.connect(path)
    try:
        rows = connection.execute(
            "SELECT pos, event FROM mem WHERE session = ? AND pos IS NOT NULL "
            "ORDER BY pos",
            (session_id,),
        ).fetchall()
    finally:
        connection.close()
    positions = [position for position, _ in rows]
    assert len(set(positions)) == len(positions), "two turns at one position"
    return [event for _, event in rows]


def test_an_id_is_the_same_in_every_version(open_service):
    """S2.6: ids are written in files and kept by callers; they never change."""
    service = open_service()
    with_id = service.sync.add_session_to_memory(session(turn(1)))
    bare = {"author": "user", "timestamp": 12.5, "text": "zebra"}
    without = service.sync.add_session_to_memory(session(bare))
    nothing = service.sync.add_memory(**ALICE, memories=["zebra"])
    assert with_id == ["5dce27c9318a0776edb219bfc1f66599"]
    assert without == ["3e3a257fdc21ac3285cf4fd05de3ef37"]
    assert nothing == ["4387709c85fb1fa01be01f9e9ce02aff"]


def test_an_id_survives_restart_and_reingest(open_service, tmp_path):
    """S2.6: the same after re-ingest and restart."""
    path = tmp_path / "m.db"
    seen = set()
    for _ in range(3):
        service = open_service(path)
        seen.add(tuple(service.sync.add_session_to_memory(session(*turns(1, 2, 3)))))
        service.close()
    assert len(seen) == 1
    assert len(set(seen.pop())) == 3


def test_no_two_memories_run_into_one_another(open_service):
    """Every part of an identity is kept apart from the next."""
    service = open_service()
    ids = []
    for session_id, event_id in [("a", "bc"), ("ab", "c"), ("abc", "-"), ("-", "abc")]:
        ids += service.sync.add_session_to_memory(
            session({"id": event_id, "text": "same"}, id_=session_id)
        )
    ids += service.sync.add_events_to_memory(
        **ALICE, events=[{"id": "abc", "text": "same"}, {"id": "-abc", "text": "same"}]
    )
    for author, at in [
        ("a", 1.0),
        ("a1", None),
        (None, 1.0),
        (None, None),
        ("1.0", None),
    ]:
        ids += service.sync.add_session_to_memory(
            session({"author": author, "timestamp": at, "text": "same"}, id_="q")
        )
    ids += service.sync.add_memory(**ALICE, memories=["same"])
    assert len(set(ids)) == len(ids) == 12
    assert service.sync.stats()["memories"] == 12


def test_an_explicit_id_is_kept_as_given(open_service):
    service = open_service()
    odd = "My id / with % and \u00e9"
    (id_,) = service.sync.add_memory(**ALICE, memories=[MemoryEntry("zebra", id=odd)])
    assert id_ == odd
    assert service.sync.get_memory(**ALICE, memory_id=odd).text == "zebra"


def test_ids_come_back_in_the_order_of_the_turns(open_service):
    service = open_service()
    forth = service.sync.add_session_to_memory(session(*turns(1, 2, 3)))
    back = service.sync.add_session_to_memory(session(*turns(3, 2, 1)))
    assert back == forth[::-1]


def test_a_changed_turn_replaces_the_old_one(open_service):
    """Ingest is an upsert by id: the old words are forgotten, also by the search."""
    service = open_service()
    (id_,) = service.sync.add_session_to_memory(session(turn(1, "an old zebra")))
    (again,) = service.sync.add_session_to_memory(session(turn(1, "a new okapi")))
    assert id_ == again
    assert remembered(service, "zebra old") == []
    assert remembered(service, "okapi") == ["a new okapi"]
    assert service.sync.stats()["memories"] == 1
    assert service.sync.stats()["text_bytes"] == len("a new okapi")


@pytest.mark.parametrize(
    "change",
    [
        {"author": "agent"},
        {"timestamp": 99.0},
        {"kind": "fact"},
        {"source": "crm"},
        {"trust": "high"},
        {"importance": 0.75},
        {"custom_metadata": {"a": 1}},
        {"content": {"parts": [{"text": "zebra"}, {"text": "two"}]}},
    ],
)
def test_any_changed_field_is_written(open_service, tmp_path, change):
    path = tmp_path / "m.db"
    service = open_service(path)
    for fields in ({}, change):
        service.sync.add_memory(
            **ALICE, memories=[MemoryEntry(**{"content": "zebra", "id": "x", **fields})]
        )
    name, value = next(iter(change.items()))
    for opened in (service, open_service(path)):
        got = opened.sync.get_memory(**ALICE, memory_id="x")
        (found,) = opened.sync.search_memory(**ALICE, query="zebra").memories
        assert getattr(got, name) == getattr(found, name) == value


def test_of_equal_ids_in_one_call_the_last_wins(open_service):
    service = open_service()
    service.sync.add_session_to_memory(session(turn(1, "zebra"), turn(1, "okapi")))
    assert service.sync.stats()["memories"] == 1
    assert remembered(service, "zebra okapi") == ["okapi"]


def test_a_trimmed_session_deletes_nothing(open_service):
    """S3.17: an older or shorter copy of a session removes no memory."""
    service = open_service()
    service.sync.add_session_to_memory(session(*turns(1, 2, 3, 4, 5)))
    for copy in ((4, 5), (1,), (2, 4), ()):
        service.sync.add_session_to_memory(session(*turns(*copy)))
    assert len(remembered(service)) == 5


def test_a_session_told_in_any_order_a_hundred_times_is_one_session(open_service):
    """S4.13, S4.65: no duplicate ids on re-ingest."""
    rng = random.Random(31)
    service = open_service()
    whole = turns(*range(1, 8))
    expected = [turn["text"] for turn in whole]
    for _ in range(100):
        some = rng.sample(whole, rng.randint(1, len(whole)))
        service.sync.add_session_to_memory(session(*some))
    service.sync.add_session_to_memory(session(*whole))
    assert remembered(service) == expected
    assert service.sync.stats()["memories"] == 7


@pytest.mark.parametrize("durable", [False, True])
def test_a_session_told_in_parallel_is_one_session(open_service, tmp_path, durable):
    """S0.31, S4.65: concurrent ingests of one session make no duplicate."""
    service = open_service(tmp_path / "m.db" if durable else None)
    whole = turns(*range(1, 8))

    def tell(seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(9):
            some = rng.sample(whole, rng.randint(1, len(whole)))
            service.sync.add_session_to_memory(session(*some))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(tell, range(8)))
    service.sync.add_session_to_memory(session(*whole))
    assert remembered(service) == [turn["text"] for turn in whole]
    assert service.sync.stats()["memories"] == 7


def test_deltas_are_the_whole_session(open_service, tmp_path):
    """S1.4, S4.13: one turn at a time leads to the same file as all at once."""
    whole = turns(*range(1, 7))
    at_once, delta = tmp_path / "a.db", tmp_path / "b.db"
    service = open_service(at_once)
    ids = service.sync.add_session_to_memory(session(*whole))
    service.close()
    service = open_service(delta)
    told = []
    for event in whole:
        told += service.sync.add_events_to_memory(
            **ALICE, events=[event], session_id="s"
        )
    service.close()
    assert told == ids
    assert (
        stored_order(at_once) == stored_order(delta) == [f"e{i}" for i in range(1, 7)]
    )


@pytest.mark.parametrize(
    "calls",
    [
        [(1, 2, 3, 4), (3, 4, 5)],
        [(1, 3), (1, 2, 3), (3, 4, 5)],
        [(5,), (3, 4, 5), (1, 2, 3)],
        [(1, 5), (1, 3, 5), (1, 2, 3, 4, 5)],
        [(2, 4), (1, 2, 3, 4, 5)],
        [(1, 2, 3, 4, 5), (2, 4)],
    ],
)
def test_overlapping_copies_settle_the_order(open_service, tmp_path, calls):
    """S3.17: turns go where a call shows that they belong."""
    path = tmp_path / "m.db"
    service = open_service(path)
    for numbers in calls:
        service.sync.add_session_to_memory(session(*turns(*numbers)))
    service.close()
    assert stored_order(path) == [f"e{i}" for i in range(1, 6)]


def test_the_whole_session_settles_the_order_of_earlier_deltas(open_service, tmp_path):
    """S4.13: whoever tells a session in full, in order, has its order stored."""
    wrong = []
    for order in itertools.permutations((1, 2, 3)):
        path = tmp_path / f"{order}.db"
        service = open_service(path)
        for number in order:
            service.sync.add_events_to_memory(
                **ALICE, events=turns(number), session_id="s"
            )
        service.sync.add_session_to_memory(session(*turns(1, 2, 3)))
        service.close()
        if stored_order(path) != ["e1", "e2", "e3"]:
            wrong.append(order)
    assert wrong == []


def test_a_late_delta_does_not_part_neighbours(open_service):
    """A question's answer stays beside it however late another turn is told."""
    service = open_service()
    service.sync.add_session_to_memory(
        session(turn(1, "which zebra"), turn(2, "the left one"), turn(5, "bye"))
    )
    service.sync.add_session_to_memory(
        session(turn(2, "the left one"), turn(3, "thanks"), turn(5, "bye"))
    )
    assert remembered(service, "zebra") == ["the left one", "which zebra"]


def test_moved_turns_keep_their_checks_after_a_restart(open_service, tmp_path):
    path = tmp_path / "m.db"
    service = open_service(path)
    service.sync.add_session_to_memory(session(*turns(2, 4)))
    service.sync.add_session_to_memory(session(*turns(1, 2, 3, 4, 5)))
    before = service.sync.search_memory(**ALICE, query="word3", top_k=9)
    assert {memory.event_id for memory in before.memories} == {"e2", "e3", "e4"}
    assert (
        open_service(path).sync.search_memory(**ALICE, query="word3", top_k=9) == before
    )


def test_a_turn_first_stored_as_an_entry_takes_its_place(open_service, tmp_path):
    """An entry with session and event is that turn; its session gives it neighbours."""
    path = tmp_path / "m.db"
    service = open_service(path)
    entry = MemoryEntry("turn word2", session_id="s", event_id="e2", timestamp=2.0)
    service.sync.add_memory(**ALICE, memories=[entry])
    service.sync.add_session_to_memory(session(*turns(1, 2, 3)))
    assert service.sync.stats()["memories"] == 3
    service.close()
    assert stored_order(path) == ["e1", "e2", "e3"]


def test_replace_removes_the_turns_that_are_absent(open_service):
    """S3.12: replace=True is replacement; other sessions and users stay."""
    service = open_service()
    service.sync.add_session_to_memory(session(*turns(1, 2, 3)))
    service.sync.add_session_to_memory(session(turn(8), id_="other"))
    service.sync.add_session_to_memory(session(turn(9), **BOB))
    service.sync.add_session_to_memory(session(*turns(2, 4)), replace=True)
    assert remembered(service) == ["turn word2", "turn word4", "turn word8"]
    found = service.sync.search_memory(**BOB, query="turn").memories
    assert [memory.text for memory in found] == ["turn word9"]


def test_replace_by_an_empty_session_removes_all_its_turns(open_service):
    """S3.12: nothing absent is kept, not even all."""
    service = open_service()
    service.sync.add_session_to_memory(session(*turns(1, 2)))
    service.sync.add_session_to_memory(session(turn(8), id_="other"))
    assert service.sync.add_session_to_memory(session(), replace=True) == []
    assert remembered(service) == ["turn word8"]


def test_what_replace_removed_can_be_told_again(open_service):
    """Only deletion leaves a tombstone."""
    service = open_service()
    service.sync.add_session_to_memory(session(*turns(1, 2)))
    service.sync.add_session_to_memory(session(turn(2)), replace=True)
    service.sync.add_session_to_memory(session(*turns(1, 2)))
    assert remembered(service) == ["turn word1", "turn word2"]


def test_replace_leaves_the_order_of_the_new_copy(open_service, tmp_path):
    path = tmp_path / "m.db"
    service = open_service(path)
    service.sync.add_session_to_memory(session(*turns(3, 1, 2)))
    service.sync.add_session_to_memory(session(*turns(1, 2, 3)), replace=True)
    service.close()
    assert stored_order(path) == ["e1", "e2", "e3"]


def test_replace_removes_turns_and_not_facts(open_service):
    """`replace` is about turns; an explicit memory of that session is none."""
    service = open_service()
    fact = MemoryEntry("turn fact", session_id="s", kind="fact")
    service.sync.add_memory(**ALICE, memories=[fact])
    service.sync.add_session_to_memory(session(*turns(1, 2)))
    service.sync.add_session_to_memory(session(turn(2)), replace=True)
    assert remembered(service) == ["turn fact", "turn word2"]


def test_a_deleted_memory_stays_deleted_whatever_is_told(open_service, tmp_path):
    """A tombstone wins over any later ingest, also after a restart."""
    path = tmp_path / "m.db"
    service = open_service(path)
    ids = service.sync.add_session_to_memory(session(*turns(1, 2, 3)))
    service.sync.delete_memory(**ALICE, memory_id=ids[1])
    for opened in (service, open_service(path)):
        opened.sync.add_session_to_memory(session(*turns(1, 2, 3)))
        opened.sync.add_session_to_memory(session(turn(2, "turn changed")))
        opened.sync.add_session_to_memory(session(*turns(1, 2, 3)), replace=True)
        opened.sync.add_memory(**ALICE, memories=[MemoryEntry("turn x", id=ids[1])])
        assert remembered(opened) == ["turn word1", "turn word3"]
        with pytest.raises(NotFoundError):
            opened.sync.get_memory(**ALICE, memory_id=ids[1])


def test_restore_brings_a_deleted_memory_back(open_service):
    """restore=True lifts the tombstone, for good and for that memory only."""
    service = open_service()
    ids = service.sync.add_session_to_memory(session(*turns(1, 2, 3)))
    for id_ in ids:
        service.sync.delete_memory(**ALICE, memory_id=id_)
    assert remembered(service) == []
    assert (
        service.sync.add_session_to_memory(session(turn(2)), restore=True) == ids[1:2]
    )
    service.sync.add_session_to_memory(session(*turns(1, 2, 3)))
    assert remembered(service) == ["turn word2"]
    service.sync.add_session_to_memory(session(turn(2, "turn later")))
    assert remembered(service) == ["turn later"]


def test_deleting_an_unknown_id_leaves_no_tombstone(open_service):
    """contracts.md, errors: deleting an unknown id is a no-op."""
    service = open_service()
    (id_,) = service.sync.add_session_to_memory(session(turn(1), **BOB))
    service.sync.delete_memory(**ALICE, memory_id=id_)
    assert service.sync.add_session_to_memory(session(turn(1))) == [id_]
    assert remembered(service) == ["turn word1"]


def test_a_tombstone_is_of_one_user(open_service):
    service = open_service()
    (id_,) = service.sync.add_session_to_memory(session(turn(1)))
    service.sync.add_session_to_memory(session(turn(1), **BOB))
    service.sync.delete_memory(**ALICE, memory_id=id_)
    assert service.sync.get_memory(**BOB, memory_id=id_).text == "turn word1"


def test_a_row_number_is_never_used_again(open_service, tmp_path):
    """contracts.md, identity: rid is never reused, not even the newest one."""
    path = tmp_path / "m.db"
    seen = []
    for round_ in range(3):
        service = open_service(path)
        (id_,) = service.sync.add_memory(**ALICE, memories=[f"zebra {round_}"])
        service.close()
        connection = sqlite3.connect(path)
        seen += connection.execute("SELECT rid FROM mem").fetchall()
        connection.close()
        service = open_service(path)
        service.sync.delete_memory(**ALICE, memory_id=id_)
        service.close()
    assert len(set(seen)) == 3
