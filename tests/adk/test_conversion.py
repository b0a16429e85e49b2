"""Entries and metadata of google-adk become memories of vecall, and back."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime
from typing import Any

import pytest

pytest.importorskip("google.adk")

import vecall
import vecall.adk
from google.adk.memory import InMemoryMemoryService
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.tools.load_memory_tool import LoadMemoryResponse
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
    stored,
)
from helpers.program_messages import PROGRAMS
from vecall.adk import VecallMemoryService

service = pytest.fixture(adk_service)


def test_explicit_memories_are_found_with_their_fields(
    service: VecallMemoryService,
) -> None:
    """S1.5, S1.22: an explicit id is kept, and adding it again replaces it."""
    entry = MemoryEntry(
        content=types.Content(parts=[types.Part(text="Prefers metric units.")]),
        id="units",
        author="concierge",
        timestamp="2025-03-01T12:00:00+01:00",
        custom_metadata={"topic": "units"},
    )
    add(service, entry, source="survey")
    found = entries(service, "metric")["Prefers metric units."]
    assert (found.id, found.author) == ("units", "concierge")
    assert found.timestamp == "2025-03-01T11:00:00+00:00"
    assert found.custom_metadata["topic"] == "units"
    assert found.custom_metadata["source"] == "survey"
    changed = entry.model_copy(update={"content": types.Content(parts=[])})
    changed.content.parts.append(types.Part(text="Prefers imperial units."))
    add(service, changed)
    assert list(entries(service, "units")) == ["Prefers imperial units."]


def test_a_text_becomes_an_entry(service: VecallMemoryService) -> None:
    """S1.20: google-adk's own class refuses a str as content."""
    with pytest.raises(ValueError, match="content"):
        MemoryEntry(content="User prefers metric units.")
    made = vecall.adk.entry(
        "User prefers metric units.",
        id="units",
        author="user",
        timestamp=1_747_000_000.0,
        custom_metadata={"topic": "units"},
    )
    assert isinstance(made, MemoryEntry)
    assert MemoryEntry.model_validate(made.model_dump()) == made
    assert made.timestamp == "2025-05-11T21:46:40+00:00"
    add(service, made, "Likes tea.", {"content": {"parts": [{"text": "Owns a dog."}]}})
    found = entries(service, "metric tea dog")
    assert set(found) == {"User prefers metric units.", "Likes tea.", "Owns a dog."}


def test_a_recalled_memory_can_be_changed_and_added_again(
    service: VecallMemoryService,
) -> None:
    """S1.5: it stays in its session, and old scores are not stored as metadata."""
    ingest(service, a_trip())
    recalled = entries(service, "parrots")[PARROT]
    recalled.content.parts[0].text = "Macaws are my favourite animals."
    add(service, recalled)
    again = entries(service, "macaws")["Macaws are my favourite animals."]
    assert stored(service) == 3
    assert again.id == recalled.id
    assert again.custom_metadata["vecall"]["session_id"] == "trip-1"
    kept = service.memory.sync.get_memory(**ALICE, memory_id=again.id)
    assert kept.custom_metadata == {}


@pytest.mark.parametrize(
    "memories",
    [
        "Prefers metric units.",
        [MemoryEntry(content=types.Content(parts=[]))],
        [vecall.adk.entry(" ")],
        [None],
        [vecall.adk.entry("Late.").model_copy(update={"timestamp": "last week"})],
    ],
    ids=["a bare text", "no text", "blank", "nothing", "no time"],
)
def test_a_memory_that_cannot_be_one_is_refused_as_a_value_error(
    service: VecallMemoryService, memories: Any
) -> None:
    """S1.5: and nothing is written."""
    with pytest.raises(vecall.InvalidArgumentError):
        asyncio.run(service.add_memory(**ALICE, memories=memories))
    assert stored(service) == 0


@pytest.mark.parametrize(
    ("given", "returned"),
    [
        ("2025-03-01T12:00:00", "2025-03-01T09:00:00+00:00"),
        ("2025-03-01T12:00:00.250000", "2025-03-01T09:00:00.250000+00:00"),
        ("2025-03-01", "2025-02-28T21:00:00+00:00"),
        ("2025-03-01T12:00:00Z", "2025-03-01T12:00:00+00:00"),
        ("2025-03-01T12:00:00-05:00", "2025-03-01T17:00:00+00:00"),
        ("1970-01-01T00:00:00+00:00", "1970-01-01T00:00:00+00:00"),
        ("", None),
    ],
)
def test_times_without_an_offset_are_local_and_come_back_in_utc(
    service: VecallMemoryService,
    three_hours_east: None,
    given: str,
    returned: str | None,
) -> None:
    """2.0 Timestamp: google-adk prints local time without an offset."""
    add(service, vecall.adk.entry(PARROT).model_copy(update={"timestamp": given}))
    assert entries(service, "parrots")[PARROT].timestamp == returned


def test_entries_of_another_memory_service_move_over_with_their_times(
    service: VecallMemoryService, three_hours_east: None
) -> None:
    """S1.9: google-adk prints local time without an offset, in any time zone."""
    old = InMemoryMemoryService()

    async def move() -> None:
        await old.add_session_to_memory(a_trip())
        found = await old.search_memory(**ALICE, query="noted parrots quiet")
        assert found.memories[0].timestamp.startswith("1970-01-01T03:00:00")
        await service.add_memory(**ALICE, memories=found.memories)

    asyncio.run(move())
    found = entries(service, "noted parrots quiet")
    assert found[ROOM].timestamp == "1970-01-01T00:00:00+00:00"
    assert found[PARROT].timestamp == "1970-01-01T01:00:00+00:00"


class Unprintable:
    def __str__(self) -> str:
        raise RuntimeError


def test_metadata_of_any_kind_becomes_json(service: VecallMemoryService) -> None:
    """S1.22, S1.54: as a session is stored and sent with what a memory returned."""
    endless: dict[str, Any] = {}
    endless["self"] = [endless]
    anything = {
        "bytes": b"\xff",
        "nan": float("nan"),
        "when": datetime(2025, 3, 1),
        "set": {"b", "a"},
        "pair": (1, None),
        "surrogate": "\ud800",
        "unprintable": Unprintable(),
        7: {"deep": object},
    }
    add(service, vecall.adk.entry(PARROT, custom_metadata=anything), call=object())
    found = entries(service, "parrots")[PARROT]
    assert found.custom_metadata.pop("call").startswith("<object object at ")
    del found.custom_metadata["vecall"]
    assert found.custom_metadata == {
        "bytes": "b'\\xff'",
        "nan": "nan",
        "when": "2025-03-01 00:00:00",
        "set": ["a", "b"],
        "pair": [1, None],
        "surrogate": "\ufffd",
        "unprintable": "<Unprintable>",
        "7": {"deep": "<class 'object'>"},
    }
    json.loads(LoadMemoryResponse(memories=[found]).model_dump_json())
    with pytest.raises(vecall.LimitExceededError, match="max_metadata_depth"):
        add(service, "Endless.", **endless)


def test_what_google_adk_notes_on_an_event_for_itself_is_left_out(
    service: VecallMemoryService,
) -> None:
    """S1.24: the rest of an event's metadata is the user's own."""
    notes = {"__adk_internal_fc_hmac": "5e", "a2a:response": {"x": 1}, "stars": 5}
    ingest(service, a_session(an_event(PARROT, custom_metadata=notes)))
    own = entries(service, "parrots")[PARROT].custom_metadata
    assert set(own) == {"stars", "vecall"}


def test_a_role_tells_what_nobody_said_and_an_author_does_not(
    service: VecallMemoryService,
) -> None:
    """An agent may be called "system"; a chat message with that role is of no one."""
    events: list[Any] = [
        {"role": "system", "content": "Never name the wombat."},
        {"role": "user", "content": "I keep a zebra."},
        {"author": "system", "content": {"parts": [{"text": "I fixed the door."}]}},
    ]
    asyncio.run(service.add_events_to_memory(**ALICE, events=events))
    found = service.memory.sync.list_memories(**ALICE)
    texts = {each.text for each in found}
    assert texts == {"I fixed the door.", "I keep a zebra."}


@pytest.mark.parametrize("door", ["google-adk", "vecall"])
def test_the_contents_of_a_history_of_google_genai_are_turns(
    service: VecallMemoryService, door: str
) -> None:
    """As objects and as every dump of them; each turn is stored once."""
    said = {"user": "I live in Oslo.", "model": "Noted."}
    history = [
        types.Content(role=role, parts=[types.Part(text=text)])
        for role, text in said.items()
    ]
    for turns in (
        history,
        [each.model_dump() for each in history],
        [each.model_dump(mode="json", by_alias=True) for each in history],
        [each.model_dump(exclude_none=True) for each in history],
    ):
        if door == "vecall":
            service.memory.sync.add_events_to_memory(**ALICE, events=turns)
        else:
            asyncio.run(service.add_events_to_memory(**ALICE, events=turns))
        found = service.memory.sync.list_memories(**ALICE)
        assert {each.author: each.text for each in found} == said
        assert len(found) == 2


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_message_of_another_library_counts_as_at_every_other_door(name: str) -> None:
    """What nobody said is left out, or stored as the same text if it is asked for."""
    event, kind, text = PROGRAMS[name]
    user = {"app_name": "hotel", "user_id": "alice"}
    for include in ((), (kind,)):
        writes = vecall.WritePolicy(include=include)
        memory = VecallMemoryService(embedder=None, writes=writes)
        said = [{"role": "user", "content": "zebra"}, event]
        asyncio.run(memory.add_events_to_memory(**user, events=said))
        found = memory.memory.sync.list_memories(**user)
        assert [each.text for each in found] == ["zebra", *([text] if include else [])]
        memory.memory.close()
