"""A caller that gives up stops only itself."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future

import pytest
from helpers.memories import ALICE, Held, texts, until
from vecall.concurrency.locks import Claim, SingleFlight
from vecall.errors import EmbedderError


@pytest.mark.parametrize("durable", [False, True])
def test_a_cancelled_write_harms_no_other(open_service, tmp_path, in_time, durable):
    """A caller that gives up (a timeout, a closed connection) stops only itself."""
    service = open_service(tmp_path / "m.db" if durable else None)

    async def work() -> None:
        adds = [
            asyncio.ensure_future(service.add_memory(**ALICE, memories=[f"zebra {i}"]))
            for i in range(60)
        ]
        await asyncio.sleep(0)
        for add in adds[::2]:
            add.cancel()
        results = await asyncio.gather(*adds, return_exceptions=True)
        for i, result in enumerate(results):
            assert i % 2 == 0 or isinstance(result, list)
        await service.add_memory(**ALICE, memories=["zebra later"])

    in_time(lambda: asyncio.run(work()), timeout_s=6.0)
    found = texts(service)
    assert "zebra later" in found
    assert {f"zebra {i}" for i in range(1, 60, 2)} <= set(found)


def test_a_cancelled_search_harms_no_other(open_service, tmp_path, in_time):
    path = tmp_path / "m.db"
    service = open_service(path)
    service.sync.add_memory(**ALICE, memories=[f"zebra {i}" for i in range(2000)])
    service.close()
    service = open_service(path)

    async def work() -> None:
        searches = [
            asyncio.ensure_future(service.search_memory(**ALICE, query="zebra"))
            for _ in range(20)
        ]
        await asyncio.sleep(0)
        for search in searches[::2]:
            search.cancel()
        results = await asyncio.gather(*searches, return_exceptions=True)
        for result in results[1::2]:
            assert len(result.memories) == 5

    in_time(lambda: asyncio.run(work()))
    assert in_time(lambda: len(texts(service))) == 1000


def test_a_cancelled_embedding_harms_no_other(open_service, in_time):
    held = Held()
    service = open_service(embedder=held)

    async def work() -> None:
        adds = [
            asyncio.ensure_future(service.add_memory(**ALICE, memories=[f"zebra {i}"]))
            for i in range(9)
        ]
        await until(held.entered.is_set)
        for add in adds[::2]:
            add.cancel()
        await asyncio.sleep(0)
        held.go_on.set()
        results = await asyncio.gather(*adds, return_exceptions=True)
        assert all(isinstance(result, list) for result in results[1::2])

    in_time(lambda: asyncio.run(work()))
    assert set(texts(service)) >= {f"zebra {i}" for i in range(1, 9, 2)}


def test_a_caller_who_gives_up_a_text_that_another_embeds_cancels_it_for_no_caller():
    in_flight = SingleFlight()
    key = ("app", "alice", b"zebra")
    claimed: dict[int, Claim] = {}
    assert in_flight.claim_keys([key], claimed) == {}
    first, second = (in_flight.claim_keys([key], {})[0] for _ in range(2))
    assert not first.cancel()
    batch: Future[list[bytes | None]] = Future()
    in_flight.hand_claims_to_batch([key], batch)
    batch.set_result([b"a vector"])
    assert second.result(timeout=5) == b"a vector"


@pytest.mark.parametrize("waiters", [0, 2])
@pytest.mark.parametrize("end", ["arrived", "failed", "dropped", "abandoned"])
def test_a_text_whose_embedding_ended_can_be_claimed_again(waiters, end):
    """Whether another caller waits for it or not."""
    in_flight = SingleFlight()
    key = ("app", "alice", b"zebra")
    claimed: dict[int, Claim] = {}
    in_flight.claim_keys([key], claimed)
    waiting = [in_flight.claim_keys([key], {})[0] for _ in range(waiters)]
    batch: Future[list[bytes | None]] = Future()
    if end == "dropped":
        in_flight.drop_claims([key])
    elif end == "abandoned":
        in_flight.abandon_claims([key], claimed)
    else:
        in_flight.hand_claims_to_batch([key], batch)
        if end == "arrived":
            batch.set_result([b"a vector"])
        else:
            batch.set_exception(ValueError())
    for promise in waiting:
        if end == "arrived":
            assert promise.result(timeout=5) == b"a vector"
        else:
            assert isinstance(promise.exception(timeout=5), EmbedderError)
    again: dict[int, Claim] = {}
    assert in_flight.claim_keys([key], again) == {}
    assert list(again) == [0]
    # A late end of the first claim does not end the second one.
    in_flight.abandon_claims([key], claimed)
    assert list(in_flight.claim_keys([key], {})) == [0]
