"""Behind google-adk users are apart, and what is deleted stays deleted."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

pytest.importorskip("google.adk")

from helpers.adk import (
    ALICE,
    PARROT,
    a_session,
    a_trip,
    adk_service,
    an_event,
    entries,
    ingest,
    search,
    stored,
)
from vecall.adk import VecallMemoryService

service = pytest.fixture(adk_service)


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        (("hotel", "alice"), ("hotel", "bob")),
        (("hotel", "alice"), ("bank", "alice")),
        (("a/b", "c"), ("a", "b/c")),
        (("alice", "alice.smith"), ("alice.alice", "smith")),
        (("hotel", "alice"), ("hotel", "Alice")),
        (("hotel", "alice"), ("hotel", "alice ")),
        (("hotel", "Jos\u00e9"), ("hotel", "Jose\u0301")),
        (("hotel", "%"), ("hotel", "alice")),
    ],
)
def test_no_one_recalls_what_another_user_or_app_was_told(
    service: VecallMemoryService, mine: tuple[str, str], theirs: tuple[str, str]
) -> None:
    """S1.6, 2.0 Tenant key: same session and event ids on both sides."""
    here = {"app_name": mine[0], "user_id": mine[1]}
    there = {"app_name": theirs[0], "user_id": theirs[1]}
    ingest(service, a_session(an_event(PARROT, id="e1"), **here))
    assert search(service, "parrots", **there).memories == []
    ingest(service, a_session(an_event("I fear parrots.", id="e1"), **there))
    assert list(entries(service, "parrots", **here)) == [PARROT]
    assert list(entries(service, "parrots", **there)) == ["I fear parrots."]


def test_a_deleted_memory_stays_deleted(tmp_path: Path) -> None:
    """S1.6b: neither adding its session again nor a restart brings it back."""
    path = tmp_path / "memory.db"
    service = VecallMemoryService(path, embedder=None)
    ingest(service, a_trip())
    target = entries(service, "parrots")[PARROT].id
    asyncio.run(service.delete_memory(**ALICE, memory_id=target))
    ingest(service, a_trip())
    assert PARROT not in entries(service, "parrots room")
    service.close()
    service = VecallMemoryService(path, embedder=None)
    ingest(service, a_trip())
    assert PARROT not in entries(service, "parrots room")
    assert stored(service) == 2
    service.close()


def test_deleting_nothing_deletes_nothing(service: VecallMemoryService) -> None:
    """S1.6b: None, an id that is not there, and an id of somebody else."""
    ingest(service, a_trip())
    target = entries(service, "parrots")[PARROT].id

    async def scenario() -> None:
        await service.delete_memory(**ALICE)
        await service.delete_memory(**ALICE, memory_id=None)
        await service.delete_memory(**ALICE, memory_id="no such id")
        for scope in ({**ALICE, "user_id": "bob"}, {**ALICE, "app_name": "bank"}):
            await service.delete_memory(**scope, memory_id=target)

    asyncio.run(scenario())
    assert stored(service) == 3
    assert PARROT in entries(service, "parrots")
