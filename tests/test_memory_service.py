"""What a memory service remembers, finds, and hands back."""

from __future__ import annotations

import asyncio
import inspect
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import pytest
from vecall import (
    ConfigError,
    Event,
    Filter,
    InvalidArgumentError,
    MemoryEntry,
    MemoryService,
    NotFoundError,
    SearchMemoryResponse,
    Session,
)
from vecall.service import SyncMemoryService

ALICE = {"app_name": "concierge", "user_id": "alice"}


def texts(service: MemoryService, query: str, **options: Any) -> list[str]:
    found = service.sync.search_memory(**ALICE, query=query, **options)
    return [memory.text for memory in found.memories]


def session(*events: Any, id_: str = "trip-1") -> dict[str, Any]:
    return {**ALICE, "id": id_, "events": list(events)}


def turn(id_: str, text: str, author: str = "user", **more: Any) -> dict[str, Any]:
    return {"id": id_, "author": author, "content": {"parts": [{"text": text}]}, **more}


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
    assert memory.confidence is None


def test_provenance_is_optional(open_service):
    """S0.6: an entry of nothing but a text is whole."""
    service = open_service()
    (id_,) = service.sync.add_memory(**ALICE, memories=["User prefers metric units."])
    memory = service.sync.get_memory(**ALICE, memory_id=id_)
    assert memory.content == "User prefers metric units."
    assert (memory.author, memory.timestamp, memory.session_id) == (None, None, None)
    assert texts(service, "metric") == ["User prefers metric units."]


@pytest.mark.parametrize(
    "content",
    [
        None,
        "",
        " \n\t ",
        {},
        {"parts": None},
        {"parts": []},
        {"parts": [{"text": ""}]},
        {"parts": [{"text": None}]},
        {"parts": [{"text": "  \n"}]},
        {"parts": [{"text": "zebra, to myself", "thought": True}]},
        {"parts": [{"function_call": {"name": "zebra", "args": {}}}]},
        {"parts": [{"function_response": {"name": "zebra", "response": {}}}]},
        {"parts": [{"inline_data": {"mime_type": "text/plain", "data": b"zebra"}}]},
    ],
)
def test_an_event_without_text_is_not_remembered(open_service, content):
    """S0.13: whitespace, thoughts, calls, responses and files are not what was said."""
    service = open_service()
    ids = service.sync.add_session_to_memory(
        session({"id": "e0", "author": "user", "content": content}, turn("e1", "kept"))
    )
    assert len(ids) == 1
    assert texts(service, "zebra kept") == ["kept"]
    assert service.sync.stats()["memories"] == 1


def test_a_streamed_piece_of_a_turn_is_not_remembered(open_service):
    service = open_service()
    service.sync.add_session_to_memory(
        session(turn("e1", "zeb", partial=True), turn("e2", "zebra", partial=False))
    )
    assert service.sync.stats()["memories"] == 1


def test_text_parts_are_joined_and_come_back_as_parts(open_service):
    """S0.13: all text parts count; what is not said between them is left out."""
    service = open_service()
    parts = [{"text": "first"}, {"function_call": {"name": "x"}}, {"text": "second"}]
    service.sync.add_session_to_memory(
        session({"id": "e1", "content": {"role": "user", "parts": parts}})
    )
    (memory,) = service.sync.search_memory(**ALICE, query="second").memories
    assert memory.text == "first\nsecond"
    assert memory.content == {
        "role": "user",
        "parts": [{"text": "first"}, {"text": "second"}],
    }


def test_sessions_of_every_shape_are_the_same_memories(open_service):
    """S1.3, S0.30: dicts of both spellings, foreign objects and vecall's own types."""
    content = {"parts": [{"text": "A quiet room"}]}
    shapes = [
        Session(
            "concierge", "alice", "trip-1", [Event("A quiet room", "user", 5, "e1")]
        ),
        session(turn("e1", "A quiet room", timestamp=5.0)),
        {
            "appName": "concierge",
            "userId": "alice",
            "id": "trip-1",
            "events": [
                {"id": "e1", "author": "user", "timestamp": 5, "content": content}
            ],
        },
        SimpleNamespace(
            app_name="concierge",
            user_id="alice",
            id="trip-1",
            events=[
                SimpleNamespace(
                    id="e1",
                    author="user",
                    timestamp=5.0,
                    content=SimpleNamespace(
                        role="user",
                        parts=[SimpleNamespace(text="A quiet room", thought=None)],
                    ),
                )
            ],
        ),
    ]
    service = open_service()
    ids = {tuple(service.sync.add_session_to_memory(shape)) for shape in shapes}
    assert len(ids) == 1
    assert service.sync.stats()["memories"] == 1


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


def test_a_turn_beside_a_hit_gets_half_of_its_score(open_service):
    """contracts.md, scores: score += 0.5 x the better neighbour's."""
    service = open_service()
    service.sync.add_session_to_memory(
        session(
            turn("e1", "nothing here"),
            turn("e2", "Which zebra was it"),
            turn("e3", "Stripy, on the left"),
            turn("e4", "far away"),
        )
    )
    found = service.sync.search_memory(**ALICE, query="zebra").memories
    by_event = {memory.event_id: memory.score for memory in found}
    assert set(by_event) == {"e1", "e2", "e3"}
    assert by_event["e1"] == pytest.approx(by_event["e2"] / 2)
    assert by_event["e3"] == pytest.approx(by_event["e2"] / 2)


def test_turns_of_two_calls_without_a_session_are_no_neighbours(open_service):
    """S1.19: the bucket of unknown sessions is no conversation."""
    service = open_service()
    for text in ("zebra one", "okapi two"):
        service.sync.add_events_to_memory(**ALICE, events=[turn(text, text)])
    assert texts(service, "zebra") == ["zebra one"]
    service.sync.add_events_to_memory(
        **ALICE, events=[turn("q", "quagga?"), turn("a", "extinct")]
    )
    assert texts(service, "quagga") == ["quagga?", "extinct"]


def test_events_without_a_session_are_remembered_once(open_service):
    """S1.4, S1.19: deltas without a session id are idempotent."""
    service = open_service()
    events = [turn("e1", "zebra"), turn("e2", "okapi"), turn("e3", "quagga")]
    for _ in range(3):
        service.sync.add_events_to_memory(**ALICE, events=events[-2:])
    assert service.sync.stats()["memories"] == 2


def test_an_entry_keeps_all_that_it_says(open_service):
    """S1.5, S1.20, S1.22, S2.5: explicit entries, strings, and mappings."""
    service = open_service()
    entry = MemoryEntry(
        "prefers zebra stripes",
        author="agent",
        timestamp=7.5,
        session_id="s",
        kind="preference",
        source="crm",
        trust="low",
        custom_metadata={"deep": {"list": [1, None, True, "\u00e9"]}},
        importance=0.25,
    )
    (id_,) = service.sync.add_memory(**ALICE, memories=[entry])
    stored = service.sync.get_memory(**ALICE, memory_id=id_)
    for name in (
        "content author timestamp session_id kind source trust importance "
        "custom_metadata"
    ).split():
        assert getattr(stored, name) == getattr(entry, name), name
    mapping = {"text": "okapi", "customMetadata": {"a": 1}}
    (other,) = service.sync.add_memory(**ALICE, memories=[mapping])
    assert service.sync.get_memory(**ALICE, memory_id=other).custom_metadata == {"a": 1}


def test_metadata_of_a_call_is_stored_with_each_memory(open_service):
    """S1.21, S1.22: unknown keys are metadata; ttl is not kept."""
    service = open_service()
    ids = service.sync.add_events_to_memory(
        **ALICE,
        events=[turn("e1", "zebra"), turn("e2", "okapi", custom_metadata={"a": 2})],
        session_id="s",
        custom_metadata={"a": 1, "b": [1], "ttl": 3600},
    )
    found = [service.sync.get_memory(**ALICE, memory_id=id_) for id_ in ids]
    assert [memory.custom_metadata for memory in found] == [
        {"a": 1, "b": [1]},
        {"a": 2, "b": [1]},
    ]


@pytest.mark.parametrize("ttl", [1e-6, timedelta(microseconds=1), "0.000001s"])
def test_an_expired_memory_is_not_found(open_service, ttl):
    """S1.21, S4.58: a ttl is filtered exactly at read."""
    service = open_service()
    service.sync.add_memory(
        **ALICE, memories=["zebra short"], custom_metadata={"ttl": ttl}
    )
    service.sync.add_memory(
        **ALICE, memories=["zebra long"], custom_metadata={"ttl": "3600s"}
    )
    assert texts(service, "zebra") == ["zebra long"]


def test_an_expired_memory_cannot_be_had_by_its_id(open_service):
    """S4.58: expiry holds for every way of reading."""
    service = open_service()
    (id_,) = service.sync.add_memory(
        **ALICE, memories=["zebra"], custom_metadata={"ttl": 1e-6}
    )
    with pytest.raises(NotFoundError):
        service.sync.get_memory(**ALICE, memory_id=id_)


def test_a_memory_told_again_with_a_new_ttl_lives_for_the_new_one(open_service):
    """S4.58: what was acknowledged with a ttl of an hour is found within the hour."""
    service = open_service()
    service.sync.add_memory(**ALICE, memories=["zebra"], custom_metadata={"ttl": 1e-6})
    service.sync.add_memory(**ALICE, memories=["zebra"], custom_metadata={"ttl": 3600})
    assert texts(service, "zebra") == ["zebra"]


def test_a_memory_told_again_with_a_short_ttl_expires(open_service):
    """S4.58: a later ttl also shortens a life."""
    service = open_service()
    service.sync.add_memory(**ALICE, memories=["zebra"])
    service.sync.add_memory(**ALICE, memories=["zebra"], custom_metadata={"ttl": 1e-6})
    assert texts(service, "zebra") == []


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
        found = texts(service, "zebra", filter=Filter(**options))
        return sorted(text[-1] for text in found)

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


def test_a_memory_without_a_time_has_that_of_its_storing(open_service):
    service = open_service()
    service.sync.add_memory(**ALICE, memories=["zebra"])
    now = datetime.now(timezone.utc)
    hour = timedelta(hours=1)
    around = Filter(after=now - hour, before=now + hour)
    assert texts(service, "zebra", filter=around) == ["zebra"]
    assert texts(service, "zebra", filter=Filter(before=now - hour)) == []


def test_a_deleted_memory_is_gone(open_service):
    """S4.60: gone from search and from get; deleting again is a no-op."""
    service = open_service()
    first, second = service.sync.add_memory(**ALICE, memories=["zebra a", "zebra b"])
    service.sync.delete_memory(**ALICE, memory_id=first)
    service.sync.delete_memory(**ALICE, memory_id=first)
    service.sync.delete_memory(**ALICE, memory_id="never seen")
    service.sync.delete_memory(**ALICE, memory_id=None)
    assert texts(service, "zebra") == ["zebra b"]
    with pytest.raises(NotFoundError):
        service.sync.get_memory(**ALICE, memory_id=first)
    assert service.sync.get_memory(**ALICE, memory_id=second).text == "zebra b"


def test_nothing_is_written_unless_it_is_asked_for(open_service):
    """S0.9, S1.17: searching, getting and warming leave no trace."""
    service = open_service()
    service.sync.search_memory(**ALICE, query="zebra")
    service.sync.warm(**ALICE)
    with pytest.raises(NotFoundError):
        service.sync.get_memory(**ALICE, memory_id="x")
    service.sync.add_events_to_memory(**ALICE, events=[])
    service.sync.add_memory(**ALICE, memories=[])
    stats = service.sync.stats()
    assert (stats["users"], stats["memories"], stats["sessions"]) == (0, 0, 0)


def test_stats_count_what_is_there(open_service):
    service = open_service()
    service.sync.add_session_to_memory(
        session(turn("e1", "zebra"), turn("e2", "okapi"))
    )
    service.sync.add_memory(app_name="concierge", user_id="bob", memories=["h\u00e9"])
    stats = service.sync.stats()
    assert stats["users"] == 2
    assert stats["sessions"] == 1
    assert stats["memories"] == 3
    assert stats["text_bytes"] == 13
    assert stats["embedded"] == 0
    assert stats["model"] is None


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


def test_what_the_caller_changes_afterwards_changes_no_memory(open_service):
    """S3.30: a session is mutable and still being used while it is remembered."""
    service = open_service()
    event = turn("e1", "zebra", custom_metadata={"a": [1]})
    live = session(event)

    async def ingest() -> list[str]:
        task = asyncio.create_task(service.add_session_to_memory(live))
        await asyncio.sleep(0)  # the task ran up to its first wait
        event["content"]["parts"][0]["text"] = "okapi"
        event["custom_metadata"]["a"].append(2)
        live["events"].append(turn("e2", "quagga"))
        return await task

    (id_,) = asyncio.run(ingest())
    memory = service.sync.get_memory(**ALICE, memory_id=id_)
    assert memory.text == "zebra"
    assert memory.custom_metadata == {"a": [1]}
    assert service.sync.stats()["memories"] == 1


def test_the_event_loop_and_the_blocking_face_do_the_same(open_service):
    """S0.10, S1.6: each method has a blocking twin."""
    service = open_service()

    async def on_loop() -> list[str]:
        ids = await service.add_session_to_memory(session(turn("e1", "zebra one")))
        ids += await service.add_events_to_memory(
            **ALICE, events=[turn("e2", "zebra two")], session_id="trip-1"
        )
        ids += await service.add_memory(**ALICE, memories=["zebra three"])
        await service.warm(**ALICE)
        found = await service.search_memory(**ALICE, query="zebra")
        assert found == service.sync.search_memory(**ALICE, query="zebra")
        for id_ in ids:
            assert await service.get_memory(
                **ALICE, memory_id=id_
            ) == service.sync.get_memory(**ALICE, memory_id=id_)
        assert await service.stats() == service.sync.stats()
        await service.delete_memory(**ALICE, memory_id=ids[0])
        return ids

    ids = asyncio.run(on_loop())
    assert len(ids) == 3
    assert sorted(texts(service, "zebra")) == ["zebra three", "zebra two"]


def test_each_blocking_method_takes_what_its_namesake_takes():
    """S0.10: the two faces cannot drift apart."""
    names = [
        name
        for name, member in vars(MemoryService).items()
        if inspect.iscoroutinefunction(member) and not name.startswith("_")
    ]
    assert "search_memory" in names
    for name in names:
        asynchronous = inspect.signature(getattr(MemoryService, name))
        assert asynchronous == inspect.signature(getattr(SyncMemoryService, name)), name


def test_a_service_closes_at_the_end_of_its_block(tmp_path):
    path = tmp_path / "m.db"
    with MemoryService(path) as service:
        service.sync.add_memory(**ALICE, memories=["zebra"])

    async def block() -> list[MemoryEntry]:
        async with MemoryService(path) as again:
            return (await again.search_memory(**ALICE, query="zebra")).memories

    assert [memory.text for memory in asyncio.run(block())] == ["zebra"]


def test_a_long_query_is_cut_and_not_refused(open_service):
    service = open_service()
    service.sync.add_memory(**ALICE, memories=["zebra"])
    assert texts(service, "zebra " + "x" * 1_000_003) == ["zebra"]


def test_services_in_memory_share_nothing(open_service):
    """S0.21: a service without a path is its own."""
    first, second = open_service(), open_service(":memory:")
    first.sync.add_memory(**ALICE, memories=["zebra"])
    assert texts(second, "zebra") == []


def test_a_floor_on_similarity_needs_an_embedder(open_service):
    """S0.28: refused at construction with a pointer to min_confidence."""
    with pytest.raises(ConfigError, match="min_confidence"):
        MemoryService(min_score=0.5)
    with pytest.raises(ConfigError, match="min_confidence"):
        open_service().sync.search_memory(**ALICE, query="zebra", min_score=0.5)


@pytest.mark.parametrize("top_k", [0, -1])
def test_a_service_of_no_answers_is_refused(top_k):
    """S0.27: top_k below 1 is an error."""
    with pytest.raises(InvalidArgumentError):
        MemoryService(top_k=top_k)


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
