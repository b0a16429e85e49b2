"""Which events of google-adk become memories, and that they become so once."""

from __future__ import annotations

import asyncio
import json
import time
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

pytest.importorskip("google.adk")

import vecall.adk
from google.adk.events import Event, EventActions
from google.adk.sessions import Session
from google.genai import types
from helpers.adk import (
    ALICE,
    PARROT,
    ROOM,
    a_session,
    a_trip,
    add,
    adk_service,
    an_event,
    entries,
    ingest,
    search,
    stored,
)
from vecall.adk import VecallMemoryService

service = pytest.fixture(adk_service)


def test_adding_a_session_again_changes_nothing(service: VecallMemoryService) -> None:
    """S1.3, S4.65: a session may be added many times during its lifetime."""
    ingest(service, a_trip())
    before = search(service, "quiet room")
    ingest(service, a_trip())
    assert search(service, "quiet room") == before
    assert stored(service) == 3


def test_a_trimmed_copy_of_a_session_removes_nothing(
    service: VecallMemoryService,
) -> None:
    """S3.12, S3.17: absence never deletes."""
    ingest(service, a_trip())
    ingest(service, a_session(an_event("One more thing.", id="e4")))
    assert stored(service) == 4


def test_a_changed_turn_replaces_the_old_one(service: VecallMemoryService) -> None:
    """S3.12: an upsert by event id."""
    ingest(service, a_trip())
    ingest(service, a_session(an_event("Macaws, I meant to say.", id="e3")))
    assert stored(service) == 3
    assert PARROT not in entries(service, "parrots")


def test_deltas_are_the_same_memories_as_the_whole_session(
    service: VecallMemoryService,
) -> None:
    """S1.4: events added one by one, then the session on top."""

    async def scenario() -> None:
        for event in a_trip().events:
            await service.add_events_to_memory(
                **ALICE, events=[event], session_id="trip-1"
            )

    asyncio.run(scenario())
    before = {text: e.id for text, e in entries(service, "quiet room parrots").items()}
    ingest(service, a_trip())
    after = {text: e.id for text, e in entries(service, "quiet room parrots").items()}
    assert stored(service) == 3
    assert before == after


def test_events_without_a_session_are_remembered_once(
    service: VecallMemoryService,
) -> None:
    """S1.19: the last two events of a session, twice."""

    async def scenario() -> None:
        for _ in range(2):
            await service.add_events_to_memory(**ALICE, events=a_trip().events[-2:])

    asyncio.run(scenario())
    assert stored(service) == 2
    scores = entries(service, "parrots")[PARROT].custom_metadata["vecall"]
    assert "session_id" not in scores


def test_the_metadata_of_a_call_is_stored_with_each_event(
    service: VecallMemoryService,
) -> None:
    """S1.22: and an event's own wins."""
    events = [
        an_event(ROOM, id="e1"),
        an_event(PARROT, id="e2", custom_metadata={"channel": "voice"}),
    ]
    asyncio.run(
        service.add_events_to_memory(
            **ALICE, events=events, custom_metadata={"channel": "mail", "stars": 5}
        )
    )
    found = entries(service, "quiet room parrots")
    assert found[ROOM].custom_metadata["channel"] == "mail"
    assert found[PARROT].custom_metadata["channel"] == "voice"
    assert found[PARROT].custom_metadata["stars"] == 5


@pytest.mark.parametrize("ttl", [3600, "3600s", timedelta(hours=1)])
def test_a_ttl_is_no_metadata(service: VecallMemoryService, ttl: Any) -> None:
    """S1.21: in each of its spellings, for events and for entries."""
    asyncio.run(
        service.add_events_to_memory(
            **ALICE, events=[an_event(PARROT)], custom_metadata={"ttl": ttl}
        )
    )
    add(service, vecall.adk.entry(ROOM, custom_metadata={"ttl": ttl}))
    for entry in entries(service, "parrots room").values():
        assert list(entry.custom_metadata) == ["vecall"]


def test_what_has_a_ttl_expires(service: VecallMemoryService) -> None:
    """S1.47."""
    short = {"ttl": timedelta(seconds=0.05)}
    asyncio.run(
        service.add_events_to_memory(
            **ALICE, events=[an_event(PARROT)], custom_metadata=short
        )
    )
    add(service, vecall.adk.entry(ROOM, custom_metadata=short), "Room service.")
    time.sleep(0.1)
    assert list(entries(service, "parrots room")) == ["Room service."]


def test_a_session_as_the_http_api_sends_it_is_the_same_session(
    service: VecallMemoryService,
) -> None:
    """S3.11: camelCase dictionaries."""
    sent = json.loads(a_trip().model_dump_json(by_alias=True))
    assert "appName" in sent
    ingest(service, a_trip())
    before = search(service, "quiet room")
    ingest(service, sent)
    assert search(service, "quiet room") == before
    assert stored(service) == 3


def test_thoughts_are_never_stored_and_never_returned(tmp_path: Path) -> None:
    """S0.13: neither in what is found nor anywhere in the file."""
    service = VecallMemoryService(tmp_path / "memory.db", embedder=None)
    thought = types.Part(text="The guest seems to be zzzthinking.", thought=True)
    event = an_event(thought, "A quiet room it is.", author="concierge", id="e1")
    only = an_event(thought, author="concierge", id="e2")
    ingest(service, a_session(event, only))
    ingest(service, json.loads(a_session(event, only).model_dump_json(by_alias=True)))
    assert list(entries(service, "quiet room")) == ["A quiet room it is."]
    assert entries(service, "zzzthinking") == {}
    service.close()
    for file in tmp_path.iterdir():
        assert b"zzzthinking" not in file.read_bytes()


CALL = types.FunctionCall(name="load_memory", args={"query": "quiet room"})
RESPONSE = types.FunctionResponse(name="load_memory", response={"result": ROOM})


@pytest.mark.parametrize(
    "event",
    [
        an_event(types.Part(function_call=CALL), author="concierge"),
        an_event(types.Part(function_response=RESPONSE)),
        an_event(
            types.Part(inline_data=types.Blob(data=b"room", mime_type="image/png"))
        ),
        an_event("  \n"),
        an_event("A quiet roo", author="concierge", partial=True),
        Event(author="user"),
        Event(author="user", content=types.Content(role="user")),
    ],
    ids=["call", "response", "image", "blank", "partial", "no content", "no parts"],
)
def test_an_event_that_says_nothing_is_skipped(
    service: VecallMemoryService, event: Event
) -> None:
    """S0.13, S3.23."""
    ingest(service, a_session(event))
    assert stored(service) == 0


@pytest.mark.parametrize("name", ["adk_request_credential", "adk_request_confirmation"])
def test_a_request_for_credentials_is_skipped_even_if_it_has_a_text(
    service: VecallMemoryService, name: str
) -> None:
    """S3.23: such events are shown to no model, and remembered by none."""
    call = types.Part(function_call=types.FunctionCall(name=name, args={}))
    answer = types.Part(
        function_response=types.FunctionResponse(name=name, response={"key": "s3cret"})
    )
    ingest(
        service,
        a_session(an_event("Sign in, please.", call), an_event("s3cret", answer)),
    )
    assert stored(service) == 0


def test_the_text_beside_a_function_call_is_remembered(
    service: VecallMemoryService,
) -> None:
    """S0.13."""
    ingest(service, a_session(an_event(PARROT, types.Part(function_call=CALL))))
    assert list(entries(service, "parrots")) == [PARROT]


def rewound() -> list[Event]:
    """Three turns, the second of which is rewound by the event after it."""
    back = EventActions(rewind_before_invocation_id="i2")
    return [
        an_event(ROOM, id="e1", invocation_id="i1"),
        an_event(PARROT, id="e2", invocation_id="i2"),
        an_event("Noted.", id="e3", invocation_id="i2", author="concierge"),
        Event(id="e4", author="user", invocation_id="i3", actions=back),
        an_event("Good night.", id="e5", invocation_id="i4"),
    ]


def test_what_a_rewind_took_back_is_not_remembered(
    service: VecallMemoryService,
) -> None:
    """S3.22."""
    ingest(service, a_session(*rewound()))
    assert set(entries(service, "quiet room parrots noted night")) == {
        ROOM,
        "Good night.",
    }


def test_what_a_rewind_took_back_is_forgotten_if_it_was_remembered(
    service: VecallMemoryService,
) -> None:
    """S3.22: and what was said before and after stays."""
    ingest(service, a_session(*rewound()[:3]))
    assert stored(service) == 3
    ingest(service, a_session(*rewound()))
    assert set(entries(service, "quiet room parrots noted night")) == {
        ROOM,
        "Good night.",
    }


def test_objects_that_invent_attributes_do_no_harm(
    service: VecallMemoryService,
) -> None:
    """S1.54: test doubles of other projects, whose flags are true but not True."""
    event = mock.Mock(spec=Event)
    event.content = types.Content(role="user", parts=[types.Part(text=PARROT)])
    event.author, event.id, event.timestamp = "user", "e1", 12.0
    session = mock.Mock(spec=Session)
    session.app_name, session.user_id, session.id = "hotel", "alice", "trip-1"
    session.events = [event]
    ingest(service, session)
    assert entries(service, "parrots")[PARROT].timestamp == "1970-01-01T00:00:12+00:00"
