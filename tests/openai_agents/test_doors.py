"""The programs of every door, for the OpenAI Agents SDK."""

from __future__ import annotations

import json

import pytest
from helpers.door_programs import MORE_SCOPES, Door, DoorPrograms, RememberingPrograms

pytest.importorskip("agents", reason="openai-agents is not installed")

from agents import SQLiteSession
from agents.run import CallModelData, ModelInputData
from vecall.openai_agents import (
    IngestingSession,
    VecallSession,
    memory_tools,
    recall_filter,
)


class SessionDoor(Door):
    module = "vecall.openai_agents"
    framework = "agents"
    scopes = MORE_SCOPES

    def open(self, home):
        self.session = VecallSession(home.scope, home.memory, home.app, home.user)

    async def write(self, text):
        await self.session.add_items([{"role": "user", "content": text, "id": "same"}])

    async def read(self):
        return await self.session.get_items()

    async def clear(self):
        await self.session.clear_session()


class MemoryDoor(Door):
    module = "vecall.openai_agents"
    framework = "agents"

    def open(self, home):
        who = (home.memory, home.app, home.user)
        self.session = IngestingSession(SQLiteSession("same"), *who)
        self.tools = {tool.name: tool for tool in memory_tools(*who, write=True)}
        self.filter = recall_filter(*who)

    async def write(self, text):
        await self.session.add_items([{"role": "user", "content": text, "id": "same"}])

    async def read(self):
        question = json.dumps({"query": "zebra"})
        tool = self.tools["recall_memory"]
        return [await tool.on_invoke_tool(None, question), await self.recall()]

    async def recall(self):
        items = [{"role": "user", "content": "zebra"}]
        given = ModelInputData(input=items, instructions="")
        data = await self.filter(CallModelData(given, None, None))
        return data.input[0]["content"]


class TestSession(DoorPrograms):
    door = SessionDoor


class TestMemory(RememberingPrograms):
    door = MemoryDoor
