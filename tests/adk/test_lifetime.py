"""Restarts, threads, event loops and closing, behind google-adk."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from vecall import StorageOptions

pytest.importorskip("google.adk")

import vecall
from helpers.adk import a_trip, an_event, ingest, search, stored
from vecall.adk import VecallMemoryService


def test_a_file_holds_everything_over_a_restart(tmp_path: Path) -> None:
    """S1.3: nothing is closed first, as google-adk never closes a memory service."""
    path = tmp_path / "memory.db"
    first = VecallMemoryService(path, embedder=None)
    ingest(first, a_trip())
    second = VecallMemoryService(path, embedder=None)
    assert search(second, "quiet room") == search(first, "quiet room")
    first.close()
    second.close()


def test_event_loops_and_threads_share_one_service(tmp_path: Path) -> None:
    """S0.31: made without a loop, used from three loops at once and from one after."""
    service = VecallMemoryService(
        tmp_path / "memory.db",
        storage=StorageOptions(durability="process"),
        embedder=None,
    )
    failed: list[BaseException] = []

    async def converse(user: str) -> None:
        for turn in range(15):
            event = an_event(f"{user} likes parrots {turn}", id=f"e{turn}")
            await service.add_events_to_memory(
                app_name="hotel", user_id=user, events=[event], session_id="s"
            )
            found = await service.search_memory(
                app_name="hotel", user_id=user, query=f"parrots {turn}"
            )
            assert found.memories
            for entry in found.memories:
                assert entry.content.parts[0].text.startswith(f"{user} ")

    def work(name: str) -> None:
        try:
            asyncio.run(converse(name))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert failed == []
    asyncio.run(converse("d"))
    assert stored(service) == 60
    service.close()


def test_a_service_closes_what_it_opened_and_nothing_else() -> None:
    """S0.31: one vecall service may stand behind several doors."""
    memory = vecall.MemoryService(embedder=None)
    borrowed = VecallMemoryService(memory=memory)
    assert borrowed.memory is memory
    borrowed.close()
    ingest(borrowed, a_trip())
    assert memory.sync.admin.stats()["memories"] == 3
    memory.close()
    owned = VecallMemoryService(embedder=None)
    owned.close()
    owned.close()
    with pytest.raises(vecall.ClosedError):
        search(owned, "parrots")
