"""Coroutines that another library than asyncio runs are refused before they begin."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from helpers.embedders import Recorder
from helpers.memories import ALICE, texts
from helpers.methods import method_of
from vecall import ConfigError, MemoryService, VectorStoreMemoryService
from vecall.vector_store import InMemoryVectorStore

SESSION = {"id": "s", "appName": "app", "userId": "alice", "events": []}
CALLS: dict[str, dict[str, Any]] = {
    "add_memory": {**ALICE, "memories": ["likes tea"]},
    "add_events_to_memory": {**ALICE, "events": [{"content": "I like tea"}]},
    "add_session_to_memory": {"session": SESSION},
    "observe_session": {"session": SESSION},
    "end_session": {**ALICE, "session_id": "s"},
    "search_memory": {**ALICE, "query": "coffee"},
    "get_memory": {**ALICE, "memory_id": "first"},
    "mark_used": {**ALICE, "memory_ids": ["first"]},
    "delete_memory": {**ALICE, "memory_id": "first"},
    "delete_session": {**ALICE, "session_id": "s"},
    "delete_user": ALICE,
    "update_memory": {**ALICE, "memory_id": "first", "content": "likes tea"},
    "archive_memory": {**ALICE, "memory_id": "first"},
    "propose_forget": {**ALICE, "query": "coffee"},
    "admin.delete_app": {"app_name": "app", "confirm": "app"},
    "admin.purge": {},
    "admin.run_due": {},
    "admin.stats": {},
    "admin.warm": ALICE,
}


def refuse(service: Any, name: str, **arguments: Any) -> None:
    """Run a coroutine outside of asyncio and see that it is refused."""
    method = method_of(service, name)
    known = inspect.signature(method).parameters
    coroutine = method(**{key: arguments[key] for key in arguments if key in known})
    with pytest.raises(ConfigError, match="asyncio"):
        coroutine.send(None)


@pytest.mark.parametrize("name", CALLS)
def test_a_coroutine_outside_of_asyncio_writes_reads_and_embeds_nothing(
    open_service, tmp_path, monkeypatch, name
):
    path = tmp_path / "memory.db"
    first = {"id": "first", "content": "likes coffee"}
    with MemoryService(path, embedder=Recorder(4)) as service:
        service.sync.add_memory(**ALICE, memories=[first])
    embedder = Recorder(4)
    service = open_service(path, embedder=embedder, maintenance_interval=None)
    memory = service._memory

    def begun(*_: object, **__: object) -> None:
        pytest.fail("some work was begun")

    with monkeypatch.context() as watched:
        watched.setattr(memory.storage, "submit", begun)
        watched.setattr(memory.threads, "short", begun)
        watched.setattr(memory.threads, "long", begun)
        watched.setattr(memory.search_index.partitions, "synchronize_partition", begun)
        watched.setattr(embedder, "embed", begun)
        refuse(service, name, **CALLS[name])
    assert texts(service) == ["likes coffee"]


def test_a_search_outside_of_asyncio_is_refused_also_where_nothing_has_to_be_read(
    open_service,
):
    service = open_service(embedder=None)
    service.sync.add_memory(**ALICE, memories=["likes tea"])
    assert texts(service, "tea") == ["likes tea"]
    refuse(service, "search_memory", **ALICE, query="tea")


def test_a_block_outside_of_asyncio_is_refused_where_it_begins(open_service):
    service = open_service(embedder=None)
    with pytest.raises(ConfigError, match="asyncio"):
        service.__aenter__().send(None)
    service.sync.add_memory(**ALICE, memories=["likes tea"])


@pytest.mark.parametrize("name", ["add_memory", "search_memory", "delete_user"])
def test_a_service_over_a_vector_store_refuses_them_too(name):
    store = InMemoryVectorStore()
    with VectorStoreMemoryService(store, Recorder(4)) as service:
        service.sync.add_memory(**ALICE, memories=["likes coffee"])
        refuse(service, name, **CALLS[name])
        found = service.sync.search_memory(**ALICE, query="likes coffee").memories
        assert [memory.text for memory in found] == ["likes coffee"]
