"""The programs of every door, for LlamaIndex."""

from __future__ import annotations

import pytest
from helpers.door_programs import MORE_SCOPES, Door, DoorPrograms, RememberingPrograms

pytest.importorskip("llama_index.core", reason="llama-index-core is not installed")

from llama_index.core.llms import ChatMessage
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores.types import VectorStoreQuery
from vecall.llama_index import VecallMemoryBlock, VecallVectorStore


class VectorStoreDoor(Door):
    module = "vecall.llama_index"
    framework = "llama_index"
    scopes = MORE_SCOPES

    def open(self, home):
        who = {"collection": home.scope, **home.who}
        self.store = VecallVectorStore(home.memory, **who)

    async def write(self, text):
        node = TextNode(id_="same", text=text, embedding=[1.0, float(len(text))])
        await self.store.async_add([node])

    async def read(self):
        query = VectorStoreQuery(query_embedding=[1.0, 1.0], similarity_top_k=99)
        found = await self.store.aquery(query)
        return [
            [node.get_content() for node in found.nodes],
            [node.get_content() for node in await self.store.aget_nodes()],
            [node.get_content() for node in await self.store.aget_nodes(["same"])],
        ]

    async def clear(self):
        await self.store.aclear()


class BlockDoor(Door):
    module = "vecall.llama_index"
    framework = "llama_index"

    def open(self, home):
        self.block = VecallMemoryBlock(home.memory, home.app, home.user)

    async def write(self, text):
        await self.block.aput([ChatMessage(role="user", content=text)], session_id="s")

    async def read(self):
        return await self.block.aget([ChatMessage(role="user", content="zebra")])

    async def recall(self):
        return await self.read()


class TestVectorStore(DoorPrograms):
    door = VectorStoreDoor


class TestMemoryBlock(RememberingPrograms):
    door = BlockDoor
