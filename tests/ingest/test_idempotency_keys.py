"""Idempotency keys: a call is carried out once, whoever sends it again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from helpers.clocks import SettableClock
from helpers.memories import ALICE, BOB, texts
from vecall import (
    ConflictError,
    MemoryEntry,
    MemoryService,
    VecallError,
)

KEYED = {**ALICE, "idempotency_key": "call-1"}


def stored(service: MemoryService) -> int:
    return int(service.sync.admin.stats()["memories"])


def test_a_call_that_is_sent_again_is_carried_out_once(open_service, tmp_path):
    """Guarantee 9, also after reopening, and for all three ways of adding."""
    path = tmp_path / "m.db"
    turn = {"id": "e1", "author": "user", "text": "zebra turn"}
    session = {**ALICE, "id": "s", "events": [turn, {**turn, "id": "e2"}]}

    def calls(service: MemoryService) -> list[list[str]]:
        return [
            service.sync.add_memory(**KEYED, memories=["zebra 1", "zebra 2"]),
            service.sync.add_session_to_memory(session, idempotency_key="call-2"),
            service.sync.add_events_to_memory(
                **ALICE, events=[turn], idempotency_key="call-3"
            ),
        ]

    service = open_service(path)
    first = calls(service)
    assert [len(ids) for ids in first] == [2, 2, 1]
    count = stored(service)
    assert calls(service) == first
    # A memory that was deleted since then does not come back.
    service.sync.delete_memory(**ALICE, memory_id=first[0][0])
    service.sync.add_memory(**ALICE, memories=[MemoryEntry("zebra 3", id=first[0][1])])
    service.close()
    service = open_service(path)
    assert calls(service) == first
    assert stored(service) == count - 1
    assert texts(service, "zebra") == ["zebra 3", *["zebra turn"] * 3]


def test_a_key_is_good_for_one_content_of_one_user(open_service, tmp_path):
    service = open_service(tmp_path / "m.db")
    service.sync.add_memory(**KEYED, memories=["zebra 1"])
    for other in (
        ["zebra 2"],
        ["zebra 1", "zebra 2"],
        [{"content": "zebra 1", "id": "x"}],
        [{"content": "zebra 1", "author": "user"}],
        [{"content": "zebra 1", "custom_metadata": {"a": 1}}],
    ):
        with pytest.raises(ConflictError) as caught:
            service.sync.add_memory(**KEYED, memories=other)
        assert "zebra" not in str(caught.value)
    assert stored(service) == 1
    service.sync.add_memory(**{**KEYED, **BOB}, memories=["zebra 2"])
    service.sync.add_memory(**{**KEYED, "app_name": "other"}, memories=["zebra 3"])
    assert stored(service) == 3
    key = {**ALICE, "idempotency_key": "call-2"}
    service.sync.add_memory(**key, memories=[{"id": "a1", "content": "zebra"}])
    with pytest.raises(ConflictError):
        service.sync.add_memory(**key, memories=[{"id": "a", "content": "1zebra"}])
    assert texts(service, "zebra") == ["zebra", "zebra 1"]


def test_a_key_is_free_again_after_thirty_days(open_service):
    clock = SettableClock()
    service = open_service(clock=clock, maintenance_interval=None)

    def add(key: str, text: str) -> list[str]:
        return service.sync.add_memory(**ALICE, memories=[text], idempotency_key=key)

    add("call-1", "zebra 1")
    clock.let_pass(29 * 86_400)
    add("call-2", "zebra 2")
    with pytest.raises(ConflictError):
        add("call-1", "zebra 3")
    clock.let_pass(2 * 86_400)
    add("call-3", "zebra 2")
    assert add("call-1", "zebra 3")


@pytest.mark.parametrize("key", ["", "a\0b", "\ud800", "x" * 513, 7])
def test_a_key_that_is_no_name_is_refused(open_service, tmp_path, key):
    service = open_service(tmp_path / "m.db")
    with pytest.raises(VecallError, match="idempotency_key"):
        service.sync.add_memory(**ALICE, memories=["zebra"], idempotency_key=key)
    assert stored(service) == 0


def test_of_many_calls_with_one_key_exactly_one_wins(open_service, tmp_path):
    """In one process and in two services at a time."""
    path = tmp_path / "m.db"
    services = [open_service(path), open_service(path)]

    async def race(key: str, same: bool) -> list[Any]:
        calls = [
            services[i % 2].add_memory(
                **ALICE,
                memories=[f"zebra {key} {0 if same else i}"],
                idempotency_key=key,
            )
            for i in range(40)
        ]
        return await asyncio.gather(*calls, return_exceptions=True)

    alike = asyncio.run(race("alike", True))
    assert all(ids == alike[0] for ids in alike)
    apart = asyncio.run(race("apart", False))
    assert sum(isinstance(ids, list) for ids in apart) == 1
    assert sum(isinstance(ids, ConflictError) for ids in apart) == 39
    assert stored(services[0]) == 2
