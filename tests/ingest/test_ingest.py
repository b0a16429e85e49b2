"""What becomes a memory: turns, sessions of every shape, entries, metadata."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace

import pytest
from helpers.conversations import ALICE, session, texts, turn
from vecall import Event, Filter, LeftOut, MemoryEntry, NotFoundError, Session


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
    assert ids[0] is None
    assert ids.left_out == (LeftOut(0, "no_text"),)
    assert len(ids.stored) == 1
    assert texts(service, "zebra kept") == ["kept"]
    assert service.sync.admin.stats()["memories"] == 1


def test_a_streamed_piece_of_a_turn_is_not_remembered(open_service):
    service = open_service()
    service.sync.add_session_to_memory(
        session(turn("e1", "zeb", partial=True), turn("e2", "zebra", partial=False))
    )
    assert service.sync.admin.stats()["memories"] == 1


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
    assert service.sync.admin.stats()["memories"] == 1


def test_events_without_a_session_are_remembered_once(open_service):
    """S1.4, S1.19: deltas without a session id are idempotent."""
    service = open_service()
    events = [turn("e1", "zebra"), turn("e2", "okapi"), turn("e3", "quagga")]
    for _ in range(3):
        service.sync.add_events_to_memory(**ALICE, events=events[-2:])
    assert service.sync.admin.stats()["memories"] == 2


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


def test_a_memory_without_a_time_has_that_of_its_storing(open_service):
    service = open_service()
    service.sync.add_memory(**ALICE, memories=["zebra"])
    now = datetime.now(timezone.utc)
    hour = timedelta(hours=1)
    around = Filter(after=now - hour, before=now + hour)
    assert texts(service, "zebra", filter=around) == ["zebra"]
    assert texts(service, "zebra", filter=Filter(before=now - hour)) == []


def test_nothing_is_written_unless_it_is_asked_for(open_service):
    """S0.9, S1.17: searching, getting and warming leave no trace."""
    service = open_service()
    service.sync.search_memory(**ALICE, query="zebra")
    service.sync.admin.warm(**ALICE)
    with pytest.raises(NotFoundError):
        service.sync.get_memory(**ALICE, memory_id="x")
    service.sync.add_events_to_memory(**ALICE, events=[])
    service.sync.add_memory(**ALICE, memories=[])
    stats = service.sync.admin.stats()
    assert (stats["users"], stats["memories"], stats["sessions"]) == (0, 0, 0)


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
    assert service.sync.admin.stats()["memories"] == 1
