"""The check of a version before each search: on whose thread, and how it ends."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from vecall import ClosedError, MemoryService

psycopg = pytest.importorskip("psycopg")

ME = {"app_name": "hotel", "user_id": "alice"}


def texts(memory: MemoryService) -> list[str]:
    hits = memory.sync.search_memory(**ME, query="okapi", top_k=100).memories
    return sorted(hit.text for hit in hits)


@pytest.fixture
def service(schema, open_service) -> MemoryService:
    made: MemoryService = open_service(schema.url, embedder=None)
    made.sync.add_memory(**ME, memories=["okapi 0"])
    assert texts(made) == ["okapi 0"]
    return made


def checker(memory: MemoryService) -> Any:
    return memory._memory.storage._checker  # type: ignore[attr-defined]


def sent(memory: MemoryService) -> tuple[int, int]:
    """The statements of the thread of checks, and those of callers."""
    own = checker(memory)
    return own._of_thread.sent, own._of_callers.sent


def test_a_search_without_an_event_loop_asks_on_its_own_thread(service):
    before = sent(service)
    for _ in range(5):
        texts(service)
    assert sent(service) == (before[0], before[1] + 5)


def test_a_search_on_an_event_loop_asks_on_another_thread(service):
    before = sent(service)

    async def search() -> None:
        await service.search_memory(**ME, query="okapi")
        texts(service)  # which blocks the loop, as a caller of `sync` has decided

    asyncio.run(search())
    assert sent(service) == (before[0] + 2, before[1])


def test_many_threads_find_what_each_wrote_last(service):
    def work(number: int) -> None:
        me = {"app_name": "hotel", "user_id": f"user {number}"}
        for turn in range(10):
            service.sync.add_memory(**me, memories=[f"okapi {number} {turn}"])
            hits = service.sync.search_memory(**me, query="okapi", top_k=100)
            assert len(hits.memories) == turn + 1

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))


def locked(schema: Any) -> Any:
    """A connection that lets every check of a schema wait."""
    connection = psycopg.connect(schema.server.url(), autocommit=False)
    connection.execute(f'LOCK TABLE "{schema.name}".part IN ACCESS EXCLUSIVE MODE')
    return connection


def test_an_interrupted_check_leaves_the_service_usable(
    schema, service, interrupt_once
):
    before = sent(service)
    with locked(schema):
        interrupt_once(lambda: sent(service) != before)  # the check has begun
        with pytest.raises(KeyboardInterrupt):
            texts(service)
    service.sync.add_memory(**ME, memories=["okapi 1"])
    assert texts(service) == ["okapi 0", "okapi 1"]
    assert sent(service)[1] == before[1] + 2


def test_callers_do_not_wait_for_each_others_slow_check(schema, service):
    """One waits for a lock; the next asks by the thread, and both are answered."""
    with ThreadPoolExecutor(2) as pool:
        with locked(schema):
            calls = [pool.submit(texts, service) for _ in range(2)]
            before = time.monotonic()
            while not all(sent(service)) and time.monotonic() < before + 10:
                time.sleep(0.01)
            assert all(sent(service))
        for call in calls:
            assert call.result(30) == ["okapi 0"]


def test_a_close_meanwhile_lets_the_check_end_and_closes_its_connection(
    schema, service
):
    statement = checker(service)._of_callers
    before = sent(service)
    with ThreadPoolExecutor(2) as pool:
        with locked(schema):
            search = pool.submit(texts, service)
            while sent(service) == before:
                time.sleep(0.01)
            closing = pool.submit(service.close)
        closing.result(30)
        with suppress(ClosedError):  # it may have to read rows after the close
            assert search.result(30) == ["okapi 0"]
    assert statement._connection.closed
    with pytest.raises(ClosedError):
        texts(service)


def test_a_lost_connection_of_callers_is_replaced(schema, service):
    number = checker(service)._of_callers._connection.info.backend_pid
    schema.server.execute(f"SELECT pg_terminate_backend({number})")
    assert texts(service) == ["okapi 0"]
    assert checker(service)._of_callers._connection.info.backend_pid != number
