"""The compaction trigger: what a framework sums up is remembered as it stands."""

from __future__ import annotations

import pytest
from helpers.embedders import Recorder
from helpers.memories import ALICE
from helpers.observed_sessions import (
    Fainting,
    Llm,
    compaction,
    kept,
    memories,
    said,
    summed,
    talk,
)
from helpers.sessions import session, turn, turns
from vecall import EmbedderError
from vecall.hooks import ALLOW, QUARANTINE, PendingWrite, Verdict

NAMED = {**ALICE, "session_id": "s"}
EARLY = compaction("zebra room", 1.0, 2.0)
LATE = compaction("okapi tour", 3.0, 4.0)


@pytest.fixture
def observing(open_service, tmp_path):
    """Opens a service with a compaction trigger, on a file."""

    def open_one(**options):
        return open_service(
            tmp_path / "m.db",
            **{"trigger": "compaction", "maintenance_interval": None, **options},
        )

    return open_one


def test_a_memory_is_made_of_each_compaction_as_it_fires(observing):
    """S4.20, S4.21: at once, one for each, no model asked; the rest waits."""
    llm, embedder = Llm(), Recorder()
    service = observing(summarizer=llm.provider, embedder=embedder)
    made = []
    events = [*turns(1, 2), EARLY, *turns(3, 4), LATE, *turns(5)]
    for count in range(1, len(events) + 1):
        made.append(len(service.sync.observe_session(session(*events[:count]))))
    assert made == [0, 0, 1, 0, 0, 1, 0]
    assert memories(service) == ["zebra room", "okapi tour"]
    assert llm.asked == []
    assert embedder.asked == ["zebra room", "okapi tour"]


def test_the_remainder_is_remembered_when_the_session_ends(observing, tmp_path):
    """S4.20, S4.50: covered turns never, later ones once."""
    service = observing()
    events = [*turns(1, 2), EARLY, *turns(3)]
    service.sync.observe_session(session(*events))
    assert len(kept(tmp_path / "m.db")) == 1
    for _ in range(2):
        service.sync.end_session(session(*events))
    assert memories(service) == ["zebra room", *said(3)]


def test_a_compaction_does_not_take_the_place_of_held_turns(observing):
    """They wait for the end, and a reviewer."""

    def hold(write: PendingWrite) -> Verdict:
        return QUARANTINE if "word1" in write.memory.text else ALLOW

    service = observing(on_write=hold)
    service.sync.observe_session(session(*turns(1, 2), EARLY))
    service.sync.end_session(**NAMED)
    (held,) = service.sync.list_memories(**ALICE, state="quarantined")
    assert (held.text, memories(service)) == (*said(1), ["zebra room"])


def test_a_summarizer_is_asked_for_the_remainder_only(observing):
    """S4.51: compacted first, then one call for what is later."""
    llm = Llm()
    service = observing(summarizer=llm.provider)
    service.sync.end_session(session(*turns(1, 2), EARLY, *turns(3, 4), LATE))
    assert llm.asked == []
    service.sync.end_session(session(*turns(1, 2), EARLY, *turns(3, 4), LATE, turn(5)))
    assert memories(service) == ["zebra room", "okapi tour", summed(5)]


def test_a_compaction_memory_says_what_it_covers(observing):
    """S4.20, S4.49: kind, session, source, and the stretch of time."""
    service = observing()
    service.sync.observe_session(session(*turns(1, 2), EARLY))
    (entry,) = service.sync.list_memories(**ALICE)
    assert (entry.kind, entry.session_id, entry.source) == (
        "summary",
        "s",
        "compaction",
    )
    assert entry.timestamp == 2.0
    assert entry.custom_metadata == {"start_timestamp": 1.0, "end_timestamp": 2.0}


@pytest.mark.parametrize(
    "events",
    [
        [EARLY, *turns(3, 1, 2)],
        [*turns(2), EARLY, *turns(1, 3)],
        [*turns(3, 2, 1), EARLY],
        [EARLY, *turns(1, 2), EARLY, *turns(3), EARLY],
    ],
)
def test_the_order_in_which_turns_stand_does_not_matter(observing, events):
    """S4.50: what has a time is covered by its time."""
    service = observing()
    service.sync.observe_session(session(*events))
    service.sync.end_session(**NAMED)
    assert memories(service) == ["zebra room", *said(3)]


def test_covered_turns_that_are_told_after_their_compaction_are_not_remembered(
    observing,
):
    """S4.20: a session that was trimmed before and is whole now adds nothing."""
    embedder = Recorder()
    service = observing(embedder=embedder)
    service.sync.observe_session(session(EARLY, *turns(3)))
    service.sync.observe_session(session(*turns(1, 2), EARLY, *turns(3)))
    service.sync.end_session(session(*turns(1, 2), EARLY, *turns(3)))
    assert memories(service) == ["zebra room", *said(3)]
    assert len(embedder.asked) == 2


def test_a_turn_without_a_time_is_covered_where_it_stands_before(observing):
    """S4.50: after the compaction it is part of the remainder."""
    service = observing()
    before = {"id": "a", "author": "user", "text": "turn before"}
    after = {"id": "z", "author": "user", "text": "turn after"}
    service.sync.observe_session(session(before, EARLY, after))
    service.sync.end_session(**NAMED)
    assert memories(service) == ["zebra room", "turn after"]


@pytest.mark.parametrize("content", [None, {}, {"parts": []}, {"parts": [{}]}])
def test_a_compaction_without_text_covers_nothing(observing, content):
    """S4.52: as if it had not been; the turns are the remainder."""
    empty = compaction("", 1.0, 2.0)
    empty["actions"]["compaction"]["compactedContent"] = content
    service = observing()
    assert service.sync.observe_session(session(*turns(1, 2), empty)) == []
    service.sync.end_session(**NAMED)
    assert memories(service) == said(1, 2)


def test_all_parts_of_a_compaction_count(observing):
    """S4.52: several parts are one text."""
    many = compaction("", 1.0, 2.0)
    parts = [{"text": "zebra"}, {"functionCall": {}}, {"text": "okapi"}]
    many["actions"]["compaction"]["compactedContent"] = {"parts": parts}
    service = observing()
    service.sync.observe_session(session(*turns(1), many))
    (entry,) = service.sync.list_memories(**ALICE)
    assert entry.text == "zebra\nokapi"


def test_a_compaction_whose_embedding_fails_is_remembered_later(observing, tmp_path):
    """S4.20: it waits with the turns that it covers; the next call tries again."""
    service = observing(embedder=Fainting(failures=1))
    events = [*turns(1, 2), EARLY]
    with pytest.raises(EmbedderError):
        service.sync.observe_session(session(*events))
    assert (memories(service), len(kept(tmp_path / "m.db"))) == ([], 3)
    assert len(service.sync.observe_session(session(*events))) == 1
    assert (memories(service), kept(tmp_path / "m.db")) == (["zebra room"], [])


@pytest.mark.parametrize(
    "trigger", [None, {"type": "message_count", "message_count": 9}]
)
def test_another_trigger_without_a_summarizer_remembers_the_turns(observing, trigger):
    """S4.43: a compaction is no turn and makes no memory there."""
    service = observing(trigger=trigger)
    assert service.sync.observe_session(session(*turns(1, 2), EARLY)) == []
    service.sync.end_session(**NAMED)
    assert memories(service) == said(1, 2)


def test_observing_an_unchanged_session_again_changes_nothing(observing, tmp_path):
    """S4.13: the compaction is remembered once, by a service opened anew too."""
    told = session(*turns(1, 2), EARLY)
    with observing() as service:
        service.sync.observe_session(told)
    service = observing()
    log = tmp_path / "m.db-wal"
    before = log.stat().st_size if log.exists() else 0
    assert service.sync.observe_session(told) == []
    assert (log.stat().st_size if log.exists() else 0) == before
    assert memories(service) == ["zebra room"]


def test_a_deleted_compaction_stays_deleted(observing):
    """S4.20: the session may be told again as often as one likes."""
    service = observing()
    (id_,) = service.sync.observe_session(session(*turns(1, 2), EARLY))
    service.sync.delete_memory(**ALICE, memory_id=id_)
    service.sync.observe_session(session(*turns(1, 2), EARLY))
    service.sync.end_session(session(*turns(1, 2), EARLY))
    assert memories(service) == []


def test_sessions_of_the_same_words_are_told_apart(observing):
    """S4.20: two sessions with equal compactions are two memories."""
    service = observing()
    for id_ in ("s", "other"):
        service.sync.observe_session(session(*turns(1), EARLY, id_=id_))
    assert memories(service) == ["zebra room"] * 2
    assert service.sync.end_session(talk(1)) == []
