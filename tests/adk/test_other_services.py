"""google-adk's contract over the other memory services of vecall."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("google.adk")

import vecall
from helpers.adk import ALICE, PARROT, ROOM, a_runner, a_trip, say
from helpers.embedders import Recorder
from vecall import InMemoryMemoryService, VectorMemoryService, VectorStoreMemoryService
from vecall.adk import VecallMemoryPlugin, VecallMemoryService
from vecall.vector_store import InMemoryVectorStore

SERVICES = {
    "in memory": lambda: InMemoryMemoryService("words"),
    "vectors": lambda: VectorMemoryService(Recorder(), top_k=20),
    "vector store": lambda: VectorStoreMemoryService(
        InMemoryVectorStore(), Recorder(), top_k=20
    ),
}


@pytest.mark.parametrize("make", SERVICES.values(), ids=SERVICES.keys())
def test_any_service_of_vecall_serves_google_adk(make: Any) -> None:
    """S0.30: sessions, the plugin, searching and deleting, without AttributeError."""
    with make() as below:
        service = VecallMemoryService(memory=below)

        async def scenario() -> None:
            await service.add_session_to_memory(a_trip())
            runner, _ = a_runner(service, plugins=(VecallMemoryPlugin(),))
            await say(runner, "Parrots, I said.", session="other")
            await runner.close()
            found = await service.search_memory(**ALICE, query="parrots")
            by_text = {each.content.parts[0].text: each.id for each in found.memories}
            assert {PARROT, "Parrots, I said."} <= by_text.keys()
            await service.delete_memory(**ALICE, memory_id=by_text[PARROT])
            await service.delete_memory(**ALICE, memory_id="nobody's")
            again = await service.search_memory(**ALICE, query="parrots quiet room")
            texts = {each.content.parts[0].text for each in again.memories}
            assert PARROT not in texts
            assert ROOM in texts

        asyncio.run(scenario())


def test_what_a_service_cannot_do_is_a_typed_error() -> None:
    """S0.30, S4.16: a vector store keeps no turns until a session ends."""
    with SERVICES["vector store"]() as below:
        service = VecallMemoryService(memory=below)
        if not hasattr(below, "end_session"):
            for call in (service.observe_session, service.end_session):
                with pytest.raises(vecall.ConfigError, match="_session"):
                    asyncio.run(call(a_trip()))
