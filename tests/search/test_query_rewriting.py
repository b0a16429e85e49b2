"""A function of the ranking that gives the text to search for in place of a query."""

from __future__ import annotations

import asyncio
import threading

import pytest
from helpers.embedders import Recorder
from helpers.memories import ALICE
from vecall import ClosedError, ConfigError, Limits, Ranking, RewriterError, Scopes

TEXTS = ["The ferry to Lisbon leaves at nine", "Tea with Ana in Porto", "A red car"]
TO_LISBON = {"When does it leave?": "When does the Lisbon ferry leave?"}


def by_table(query: str) -> str:
    return TO_LISBON.get(query, query)


async def by_table_slowly(query: str) -> str:
    await asyncio.sleep(0.001)
    return by_table(query)


def answers(service, query, **asked):
    found = service.sync.search_memory(**ALICE, query=query, explain=True, **asked)
    return [
        (m.id, m.score, m.similarity, m.confidence, m.explanation)
        for m in found.memories
    ]


@pytest.fixture
def filled(open_service):
    def fill(**options):
        service = open_service(**options)
        service.sync.add_memory(**ALICE, memories=TEXTS)
        return service

    return fill


@pytest.mark.parametrize("rewriter", [by_table, by_table_slowly])
@pytest.mark.parametrize("embeds", [False, True])
@pytest.mark.parametrize("fusion", ["convex", "rrf", "words"])
def test_the_answer_is_that_of_the_new_text(filled, rewriter, embeds, fusion):
    service = filled(embedder=Recorder() if embeds else None)
    ranking = Ranking(fusion=fusion)
    rewriting = Ranking(fusion=fusion, rewriter=rewriter)
    for query, text in [*TO_LISBON.items(), ("tea", "tea")]:
        assert answers(service, query, ranking=rewriting) == answers(
            service, text, ranking=ranking
        )
    first = service.sync.search_memory(
        **ALICE, query="When does it leave?", ranking=rewriting
    ).memories[0]
    assert first.text == TEXTS[0]


def test_only_the_new_text_is_embedded(filled):
    recorder = Recorder()
    service = filled(embedder=recorder, ranking=Ranking(rewriter=by_table))
    recorder.asked.clear()
    answers(service, "When does it leave?")
    assert recorder.asked == [TO_LISBON["When does it leave?"]]


def test_a_vector_of_the_caller_stays(filled):
    recorder = Recorder()
    service = filled(embedder=recorder)
    vector = recorder.vector(TEXTS[2])
    recorder.asked.clear()
    rewriting = Ranking(rewriter=by_table)
    query, text = next(iter(TO_LISBON.items()))
    assert answers(service, query, vector=vector, ranking=rewriting) == answers(
        service, text, vector=vector
    )
    assert recorder.asked == []


def test_it_is_asked_once_a_search_whatever_the_scopes(open_service):
    asked = []

    def rewriter(query):
        asked.append((query, threading.current_thread().name))
        return query

    service = open_service(
        scopes=Scopes(read={"app"}), ranking=Ranking(rewriter=rewriter)
    )
    service.sync.add_memory(**ALICE, memories=TEXTS)
    assert answers(service, "tea")
    ((query, thread),) = asked
    assert query == "tea"
    assert thread.startswith("vecall-rewriter")


def test_the_reranker_sees_the_new_text(filled):
    seen = []

    def reranker(query, texts):
        seen.append(query)
        return [1.0] * len(texts)

    service = filled(ranking=Ranking(rewriter=by_table, reranker=reranker))
    answers(service, "When does it leave?")
    assert seen == [TO_LISBON["When does it leave?"]]


def test_a_text_without_a_word_finds_nothing(filled):
    service = filled(ranking=Ranking(rewriter=lambda query: ""))
    assert answers(service, "tea") == []


def test_both_texts_are_cut_to_the_limit_of_queries(filled):
    seen = []

    def rewriter(query):
        seen.append(query)
        return "lisbon " + "porto " * 10

    service = filled(
        limits=Limits(max_query_chars=8), ranking=Ranking(rewriter=rewriter)
    )
    (hit,) = answers(service, "When does it leave?")
    assert seen == ["When doe"]
    assert hit == answers(service, "lisbon p", ranking=Ranking())[0]


def test_a_lone_surrogate_is_no_error(filled):
    service = filled(
        embedder=Recorder(), ranking=Ranking(rewriter=lambda query: "tea \ud800")
    )
    assert answers(service, "anything")


def test_forgetting_looks_for_what_was_named(filled):
    service = filled(ranking=Ranking(rewriter=lambda query: "red car"))
    proposal = service.sync.propose_forget(**ALICE, query="tea")
    assert [memory.text for memory in proposal.memories] == [TEXTS[1]]


@pytest.mark.parametrize("answer", [None, b"tea", 5, ["tea"]])
def test_something_else_than_a_text_is_an_error(filled, answer):
    service = filled(ranking=Ranking(rewriter=lambda query: answer))
    with pytest.raises(RewriterError, match=r"ranking\.rewriter: must return a string"):
        answers(service, "tea")


def test_a_failure_is_an_error_that_quotes_nothing(filled):
    def rewriter(query):
        raise OSError(query)

    service = filled(ranking=Ranking(rewriter=rewriter))
    with pytest.raises(RewriterError, match="OSError") as refused:
        answers(service, "s3cret")
    assert "s3cret" not in str(refused.value)
    assert refused.value.__cause__ is None
    assert answers(service, "tea", ranking=Ranking())


def test_a_wrong_argument_is_refused_before_it_is_asked(filled):
    asked = []
    service = filled(ranking=Ranking(rewriter=lambda query: asked.append(query) or ""))
    for wrong in ({"top_k": 0}, {"scopes": ["app"]}, {"min_similarity": 0.5}):
        with pytest.raises((ValueError, PermissionError)):
            answers(service, "tea", **wrong)
    assert asked == []


def test_a_rewriter_that_is_no_function_is_refused():
    with pytest.raises(ConfigError, match=r"ranking\.rewriter: expected a function"):
        Ranking(rewriter="s3cret")


def test_a_search_that_is_cancelled_leaves_the_next_one_alone(filled):
    entered, go_on = threading.Event(), threading.Event()

    def rewriter(query):
        entered.set()
        assert go_on.wait(20)
        return query

    service = filled(ranking=Ranking(rewriter=rewriter))

    async def scenario():
        search = asyncio.ensure_future(service.search_memory(**ALICE, query="tea"))
        await asyncio.to_thread(entered.wait, 20)
        search.cancel()
        with pytest.raises(asyncio.CancelledError):
            await search
        go_on.set()
        found = await service.search_memory(**ALICE, query="tea")
        return [memory.text for memory in found.memories]

    assert asyncio.run(scenario()) == [TEXTS[1]]


def test_a_closed_service_asks_nothing(filled):
    asked = []
    service = filled(ranking=Ranking(rewriter=lambda query: asked.append(query) or ""))
    service.close()
    with pytest.raises(ClosedError):
        answers(service, "tea")
    assert asked == []
