"""The memory services that bench/adk/recall.py searches."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from google.adk.events import Event
from google.adk.memory.base_memory_service import SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions import Session
from google.genai import types
from vecall.evaluation.datasets import Conversation

APP = "bench"
CORE, ADAPTER, CLASSES = "core", "adapter", "google-adk's classes alone"
SQLITE, IN_MEMORY = "SqliteMemoryService", "InMemoryMemoryService"
Answer = Callable[[], Awaitable[Any]]


def to_adk(session: Any) -> Session:
    """The session as google-adk holds it: the same ids, names, times and texts."""
    events = [
        Event(
            id=turn.id,
            author=turn.author,
            timestamp=turn.timestamp,
            content=types.Content(role="user", parts=[types.Part(text=turn.content)]),
        )
        for turn in session.events
    ]
    return Session(app_name=APP, user_id=session.user_id, id=session.id, events=events)


def rebuilding(response: SearchMemoryResponse) -> Answer:
    """What builds a response again, from plain values and with nothing else to do."""
    plain = [
        (
            entry.id,
            entry.content.role,
            entry.content.parts[0].text,
            entry.author,
            entry.timestamp,
            entry.custom_metadata,
        )
        for entry in response.memories
    ]

    async def build() -> SearchMemoryResponse:
        return SearchMemoryResponse(
            memories=[
                MemoryEntry(
                    id=id_,
                    content=types.Content(role=role, parts=[types.Part(text=text)]),
                    author=author,
                    timestamp=timestamp,
                    custom_metadata=metadata,
                )
                for id_, role, text, author, timestamp, metadata in plain
            ]
        )

    return build


def identity(name: str, entry: Any) -> str:
    """The event that an entry is."""
    if name == CORE:
        return str(entry.event_id)
    if name == ADAPTER:
        return str(entry.custom_metadata["vecall"]["event_id"])
    if name == SQLITE:
        return str(entry.custom_metadata["event_id"])
    return str(entry.id)


def text_of(name: str, entry: Any) -> str:
    return entry.text if name == CORE else entry.content.parts[0].text


async def tell(
    told: Sequence[Conversation], services: dict[str, Any]
) -> dict[str, float]:
    """Tell everything to each service; return the seconds that each took."""
    own = [session for one in told for session in one.sessions]
    theirs = [to_adk(session) for session in own]
    seconds = {}
    for name, service in services.items():
        begin = time.perf_counter()
        for session in own if name == CORE else theirs:
            await service.add_session_to_memory(session)
        seconds[name] = time.perf_counter() - begin
    return seconds


def searches(services: dict[str, Any], user: str, query: str) -> dict[str, Answer]:
    scope = {"app_name": APP, "user_id": user, "query": query}

    def searching(service: Any) -> Answer:
        return lambda: service.search_memory(**scope)

    return {name: searching(service) for name, service in services.items()}
