"""The programs of every door, for Microsoft Agent Framework."""

from __future__ import annotations

import pytest
from helpers.door_programs import MORE_SCOPES, Door, DoorPrograms, RememberingPrograms

pytest.importorskip("agent_framework", reason="agent-framework-core is not installed")

from agent_framework import AgentSession, Message, SessionContext
from vecall.agent_framework import VecallContextProvider, VecallHistoryProvider


class ContextDoor(Door):
    module = "vecall.agent_framework"
    framework = "agent_framework"

    def open(self, home):
        self.provider = VecallContextProvider(home.memory, home.app, home.user)

    async def step(self, name, *messages):
        context = SessionContext(session_id="same", input_messages=list(messages))
        session = AgentSession(session_id="same")
        step = getattr(self.provider, name)
        await step(agent=None, session=session, context=context, state={})
        return [message.text for message in context.get_messages()]

    async def write(self, text):
        await self.step("after_run", Message("user", [text], message_id="same"))

    async def read(self):
        return await self.step("before_run", Message("user", ["zebra"]))

    async def recall(self):
        return "\n".join(await self.read())


class HistoryDoor(Door):
    module = "vecall.agent_framework"
    framework = "agent_framework"
    scopes = MORE_SCOPES

    def open(self, home):
        self.history = VecallHistoryProvider(home.memory, home.app, home.user)

    async def write(self, text):
        await self.history.save_messages(self.home.scope, [Message("user", [text])])

    async def read(self):
        found = await self.history.get_messages(self.home.scope)
        return [message.text for message in found]

    async def clear(self):
        await self.history.clear(self.home.scope)


class TestContextProvider(RememberingPrograms):
    door = ContextDoor


class TestHistoryProvider(DoorPrograms):
    door = HistoryDoor
