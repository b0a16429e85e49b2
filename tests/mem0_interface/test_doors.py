"""The programs of every door, for the methods of mem0."""

from __future__ import annotations

from helpers.door_programs import MORE_SCOPES, Door, RememberingPrograms
from helpers.services import PAIRS
from vecall.mem0 import AsyncMemory


class Mem0Door(Door):
    module = "vecall.mem0"
    # mem0 has no names with white space.
    pairs = tuple(pair for pair in PAIRS if len(pair[1].split(" ")) == 1)
    scopes = tuple(scope for scope in MORE_SCOPES if len(scope.split()) == 1)

    def open(self, home):
        self.memory = AsyncMemory(home.memory, app_name=home.app)
        self.names = {"user_id": home.user, "run_id": home.scope}

    async def write(self, text):
        await self.memory.add(text, **self.names)

    async def read(self):
        return [
            await self.memory.search("zebra", filters=self.names, threshold=0.0),
            await self.memory.get_all(filters=self.names),
        ]

    @property
    def memories(self):
        return self.home.memory.user(self.home.app, f"u:{self.home.user}")

    async def clear(self):
        return await self.memory.delete_all(**self.names)


class TestMem0(RememberingPrograms):
    door = Mem0Door
