"""What is remembered, and how it is found, with and without embedder and summarizer."""

from __future__ import annotations

import warnings

import pytest
from helpers.embedders import Recorder, embedded
from helpers.memories import ALICE
from helpers.observed_sessions import Llm, memories, said, summed, talk
from vecall import Compaction, MemoryService, RawTurnsWarning, VectorMemoryService

SET_UPS = [(embedder, llm) for embedder in (False, True) for llm in (False, True)]


def end(service):
    return service.sync.end_session(talk(1, 2))


def add(service):
    return service.sync.add_session_to_memory(talk(1, 2))


def trigger(service):
    service.sync.observe_session(talk(1, 2))
    service.sync.admin.run_due()


WAYS = [end, add, trigger]


@pytest.mark.parametrize("remember", WAYS)
@pytest.mark.parametrize(("with_embedder", "with_llm"), SET_UPS)
def test_the_set_up_decides_what_is_remembered_and_how_it_is_found(
    open_service, with_embedder, with_llm, remember
):
    """S4.11, S4.43-S4.46: raw or summaries, words or words with vectors."""
    embedder, llm = Recorder(), Llm()
    service = open_service(
        embedder=embedder if with_embedder else None,
        summarizer=llm.provider if with_llm else None,
        trigger={"type": "message_count", "message_count": 2},
        maintenance_interval=None,
    )
    remember(service)
    assert memories(service) == ([summed(1, 2)] if with_llm else said(1, 2))
    assert len(llm.asked) == with_llm
    entries = service.sync.list_memories(**ALICE)
    assert {entry.kind for entry in entries} == {"summary" if with_llm else "episode"}
    stored = len(entries) if with_embedder else 0
    assert embedded(service) == len(embedder.asked) == stored
    (found, *_) = service.sync.search_memory(**ALICE, query="word2").memories
    assert "word2" in found.text
    assert (found.similarity is None) == (not with_embedder)


def test_with_nothing_configured_turns_are_found_by_their_words():
    """S4.31, S4.43: no argument at all is allowed, and warns of nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        service = MemoryService(embedder=None)
    with service:
        add(service)
        found, *_ = service.sync.search_memory(**ALICE, query="word1").memories
    assert (found.text, found.author, found.similarity) == ("turn word1", "user", None)


def raised(make):
    """The warnings of making something."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        make().close()
    return caught


def test_an_embedder_without_a_summarizer_warns_once():
    """S4.45, S4.47: a warning, no error."""
    (warning,) = raised(lambda: MemoryService(embedder=Recorder()))
    assert warning.category is RawTurnsWarning
    assert warning.filename == __file__
    text = str(warning.message)
    assert "without a summary" in text
    judging = "poor bad wrong should must recommend degrade quality".split()
    assert not [word for word in judging if word in text.lower()]


def test_ingesting_and_searching_raises_no_further_warning():
    """S4.47: it is said when the service is made, and not again."""

    def use():
        service = MemoryService(embedder=Recorder())
        for remember in WAYS:
            remember(service)
        service.sync.search_memory(**ALICE, query="word1")
        return service

    assert len(raised(use)) == 1


@pytest.mark.parametrize(
    "options",
    [
        {"trigger": Compaction()},
        {"trigger": "compaction"},
        {"summarizer": Llm().provider},
        {"summarizer": Llm().provider, "trigger": "session_end"},
        {"embedder": None},
        {"embedder": None, "trigger": "session_end"},
    ],
)
def test_no_warning_where_summaries_are_made_or_raw_turns_are_meant(options):
    """S4.47: a compaction trigger, a summarizer, or no embedder."""
    assert raised(lambda: MemoryService(**{"embedder": Recorder(), **options})) == []


@pytest.mark.parametrize("trigger", ["session_end", {"type": "inactivity"}])
def test_every_other_trigger_still_warns(trigger):
    """S4.47: only a compaction brings summaries of its own."""
    if isinstance(trigger, dict):
        trigger = {**trigger, "inactivity_ms": 5}
    made = raised(lambda: MemoryService(embedder=Recorder(), trigger=trigger))
    assert [warning.category for warning in made] == [RawTurnsWarning]


def test_the_service_named_after_vectors_does_not_warn():
    """S4.47: who asks for vectors of turns by that name has chosen."""
    assert raised(lambda: VectorMemoryService(Recorder())) == []


def test_summaries_are_embedded_and_turns_are_not(open_service):
    """S4.46: what goes to the embedder is the summary with its key facts."""
    embedder = Recorder()
    service = open_service(embedder=embedder, summarizer=Llm().provider)
    end(service)
    assert [text.splitlines()[0] for text in embedder.asked] == [summed(1, 2)]
    assert "Coco" in embedder.asked[0]


@pytest.mark.parametrize("with_embedder", [False, True])
def test_a_second_ingest_with_nothing_new_asks_nobody(open_service, with_embedder):
    """S4.13, S4.44: zero calls of the model, zero of the embedder, nothing changed."""
    embedder, llm = Recorder(), Llm()
    service = open_service(
        embedder=embedder if with_embedder else None, summarizer=llm.provider
    )
    add(service)
    before = len(embedder.asked), memories(service)
    assert add(service) == []
    assert end(service) == []
    assert len(llm.asked) == 1
    assert (len(embedder.asked), memories(service)) == before


def test_an_ingest_of_more_turns_sums_up_only_those(open_service):
    """S4.13, S4.44: deltas: the model never sees a turn twice."""
    llm = Llm()
    service = open_service(summarizer=llm.provider)
    for last in range(1, 5):
        service.sync.add_session_to_memory(talk(*range(1, last + 1)))
    assert memories(service) == [summed(number) for number in range(1, 5)]
    assert all(shown.count("turn") == 1 for shown in llm.asked)
