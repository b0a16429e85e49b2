"""LangMem's two tools over the store: what a model remembers, changes and finds."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

pytest.importorskip("langgraph.store.base", reason="langgraph is not installed")
pytest.importorskip("langmem", reason="langmem is not installed")

from langmem import create_manage_memory_tool, create_search_memory_tool
from vecall.langgraph import VecallStore

NAMESPACE = ("memories", "{user}")


def counts(texts: list[str]) -> list[list[float]]:
    return [[text.count("tea"), text.count("bike"), 0.1] for text in texts]


class Tools:
    """The tools as an agent of one user calls them."""

    def __init__(self, store: VecallStore, user: str) -> None:
        self._config: Any = {"configurable": {"user": user}}
        self._manage = create_manage_memory_tool(NAMESPACE, store=store)
        self._search = create_search_memory_tool(NAMESPACE, store=store)

    def manage(self, **arguments: Any) -> str:
        """What the tool says; the last word is the id of the memory."""
        return str(self._manage.invoke(arguments, self._config))

    def found(self, query: str) -> list[str]:
        answer = self._search.invoke({"query": query}, self._config)
        return [each["value"]["content"] for each in json.loads(answer)]

    async def afound(self, query: str) -> list[str]:
        answer = await self._search.ainvoke({"query": query}, self._config)
        return [each["value"]["content"] for each in json.loads(answer)]


def test_langmem_remembers_changes_and_forgets_durably(tmp_path):
    index: Any = {"dims": 3, "embed": counts, "fields": ["content"]}
    path = tmp_path / "memory.db"
    with VecallStore(path, index=index) as store:
        alice, bob = Tools(store, "alice"), Tools(store, "bob")
        id_ = alice.manage(content="likes tea").split()[-1]
        alice.manage(content="has a bike")
        assert alice.found("tea") == ["likes tea", "has a bike"]
        assert alice.found("bike") == ["has a bike", "likes tea"]
        assert bob.found("tea") == []
        alice.manage(action="update", id=id_, content="likes tea, no: tea and tea")
        assert alice.found("tea")[0] == "likes tea, no: tea and tea"
        bob.manage(action="delete", id=id_)
        assert len(alice.found("tea")) == 2
    with VecallStore(path, index=index) as store:
        alice = Tools(store, "alice")
        assert alice.found("tea")[0] == "likes tea, no: tea and tea"
        alice.manage(action="delete", id=id_)
        assert alice.found("tea") == ["has a bike"]


def test_langmem_searches_on_an_event_loop():
    store = VecallStore(":memory:", index={"dims": 3, "embed": counts})

    async def work():
        async with store:
            await store.aput(("memories", "alice"), "1", {"content": "likes tea"})
            assert await Tools(store, "alice").afound("tea") == ["likes tea"]

    asyncio.run(work())
