"""`load_memory` and `recall_memory`: what they ask the service and what they answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from helpers.injections import INJECTIONS
from helpers.memories import ALICE, SECRET
from helpers.tools import SCOPE, Watched, call, ids, run, watched_service
from vecall import (
    ClosedError,
    EmbedderError,
    InvalidArgumentError,
    Limits,
    MemoryService,
)
from vecall.tools import LoadMemory, RecallMemory


@pytest.fixture(name="memory")
def memory_fixture() -> Iterator[Watched]:
    yield from watched_service()


def test_load_memory_answers_what_a_search_of_this_user_finds(memory: Watched):
    """S0.35, S0.36, S1.12, S1.15: the same memories, in the same order."""
    answer = call(LoadMemory(memory, *SCOPE), {"query": "zebra three"})
    assert list(answer) == ["memories", "note"]
    assert memory.searches == [{**ALICE, "query": "zebra three", "top_k": 5}]
    found = memory.sync.search_memory(**ALICE, query="zebra three", top_k=5).memories
    assert ids(answer) == [entry.id for entry in found]
    assert answer["memories"][0]["text"] == "zebra three"


def test_a_memory_is_a_plain_dict_of_what_is_known_of_it(open_service: Callable):
    """S0.36, S2.5, S4.39: text, author, ISO time, id, session, kind, both scores."""
    memory: MemoryService = open_service()
    told = {
        "text": "A quiet room.",
        "id": "a1",
        "author": "user",
        "timestamp": 1741770000.5,
        "session_id": "trip",
        "kind": "preference",
        "source": "chat",
        "trust": "first-party",
        "custom_metadata": {"secret": SECRET},
    }
    memory.sync.add_memory(**ALICE, memories=[told])
    (entry,) = memory.sync.search_memory(**ALICE, query="quiet").memories
    (shown,) = call(RecallMemory(memory, *SCOPE), {"query": "quiet"})["memories"]
    relevance, confidence = shown.pop("relevance"), shown.pop("confidence")
    assert relevance == pytest.approx(entry.score, rel=1e-3)
    assert confidence == pytest.approx(entry.confidence, rel=1e-3)
    del told["custom_metadata"]
    assert shown == {**told, "timestamp": "2025-03-12T09:00:00.500000+00:00"}


def test_what_is_not_known_of_a_memory_is_left_out(open_service: Callable):
    """S0.36: no nulls to pay for; a memory without a time has that of its storing."""
    memory: MemoryService = open_service()
    memory.sync.add_memory(**ALICE, memories=["A quiet room."])
    (shown,) = call(LoadMemory(memory, *SCOPE), {"query": "quiet"})["memories"]
    known = {"text", "id", "timestamp", "relevance", "confidence"}
    assert set(shown) == known
    assert shown["timestamp"].endswith("+00:00")


@pytest.mark.parametrize(
    ("limit", "top_k"),
    [
        (None, 5),
        (1, 1),
        (7, 7),
        (7.9, 7),
        (20, 20),
        (21, 20),
        (10**400, 20),
        (math.inf, 20),
        (0, 1),
        (0.2, 1),
        (-3, 1),
        (-math.inf, 1),
        (math.nan, 20),
    ],
)
def test_the_limit_is_clamped_and_pushed_into_the_search(
    memory: Watched, limit: float | None, top_k: int
):
    """S4.38, S4.39: the search is asked for as many as are wanted, not more."""
    answer = call(RecallMemory(memory, *SCOPE), {"query": "zebra", "limit": limit})
    assert [asked["top_k"] for asked in memory.searches] == [top_k]
    assert len(ids(answer)) == min(top_k, 10)


def test_the_caller_sets_how_many_a_model_may_get(memory: Watched):
    """S4.38, S0.43: max_limit and max_entries, each within the service's limits."""
    call(RecallMemory(memory, *SCOPE, max_limit=3), {"query": "zebra", "limit": 9})
    call(RecallMemory(memory, *SCOPE, max_limit=3), {"query": "zebra"})
    call(LoadMemory(memory, *SCOPE, max_entries=2), {"query": "zebra"})
    assert [asked["top_k"] for asked in memory.searches] == [3, 3, 2]
    with pytest.raises(InvalidArgumentError, match="max_limit: must be at least 1"):
        RecallMemory(memory, *SCOPE, max_limit=0)
    with pytest.raises(InvalidArgumentError, match="max_entries: expected an integer"):
        LoadMemory(memory, *SCOPE, max_entries=2.0)  # type: ignore[arg-type]


def test_no_tool_asks_for_more_than_the_service_gives(open_service: Callable):
    """S4.38: a default above the service's own limit is no error."""
    memory: MemoryService = open_service(top_k=2, limits=Limits(max_top_k=2))
    memory.sync.add_memory(**ALICE, memories=["zebra one", "zebra two", "zebra three"])
    for tool in (LoadMemory(memory, *SCOPE), RecallMemory(memory, *SCOPE)):
        assert len(ids(call(tool, {"query": "zebra"}))) == 2


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({}, "query: expected a string"),
        ({"query": None}, "query: expected a string"),
        ({"query": [SECRET]}, "query: expected a string"),
        ({"query": {"parts": [{"text": SECRET}]}}, "query: expected a string"),
        ({"query": 7}, "query: expected a string"),
        ({"query": "zebra", "limit": SECRET}, "limit: expected a number"),
        ({"query": "zebra", "limit": "five"}, "limit: expected a number"),
        ({"query": "zebra", "limit": "5" * 65}, "limit: expected a number"),
        ({"query": "zebra", "limit": True}, "limit: expected a number"),
        ({"query": "zebra", "limit": [5]}, "limit: expected a number"),
    ],
)
def test_a_model_is_told_what_is_wrong_with_its_arguments(
    memory: Watched, arguments: dict[str, Any], error: str
):
    """S0.36: a dict that repeats nothing, and no search."""
    assert call(RecallMemory(memory, *SCOPE), arguments) == {"error": error}
    assert memory.searches == []


def test_no_query_raises(memory: Watched):
    """S0.35: whatever a model asks, the answer is a list of memories."""
    hostile = ["", " ", "\0", "\ud800", "%", '"', "NEAR(", "x" * 40_000, *INJECTIONS]
    tool = LoadMemory(memory, *SCOPE)

    async def ask() -> None:
        for query in hostile:
            assert set(await tool(query=query)) - {"note"} == {"memories"}

    run(ask())
    assert ids(call(tool, {"query": "zebra"})), "it still works"


def test_what_nobody_can_see_does_not_reach_the_model(open_service: Callable):
    """S4.39: recalled text is data; controls, escapes and hidden letters are gone."""
    memory: MemoryService = open_service()
    hidden = "zebra\x1b[2J \u202eevil\u2066 \U000e0041\u200b"
    memory.sync.add_memory(
        **ALICE,
        memories=[{"text": hidden, "author": "us\u200ber", "kind": "fa\u202ect"}],
    )
    (shown,) = call(LoadMemory(memory, *SCOPE), {"query": "zebra"})["memories"]
    assert shown["text"].strip() == "zebra evil"
    assert (shown["author"], shown["kind"]) == ("user", "fact")


def test_an_embedder_that_fails_leaves_the_words_and_the_answer_says_so(
    open_service: Callable, caplog: pytest.LogCaptureFixture
):
    """S1.16: a model's turn does not end for it, and half a search is not all of it."""

    def broken(texts: list[str]) -> list[list[float]]:
        if texts != ["dimensions"] and any("okapi" in text for text in texts):
            raise RuntimeError(SECRET)
        return [[1.0, 2.0, 3.0] for _ in texts]

    memory: MemoryService = open_service(embedder=broken)
    memory.sync.add_memory(**ALICE, memories=["zebra"])
    load = LoadMemory(memory, *SCOPE)
    assert "searched" not in run(load(query="zebra"))
    assert not caplog.messages
    found = run(load(query=f"okapi {SECRET} zebra"))
    assert [each["text"] for each in found["memories"]] == ["zebra"]
    assert found["searched"] == "by words alone"
    (told,) = caplog.messages
    assert told.startswith("searched by words alone: ")
    assert SECRET not in told
    with pytest.raises(EmbedderError):
        memory.sync.search_memory(**ALICE, query="okapi again")
    memory.close()
    with pytest.raises(ClosedError):
        run(load(query="zebra"))
