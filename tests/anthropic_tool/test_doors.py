"""The programs of every door, for Anthropic's memory tool."""

from __future__ import annotations

import re

import pytest
from helpers.door_programs import Door, DoorPrograms

pytest.importorskip("anthropic", reason="anthropic is not installed")

from anthropic.lib.tools import ToolError
from vecall.anthropic import AsyncVecallMemoryTool


class ToolDoor(Door):
    module = "vecall.anthropic"
    framework = "anthropic"
    scopes = ("a", "ab", "A", "a%", "a_", "a b", "a:b", "a*", "a.b", "c/a", "\u00e9")

    def open(self, home):
        self.tool = AsyncVecallMemoryTool(home.memory, **home.who)
        self.folder = f"/memories/{home.scope}"
        self.path = f"{self.folder}/same.md"

    async def call(self, command, **more):
        return await self.tool.call({"command": command, **more})

    async def stored(self):
        try:
            return await self.call("view", path=self.path)
        except ToolError:
            return ""

    async def write(self, text):
        if found := re.search(r"zebra \d+", await self.stored()):
            texts = {"old_str": found[0], "new_str": text}
            await self.call("str_replace", path=self.path, **texts)
        else:
            await self.call("create", path=self.path, file_text=text)

    async def read(self):
        stored = await self.stored()
        if not stored:
            return await self.call("view", path="/memories")
        listed = await self.call("view", path=self.folder)
        assert listed.count("/memories/") == 3, listed  # title, folder, one file
        return stored

    async def clear(self):
        await self.call("delete", path=self.folder)

    async def close(self):
        await self.tool.aclose()


class TestMemoryTool(DoorPrograms):
    door = ToolDoor
