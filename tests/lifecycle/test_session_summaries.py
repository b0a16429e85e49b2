"""Summaries as memories: what they carry, what becomes of them, who may be asked."""

from __future__ import annotations

import json

import pytest
from helpers.memories import ALICE
from helpers.observed_sessions import (
    Fainting,
    Llm,
    compaction,
    grow,
    kept,
    memories,
    said,
    summed,
    talk,
)
from helpers.sessions import session, turn, turns
from helpers.summaries import Recording, Scripted, SlowRecording, SlowScripted
from vecall import (
    CompactionAwareSummaryProvider,
    ConfigError,
    EmbedderError,
    LlmSummaryProvider,
    SessionSummary,
    SummaryError,
)
from vecall.store import make_memory_id

NAMED = {**ALICE, "session_id": "s"}
ANSWER = json.dumps(
    {
        "summary": "A quiet room was found.",
        "topics": ["rooms", "noise"],
        "keyFacts": ["Her okapi is called Mara.", "She leaves on Friday."],
    }
)


def test_a_summary_says_what_it_sums_up(open_service):
    """S4.23, S4.46: kind, session, time, topics, key facts, and how many turns."""
    service = open_service(summarizer=LlmSummaryProvider(Scripted(ANSWER)))
    service.sync.end_session(talk(1, 2, 3))
    (entry,) = service.sync.list_memories(**ALICE)
    assert entry.kind == "summary"
    assert entry.session_id == "s"
    assert entry.timestamp == 3.0
    assert entry.source == "summarizer"
    assert entry.text.startswith("A quiet room was found.")
    assert entry.custom_metadata == {
        "topics": ["rooms", "noise"],
        "key_facts": ["Her okapi is called Mara.", "She leaves on Friday."],
        "start_timestamp": 1.0,
        "end_timestamp": 3.0,
        "event_count": 3,
    }


@pytest.mark.parametrize("query", ["quiet room", "okapi", "Friday"])
def test_a_summary_is_found_by_its_words_and_by_those_of_its_key_facts(
    open_service, query
):
    """S4.44: the words of the facts count as those of the summary."""
    service = open_service(summarizer=LlmSummaryProvider(Scripted(ANSWER)))
    service.sync.end_session(talk(1, 2))
    (found,) = service.sync.search_memory(**ALICE, query=query).memories
    assert found.kind == "summary"
    assert not service.sync.search_memory(**ALICE, query="word1").memories


@pytest.mark.parametrize("kind", [Recording, SlowRecording])
def test_a_provider_of_ones_own_may_return_many_summaries_or_none(open_service, kind):
    """S4.22: each is a memory of its own; none is no error and asks no more."""
    provider = kind([SessionSummary("zebra one"), SessionSummary("zebra two")])
    service = open_service(summarizer=provider)
    assert len(service.sync.end_session(talk(1, 2))) == 2
    assert sorted(memories(service)) == ["zebra one", "zebra two"]
    provider.found = []
    assert service.sync.end_session(talk(1, 2, 3)) == []
    assert service.sync.end_session(talk(1, 2, 3)) == []
    assert [len(shown["events"]) for shown in provider.sessions] == [2, 1]
    names = {"app_name": "app", "user_id": "alice", "id": "s"}
    assert provider.sessions[0].items() >= names.items()


@pytest.mark.parametrize("scripted", [Scripted, SlowScripted])
def test_a_model_may_be_asynchronous(open_service, scripted):
    """S4.22: plain functions and coroutines alike."""
    llm = scripted(ANSWER)
    service = open_service(summarizer=LlmSummaryProvider(llm))
    service.sync.end_session(talk(1))
    assert memories(service) == ["A quiet room was found."]
    assert "turn word1" in llm.asked[0]


@pytest.mark.parametrize("found", [None, "text", 7, [object()], [None], {}])
def test_what_a_provider_must_not_return_keeps_everything_waiting(
    open_service, tmp_path, found
):
    """S4.22: a SummaryError, nothing written, and a later try succeeds."""
    provider = Recording(found)
    service = open_service(tmp_path / "m.db", summarizer=provider)
    with pytest.raises(SummaryError):
        service.sync.end_session(talk(1, 2))
    assert memories(service) == []
    assert len(kept(tmp_path / "m.db")) == 2
    provider.found = [SessionSummary("zebra")]
    service.sync.end_session(**NAMED)
    assert memories(service) == ["zebra"]


def test_a_failing_model_keeps_everything_waiting_and_tells_no_text(
    open_service, tmp_path
):
    """S4.22: the error has no message of the model's, which may quote the session."""
    llm = Llm(failures=2)
    service = open_service(tmp_path / "m.db", summarizer=llm.provider)
    for _ in range(2):
        with pytest.raises(SummaryError) as caught:
            service.sync.end_session(talk(1, 2))
        assert not [word for word in ("word", "away") if word in str(caught.value)]
    assert len(kept(tmp_path / "m.db")) == 2
    service.sync.end_session(**NAMED)
    assert memories(service) == [summed(1, 2)]


def test_a_provider_that_raises_anything_is_a_summary_error(open_service):
    """S4.22: also what a provider of one's own raises."""

    class Broken:
        def get_summaries(self, session):
            msg = "secret words"
            raise RuntimeError(msg)

    with pytest.raises(SummaryError) as caught:
        open_service(summarizer=Broken()).sync.end_session(talk(1))
    assert "secret" not in str(caught.value)


def test_a_failing_embedder_keeps_everything_waiting(open_service, tmp_path):
    """S4.46: no summary without its vector; the next try makes both."""
    embedder = Fainting(failures=1)
    service = open_service(
        tmp_path / "m.db",
        embedder=embedder,
        summarizer=Llm().provider,
    )
    with pytest.raises(EmbedderError):
        service.sync.end_session(talk(1, 2))
    assert len(kept(tmp_path / "m.db")) == 2
    assert memories(service) == []
    service.sync.end_session(**NAMED)
    assert memories(service) == [summed(1, 2)]


@pytest.mark.parametrize("given", [7, "llm", object(), lambda prompt: prompt])
def test_a_summarizer_that_cannot_be_one_is_refused(open_service, given):
    """S4.35, S4.47: told apart by having get_summaries."""
    with pytest.raises(ConfigError, match="summarizer"):
        open_service(summarizer=given)


@pytest.mark.parametrize(
    "options", [{"restore": True}, {"replace": True}, {"idempotency_key": "k"}]
)
def test_options_about_turns_are_refused_where_summaries_are_remembered(
    open_service, options
):
    """S4.44: rather than being ignored in silence."""
    service = open_service(summarizer=Llm().provider)
    with pytest.raises(ConfigError):
        service.sync.add_session_to_memory(talk(1), **options)
    assert memories(service) == []


def test_a_turn_without_text_is_never_shown_to_a_model(open_service):
    """S4.15: thoughts, calls, blank turns; a session of those alone asks nobody."""
    silent = [
        {"id": "c", "author": "bot", "content": {"parts": [{"functionCall": {}}]}},
        {"id": "t", "content": {"parts": [{"text": "word8", "thought": True}]}},
        {"id": "b", "author": "user", "text": "  "},
        {"id": "p", "author": "bot", "text": "word9", "partial": True},
    ]
    llm = Llm()
    service = open_service(summarizer=llm.provider)
    assert service.sync.end_session(session(*silent)) == []
    assert llm.asked == []
    service.sync.end_session(session(*silent, turn(1)))
    assert memories(service) == [summed(1)]


def test_a_compaction_aware_provider_is_asked_only_for_the_rest(open_service):
    """S4.49-S4.51: the framework's text as it stands, then one call for the rest."""
    llm = Llm()
    service = open_service(summarizer=CompactionAwareSummaryProvider(llm.provider))
    events = [*turns(1, 2), compaction("zebra room", 1.0, 2.0)]
    service.sync.end_session(session(*events))
    assert (memories(service), llm.asked) == (["zebra room"], [])
    service.sync.end_session(session(*events, *turns(3)))
    assert memories(service) == ["zebra room", summed(3)]
    assert ["word1" in shown for shown in llm.asked] == [False]


def test_a_turn_without_a_time_counts_by_its_place(open_service):
    """S4.50: one that stands after the last compaction belongs to the rest."""
    llm = Llm()
    service = open_service(summarizer=CompactionAwareSummaryProvider(llm.provider))
    early = {"id": "a", "author": "user", "text": "word77"}
    late = {"id": "z", "author": "user", "text": "word99"}
    events = [early, turn(1), compaction("zebra room", 1.0, 1.0), late]
    service.sync.end_session(session(*events))
    assert memories(service) == ["zebra room", summed(99)]


def test_summaries_share_the_trust_of_their_turns_only_where_all_agree(open_service):
    """S4.46: a summary of mixed sources is of unknown trust."""
    service = open_service(summarizer=Llm().provider)
    for id_, tiers in (("same", "aa"), ("mixed", "ab")):
        events = [
            {**turn(number), "trust": tier} for number, tier in enumerate(tiers, 1)
        ]
        service.sync.end_session(session(*events, id_=id_))
    found = service.sync.list_memories(**ALICE)
    assert {entry.session_id: entry.trust for entry in found} == {
        "same": "a",
        "mixed": None,
    }


def test_a_session_that_is_deleted_while_it_is_summed_up_stays_deleted(
    open_service,
):
    """S4.10: the summary of what is gone by now is not written."""
    llm = Llm()
    service = open_service(summarizer=llm.provider)
    llm.meanwhile = lambda: service.sync.delete_session(**NAMED)
    assert service.sync.end_session(talk(1, 2)) == []
    assert memories(service) == []


def test_a_turn_that_is_deleted_while_it_is_summed_up_is_in_no_summary(open_service):
    llm = Llm()
    service = open_service(summarizer=llm.provider)

    def meanwhile() -> None:
        llm.meanwhile = lambda: None
        service.sync.delete_memory(**ALICE, memory_id=make_memory_id("s", "e1"))

    llm.meanwhile = meanwhile
    service.sync.end_session(talk(1, 2))
    (told,) = memories(service)
    assert ("word1" in told, "word2" in told) == (False, True)


def test_a_user_who_is_forgotten_while_a_session_is_summed_up_stays_forgotten(
    open_service,
):
    """S4.10: nothing brings the user back."""
    llm = Llm()
    service = open_service(summarizer=llm.provider)
    llm.meanwhile = lambda: service.sync.delete_user(**ALICE, forget=True)
    assert service.sync.end_session(talk(1, 2)) == []
    assert memories(service) == []
    assert service.sync.admin.stats()["users"] == 0


@pytest.mark.parametrize("others", [(1, 2), (1, 2, 3), (2,)])
def test_what_others_remember_meanwhile_is_not_summed_up_twice(
    open_service, tmp_path, others
):
    """S4.20, S4.44: two that end one session at once: each turn is in one summary."""
    fast, slow = Llm(), Llm()
    path = tmp_path / "m.db"
    first = open_service(path, summarizer=fast.provider)
    second = open_service(path, summarizer=slow.provider)

    def end_first():
        slow.meanwhile = lambda: None
        first.sync.end_session(talk(*others))

    slow.meanwhile = end_first
    second.sync.end_session(talk(1, 2))
    told = " ".join(memories(second)).split()
    words = sorted(word for word in told if word.startswith("word"))
    assert words == sorted({f"word{number}" for number in (1, 2, *others)})


def test_a_deleted_turn_is_not_shown_to_a_model(open_service, tmp_path):
    """S4.15: what was deleted as a turn does not come back within a summary."""
    path = tmp_path / "m.db"
    with open_service(path) as service:
        ids = service.sync.add_session_to_memory(talk(1, 2))
        service.sync.delete_memory(**ALICE, memory_id=ids[0])
    llm = Llm()
    service = open_service(path, summarizer=llm.provider)
    service.sync.end_session(talk(1, 2, 3))
    assert [("word1" in shown, "word2" in shown) for shown in llm.asked] == [
        (False, True)
    ]
    assert sorted(memories(service)) == [summed(2, 3), *said(2)]


def test_a_turn_that_is_deleted_while_it_waits_is_not_shown_to_a_model(open_service):
    """S4.15: remembered as it is by one call, observed by another, then deleted."""
    llm = Llm()
    service = open_service(summarizer=llm.provider)
    names = {"session_id": "s", "events": turns(1, 2)}
    ids = service.sync.add_events_to_memory(**ALICE, **names)
    grow(service, 3)
    service.sync.delete_memory(**ALICE, memory_id=ids[0])
    service.sync.end_session(**NAMED)
    assert sorted(memories(service)) == [summed(2, 3), *said(2)]


def test_the_summary_of_a_session_is_deleted_with_it(open_service):
    """S4.10: and no later ingest of the session makes another one."""
    llm = Llm()
    service = open_service(summarizer=llm.provider)
    service.sync.end_session(talk(1, 2))
    service.sync.delete_session(**NAMED)
    assert service.sync.end_session(talk(1, 2)) == []
    assert memories(service) == []
    assert len(llm.asked) == 1
