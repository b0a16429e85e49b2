"""Vector stores that only store and search: what works, and what is refused by name."""

from __future__ import annotations

import asyncio
import logging

import pytest
from helpers.clocks import SettableClock
from helpers.embedders import Recorder
from helpers.memories import ALICE
from helpers.sessions import session, turn, turns
from helpers.vector_stores.reference import ReferenceVectorStore
from vecall import ConfigError, StorageOptions, VectorStoreMemoryService
from vecall.tools import ForgetMemory, memory_tools
from vecall.vector_store import DeletingVectorStore, InMemoryVectorStore, VectorStore


class Bare:
    """A store with the two methods that every store has."""

    def __init__(self):
        self.full = ReferenceVectorStore()

    async def upsert(self, id, embedding, metadata):
        await self.full.upsert(id, embedding, metadata)

    async def search(self, embedding, top_k, filter=None):
        return await self.full.search(embedding, top_k, filter)


class OnlyDelete(Bare):
    """A store that deletes single rows, and cannot delete by a filter."""

    async def delete(self, id, *, app_name, user_id):
        return await self.full.delete(id, app_name=app_name, user_id=user_id)


def texts(service, query="turn", top_k=50):
    found = service.sync.search_memory(**ALICE, query=query, top_k=top_k)
    return sorted(memory.text for memory in found.memories)


def test_two_methods_make_a_vector_store():
    """S4.27, S4.28: the methods that delete are optional."""
    assert isinstance(Bare(), VectorStore)
    assert not isinstance(Bare(), DeletingVectorStore)
    assert isinstance(InMemoryVectorStore(), DeletingVectorStore)


def test_a_store_that_cannot_delete_remembers_and_finds():
    """S4.27: also what an observed session becomes."""
    with VectorStoreMemoryService(Bare(), Recorder(), trigger="session_end") as service:
        service.sync.add_session_to_memory(session(*turns(1, 2), id_="a"))
        service.sync.observe_session(session(*turns(3), id_="b"))
        service.sync.end_session(**ALICE, session_id="b")
        assert texts(service) == [f"turn word{n}" for n in (1, 2, 3)]


CALLS = {
    "delete_memory": (lambda s: s.delete_memory(**ALICE, memory_id="m"), "delete"),
    "propose_forget": (lambda s: s.propose_forget(**ALICE, query="turn"), "delete"),
    "delete_session": (
        lambda s: s.delete_session(**ALICE, session_id="s"),
        "delete_many",
    ),
    "delete_user": (lambda s: s.delete_user(**ALICE), "delete_many"),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_that_needs_a_missing_method_names_it(name):
    """S4.27, S4.28."""
    call, needed = CALLS[name]
    with VectorStoreMemoryService(Bare(), Recorder()) as service:
        service.sync.add_session_to_memory(session(*turns(1)))
        refused = pytest.raises(ConfigError, match=rf"{name}: needs .* {needed},")
        with refused:
            call(service.sync)
        with refused:
            asyncio.run(call(service))
        assert texts(service) == ["turn word1"]
        assert name in service.lacking
        assert name not in service.capabilities


def test_a_store_with_one_of_the_two_methods_has_what_that_one_allows():
    """S4.27, S4.28."""
    with VectorStoreMemoryService(OnlyDelete(), Recorder(), ttl=60) as service:
        (id_,) = service.sync.add_memory(**ALICE, memories=["turn"])
        service.sync.delete_memory(**ALICE, memory_id=id_)
        assert texts(service) == []
        assert service.lacking == {"delete_session", "delete_user"}
        with pytest.raises(ConfigError, match="delete_many"):
            service.sync.delete_user(**ALICE)


def test_a_ttl_needs_a_store_that_can_delete():
    """S1.7: else what has expired would stay in the store."""
    with pytest.raises(ConfigError, match=r"ttl: needs .* delete,"):
        VectorStoreMemoryService(Bare(), Recorder(), ttl=60)
    store = Bare()
    with VectorStoreMemoryService(store, Recorder()) as service:
        lasting = {"custom_metadata": {"ttl": 60}}
        event = {**turn(1), **lasting}
        for call in (
            lambda: service.sync.add_memory(**ALICE, memories=["turn"], **lasting),
            lambda: service.sync.add_session_to_memory(session(turn(2), event)),
            lambda: service.sync.observe_session(session(turn(2), event)),
        ):
            with pytest.raises(ConfigError, match=r"ttl: needs .* delete,"):
                call()
        assert store.full.rows == []
        assert service.sync.end_session(**ALICE, session_id="s") == []


def test_what_is_no_longer_valid_is_passed_over_where_it_cannot_be_deleted():
    store, clock = Bare(), SettableClock()
    with VectorStoreMemoryService(
        store, Recorder(), storage=StorageOptions(clock=clock)
    ) as service:
        until = {"valid_until": clock.wall() + 10}
        old = [{"text": f"turn {n}", "id": f"o{n}", **until} for n in range(20)]
        service.sync.add_memory(**ALICE, memories=[*old, "else one", "else two"])
        clock.let_pass(11)
        assert texts(service, "turn 3", top_k=2) == ["else one", "else two"]
        assert len(store.full.rows) == 22


def test_a_store_that_answers_with_deleted_rows_for_a_while_ends_no_search():
    class Late(OnlyDelete):
        async def delete(self, id, *, app_name, user_id):
            return True  # the row is still found

    clock = SettableClock()
    with VectorStoreMemoryService(
        Late(), Recorder(), storage=StorageOptions(clock=clock), ttl=5
    ) as service:
        service.sync.add_memory(**ALICE, memories=["turn one"])
        clock.let_pass(6)
        service.sync.add_memory(**ALICE, memories=["turn two"])
        assert texts(service, top_k=1) == ["turn two"]


def rewound(*events):
    taken = {"id": "r", "actions": {"rewind_before_invocation_id": "i"}}
    return session(*events, taken)


@pytest.mark.parametrize("observes", [False, True])
def test_what_a_rewind_takes_back_after_it_was_stored_is_deleted(observes):
    """S3.22: also of turns that wait."""
    events = [turn(1), {**turn(2), "invocation_id": "i"}]
    store = ReferenceVectorStore()
    with VectorStoreMemoryService(store, Recorder()) as service:
        if observes:
            service.sync.observe_session(session(*events))
            service.sync.observe_session(rewound(*events))
            service.sync.end_session(**ALICE, session_id="s")
        else:
            service.sync.add_session_to_memory(session(*events))
            service.sync.add_session_to_memory(rewound(*events))
        assert texts(service) == ["turn word1"]


def test_a_rewind_in_a_store_that_cannot_delete_is_logged(caplog):
    events = [turn(1), {**turn(2), "invocation_id": "i"}]
    with VectorStoreMemoryService(Bare(), Recorder()) as service:
        with caplog.at_level(logging.WARNING, "vecall"):
            service.sync.add_session_to_memory(rewound(*events))
            service.sync.add_session_to_memory(rewound(*events))
        assert texts(service) == ["turn word1"]
    assert caplog.text.count("no method delete") == 1


def test_the_tool_that_forgets_is_refused_where_the_store_cannot_delete():
    """S4.60."""
    with VectorStoreMemoryService(Bare(), Recorder()) as service:
        tools = memory_tools(service, "app", "alice", write=True)
        assert "forget_memory" not in {tool.name for tool in tools}
        with pytest.raises(ConfigError, match="propose_forget"):
            ForgetMemory(service, "app", "alice")


def test_all_of_a_session_or_a_user_is_deleted_with_what_waits():
    """S4.28."""
    store = ReferenceVectorStore()
    with VectorStoreMemoryService(store, Recorder()) as service:
        for id_ in ("a", "b", "c"):
            service.sync.add_session_to_memory(session(*turns(1, 2), id_=id_))
        service.sync.observe_session(session(*turns(3), id_="a"))
        assert service.sync.delete_session(**ALICE, session_id="a") == 3
        assert len(store.rows) == 4
        assert service.sync.end_session(**ALICE, session_id="a") == []
        service.sync.observe_session(session(*turns(4), id_="d"))
        assert service.sync.delete_user(**ALICE) == 5
        assert service.sync.end_session(**ALICE, session_id="d") == []
        assert store.rows == []
