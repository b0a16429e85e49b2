"""Slow embedders, loads and writes never stop an event loop (pain 11)."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable
from typing import Any

import pytest
import vecall.operations.session_triggers
import vecall.operations.writes
from helpers.embedders import Recorder
from helpers.memories import ALICE, Held, texts, until
from helpers.processes import HOLDER
from vecall import FunctionEmbedder
from vecall.store import Draft

pytestmark = pytest.mark.xdist_group("timing")


async def longest_stall(work: Awaitable[Any]) -> tuple[float, int]:
    """Run some work beside a coroutine that reads the loop's own clock at every turn.

    Returns the most that the loop's thread computed between two turns, as a share of
    what the whole process computed, and the number of turns. Processor time, because
    the clock on the wall also counts what the machine gave to others. Below 0.1 s it
    counts as none.
    """
    task = asyncio.ensure_future(work)
    begin = time.process_time()
    longest, turns, last = 0.0, 0, time.thread_time()
    while not task.done():
        await asyncio.sleep(0.0002)  # with none, the turns take most of the time
        now = time.thread_time()
        longest, last, turns = max(longest, now - last), now, turns + 1
    await task
    whole = time.process_time() - begin
    return 0.0 if longest < 0.1 else longest / whole, turns


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_slow_embedder_blocks_no_coroutine(open_service, asynchronous):
    """The embedder waits for a coroutine of the very loop that waits for it."""
    held = Held()

    async def embed(texts: list[str]) -> list[list[float]]:
        return held.embed(texts)

    embedder = FunctionEmbedder(embed, dimensions=3) if asynchronous else held
    service = open_service(embedder=embedder)

    async def work() -> None:
        for call in (
            service.add_memory(**ALICE, memories=["zebra"]),
            service.search_memory(**ALICE, query="zebra"),
        ):
            held.entered.clear()
            held.go_on.clear()
            task = asyncio.ensure_future(call)
            await until(held.entered.is_set)
            assert not task.done()
            held.go_on.set()
            await task

    asyncio.run(work())


def test_a_search_without_the_embedder_does_not_wait_for_it(open_service):
    """Reading by id, deleting and counting go on while texts are embedded."""
    held = Held()
    service = open_service(embedder=held)

    async def work() -> None:
        task = asyncio.ensure_future(service.add_memory(**ALICE, memories=["zebra"]))
        await until(held.entered.is_set)
        assert (await service.admin.stats())["memories"] == 0
        await service.delete_memory(**ALICE, memory_id="x")
        assert not task.done()
        held.go_on.set()
        await task

    asyncio.run(work())


def test_a_slow_load_blocks_no_coroutine(open_service, tmp_path):
    """A large partition is read and analysed elsewhere; the loop keeps turning."""
    path = tmp_path / "m.db"
    service = open_service(path, durability="process")
    words = "quiet room high floor lift parrot sanctuary paella museum ticket".split()
    service.sync.add_memory(
        **ALICE,
        memories=[f"zebra {i} {' '.join(words)} number{i}" for i in range(8_000)],
    )
    service.close()
    service = open_service(path)
    stall, turns = asyncio.run(
        longest_stall(service.search_memory(**ALICE, query="number77"))
    )
    assert turns > 20
    assert stall < 0.3, f"the loop stood still for {stall:.0%} of the load"


def test_a_slow_write_blocks_no_coroutine_and_no_search(open_service, tmp_path):
    """Another process keeps the file: only those who write wait."""
    path = tmp_path / "m.db"
    service = open_service(path)
    service.sync.add_memory(**ALICE, memories=["zebra"])
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"

    async def work() -> None:
        task = asyncio.ensure_future(service.add_memory(**ALICE, memories=["zebra b"]))
        for _ in range(50):
            found = await service.search_memory(**ALICE, query="zebra")
            assert len(found.memories) == 1
        assert (await service.admin.stats())["memories"] == 1
        assert not task.done()
        holder.communicate("go\n")
        await task

    try:
        asyncio.run(work())
    finally:
        holder.kill()
        holder.communicate()
    assert texts(service) == ["zebra", "zebra b"]


@pytest.mark.parametrize("durable", [False, True])
def test_a_large_ingest_leaves_the_loop_running(open_service, tmp_path, durable):
    """Checks, hashes and JSON of five thousand turns must not stop everybody else."""
    service = open_service(tmp_path / "m.db" if durable else None, durability="process")
    events = [
        {
            "id": f"e{i}",
            "author": "user",
            "timestamp": float(i),
            "content": {"parts": [{"text": f"zebra {i}"}, {"text": "caf\u00e9 " * 20}]},
            "custom_metadata": {"number": i},
        }
        for i in range(5_000)
    ]
    session = {**ALICE, "id": "s", "events": events}
    stall, _ = asyncio.run(longest_stall(service.add_session_to_memory(session)))
    assert stall < 0.3, f"the loop stood still for {stall:.0%} of the ingest"


@pytest.mark.parametrize("durable", [False, True])
def test_a_search_is_not_held_up_by_a_large_write(open_service, tmp_path, durable):
    """On the loop a search of a loaded user needs no lock that a writer holds."""
    service = open_service(tmp_path / "m.db" if durable else None, durability="process")
    service.sync.add_memory(**ALICE, memories=["zebra"])
    texts(service)
    bulk = {"app_name": "app", "user_id": "bulk"}
    writing = threading.Thread(
        target=service.sync.add_memory,
        kwargs={**bulk, "memories": [f"okapi {i}" for i in range(5_000)]},
    )

    async def search() -> None:
        await service.search_memory(**ALICE, query="zebra")

    async def work() -> int:
        searches = 0
        while writing.is_alive():
            await search()
            await asyncio.sleep(0.001)
            searches += 1
        return searches

    writing.start()
    searches = asyncio.run(work())
    writing.join()
    assert searches > 10, f"only {searches} searches ended while a write went on"


def test_texts_of_many_turns_are_hashed_and_counted_on_no_event_loop(
    open_service, monkeypatch
):
    """Neither what is to be embedded nor what is returned is worked out there."""
    embedder = Recorder(4)
    service = open_service(embedder=embedder)
    threads: dict[str, set[int]] = {"hash": set(), "aligned": set()}
    hashed, left = Draft.hash.fget, vecall.operations.writes.align_ids_with_items
    assert hashed is not None

    def hash_of(draft: Draft) -> bytes:
        threads["hash"].add(threading.get_ident())
        return hashed(draft)

    def aligned(*args: Any) -> Any:
        threads["aligned"].add(threading.get_ident())
        return left(*args)

    monkeypatch.setattr(Draft, "hash", property(hash_of))
    monkeypatch.setattr(vecall.operations.writes, "align_ids_with_items", aligned)
    # Every text twice, so many that they are embedded in more than one part.
    events = [{"content": f"zebra {n % 1_100}", "id": f"e{n}"} for n in range(2_200)]
    ids = asyncio.run(
        service.add_events_to_memory(**ALICE, session_id="s", events=events)
    )
    assert len(set(ids)) == 2_200
    assert threads["hash"] | threads["aligned"]
    assert threading.get_ident() not in threads["hash"] | threads["aligned"]
    assert sorted(embedder.asked) == sorted(f"zebra {n}" for n in range(1_100))
    for text in ("zebra 7", "zebra 1050"):
        found = service.sync.search_memory(**ALICE, query=text, top_k=2).memories
        assert [memory.text for memory in found] == [text, text]
        assert [memory.similarity for memory in found] == pytest.approx([1.0, 1.0])


def test_what_was_written_is_returned_also_if_the_service_closes_meanwhile(
    open_service, monkeypatch
):
    service = open_service(embedder=None)
    memory = service._memory
    written = memory.write_drafts

    async def closed_after(*args: Any, **named: Any) -> Any:
        done = await written(*args, **named)
        memory.reader.shutdown()
        return done

    monkeypatch.setattr(memory, "write_drafts", closed_after)
    events = [{"content": f"zebra {n}", "id": f"e{n}"} for n in range(40)]
    ids = service.sync.add_events_to_memory(**ALICE, session_id="s", events=events)
    assert len(set(ids)) == 40
    assert len(texts(service)) == 40


def test_turns_of_a_long_session_that_wait_are_worked_on_on_no_event_loop(
    open_service, monkeypatch
):
    service = open_service(
        embedder=None, trigger="session_end", maintenance_interval=None
    )
    threads: dict[str, set[int]] = {}

    def watched(name: str) -> None:
        plain = getattr(vecall.operations.session_triggers, name)

        def work(*args: Any) -> Any:
            threads.setdefault(name, set()).add(threading.get_ident())
            return plain(*args)

        monkeypatch.setattr(vecall.operations.session_triggers, name, work)

    names = ["split_by_compaction", "buffered_events", "drafts_of", "in_slices"]
    for name in names:
        watched(name)
    events = [{"content": f"zebra {n}", "id": f"e{n}"} for n in range(100)]
    session = {"id": "s", **ALICE, "events": events}

    async def work() -> None:
        await service.observe_session(session)
        await service.end_session(**ALICE, session_id="s")

    asyncio.run(work())
    assert sorted(threads) == sorted(names)
    assert threading.get_ident() not in set().union(*threads.values())
    assert len(texts(service)) == 100
