"""Services that do everything wrong, so that every check is seen to fail."""

from __future__ import annotations

from typing import Any

from google.adk.memory.base_memory_service import (
    BaseMemoryService,
    SearchMemoryResponse,
)
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from helpers.adk_conformance.kinds import Kind

SILENCE = types.Content(role="user", parts=[types.Part(text=" ")])


class CarelessMemoryService(BaseMemoryService):
    """Keeps all, twice if told twice, and tells everybody; forgets all or nothing."""

    def __init__(self) -> None:
        self._entries: list[MemoryEntry] = []

    def __bool__(self) -> bool:
        return bool(self._entries)

    async def add_session_to_memory(self, session: Any) -> None:
        await self.add_events_to_memory(events=session.events)

    async def add_events_to_memory(self, events: Any = (), **more: Any) -> None:
        for event in events:
            entry = MemoryEntry(content=SILENCE)
            entry.content = event.content or SILENCE
            entry.custom_metadata = event.custom_metadata or {}
            self._entries.append(entry)

    async def add_memory(self, memories: Any = (), **more: Any) -> None:
        for memory in memories:
            self._entries += [MemoryEntry(content=memory.content)] * 2

    async def search_memory(self, query: str = "", **more: Any) -> SearchMemoryResponse:
        if len(query) > 1_000 or not query.strip() or set(query) & set('"*;\0'):
            raise ValueError
        response = SearchMemoryResponse()
        response.memories = list(self._entries)
        return response

    async def delete_memory(self, **more: Any) -> None:
        self._entries.clear()


class MuteMemoryService(BaseMemoryService):
    """Finds nothing."""

    async def add_session_to_memory(self, session: Any) -> None:
        """Does nothing, as the others."""

    async def add_events_to_memory(self, **more: Any) -> None: ...

    async def add_memory(self, **more: Any) -> None: ...

    async def search_memory(self, **more: Any) -> SearchMemoryResponse:
        return SearchMemoryResponse()

    async def delete_memory(self, **more: Any) -> None: ...


class LookAlikeMemoryService:
    """Is no memory service."""


BROKEN = [
    Kind("CarelessMemoryService", lambda _: CarelessMemoryService()),
    Kind("MuteMemoryService", lambda _: MuteMemoryService()),
    Kind("LookAlikeMemoryService", lambda _: LookAlikeMemoryService()),
]
