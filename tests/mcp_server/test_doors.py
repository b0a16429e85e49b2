"""The programs of every door, for the Model Context Protocol."""

from __future__ import annotations

import pytest
from helpers.door_programs import Door, RememberingPrograms

pytest.importorskip("mcp", reason="mcp is not installed")

from vecall.mcp.answers import Answers
from vecall.mcp.tools import Access


class ServerDoor(Door):
    module = "vecall.mcp"
    framework = "mcp"

    def open(self, home):
        self.answers = Answers(home.memory, Access(**home.who), max_tokens=2_000)

    async def call(self, name, **arguments):
        return await self.answers.call_tool(name, arguments)

    async def write(self, text):
        await self.call("add_memory", text=text)

    async def read(self):
        return [
            await self.call("search_memory", query="zebra"),
            await self.call("list_memories"),
            await self.recall(),
        ]

    async def recall(self):
        (content,) = (await self.answers.read_resource("memory://recent", 4))[
            "contents"
        ]
        return content["text"]


class TestServer(RememberingPrograms):
    door = ServerDoor
