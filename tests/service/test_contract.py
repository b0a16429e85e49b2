"""Two methods make a memory service; what else it can do, it says (S0.8, S1.7)."""

from __future__ import annotations

import asyncio

import pytest
from vecall import (
    BaseMemoryService,
    MemoryProtocol,
    MemoryService,
    SearchMemoryResponse,
)

ALICE = {"app_name": "app", "user_id": "alice"}


class Minimal(BaseMemoryService):
    """The least that is a memory service."""

    async def add_session_to_memory(self, session):
        return None

    async def search_memory(self, *, app_name, user_id, query):
        return SearchMemoryResponse()


def test_two_methods_are_enough_for_a_memory_service():
    """S0.8."""
    service = Minimal()
    assert isinstance(service, MemoryProtocol)
    assert service.capabilities == frozenset()
    found = asyncio.run(service.search_memory(**ALICE, query="x"))
    assert found.memories == []


def test_without_one_of_the_two_there_is_no_service():
    """S0.8."""

    class Half(BaseMemoryService):
        async def add_session_to_memory(self, session):
            return None

    with pytest.raises(TypeError):
        Half()


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("add_events_to_memory", {"events": []}),
        ("add_memory", {"memories": []}),
        ("get_memory", {"memory_id": "x"}),
        ("delete_memory", {"memory_id": "x"}),
    ],
)
def test_a_method_that_a_service_lacks_says_so(method, arguments):
    """S1.7."""
    call = getattr(Minimal(), method)
    with pytest.raises(NotImplementedError, match=method):
        asyncio.run(call(**ALICE, **arguments))


def test_anything_with_the_two_methods_keeps_the_contract():
    """S0.8: no base class is needed."""

    class Stranger:
        async def add_session_to_memory(self, session):
            return None

        async def search_memory(self, *, app_name, user_id, query):
            return SearchMemoryResponse()

    assert isinstance(Stranger(), MemoryProtocol)
    assert not isinstance(object(), MemoryProtocol)


def test_vecalls_own_service_can_do_all_of_it():
    """S0.8."""
    with MemoryService(embedder=None) as service:
        assert isinstance(service, MemoryProtocol)
        assert service.capabilities == {
            "add_events_to_memory",
            "add_memory",
            "get_memory",
            "delete_memory",
        }
