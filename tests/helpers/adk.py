"""Events and sessions of google-adk, and a service behind its contract."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from google.adk.events import Event
from google.adk.memory.base_memory_service import SearchMemoryResponse
from google.adk.sessions import Session
from google.genai import types
from vecall.adk import VecallMemoryService

ALICE = {"app_name": "hotel", "user_id": "alice"}
ROOM = "I would like a quiet room on a high floor."
PARROT = "Parrots are my favourite animals."


def adk_service() -> Iterator[VecallMemoryService]:
    """For pytest.fixture: a service without a file, closed at the end."""
    service = VecallMemoryService()
    yield service
    service.close()


def an_event(
    *parts: str | types.Part, id: str = "", author: str = "user", **fields: Any
) -> Event:
    made = [types.Part(text=p) if isinstance(p, str) else p for p in parts]
    role = "user" if author == "user" else "model"
    content = types.Content(role=role, parts=made)
    return Event(id=id, author=author, content=content, **fields)


def a_session(*events: Event, id: str = "trip-1", **scope: str) -> Session:
    return Session(id=id, events=list(events), **{**ALICE, **scope})


def a_trip() -> Session:
    return a_session(
        an_event(ROOM, id="e1", timestamp=0.0),
        an_event("Noted.", id="e2", author="concierge", timestamp=60.5),
        an_event(PARROT, id="e3", timestamp=3600.0),
    )


def ingest(service: VecallMemoryService, session: Any) -> None:
    asyncio.run(service.add_session_to_memory(session))


def search(
    service: VecallMemoryService, query: str, **scope: str
) -> SearchMemoryResponse:
    return asyncio.run(service.search_memory(query=query, **{**ALICE, **scope}))


def entries(service: VecallMemoryService, query: str, **scope: str) -> dict[str, Any]:
    """What a search finds, by text."""
    found = search(service, query, **scope).memories
    return {entry.content.parts[0].text: entry for entry in found}


def stored(service: VecallMemoryService) -> int:
    return service.memory.sync.stats()["memories"]


def add(service: VecallMemoryService, *memories: Any, **metadata: Any) -> None:
    asyncio.run(
        service.add_memory(**ALICE, memories=memories, custom_metadata=metadata or None)
    )
