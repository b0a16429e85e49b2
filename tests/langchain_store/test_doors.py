"""The programs of every door, for LangChain."""

from __future__ import annotations

import importlib.util

import pytest
from helpers.door_programs import MORE_SCOPES, Door, DoorPrograms, RememberingPrograms

pytest.importorskip("langchain_core", reason="langchain-core is not installed")

from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.messages import HumanMessage
from vecall.langchain import VecallChatMessageHistory, VecallVectorStore


class VectorStoreDoor(Door):
    module = "vecall.langchain"
    framework = "langchain_core"
    scopes = MORE_SCOPES

    def open(self, home):
        embedding = DeterministicFakeEmbedding(size=8)
        who = {"collection": home.scope, **home.who}
        self.store = VecallVectorStore(embedding, home.memory, **who)

    async def write(self, text):
        await self.store.aadd_texts([text], ids=["same"])

    async def read(self):
        return [
            await self.store.asimilarity_search("zebra", k=100),
            await self.store.aget_by_ids(["same"]),
        ]

    async def clear(self):
        return await self.store.adelete()


class HistoryDoor(Door):
    module = "vecall.langchain"
    framework = "langchain_core"
    scopes = MORE_SCOPES

    def open(self, home):
        self.history = VecallChatMessageHistory(
            home.scope, home.memory, home.app, home.user
        )

    async def write(self, text):
        await self.history.aadd_messages([HumanMessage(text)])

    async def read(self):
        return await self.history.aget_messages()

    async def clear(self):
        await self.history.aclear()


class MiddlewareDoor(Door):
    module = "vecall.langchain.middleware"
    framework = "langchain"

    def open(self, home):
        self.asked = []

    async def write(self, text):
        from helpers.langchain_agents import agent_of
        from langchain_core.messages import AIMessage

        who = (self.home.app, self.home.user)
        agent, model = agent_of(self.home.memory, who, AIMessage(" "))
        await agent.ainvoke({"messages": text})
        self.asked = model.asked[-1][:-1]

    async def read(self):
        await self.write("zebra")  # it is remembered, too, and has no number
        return self.asked

    async def recall(self):
        await self.read()
        return self.asked[0].content


class TestVectorStore(DoorPrograms):
    door = VectorStoreDoor


class TestChatMessageHistory(DoorPrograms):
    door = HistoryDoor


@pytest.mark.skipif(
    importlib.util.find_spec("langchain") is None, reason="langchain is not installed"
)
class TestMiddleware(RememberingPrograms):
    door = MiddlewareDoor
