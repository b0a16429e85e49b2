"""What a search finds, in which order, and what each memory carries."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from helpers.conversations import ALICE, session, texts, turn
from vecall import Filter, Limits, MemoryEntry, SearchMemoryResponse


def test_what_one_session_said_is_found_in_the_next(open_service):
    """S0.1, S2.1: memories outlive the session they were said in."""
    service = open_service()
    service.sync.add_session_to_memory(session(turn("e1", "I want a quiet room")))
    service.sync.add_session_to_memory(
        session(turn("e1", "Book a taxi please"), id_="trip-2")
    )
    assert texts(service, "which room?") == ["I want a quiet room"]


def test_a_found_memory_carries_where_it_comes_from(open_service):
    """S0.3, S0.4, S0.5, S0.7, S0.14, S2.5: content, author, time and provenance."""
    service = open_service()
    service.sync.add_session_to_memory(
        session(turn("e1", "A quiet room", author="user", timestamp=1_741_770_055.25))
    )
    answer = service.sync.search_memory(**ALICE, query="quiet")
    assert isinstance(answer, SearchMemoryResponse)
    (memory,) = answer.memories
    assert isinstance(memory, MemoryEntry)
    assert memory.content == memory.text == str(memory) == "A quiet room"
    assert memory.author == "user"
    assert memory.timestamp == 1_741_770_055.25
    assert (memory.session_id, memory.event_id) == ("trip-1", "e1")
    assert memory.id is not None
    assert len(memory.id) == 32
    assert memory.score is not None
    assert memory.score > 0
    assert memory.importance is not None
    assert 0 <= memory.importance <= 1
    assert memory.similarity is None
    assert memory.confidence is not None
    assert 0 < memory.confidence < 1
    assert memory.explanation is None


def test_provenance_is_optional(open_service):
    """S0.6: an entry of nothing but a text is whole."""
    service = open_service()
    (id_,) = service.sync.add_memory(**ALICE, memories=["User prefers metric units."])
    memory = service.sync.get_memory(**ALICE, memory_id=id_)
    assert memory.content == "User prefers metric units."
    assert (memory.author, memory.timestamp, memory.session_id) == (None, None, None)
    assert texts(service, "metric") == ["User prefers metric units."]


@pytest.mark.parametrize("query", ["ROOM", "room", "RoOm", "r\u014doms", "a room?"])
def test_case_accents_and_endings_do_not_matter(open_service, query):
    """S0.15: search ignores case; stems and accents too."""
    service = open_service()
    service.sync.add_memory(**ALICE, memories=["Two Rooms with a view"])
    assert texts(service, query) == ["Two Rooms with a view"]


@pytest.mark.parametrize(
    "query", ["", " ", "\n", "?!", "...", "\u2014", "\ud800", "\0"]
)
def test_a_query_without_a_word_finds_nothing(open_service, query):
    service = open_service()
    service.sync.add_memory(**ALICE, memories=["zebra"])
    assert texts(service, query) == []


def test_a_query_that_is_too_long_is_cut(open_service):
    service = open_service(limits=Limits(max_query_chars=12))
    service.sync.add_memory(**ALICE, memories=["zebra", "quagga", "okapi"])
    assert set(texts(service, "zebra quagga okapi")) == {"zebra", "quagga"}


def test_a_user_without_memories_finds_nothing(open_service):
    service = open_service()
    assert service.sync.search_memory(**ALICE, query="zebra").memories == []


def test_an_answer_has_five_memories_unless_asked_otherwise(open_service):
    """S0.20, S0.26, S0.27: top_k is 5, the service's, or the search's own."""
    service = open_service()
    service.sync.add_memory(**ALICE, memories=[f"zebra number {i}" for i in range(11)])
    assert len(texts(service, "zebra")) == 5
    assert len(texts(service, "zebra", top_k=1)) == 1
    assert len(texts(service, "zebra", top_k=7)) == 7
    assert len(texts(service, "zebra", top_k=1000)) == 11
    assert len(set(texts(service, "zebra", top_k=1000))) == 11
    small = open_service(top_k=2)
    small.sync.add_memory(**ALICE, memories=["zebra a", "zebra b", "zebra c"])
    assert len(texts(small, "zebra")) == 2


def test_memories_come_best_first(open_service):
    service = open_service()
    service.sync.add_memory(
        **ALICE, memories=["zebra", "zebra okapi", "zebra okapi quagga", "tapir"]
    )
    found = service.sync.search_memory(**ALICE, query="quagga okapi zebra").memories
    scores = [memory.score for memory in found]
    assert found[0].text == "zebra okapi quagga"
    assert scores == sorted(scores, reverse=True)
    assert "tapir" not in [memory.text for memory in found]


def test_ties_go_to_the_newer_then_to_the_smaller_id(open_service):
    entries = [
        MemoryEntry("zebra", id="b", timestamp=10),
        MemoryEntry("zebra", id="c", timestamp=20),
        MemoryEntry("zebra", id="a", timestamp=10),
        MemoryEntry("zebra", id="d", timestamp=10),
    ]
    # One date for all words that are the same: the day's terms are part of the text.
    for order in (entries, entries[::-1]):
        service = open_service()
        service.sync.add_memory(**ALICE, memories=order)
        found = service.sync.search_memory(**ALICE, query="zebra").memories
        assert [memory.id for memory in found] == ["c", "a", "b", "d"]
        top = service.sync.search_memory(**ALICE, query="zebra", top_k=2).memories
        assert [memory.id for memory in top] == ["c", "a"]


def test_a_turn_near_a_hit_gets_a_share_of_its_score(open_service):
    """A turn before 0.5, after 0.4, two away 0.3, of one session 0.15 of its score."""
    service = open_service()
    told = ["far away", "nothing", "here", "A zebra it was", "Stripy", "grey", "gone"]
    service.sync.add_session_to_memory(
        session(*[turn(f"e{n}", text) for n, text in enumerate(told)])
    )
    found = service.sync.search_memory(**ALICE, query="zebra", top_k=9).memories
    by_event = {memory.event_id: memory.score for memory in found}
    assert list(by_event)[:3] == ["e3", "e2", "e4"]
    hit = by_event["e3"] / 1.15
    shares = {"e3": 1.0, "e2": 0.5, "e4": 0.4, "e5": 0.3, "e1": 0.3}
    assert by_event == pytest.approx({e: hit * (s + 0.15) for e, s in shares.items()})


def test_the_turn_after_a_question_gets_more_of_its_score(open_service):
    """An answer often shares no word with what was asked."""
    service = open_service()
    service.sync.add_session_to_memory(
        session(
            turn("e1", "Well"),
            turn("e2", "And which zebra was it?"),
            turn("e3", "The one on the left"),
        )
    )
    found = service.sync.search_memory(**ALICE, query="zebra").memories
    by_event = {memory.event_id: memory.score for memory in found}
    assert list(by_event) == ["e3", "e2", "e1"]
    base = by_event["e1"] / 0.65
    assert by_event["e2"] == pytest.approx(0.8 * 1.15 * base)
    assert by_event["e3"] == pytest.approx(0.95 * base)


def test_turns_of_two_calls_without_a_session_are_no_neighbours(open_service):
    """S1.19: the bucket of unknown sessions is no conversation."""
    service = open_service()
    for text in ("zebra one", "okapi two"):
        service.sync.add_events_to_memory(**ALICE, events=[turn(text, text)])
    assert texts(service, "zebra") == ["zebra one"]
    service.sync.add_events_to_memory(
        **ALICE, events=[turn("q", "quagga?"), turn("a", "extinct")]
    )
    assert texts(service, "quagga") == ["extinct", "quagga?"]


def test_a_filter_narrows_by_session_and_by_time(open_service):
    """`after` is inclusive and `before` is not, however a time is spelled."""
    service = open_service()
    start = datetime(2025, 3, 1, tzinfo=timezone.utc)
    for day in range(4):
        at = start + timedelta(days=day)
        service.sync.add_session_to_memory(
            session(turn("e", f"zebra {day}", timestamp=at), id_=f"s{day % 2}-{day}")
        )

    def days(**options: Any) -> list[str]:
        found = sorted(texts(service, "zebra", filter=Filter(**options)))
        listed = service.sync.list_memories(**ALICE, filter=Filter(**options))
        assert sorted(each.text for each in listed) == found
        return [text[-1] for text in found]

    assert days() == ["0", "1", "2", "3"]
    assert days(session_id="s1-3") == ["3"]
    assert days(session_id="elsewhere") == []
    assert days(after=start + timedelta(days=2)) == ["2", "3"]
    assert days(before=start + timedelta(days=2)) == ["0", "1"]
    assert days(after="2025-03-02T02:00:00+02:00", before="2025-03-03T00:00:00Z") == [
        "1"
    ]
    assert days(after=start.timestamp(), before=start.timestamp()) == []


def test_a_filter_is_applied_before_the_limit(open_service):
    """S4.65: a filter after the limit would find nothing here."""
    service = open_service()
    service.sync.add_session_to_memory(
        session(*(turn(f"e{i}", "zebra zebra") for i in range(203)), id_="big")
    )
    service.sync.add_session_to_memory(
        session(turn("e", "one zebra among many other words"), id_="small")
    )
    found = texts(service, "zebra", top_k=1, filter=Filter(session_id="small"))
    assert found == ["one zebra among many other words"]


def test_what_is_returned_belongs_to_the_caller(open_service):
    """S3.29: changing an answer changes no memory."""
    service = open_service()
    (id_,) = service.sync.add_memory(
        **ALICE,
        memories=[
            MemoryEntry(
                {"parts": [{"text": "zebra"}, {"text": "okapi"}]},
                custom_metadata={"list": [1]},
            )
        ],
    )
    for _ in range(2):
        (found,) = service.sync.search_memory(**ALICE, query="zebra").memories
        got = service.sync.get_memory(**ALICE, memory_id=id_)
        for memory in (found, got):
            assert memory.custom_metadata == {"list": [1]}
            assert memory.text == "zebra\nokapi"
            memory.custom_metadata["list"].append(2)
            assert isinstance(memory.content, dict)
            memory.content["parts"].clear()


def test_a_long_query_is_cut_and_not_refused(open_service):
    service = open_service()
    service.sync.add_memory(**ALICE, memories=["zebra"])
    assert texts(service, "zebra " + "x" * 1_000_003) == ["zebra"]


def test_the_month_of_a_turn_can_be_asked_for(open_service):
    """The day, the month's name and the year of a turn are words to be found by."""
    service = open_service()
    for month in range(1, 13):
        at = datetime(2025, month, 17, tzinfo=timezone.utc)
        service.sync.add_session_to_memory(
            session(turn("e", f"visit {month}", timestamp=at), id_=f"s{month}")
        )
    assert texts(service, "what happened in march") == ["visit 3"]
    assert texts(service, "what happened in May") == ["visit 5"]
