"""The programs of every door, for CrewAI."""

from __future__ import annotations

import pytest
from helpers.door_programs import SCOPES, Door, DoorPrograms

pytest.importorskip("crewai", reason="crewai is not installed")

from crewai.memory.types import MemoryRecord
from vecall.crewai import VecallStorage


class StorageDoor(Door):
    module = "vecall.crewai"
    framework = "crewai"
    scopes = tuple(f"/{scope}" for scope in (*SCOPES, "c/a", "a.b"))

    def open(self, home):
        self.storage = VecallStorage(home.memory, **home.who)

    async def write(self, text):
        scope = self.home.scope
        record = MemoryRecord(
            id=f"same in {scope}", content=text, scope=scope, embedding=[1.0, 2.0]
        )
        await self.storage.asave([record])

    async def read(self):
        scope = self.home.scope
        found = await self.storage.asearch([1.0, 1.0], scope_prefix=scope, limit=99)
        return [record.content for record, _ in found]

    async def clear(self):
        return await self.storage.adelete(scope_prefix=self.home.scope)


class TestStorage(DoorPrograms):
    door = StorageDoor
