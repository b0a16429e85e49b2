"""The programs of every door, for AutoGen."""

from __future__ import annotations

import pytest
from helpers.door_programs import Door, RememberingPrograms

pytest.importorskip("autogen_core", reason="autogen-core is not installed")

from autogen_core.memory import MemoryContent
from autogen_core.model_context import UnboundedChatCompletionContext
from autogen_core.models import UserMessage
from vecall.autogen import VecallMemory


class AutoGenDoor(Door):
    module = "vecall.autogen"
    framework = "autogen_core"

    def open(self, home):
        self.memory = VecallMemory(home.memory, home.app, home.user)

    async def write(self, text):
        await self.memory.add(MemoryContent(content=text, mime_type="text/plain"))

    async def context(self):
        context = UnboundedChatCompletionContext()
        await context.add_message(UserMessage(content="zebra", source="user"))
        await self.memory.update_context(context)
        return await context.get_messages()

    async def read(self):
        return [await self.memory.query("zebra"), await self.context()]

    async def clear(self):
        await self.memory.clear()

    async def close(self):
        await self.memory.close()

    async def recall(self):
        return (await self.context())[-1].content


class TestAutoGen(RememberingPrograms):
    door = AutoGenDoor
