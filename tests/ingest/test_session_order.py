"""A session told in any order, in parts or in parallel, is one session in order."""

from __future__ import annotations

import itertools
import random
from concurrent.futures import ThreadPoolExecutor

import pytest
from helpers.memories import ALICE
from helpers.sessions import remembered, session, stored_order, turn, turns
from vecall import MemoryEntry


def test_ids_come_back_in_the_order_of_the_turns(open_service):
    service = open_service()
    forth = service.sync.add_session_to_memory(session(*turns(1, 2, 3)))
    back = service.sync.add_session_to_memory(session(*turns(3, 2, 1)))
    assert back == forth[::-1]


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
    assert service.sync.admin.stats()["memories"] == 7


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
    assert service.sync.admin.stats()["memories"] == 7


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
    assert {"the left one", "which zebra"} <= set(remembered(service, "zebra"))
    assert "bye" not in remembered(service, "zebra")


def test_moved_turns_keep_their_checks_after_a_restart(open_service, tmp_path):
    path = tmp_path / "m.db"
    service = open_service(path)
    service.sync.add_session_to_memory(session(*turns(2, 4)))
    service.sync.add_session_to_memory(session(*turns(1, 2, 3, 4, 5)))
    before = service.sync.search_memory(**ALICE, query="word3", top_k=9)
    scores = {memory.event_id: memory.score for memory in before.memories}
    assert set(scores) == {"e1", "e2", "e3", "e4", "e5"}
    assert min(scores["e2"], scores["e4"]) > max(scores["e1"], scores["e5"])
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
    assert service.sync.admin.stats()["memories"] == 3
    service.close()
    assert stored_order(path) == ["e1", "e2", "e3"]
