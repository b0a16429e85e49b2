"""The programs of every door, for google-adk."""

from __future__ import annotations

import pytest
from helpers.door_programs import Door, RememberingPrograms

pytest.importorskip("google.adk", reason="google-adk is not installed")

from google.adk.events import Event
from google.adk.sessions import Session
from google.genai import types
from vecall.adk import VecallMemoryService


class MemoryServiceDoor(Door):
    module = "vecall.adk"
    framework = "google.adk"

    def open(self, home):
        self.service = VecallMemoryService(memory=home.memory)

    async def write(self, text):
        content = types.Content(role="user", parts=[types.Part(text=text)])
        event = Event(id="same", author="user", content=content, timestamp=1.0)
        session = Session(id="same", **self.home.who, events=[event])
        await self.service.add_session_to_memory(session)

    async def read(self):
        found = await self.service.search_memory(**self.home.who, query="zebra")
        return [part.text for memory in found.memories for part in memory.content.parts]


class TestMemoryService(RememberingPrograms):
    door = MemoryServiceDoor

    # tests/package has this test; google-adk takes seconds to import.
    test_importing_vecall_does_not_import_the_framework = None
