"""A query that names a period ranks what lies in it first, and hides nothing."""

from __future__ import annotations

import asyncio
from datetime import datetime, timezone
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from helpers.clocks import SettableClock
from helpers.conversations import ALICE, texts
from vecall import Filter, MemoryEntry, MemoryService, Ranking, SearchMemoryResponse
from vecall.search.searcher import SearchRequest

# A Thursday.
NOW = datetime(2026, 11, 26, 12, tzinfo=timezone.utc)
YESTERDAY = datetime(2026, 11, 25, tzinfo=timezone.utc).timestamp()
DAY = 86_400.0


class Letters:
    """Embeds a text as counts of letters; no two of the texts here are alike."""

    model_id = "letters"
    dimensions = 26

    def embed(self, texts: list[str]) -> np.ndarray:
        letters = [chr(97 + n) for n in range(26)]
        counts = [[text.casefold().count(one) for one in letters] for text in texts]
        return np.array(counts, np.float32) + 0.01


MODES: dict[str, dict[str, Any]] = {
    "words alone": {},
    "hybrid": {"embedder": Letters()},
    "words": {"embedder": Letters(), "ranking": Ranking(fusion="words")},
    "vectors": {"embedder": Letters(), "ranking": Ranking(fusion="vectors")},
    "rrf": {"embedder": Letters(), "ranking": Ranking(fusion="rrf")},
}


@pytest.fixture
def opened(open_service):
    def opened(**options: Any) -> MemoryService:
        return open_service(clock=SettableClock(NOW.timestamp()), **options)

    return opened


def told(day: str, hour: int = 9) -> float:
    at = datetime.fromisoformat(f"2026-{day}").replace(tzinfo=timezone.utc)
    return at.timestamp() + hour * 3_600


def add(service: MemoryService, *entries: tuple[str, float | None]) -> None:
    service.sync.add_memory(
        **ALICE,
        memories=[
            MemoryEntry(text, id=f"m{n}", timestamp=at)
            for n, (text, at) in enumerate(entries)
        ],
    )


GARDEN = (
    ("The garden, the garden: all about my garden", told("11-10")),
    ("The garden needs water", told("11-25")),
    ("Tea in the garden", told("11-26")),
    ("A walk by the lake", told("11-25", 10)),
    ("My garden had roses once", told("03-03")),
)


@pytest.mark.parametrize("mode", MODES)
def test_what_lies_in_the_period_is_first_in_every_mode(opened, mode):
    options = {**MODES[mode]}
    service = opened(**options)
    add(service, *GARDEN)
    found = texts(service, "What did I say yesterday about the garden?", top_k=5)
    assert set(found[:2]) == {"The garden needs water", "A walk by the lake"}
    assert len(found) >= 5
    if mode not in {"vectors", "rrf"}:
        assert found[0] == "The garden needs water"
    (first, *_) = texts(service, "the garden in March", top_k=5)
    assert first == "My garden had roses once"


@pytest.mark.parametrize("mode", MODES)
def test_the_parts_of_a_score_add_up_with_a_period_too(opened, mode):
    service = opened(**MODES[mode])
    add(service, *GARDEN, ("I like every garden", None))
    found = service.sync.search_memory(
        **ALICE, query="the garden yesterday", top_k=9, explain=True
    )
    for memory in found:
        assert memory.explanation is not None
        assert memory.score is not None
        parts = memory.explanation
        names = ("words", "vectors", "neighbours", "session")
        score = sum(parts[name] for name in names) * parts["factor"]
        if mode == "rrf":
            score = parts["rrf"] * parts.get("outside", 1.0)
        assert memory.score == pytest.approx(score, rel=1e-5)
    confidences = [memory.confidence or 0.0 for memory in found]
    assert mode == "rrf" or confidences == sorted(confidences, reverse=True)


@pytest.mark.parametrize("mode", ["words alone", "rrf"])
def test_a_day_ends_where_the_next_one_begins(opened, mode):
    service = opened(**MODES[mode])
    add(service, *(("The garden", told(day, 0)) for day in ("11-26", "11-25")))
    assert [
        memory.timestamp
        for memory in service.sync.search_memory(**ALICE, query="garden yesterday")
    ] == [YESTERDAY, YESTERDAY + DAY]


def test_the_response_says_the_period(opened):
    service = opened()
    add(service, *GARDEN)

    def answer(query: str, **options: Any) -> SearchMemoryResponse:
        return service.sync.search_memory(**ALICE, query=query, **options)

    several: tuple[dict[str, Any], ...] = (
        {},
        {"offset": 1},
        {"filter": Filter(not_id="m1")},
        {"filter": Filter(after=told("11-24"), not_kind="fact")},
    )
    for options in several:
        period = answer("the garden yesterday", **options).period
        assert period is not None
        assert (period.start, period.end) == (YESTERDAY, YESTERDAY + DAY)
    period = answer("since March").period
    assert period is not None
    assert (period.start, period.end) == (told("03-01", 0), None)
    assert answer("the garden").period is None


def test_a_memory_without_a_time_is_not_hidden(opened):
    service = opened()
    turns = [(f"Turn {n} about the lake", told("11-10", n % 24)) for n in range(60)]
    add(service, ("Alice has a garden in Bern", None), *turns, *GARDEN[1:2])
    found = texts(service, "the lake or the garden yesterday", top_k=3)
    assert found[:2] == ["The garden needs water", "Alice has a garden in Bern"]


def test_a_memory_without_a_time_has_the_time_when_it_was_stored(open_service):
    clock = SettableClock(told("11-24"))
    service = open_service(clock=clock)
    service.sync.add_memory(**ALICE, memories=["a zebra on Tuesday"])
    clock.wall_s = told("11-25")
    service.sync.add_memory(**ALICE, memories=["a zebra on Wednesday"])
    clock.wall_s = NOW.timestamp()
    assert texts(service, "which zebra was that the day before yesterday?")[0] == (
        "a zebra on Tuesday"
    )
    assert texts(service, "that zebra yesterday?")[0] == "a zebra on Wednesday"


def test_where_nothing_lies_in_the_period_its_words_are_looked_for(opened):
    service = opened()
    add(
        service,
        ("The dentist is on 3 December", told("11-10")),
        ("The dentist called", told("11-20")),
    )
    assert texts(service, "dentist on 3 December")[0] == "The dentist is on 3 December"
    found = service.sync.search_memory(**ALICE, query="dentist last year")
    assert len(found) == 2
    assert found.period is not None


def test_a_day_without_a_year_is_that_of_the_last_year_that_has_one(opened):
    service = opened()
    long_ago = datetime(2023, 4, 8, 9, tzinfo=timezone.utc).timestamp()
    add(service, ("The lake was cold", long_ago), ("The lake is warm", told("04-09")))
    found = service.sync.search_memory(**ALICE, query="the lake on 8 April")
    assert found.memories[0].text == "The lake was cold"
    assert found.period is not None
    assert found.period.start == long_ago - 9 * 3_600
    found = service.sync.search_memory(**ALICE, query="the lake on 10 April")
    assert len(found) == 2
    assert found.period is not None
    assert found.period.start == told("04-10", 0)


def test_the_words_of_a_period_are_no_content(opened):
    service = opened()
    add(
        service,
        ("Yesterday, yesterday, the whole day before yesterday", told("11-02")),
        ("We met at the lake", told("11-25")),
        ("The day before the lake we met", told("11-03")),
    )
    found = texts(service, "What was at the lake yesterday?", top_k=3)
    assert found[0] == "We met at the lake"
    assert found[1] == "The day before the lake we met"


def test_a_period_alone_finds_what_was_said_in_it(opened):
    service = opened()
    add(service, *GARDEN)
    for query in ("What did we talk about yesterday?", "gestern", "昨天"):
        assert set(texts(service, query)) == {
            "The garden needs water",
            "A walk by the lake",
        }


def test_a_weight_of_one_lowers_nothing(opened):
    service = opened()
    add(service, *GARDEN)
    for weight in (1.0, 0.25):
        found = service.sync.search_memory(
            **ALICE,
            query="the garden of yesterday",
            ranking=Ranking(weights={"outside": weight}, authors=()),
            explain=True,
        )
        factors = {(memory.explanation or {})["factor"] for memory in found}
        assert factors == {1.0, weight}


def test_days_are_those_of_the_time_zone(opened):
    service = opened()
    add(
        service,
        ("late tea", told("11-25", 23)),
        ("early tea", told("11-25", 2)),
    )
    firsts = {"America/Los_Angeles": "late tea", "Asia/Tokyo": "early tea"}
    for zone, first in firsts.items():
        with service._memory.use_search_index() as search_index:
            request = SearchRequest(
                ("concierge", "alice"),
                "the tea yesterday",
                5,
                time_zone=ZoneInfo(zone),
            )
            found = asyncio.run(search_index.recall.search(request))
        assert found.memories[0].text == first
        assert found.period is not None
        assert found.period.end is not None
        assert found.period.end != YESTERDAY + DAY
