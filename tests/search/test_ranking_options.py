"""Options of ranking: off by default, each doing what it says."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from datetime import timedelta

import pytest
from helpers.conversations import ALICE, session, turn
from vecall import (
    ConfigError,
    InvalidArgumentError,
    MemoryEntry,
    Ranking,
    RerankerError,
)

DAY = 86_400.0


def found(service, query, **asked):
    return service.sync.search_memory(**ALICE, query=query, **asked).memories


def ids(service, query, **asked):
    return [memory.id for memory in found(service, query, **asked)]


@pytest.fixture
def aged(open_service):
    """The better match is the older one."""
    service = open_service()
    now = time.time()
    old = MemoryEntry("parrot cage parrot", id="old", timestamp=now - 100 * DAY)
    new = MemoryEntry("parrot and many other things", id="new", timestamp=now - DAY)
    service.sync.add_memory(**ALICE, memories=[old, new])
    return service


def test_decay_is_off_by_default(aged):
    assert ids(aged, "parrot cage") == ["old", "new"]


@pytest.mark.parametrize("half_life", [10 * DAY, timedelta(days=10)])
def test_decay_halves_a_score_with_each_half_life(aged, half_life):
    """S2.17: recency decay."""
    ranking = Ranking(half_life=half_life)
    assert ids(aged, "parrot cage", ranking=ranking) == ["new", "old"]
    plain = {m.id: m.score for m in found(aged, "parrot cage")}
    for memory in found(aged, "parrot cage", ranking=ranking, explain=True):
        days = {"old": 100, "new": 1}[memory.id]
        factor = memory.explanation["decay"]
        assert factor == pytest.approx(0.5 ** (days / 10), rel=1e-3)
        assert memory.score == pytest.approx(plain[memory.id] * factor)


def test_a_memory_of_a_time_to_come_does_not_gain_by_decay(open_service):
    service = open_service()
    later = MemoryEntry("parrot cage", timestamp=time.time() + 100 * DAY)
    service.sync.add_memory(**ALICE, memories=[later])
    ranking = Ranking(half_life=DAY)
    (plain,) = found(service, "parrot cage")
    (memory,) = found(service, "parrot cage", ranking=ranking, explain=True)
    assert memory.explanation["decay"] == 1.0
    assert memory.score == plain.score


def test_a_service_may_rank_its_own_way(open_service):
    service = open_service(ranking=Ranking(half_life=DAY))
    now = time.time()
    told = [
        MemoryEntry("parrot cage", id="old", timestamp=now - 100 * DAY),
        MemoryEntry("parrot and more", id="new", timestamp=now),
    ]
    service.sync.add_memory(**ALICE, memories=told)
    assert ids(service, "parrot cage") == ["new", "old"]
    assert ids(service, "parrot cage", ranking=Ranking()) == ["old", "new"]


def test_near_duplicates_collapse_into_the_better_one(open_service):
    service = open_service()
    told = ["I like jasmine tea", "i LIKE jasmine tea!", "Green tea keeps me awake"]
    service.sync.add_memory(**ALICE, memories=told)
    assert len(found(service, "jasmine tea")) == 3
    left = found(service, "jasmine tea", ranking=Ranking(collapse=0.8))
    assert len(left) == 2
    assert left[1].text == told[2]
    assert len(found(service, "jasmine tea", ranking=Ranking(collapse=1.0))) == 2


def test_collapsing_fills_the_answer_from_what_comes_after(open_service):
    service = open_service()
    told = [*["I like jasmine tea"] * 8, "tea is hot", "tea and cake", "tea at five"]
    entries = [MemoryEntry(text, id=f"m{n}") for n, text in enumerate(told)]
    service.sync.add_memory(**ALICE, memories=entries)
    left = found(service, "jasmine tea", top_k=4, ranking=Ranking(collapse=0.9))
    assert sorted(m.text for m in left) == sorted({*told})


def test_diversity_prefers_what_was_not_said_yet(open_service):
    """Maximal marginal relevance."""
    service = open_service()
    told = ["jasmine tea morning", "jasmine tea evening", "jasmine plant in the garden"]
    service.sync.add_memory(**ALICE, memories=told)
    plain = found(service, "jasmine tea", top_k=2)
    assert {m.text for m in plain} == set(told[:2])
    mixed = found(service, "jasmine tea", top_k=2, ranking=Ranking(diversity=0.9))
    assert mixed[0].text == plain[0].text
    assert mixed[1].text == told[2]
    same = found(service, "jasmine tea", top_k=2, ranking=Ranking(diversity=0.0))
    assert same == plain


def test_reciprocal_ranks_replace_the_scores(open_service):
    """RRF: 1 / (60 + rank) on each side that knows the memory."""
    vectors = {"red apple": [1, 0], "red car": [0.9, 0.5], "green pear": [0.2, 1]}

    def embed(texts):
        return [vectors.get(text, [1.0, 0.1]) for text in texts]

    service = open_service(embedder=embed)
    service.sync.add_memory(**ALICE, memories=list(vectors))
    hits = found(service, "red apple", ranking=Ranking(fusion="rrf"), explain=True)
    scores = {m.text: m.score for m in hits}
    assert scores["red apple"] == pytest.approx(1 / 61 + 1 / 61)
    assert scores["red car"] == pytest.approx(1 / 62 + 1 / 62)
    assert scores["green pear"] == pytest.approx(1 / 63)  # by its vector alone


def test_a_reranker_orders_by_its_own_numbers(open_service):
    service = open_service()
    service.sync.add_memory(**ALICE, memories=["tea one", "tea two words", "tea three"])
    seen = []

    def reranker(query, texts):
        seen.append((query, sorted(texts), threading.current_thread().name))
        return [len(text) for text in texts]

    ranking = Ranking(reranker=reranker)
    hits = found(service, "tea", ranking=ranking, top_k=2, explain=True)
    assert [m.text for m in hits] == ["tea two words", "tea three"]
    assert [m.score for m in hits] == [13.0, 9.0]
    assert hits[0].explanation["reranker"] == 13.0
    ((query, texts, thread),) = seen
    assert query == "tea"
    assert len(texts) == 3
    assert thread.startswith("vecall-reranker")


def test_a_reranker_may_be_a_coroutine_and_never_runs_on_the_callers_loop(open_service):
    service = open_service()
    service.sync.add_memory(**ALICE, memories=["tea one", "tea two words"])
    loops = []

    async def reranker(query, texts):
        loops.append(asyncio.get_running_loop())
        await asyncio.sleep(0.01)
        return [-len(text) for text in texts]

    async def scenario():
        answer = await service.search_memory(
            **ALICE, query="tea", ranking=Ranking(reranker=reranker)
        )
        return asyncio.get_running_loop(), [m.text for m in answer.memories]

    for _ in range(2):  # two event loops of the caller, one after another
        loop, texts = asyncio.run(scenario())
        assert texts == ["tea one", "tea two words"]
        assert loop not in loops
    assert loops[0] is loops[1]
    assert [m.text for m in found(service, "tea", ranking=Ranking(reranker=reranker))]


@pytest.mark.parametrize(
    "answer", [None, [], [1.0], ["s3cret", 1], [math.nan, 1], [math.inf, 1], 5]
)
def test_a_reranker_that_returns_something_else_is_an_error(open_service, answer):
    service = open_service()
    service.sync.add_memory(**ALICE, memories=["tea one", "tea two"])
    with pytest.raises(RerankerError, match="2 finite numbers") as refused:
        found(service, "tea", ranking=Ranking(reranker=lambda query, texts: answer))
    assert "s3cret" not in str(refused.value)


def test_the_message_of_a_failing_reranker_stays_out_of_the_error(open_service):
    def reranker(query, texts):
        raise OSError(query)

    service = open_service()
    service.sync.add_memory(**ALICE, memories=["tea s3cret"])
    with pytest.raises(RerankerError, match="OSError") as refused:
        found(service, "s3cret", ranking=Ranking(reranker=reranker))
    assert "s3cret" not in str(refused.value)
    assert refused.value.__cause__ is None
    assert found(service, "s3cret")


@pytest.mark.parametrize(
    "wrong",
    [
        {"fusion": "sum"},
        {"half_life": 0},
        {"half_life": -1.0},
        {"half_life": math.nan},
        {"half_life": True},
        {"collapse": 0.0},
        {"collapse": 1.5},
        {"diversity": -0.1},
        {"diversity": 1.1},
        {"depth": 0},
        {"depth": 1.5},
        {"depth": 100_000},
        {"reranker": "s3cret"},
        {"weights": {"s3cret": 1.0}},
        {"weights": {"dense": 1.5}},
        {"weights": {"session": -1.0}},
        {"weights": {"session": math.nan}},
        {"weights": {"session": "s3cret"}},
    ],
)
def test_an_option_outside_of_what_is_allowed_is_refused(wrong):
    with pytest.raises(ConfigError, match="ranking") as refused:
        Ranking(**wrong)
    assert "s3cret" not in str(refused.value)


def test_something_else_than_a_ranking_is_refused(open_service):
    with pytest.raises(ConfigError, match="ranking"):
        open_service(ranking={"half_life": 3})
    with pytest.raises(InvalidArgumentError, match="ranking"):
        found(open_service(), "tea", ranking={"half_life": 3})


def test_weights_reach_the_engine(open_service):
    """Neighbours can be switched off."""
    service = open_service()
    service.sync.add_session_to_memory(
        session(turn("e1", "the parrot"), turn("e2", "is called Kiwi"))
    )
    assert len(found(service, "parrot")) == 2
    off = dict.fromkeys(
        ["next", "previous", "after_question", "second", "session"], 0.0
    )
    scores = [m.score for m in found(service, "parrot", ranking=Ranking(weights=off))]
    assert scores[0] > 0
    assert scores[1:] in ([], [0.0])


def test_an_explanation_adds_up_to_the_score(open_service):
    """explain=True: the parts of every score."""
    service = open_service()
    service.sync.add_session_to_memory(
        session(
            turn("e1", "When does the train leave?", author="user"),
            turn("e2", "It leaves at nine on Friday.", author="agent"),
            turn("e3", "Thanks, and the tram?", author="user"),
        )
    )
    hits = found(service, "when does the train leave", explain=True)
    assert len(hits) == 3
    for memory in hits:
        told = memory.explanation
        parts = sum(told[p] for p in ("words", "vectors", "neighbours", "session"))
        assert memory.score == pytest.approx(parts * told["factor"], rel=1e-5)
        assert 0.0 <= told["query_coverage"] <= told["coverage"] <= 1.0
    by_id = {m.event_id: m.explanation for m in hits}
    # A question, of no time, by the favoured author.
    assert by_id["e1"]["factor"] == pytest.approx(0.8 * 1.2)
    assert by_id["e2"]["factor"] == pytest.approx(1.3)  # it tells a time
    assert (
        by_id["e2"]["neighbours"] > by_id["e3"]["neighbours"]
    )  # it follows the question


def test_nothing_is_explained_unasked(aged):
    assert all(m.explanation is None for m in found(aged, "parrot"))


def test_options_look_at_no_more_than_the_depth(open_service):
    service = open_service()
    told = [MemoryEntry(f"tea {n}", id=f"m{n}", timestamp=float(n)) for n in range(30)]
    service.sync.add_memory(**ALICE, memories=told)
    seen = []

    def reranker(query, texts):
        seen.append(len(texts))
        return [0.0] * len(texts)

    for depth, top_k, expected in ((10, 3, 10), (3, 10, 10), (50, 5, 30)):
        ranking = Ranking(reranker=reranker, depth=depth)
        assert len(found(service, "tea", top_k=top_k, ranking=ranking)) == top_k
        assert seen[-1] == expected


def test_a_reranker_that_stops_an_iteration_stops_no_search(open_service, in_time):
    """A StopIteration in a future would leave an event loop waiting for ever."""

    def reranker(query, texts):
        return next(iter([]))

    service = open_service()
    service.sync.add_memory(**ALICE, memories=["tea"])

    async def scenario():
        await service.search_memory(
            **ALICE, query="tea", ranking=Ranking(reranker=reranker)
        )

    with pytest.raises(RerankerError):
        in_time(lambda: asyncio.run(scenario()))


def test_plain_and_async_rerankers_take_turns(open_service, in_time):
    """One service, three kinds of rerankers, in any order."""

    def plain(query, texts):
        return [1.0] * len(texts)

    async def awaited(query, texts):
        await asyncio.sleep(0)
        return [1.0] * len(texts)

    service = open_service()
    service.sync.add_memory(**ALICE, memories=["tea"])
    for kind in (awaited, plain, lambda q, t: awaited(q, t), awaited, plain):
        ranking = Ranking(reranker=kind)
        assert len(in_time(lambda r=ranking: found(service, "tea", ranking=r))) == 1
    in_time(service.close)


def test_diversity_keeps_the_best_first_whatever_numbers_a_reranker_gives(open_service):
    service = open_service()
    told = ["tea one", "tea two words", "tea three more words"]
    service.sync.add_memory(**ALICE, memories=told)
    ranking = Ranking(reranker=lambda q, texts: [-len(t) for t in texts], diversity=0.1)
    assert [m.text for m in found(service, "tea", ranking=ranking)] == told


def test_comparing_many_memories_blocks_no_event_loop(open_service):
    """Collapsing and diversity are work for another thread."""
    service = open_service()
    told = [MemoryEntry(f"tea {n} " + "word " * 40, id=f"m{n}") for n in range(300)]
    service.sync.add_memory(**ALICE, memories=told)

    async def scenario():
        turns = 0
        ranking = Ranking(collapse=0.99, diversity=0.5, depth=300)
        task = asyncio.ensure_future(
            service.search_memory(**ALICE, query="tea", top_k=50, ranking=ranking)
        )
        while not task.done():
            turns += 1
            await asyncio.sleep(0)
        return turns, len(task.result().memories)

    turns, count = asyncio.run(scenario())
    assert count == 50
    assert turns > 100


def test_reciprocal_ranks_of_equal_values_go_to_the_newer_memory(open_service):
    service = open_service()
    entries = [MemoryEntry("tea", id=f"m{n}", timestamp=float(n)) for n in range(4)]
    for some in (entries[2:], entries[:2]):
        service.sync.add_memory(**ALICE, memories=some)
    assert ids(service, "tea", ranking=Ranking(fusion="rrf")) == [
        "m3",
        "m2",
        "m1",
        "m0",
    ]


def test_a_ranking_can_be_a_key_and_cannot_be_changed():
    ranking = Ranking(weights={"session": 0.2})
    assert {ranking: 1}[Ranking(weights={"session": 0.2})] == 1
    with pytest.raises(TypeError):
        ranking.weights["session"] = 5.0
    with pytest.raises(ConfigError, match="mapping"):
        Ranking(weights=[("session", 0.2)])
