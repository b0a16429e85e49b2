"""A memory service as a whole: its two faces, its counts, its options, its end."""

from __future__ import annotations

import asyncio
import inspect

import pytest
from helpers.conversations import ALICE, session, texts, turn
from helpers.methods import blocking_functions, coroutines
from vecall import (
    ConfigError,
    InvalidArgumentError,
    MemoryEntry,
    MemoryService,
    NotFoundError,
    SearchOptions,
)


def test_a_deleted_memory_is_gone(open_service):
    """S4.60: gone from search and from get; deleting again is a no-op."""
    service = open_service()
    first, second = service.sync.add_memory(**ALICE, memories=["zebra a", "zebra b"])
    service.sync.delete_memory(**ALICE, memory_id=first)
    service.sync.delete_memory(**ALICE, memory_id=first)
    service.sync.delete_memory(**ALICE, memory_id="never seen")
    service.sync.delete_memory(**ALICE, memory_id=None)
    assert texts(service, "zebra") == ["zebra b"]
    with pytest.raises(NotFoundError):
        service.sync.get_memory(**ALICE, memory_id=first)
    assert service.sync.get_memory(**ALICE, memory_id=second).text == "zebra b"


def test_stats_count_what_is_there(open_service):
    service = open_service()
    service.sync.add_session_to_memory(
        session(turn("e1", "zebra"), turn("e2", "okapi"))
    )
    service.sync.add_memory(app_name="concierge", user_id="bob", memories=["h\u00e9"])
    stats = service.sync.admin.stats()
    assert stats["users"] == 2
    assert stats["sessions"] == 1
    assert stats["memories"] == 3
    assert stats["text_bytes"] == 13
    assert stats["embedded"] == 0
    assert stats["model"] is None


def test_the_event_loop_and_the_blocking_face_do_the_same(open_service):
    """S0.10, S1.6: each method has a blocking twin."""
    service = open_service()

    async def on_loop() -> list[str]:
        ids = await service.add_session_to_memory(session(turn("e1", "zebra one")))
        ids += await service.add_events_to_memory(
            **ALICE, events=[turn("e2", "zebra two")], session_id="trip-1"
        )
        ids += await service.add_memory(**ALICE, memories=["zebra three"])
        await service.admin.warm(**ALICE)
        found = await service.search_memory(**ALICE, query="zebra")
        assert found == service.sync.search_memory(**ALICE, query="zebra")
        for id_ in ids:
            assert await service.get_memory(
                **ALICE, memory_id=id_
            ) == service.sync.get_memory(**ALICE, memory_id=id_)
        assert await service.admin.stats() == service.sync.admin.stats()
        await service.delete_memory(**ALICE, memory_id=ids[0])
        return ids

    ids = asyncio.run(on_loop())
    assert len(ids) == 3
    assert sorted(texts(service, "zebra")) == ["zebra three", "zebra two"]


def test_each_blocking_method_takes_what_its_namesake_takes():
    """S0.10: the two faces cannot drift apart."""
    twins = blocking_functions()
    assert {"search_memory", "admin.purge"} <= twins.keys()
    for name, method in coroutines().items():
        assert inspect.signature(method) == inspect.signature(twins[name]), name


def test_a_service_closes_at_the_end_of_its_block(tmp_path):
    path = tmp_path / "m.db"
    with MemoryService(path, embedder=None) as service:
        service.sync.add_memory(**ALICE, memories=["zebra"])

    async def block() -> list[MemoryEntry]:
        async with MemoryService(path, embedder=None) as again:
            return (await again.search_memory(**ALICE, query="zebra")).memories

    assert [memory.text for memory in asyncio.run(block())] == ["zebra"]


def test_services_in_memory_share_nothing(open_service):
    """S0.21: a service without a path is its own."""
    first, second = open_service(), open_service(":memory:")
    first.sync.add_memory(**ALICE, memories=["zebra"])
    assert texts(second, "zebra") == []


def test_a_floor_on_similarity_needs_an_embedder(open_service):
    """S0.28: refused at construction with a pointer to min_confidence."""
    with pytest.raises(ConfigError, match="min_confidence"):
        MemoryService(search=SearchOptions(min_similarity=0.5), embedder=None)
    with pytest.raises(ConfigError, match="min_confidence"):
        open_service().sync.search_memory(**ALICE, query="zebra", min_similarity=0.5)


@pytest.mark.parametrize("top_k", [0, -1])
def test_a_service_of_no_answers_is_refused(top_k):
    """S0.27: top_k below 1 is an error."""
    with pytest.raises(InvalidArgumentError):
        MemoryService(top_k=top_k, embedder=None)
