"""Answers of a bounded size, and what is done for those that are large."""

from __future__ import annotations

import asyncio
import threading

import pytest

pytest.importorskip("httptools")
pytest.importorskip("httpx")

from helpers.http import ALICE, door_to, error_of
from vecall.concurrency.time_slices import Slices
from vecall.server import HttpLimits

MEMORIES = f"{ALICE}/memories"


@pytest.fixture
def door(open_service):
    """Makes doors to a memory service, a new one unless it is given."""

    def make(memory=None, **more):
        return door_to(memory or open_service(), **more)

    return make


def added(door, *memories):
    answer = door.ask("POST", MEMORIES, json={"memories": list(memories)})
    assert answer.status_code == 201
    return answer.json()["ids"]


def test_a_search_whose_answer_would_be_too_large_leaves_out_the_last(door):
    """What comes is the best of it and fits; it says that something is missing."""
    opened = door(limits=HttpLimits(max_answer_bytes=10_000))
    added(opened, *(f"tea {number} " + "x" * 900 for number in range(40)))
    asked = {"query": "tea", "k": 40}
    answer = opened.ask("POST", f"{MEMORIES}/search", json=asked)
    told = answer.json()
    assert set(told) == {"memories", "truncated"}
    assert 1 < len(told["memories"]) < 40
    assert len(answer.content) < 10_100
    asked["k"] = len(told["memories"])
    fits = opened.ask("POST", f"{MEMORIES}/search", json=asked).json()
    assert set(fits) == {"memories"}
    ids = [[entry["id"] for entry in each["memories"]] for each in (fits, told)]
    assert ids[0] == ids[1]


@pytest.mark.parametrize("most", [1, 3_000, 1_000_000])
@pytest.mark.parametrize("limit", [1, 7, 20, 1000])
def test_pages_lead_to_every_memory_once(door, most, limit):
    """Whatever fits a page; `next` is absent at the end, and only there."""
    opened = door(limits=HttpLimits(max_answer_bytes=most))
    ids = added(opened, *(f"{number} " + "x" * 900 for number in range(20)))
    seen, query = [], {"limit": limit}
    while True:
        answer = opened.ask("GET", MEMORIES, params=query)
        assert len(answer.content) < max(most, 1_200) + 1_200
        page = answer.json()
        seen += [entry["id"] for entry in page["memories"]]
        if "next" not in page:
            break
        assert page["next"] == seen[-1]
        query["cursor"] = page["next"]
    assert seen == ids


def test_a_page_after_a_memory_that_is_gone_is_not_the_first_page_again(door):
    """404, so that nobody reads in circles while somebody else deletes."""
    opened = door()
    first, *_ = added(opened, "a", "b", "c")
    assert opened.ask("DELETE", f"{MEMORIES}/{first}").status_code == 204
    answer = opened.ask("GET", MEMORIES, params={"cursor": first})
    assert error_of(answer) == (404, "not_found")


def test_a_memory_that_is_larger_than_an_answer_may_be_comes_alone(door):
    """So that nobody waits for it for ever; it has limits of its own."""
    opened = door(limits=HttpLimits(max_answer_bytes=1))
    added(opened, "x" * 262_144, "\x01" * 262_144, "😀" * 65_536)
    for query in ({}, {"limit": 2}):
        page = opened.ask("GET", MEMORIES, params=query).json()
        assert len(page["memories"]) == 1
    found = opened.ask("POST", f"{MEMORIES}/search", json={"query": "x" * 262_000})
    assert found.status_code == 200


def test_a_history_that_is_too_large_keeps_its_newest_revisions(door):
    """Its end is what is now."""
    opened = door(limits=HttpLimits(max_answer_bytes=5_000))
    (id_,) = added(opened, "x" * 900)
    for number in range(9):
        change = {"content": f"{number} " + "x" * 900}
        opened.ask("PATCH", f"{MEMORIES}/{id_}", json=change)
    answer = opened.ask("GET", f"{MEMORIES}/{id_}/history")
    told = answer.json()
    assert told["truncated"] is True
    assert len(answer.content) < 5_100
    assert 1 < len(told["revisions"]) < 9
    assert told["revisions"][-1]["state"] == "live"
    texts = [past["memory"]["content"][:1] for past in told["revisions"]]
    assert texts == [str(number) for number in range(9)][-len(texts) :]


def test_large_answers_are_not_written_on_the_event_loop(door, monkeypatch):
    """Few and short ones are; megabytes are not."""
    from vecall.server import handlers as memories

    threads = []
    real = memories.as_json

    def noted(value):
        threads.append(threading.current_thread())
        return real(value)

    monkeypatch.setattr(memories, "as_json", noted)
    opened = door()
    (id_, *_) = added(opened, "y" * 200_000, *(f"short tea {n}" for n in range(40)))
    main = threading.main_thread()
    for more, here in (
        (("GET", f"{MEMORIES}?limit=1", {}), False),
        (("GET", f"{MEMORIES}?limit=1&cursor={id_}", {}), True),
        (("GET", f"{MEMORIES}?limit=41", {}), False),
        (("GET", f"{MEMORIES}/{id_}/history", {}), False),
        (("POST", f"{MEMORIES}/search", {"json": {"query": "tea"}}), True),
        (("POST", f"{MEMORIES}/search", {"json": {"query": "tea", "k": 40}}), False),
    ):
        threads.clear()
        method, path, body = more
        assert opened.ask(method, path, **body).status_code == 200
        assert {thread is main for thread in threads} == {here}


def test_only_a_few_large_answers_are_made_at_once(door, open_service, monkeypatch):
    """Others wait; small ones do not."""
    memory = open_service()
    opened = door(memory)
    added(opened, "tea")
    at_once, most = [], []
    real = type(memory).list_memories

    async def slow(service, **asked):
        at_once.append(asked)
        most.append(len(at_once))
        await asyncio.sleep(0.01)
        try:
            return await real(service, **asked)
        finally:
            at_once.pop()

    monkeypatch.setattr(type(memory), "list_memories", slow)

    async def all_of(limit):
        most.clear()
        asked = [[("GET", f"{MEMORIES}?limit={limit}", {})] for _ in range(9)]
        for (answer,) in await asyncio.gather(*map(opened.ask_all, asked)):
            assert answer.status_code == 200
        return max(most)

    assert asyncio.run(all_of(1000)) == 2
    assert asyncio.run(all_of(10)) == 9


@pytest.mark.parametrize("path", [f"{MEMORIES}?limit=200", f"{ALICE}/export"])
def test_long_answers_are_made_in_slices(door, monkeypatch, path):
    """Between any two rows others may have the interpreter, on no event loop."""
    opened = door()
    added(opened, *(f"tea {n}" for n in range(200)))
    threads = []
    real = Slices.pause_if_due

    def noted(slices):
        threads.append(threading.current_thread())
        real(slices)

    monkeypatch.setattr(Slices, "pause_if_due", noted)
    assert opened.ask("GET", path).status_code == 200
    assert len(threads) >= 2 * 200  # the rows are read, then written
    assert threading.main_thread() not in threads
