"""The turns around a hit."""

from __future__ import annotations

import asyncio
import time

import pytest
from helpers.conversations import ALICE, session, turn
from vecall import InvalidArgumentError, LimitExceededError, NotFoundError


@pytest.fixture
def service(open_service):
    memory = open_service()
    turns = [turn(f"e{n}", f"turn number {n}") for n in range(9)]
    memory.sync.add_session_to_memory(session(*turns))
    memory.sync.add_session_to_memory(session(turn("e4", "elsewhere"), id_="trip-2"))
    return memory


def id_of(service, number, **scope):
    hits = service.sync.search_memory(
        **(scope or ALICE), query=f"number {number}", top_k=9
    )
    return next(m.id for m in hits.memories if m.text.endswith(str(number)))


def events(service, memory_id, **asked):
    around = service.sync.expand_session(**ALICE, memory_id=memory_id, **asked)
    return [memory.event_id for memory in around]


def test_a_memory_comes_with_two_turns_on_each_side(service):
    assert events(service, id_of(service, 4)) == ["e2", "e3", "e4", "e5", "e6"]


@pytest.mark.parametrize(
    ("at", "before", "after", "expected"),
    [
        (0, 2, 1, ["e0", "e1"]),
        (8, 1, 5, ["e7", "e8"]),
        (4, 0, 0, ["e4"]),
        (4, 0, 2, ["e4", "e5", "e6"]),
        (4, 100, 0, ["e0", "e1", "e2", "e3", "e4"]),
    ],
)
def test_as_many_turns_as_asked_for_and_no_other_session(
    service, at, before, after, expected
):
    assert (
        events(service, id_of(service, at), turns_before=before, turns_after=after)
        == expected
    )


def test_turns_that_are_gone_are_not_counted(service):
    middle = id_of(service, 4)
    service.sync.delete_memory(**ALICE, memory_id=id_of(service, 3))
    service.sync.add_events_to_memory(
        **ALICE,
        session_id="trip-1",
        events=[turn("e9", "soon gone")],
        custom_metadata={"ttl": 0.05},
    )
    time.sleep(0.1)
    assert events(service, middle) == ["e1", "e2", "e4", "e5", "e6"]
    assert events(service, id_of(service, 8), turns_after=3) == ["e6", "e7", "e8"]


def test_a_memory_without_a_session_stands_alone(service):
    (id_,) = service.sync.add_memory(**ALICE, memories=["a fact"])
    assert events(service, id_) == [None]


@pytest.mark.parametrize("of", ["trip-1", None])
def test_a_turn_that_is_replaced_by_a_fact_of_another_session_has_no_place(service, of):
    """Its old place belongs to a turn of the other session."""
    fact = {"content": "number 44, a fact", "id": id_of(service, 4)}
    if of is None:
        lone = {"app_name": ALICE["app_name"], "user_id": ALICE["user_id"]}
        service.sync.add_events_to_memory(**lone, events=[turn("x", "number 44")])
        fact["id"] = id_of(service, 44)
    service.sync.add_memory(**ALICE, memories=[fact | {"session_id": "trip-2"}])
    service.sync.add_session_to_memory(
        session(turn("e4", "elsewhere"), turn("e5", "number 55"), id_="trip-2")
    )
    assert events(service, fact["id"]) == [None]
    assert events(service, id_of(service, 55)) == ["e4", "e5"]


def test_another_users_memory_is_unknown(service):
    """One wall per (app, user)."""
    bob = {"app_name": ALICE["app_name"], "user_id": "bob"}
    with pytest.raises(NotFoundError):
        service.sync.expand_session(**bob, memory_id=id_of(service, 4))
    with pytest.raises(NotFoundError):
        service.sync.expand_session(**ALICE, memory_id="unknown")


@pytest.mark.parametrize(
    ("value", "error"), [(-1, InvalidArgumentError), (1.5, TypeError)]
)
@pytest.mark.parametrize("name", ["turns_before", "turns_after"])
def test_a_number_of_turns_that_is_none_is_refused(service, name, value, error):
    with pytest.raises(error, match=name):
        events(service, id_of(service, 4), **{name: value})
    with pytest.raises(LimitExceededError, match=name):
        events(service, id_of(service, 4), **{name: 1_001})


def test_it_is_awaited_like_any_other_method(service):
    around = asyncio.run(
        service.expand_session(
            **ALICE, memory_id=id_of(service, 1), turns_before=1, turns_after=1
        )
    )
    assert [memory.event_id for memory in around] == ["e0", "e1", "e2"]
    assert all(memory.score is None for memory in around)
