"""The programs of every door, for LangGraph."""

from __future__ import annotations

import pytest
from helpers.door_programs import MORE_SCOPES, Door, DoorPrograms

pytest.importorskip("langgraph.store.base")

from vecall.langgraph import VecallStore


def vector(texts):
    return [[float(len(text)), 1.0] for text in texts]


class StoreDoor(Door):
    module = "vecall.langgraph"
    framework = "langgraph"
    scopes = tuple(scope for scope in MORE_SCOPES if "." not in scope)

    def open(self, home):
        index = {"embed": vector, "fields": ["text"]}
        self.store = VecallStore(home.memory, **home.who, index=index)
        self.namespace = (home.scope,)

    async def write(self, text):
        await self.store.aput(self.namespace, "same", {"text": text})

    async def read(self):
        names = await self.store.alist_namespaces(prefix=self.namespace, limit=99)
        assert set(names) <= {self.namespace}
        return [
            await self.store.aget(self.namespace, "same"),
            await self.store.asearch(self.namespace, limit=99),
            await self.store.asearch(self.namespace, query="zebra", limit=99),
            await self.store.asearch(self.namespace, filter={"text": {"$ne": ""}}),
        ]

    async def clear(self):
        await self.store.adelete(self.namespace, "same")


class TestStore(DoorPrograms):
    door = StoreDoor
