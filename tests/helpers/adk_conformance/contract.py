"""What BaseMemoryService and MemoryEntry say, and what google-adk relies on."""

from __future__ import annotations

import inspect
import json
from datetime import datetime

from google.adk.memory.base_memory_service import (
    BaseMemoryService,
    SearchMemoryResponse,
)
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.tools.load_memory_tool import LoadMemoryResponse
from google.genai import types

from helpers.adk import ALICE, PARROT, ROOM, a_runner, a_session, a_trip, an_event, say
from helpers.adk_conformance.checks import Place, Section, text_of

SECTION = Section("The contract")


@SECTION.check(
    "A Runner accepts it",
    "InvocationContext refuses what is no instance of BaseMemoryService",
)
async def a_runner_accepts_it(place: Place) -> None:
    service = place.open().service
    assert isinstance(service, BaseMemoryService)
    runner, llm = a_runner(service, "Good evening.")
    await say(runner, "Good evening!")
    assert len(llm.requests) == 1


@SECTION.check(
    "Its methods take the contract's arguments, by keyword",
    "BaseMemoryService; Context calls them by keyword",
)
async def same_arguments(place: Place) -> None:
    service = place.open().service
    for name in (
        "add_session_to_memory",
        "add_events_to_memory",
        "add_memory",
        "search_memory",
        "delete_memory",
    ):
        if hasattr(BaseMemoryService, name):  # older versions lack some
            theirs = inspect.signature(getattr(BaseMemoryService, name))
            own = inspect.signature(getattr(type(service), name))
            assert _shape(own) == _shape(theirs), name


def _shape(signature: inspect.Signature) -> list[tuple[str, object, object]]:
    found = signature.parameters.values()
    return [(each.name, each.kind, each.default) for each in found]


@SECTION.check(
    "A search answers in google-adk's types, which become JSON",
    "load_memory validates each entry anew and sends it to the model as JSON",
)
async def own_types(place: Place) -> None:
    memory = place.open()
    await memory.tell(*a_trip().events)
    found = await memory.service.search_memory(**ALICE, query="parrots")
    assert isinstance(found, SearchMemoryResponse)
    assert all(isinstance(entry, MemoryEntry) for entry in found.memories)
    loaded = LoadMemoryResponse(memories=found.memories)
    sent = json.loads(loaded.model_dump_json(exclude_none=True))
    parts = [entry["content"]["parts"] for entry in sent["memories"]]
    assert [{"text": PARROT}] in parts


@SECTION.check(
    "Somebody unknown finds nothing, and that is no error",
    "SearchMemoryResponse.memories is empty by default",
)
async def nobody(place: Place) -> None:
    memory = place.open()
    assert await memory.search("parrots") == []
    await memory.tell(*a_trip().events)
    assert await memory.search("parrots", user_id="nobody") == []


@SECTION.check(
    "An empty service is true",
    "the web server answers 400 if its memory service is false",
)
async def truth(place: Place) -> None:
    assert bool(place.open().service)


@SECTION.check(
    "Author and time come back, the epoch too",
    "MemoryEntry.author, and .timestamp in ISO 8601; preload_memory prints both",
)
async def author_and_time(place: Place) -> None:
    memory = place.open()
    await memory.tell(
        an_event(ROOM, id="e1", timestamp=0.0),
        an_event("A quiet room, noted.", id="e2", author="concierge", timestamp=1.7e9),
    )
    said = await memory.find(ROOM, "quiet room")
    answered = await memory.find("A quiet room, noted.", "quiet room")
    assert (said.author, answered.author) == ("user", "concierge")
    assert said.timestamp is not None
    assert answered.timestamp is not None
    # Without an offset it is local time.
    assert datetime.fromisoformat(said.timestamp).timestamp() == 0.0
    assert datetime.fromisoformat(answered.timestamp).timestamp() == 1.7e9


@SECTION.check(
    "Each entry has an id of its own, which stays when its session is added again",
    "delete_memory takes MemoryEntry.id as search_memory returned it",
)
async def ids(place: Place) -> None:
    memory = place.open()

    async def seen() -> dict[str, str | None]:
        return {text_of(e): e.id for e in await memory.search("quiet room parrots")}

    await memory.tell(*a_trip().events)
    before = await seen()
    await memory.tell(*a_trip().events)
    assert {ROOM, PARROT} <= set(before)
    assert all(before.values())
    assert len(set(before.values())) == len(before)
    assert await seen() == before


@SECTION.check(
    "Every entry has a text",
    "preload_memory prints the time of an entry even if nothing follows",
)
async def always_a_text(place: Place) -> None:
    memory = place.open()
    image = types.Part(
        inline_data=types.Blob(data=b"parrots", mime_type="image/png"),
    )
    await memory.tell(
        an_event(image),
        an_event(" \n\t"),
        an_event("parrots are birds"),
        an_event(types.Part(text="parrots?", thought=True), author="concierge"),
    )
    for query in ("parrots", "image png", " ", "birds"):
        assert all(text.strip() for text in await memory.texts(query))
    assert "parrots are birds" in await memory.texts("birds")


@SECTION.check(
    "What a caller does to a session or an answer stays with the caller",
    "google-adk 2.13 made InMemoryMemoryService copy both",
)
async def copies(place: Place) -> None:
    memory = place.open()
    event = an_event(types.Part(text=PARROT), id="e1")
    session = a_session(event)
    await memory.service.add_session_to_memory(session)
    _parts(event.content)[0].text = "Parrots are a nuisance."
    session.events.clear()
    found = await memory.find(PARROT, "parrots")
    _parts(found.content).clear()
    await memory.find(PARROT, "parrots")


def _parts(content: types.Content | None) -> list[types.Part]:
    assert content is not None
    assert content.parts
    return content.parts
