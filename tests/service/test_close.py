"""Closing: what waits is finished or told, and nothing is left behind."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from helpers.memories import ALICE, WAIT_S, Held, texts, until
from vecall import ClosedError, MemoryService


def test_closing_finishes_the_writes_that_wait(open_service, tmp_path, in_time):
    """`close` finishes pending writes: each is in the file, and acknowledged."""
    path = tmp_path / "m.db"
    service = open_service(path)

    async def work() -> list[Any]:
        adds = [
            asyncio.ensure_future(service.add_memory(**ALICE, memories=[f"zebra {i}"]))
            for i in range(50)
        ]
        await asyncio.sleep(0)
        service.close()
        return await asyncio.gather(*adds, return_exceptions=True)

    results = in_time(lambda: asyncio.run(work()))
    refused = [result for result in results if not isinstance(result, list)]
    assert all(isinstance(result, ClosedError) for result in refused)
    kept = [
        f"zebra {i}" for i, result in enumerate(results) if isinstance(result, list)
    ]
    assert texts(open_service(path)) == sorted(kept)
    assert len(kept) == 50


def test_closing_tells_those_who_wait_that_it_closed(open_service, tmp_path, in_time):
    """A search or an ingest that is caught by `close` ends with ClosedError or well.

    asyncio.CancelledError would mean that the caller's own task was cancelled.
    """
    held = Held()
    service = open_service(tmp_path / "m.db", embedder=held)

    async def work() -> list[Any]:
        waiting = [
            asyncio.ensure_future(service.search_memory(**ALICE, query=f"zebra {i}"))
            for i in range(5)
        ]
        waiting += [
            asyncio.ensure_future(service.add_memory(**ALICE, memories=[f"zebra {i}"]))
            for i in range(5)
        ]
        await until(held.entered.is_set)
        closing = asyncio.get_running_loop().run_in_executor(None, service.close)
        await asyncio.sleep(0)
        held.go_on.set()
        await closing
        done = await asyncio.gather(*waiting, return_exceptions=True)
        return [result for result in done if isinstance(result, BaseException)]

    for error in in_time(lambda: asyncio.run(work())):
        assert isinstance(error, ClosedError), repr(error)


def test_blocking_calls_caught_by_close_end_as_closed(open_service, tmp_path, in_time):
    """The same without a loop: neither CancelledError nor RuntimeError."""
    held = Held()
    service = open_service(tmp_path / "m.db", embedder=held)
    outcomes: list[BaseException | None] = []

    def call(number: int) -> None:
        try:
            if number % 2:
                service.sync.search_memory(**ALICE, query=f"zebra {number}")
            else:
                service.sync.add_memory(
                    **ALICE, memories=[f"zebra {number}x{i}" for i in range(70)]
                )
        except BaseException as error:
            outcomes.append(error)
        else:
            outcomes.append(None)

    threads = [threading.Thread(target=call, args=(i,), daemon=True) for i in range(6)]
    for thread in threads:
        thread.start()
    assert held.entered.wait(WAIT_S)
    closing = threading.Thread(target=service.close, daemon=True)
    closing.start()
    held.go_on.set()
    for thread in [closing, *threads]:
        thread.join(WAIT_S)
        assert not thread.is_alive()
    assert len(outcomes) == 6
    for outcome in outcomes:
        assert outcome is None or isinstance(outcome, ClosedError), repr(outcome)


def test_every_use_after_close_is_refused(open_service, tmp_path):
    """contracts.md, errors: ClosedError; closing again is fine."""
    service = open_service(tmp_path / "m.db")
    service.sync.add_memory(**ALICE, memories=["zebra"])
    service.close()
    service.close()
    sync = service.sync
    event = {"id": "e", "text": "zebra"}
    for call in (
        lambda: sync.search_memory(**ALICE, query="zebra"),
        lambda: sync.search_memory(**ALICE, query=""),
        lambda: sync.add_memory(**ALICE, memories=["zebra"]),
        lambda: sync.add_memory(**ALICE, memories=[]),
        lambda: sync.add_events_to_memory(**ALICE, events=[event]),
        lambda: sync.add_session_to_memory({**ALICE, "id": "s", "events": [event]}),
        lambda: sync.get_memory(**ALICE, memory_id="x"),
        lambda: sync.delete_memory(**ALICE, memory_id="x"),
        lambda: sync.delete_memory(**ALICE, memory_id=None),
        lambda: sync.admin.warm(**ALICE),
        sync.admin.stats,
        lambda: asyncio.run(service.search_memory(**ALICE, query="zebra")),
        lambda: asyncio.run(service.admin.stats()),
    ):
        with pytest.raises(ClosedError):
            call()


def test_threads_may_close_at_the_same_time(open_service, tmp_path, in_time):
    service = open_service(tmp_path / "m.db")
    service.sync.add_memory(**ALICE, memories=["zebra"])
    with ThreadPoolExecutor(6) as pool:
        in_time(lambda: list(pool.map(lambda _: service.close(), range(6))))
    assert texts(open_service(tmp_path / "m.db")) == ["zebra"]


def test_leaving_an_async_block_does_not_stop_the_loop(tmp_path, in_time):
    """`async with` ends while old rows are embedded: the loop must not stand still."""
    path = tmp_path / "m.db"
    with MemoryService(path, embedder=None) as service:
        service.sync.add_memory(**ALICE, memories=["zebra"])
    held = Held()

    async def work() -> None:
        service = MemoryService(path, embedder=held)
        await until(held.entered.is_set)
        leaving = asyncio.ensure_future(service.__aexit__(None, None, None))
        await asyncio.sleep(0)  # the block is being left
        held.go_on.set()
        await leaving

    in_time(lambda: asyncio.run(work()), timeout_s=5.0)


def test_a_closed_service_leaves_no_thread(open_service, tmp_path):
    before = set(threading.enumerate())
    for path in (None, tmp_path / "m.db"):
        service = open_service(path, embedder=lambda texts: [[1.0]] * len(texts))
        service.sync.add_memory(**ALICE, memories=["zebra"])
        texts(service)
        service.close()
    assert set(threading.enumerate()) <= before
