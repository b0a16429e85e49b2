"""Events of google-adk that are not plain turns, and many events at once."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any
from unittest import mock

import pytest

pytest.importorskip("google.adk")

from google.adk.events import Event, EventActions
from google.adk.events.event_actions import EventCompaction
from google.genai import types
from helpers.adk import (
    ALICE,
    PARROT,
    ROOM,
    a_session,
    adk_service,
    an_event,
    entries,
    ingest,
    stored,
)
from vecall.adk import VecallMemoryService
from vecall.summaries import SessionSummary

service = pytest.fixture(adk_service)
SUMMARY = "The guest prefers quiet rooms."


def a_compaction(start: float, end: float) -> Event:
    content = types.Content(role="model", parts=[types.Part(text=SUMMARY)])
    compaction = EventCompaction(
        start_timestamp=start, end_timestamp=end, compacted_content=content
    )
    return Event(author="user", actions=EventActions(compaction=compaction))


def a_compacted_session() -> Any:
    return a_session(
        an_event(ROOM, id="e1", timestamp=10.0),
        an_event("Noted.", id="e2", author="concierge", timestamp=20.0),
        a_compaction(10.0, 20.0),
        an_event(PARROT, id="e3", timestamp=30.0),
    )


@pytest.mark.parametrize("sent", [False, True], ids=["objects", "camelCase"])
def test_a_compaction_is_a_memory_where_the_trigger_says_so(sent: bool) -> None:
    """S3.26: with its text and its time, and again changes nothing."""
    service = VecallMemoryService(trigger="compaction", embedder=None)
    session = a_compacted_session()
    if sent:
        session = json.loads(session.model_dump_json(by_alias=True))
    for _ in range(2):
        asyncio.run(service.observe_session(session))
        assert list(entries(service, "quiet room")) == [SUMMARY]
        assert stored(service) == 1
    assert entries(service, "quiet")[SUMMARY].timestamp == "1970-01-01T00:00:20+00:00"
    service.close()


def test_without_that_trigger_the_turns_are_the_memories(
    service: VecallMemoryService,
) -> None:
    """S3.26: a summary of them would say the same twice."""
    ingest(service, a_compacted_session())
    assert set(entries(service, "quiet room parrots noted")) == {ROOM, PARROT, "Noted."}


def test_a_summarizer_sees_the_session_as_a_vecall_service_does() -> None:
    """S4.8: options of the service below reach it, rewinds and notes left out."""
    seen: list[Any] = []

    class Summarizer:
        def get_summaries(self, session: Any) -> Any:
            seen.append(session)
            return [SessionSummary(SUMMARY)]

    service = VecallMemoryService(summarizer=Summarizer(), embedder=None)
    ingest(service, a_session(an_event(ROOM, id="e1"), an_event(PARROT, id="e2")))
    assert list(entries(service, "quiet rooms")) == [SUMMARY]
    (session,) = seen
    assert len(session["events"]) == 2
    service.close()


@pytest.mark.parametrize(
    ("heard", "remembered"),
    [
        ({"text": PARROT, "finished": True}, True),
        ({"text": PARROT}, True),
        ({"text": PARROT, "finished": False}, False),
        ({"finished": True}, False),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["input_transcription", "output_transcription"])
def test_what_was_spoken_is_remembered_when_it_is_whole(
    service: VecallMemoryService, name: str, heard: dict[str, Any], remembered: bool
) -> None:
    """S3.23: live turns have no content, but a transcription."""
    event = Event(
        author="user", id="e1", **{name: types.Transcription.model_validate(heard)}
    )
    ingest(service, a_session(event))
    assert list(entries(service, "parrots")) == ([PARROT] if remembered else [])


def test_a_rewind_reaches_turns_that_waited_for_a_trigger() -> None:
    """S3.22, S4.13: the next time the session is told of, they are gone."""
    service = VecallMemoryService(trigger="session_end", embedder=None)
    back = EventActions(rewind_before_invocation_id="i2")
    said = [
        an_event(ROOM, id="e1", invocation_id="i1"),
        an_event(PARROT, id="e2", invocation_id="i2"),
    ]
    rewound = Event(author="user", id="e3", invocation_id="i3", actions=back)
    asyncio.run(service.observe_session(a_session(*said)))
    service.memory.sync.end_session(**ALICE, session_id="trip-1")
    assert stored(service) == 2
    asyncio.run(service.observe_session(a_session(*said, rewound)))
    assert list(entries(service, "quiet room parrots")) == [ROOM]
    service.close()


class Witness:
    """An event that notes which threads read it."""

    def __init__(self, text: str, threads: set[int]) -> None:
        self.id, self.author, self._text, self._threads = text, "user", text, threads

    @property
    def content(self) -> str:
        self._threads.add(threading.get_ident())
        return self._text


def test_many_events_are_read_off_the_event_loop(service: VecallMemoryService) -> None:
    """S0.31: so that nobody on the loop waits for a long session."""
    threads: set[int] = set()
    events = [Witness(f"parrot {n}", threads) for n in range(500)]

    async def scenario() -> int:
        session = {**ALICE, "id": "trip-1", "events": events}
        await service.add_session_to_memory(session)
        await service.add_events_to_memory(**ALICE, events=events)
        return threading.get_ident()

    assert asyncio.run(scenario()) not in threads
    assert threads
    assert stored(service) == 1000


def test_events_that_come_while_a_session_is_read_are_for_the_next_time(
    service: VecallMemoryService,
) -> None:
    """S3.30: a running session grows; what is handed over is what was there."""
    session = a_session(*(an_event(f"parrot {n}", id=f"e{n}") for n in range(200)))

    async def scenario() -> None:
        adding = asyncio.create_task(service.add_session_to_memory(session))
        await asyncio.sleep(0)
        session.events.append(an_event("A late parrot.", id="late"))
        await adding

    asyncio.run(scenario())
    assert stored(service) == 200
    ingest(service, session)
    assert stored(service) == 201


def test_a_rewind_of_many_turns_takes_them_all_back(
    service: VecallMemoryService,
) -> None:
    """S3.22."""
    said = [
        an_event(f"parrot {n}", id=f"e{n}", invocation_id=f"i{n}") for n in range(600)
    ]
    ingest(service, a_session(*said))
    back = EventActions(rewind_before_invocation_id="i10")
    rewound = Event(author="user", id="back", invocation_id="b", actions=back)
    ingest(service, a_session(*said, rewound))
    assert stored(service) == 10


@pytest.mark.parametrize("sent", [False, True], ids=["objects", "camelCase"])
def test_where_a_turn_comes_from_is_kept(
    service: VecallMemoryService, sent: bool
) -> None:
    """S3.21: id, author, time and branch; the invocation stays with the session."""
    side = an_event(
        PARROT,
        id="e2",
        author="archivist",
        timestamp=60.0,
        invocation_id="i1",
        branch="both.archivist",
        custom_metadata={"channel": "voice"},
    )
    session = a_session(an_event(ROOM, id="e1", invocation_id="i1"), side)
    if sent:
        session = json.loads(session.model_dump_json(by_alias=True))
    ingest(service, session)
    found = entries(service, "quiet room parrots")
    assert found[PARROT].author == "archivist"
    assert found[PARROT].timestamp == "1970-01-01T00:01:00+00:00"
    metadata = found[PARROT].custom_metadata
    assert metadata.pop("vecall")["event_id"] == "e2"
    assert metadata == {"channel": "voice", "adk": {"branch": "both.archivist"}}
    assert list(found[ROOM].custom_metadata) == ["vecall"]
    ingest(service, session)
    assert stored(service) == 2
    revisions = service.memory.sync.memory_history(**ALICE, memory_id=found[PARROT].id)
    assert len(revisions) == 1


@pytest.mark.parametrize(
    "branch", ["", None, 7, "x" * 513, pytest.param(mock.Mock(), id="mock")], ids=repr
)
def test_a_branch_that_is_none_is_not_kept(
    service: VecallMemoryService, branch: Any
) -> None:
    """S3.21: foreign sessions and test doubles may have anything there."""
    event = {"id": "e1", "author": "user", "content": PARROT, "branch": branch}
    ingest(service, {**ALICE, "id": "trip-1", "events": [event]})
    assert list(entries(service, "parrots")[PARROT].custom_metadata) == ["vecall"]


def test_a_users_own_metadata_wins_over_the_branch(
    service: VecallMemoryService,
) -> None:
    """S3.21: under the same name."""
    own = {"adk": "mine"}
    ingest(service, a_session(an_event(PARROT, branch="a.b", custom_metadata=own)))
    assert entries(service, "parrots")[PARROT].custom_metadata["adk"] == "mine"
