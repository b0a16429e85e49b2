"""Threads, event loops, cancellation and closing: nobody hangs, nobody is blocked."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from vecall import ClosedError, FunctionEmbedder, MemoryEntry, MemoryService

ALICE = {"app_name": "app", "user_id": "alice"}
WAIT_S = 15.0


def texts(service: MemoryService, query: str = "zebra", **scope: str) -> list[str]:
    found = service.sync.search_memory(**(scope or ALICE), query=query, top_k=1000)
    return sorted(memory.text for memory in found.memories)


class Held:
    """An embedder that waits until it is let go."""

    model_id = "held"
    dimensions = 3

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.go_on = threading.Event()

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.entered.set()
        assert self.go_on.wait(WAIT_S), "nobody could let the embedder go"
        return [[1.0, 2.0, 3.0] for _ in texts]


async def until(condition: Callable[[], bool]) -> int:
    """Let the loop turn until something is true; return how often it turned."""
    turns = 0
    end = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end, "it never happened"
        await asyncio.sleep(0)
        turns += 1
    return turns


async def longest_stall(work: Awaitable[Any]) -> tuple[float, int]:
    """Run some work beside a coroutine that looks at the clock at every turn."""
    task = asyncio.ensure_future(work)
    longest, turns, last = 0.0, 0, time.perf_counter()
    while not task.done():
        await asyncio.sleep(0)
        now = time.perf_counter()
        longest, last, turns = max(longest, now - last), now, turns + 1
    await task
    return longest, turns


@pytest.mark.parametrize("durable", [False, True])
def test_many_threads_lose_nothing_and_see_their_own_writes(
    open_service, tmp_path, durable
):
    """S0.31: one service shared by threads that add, search and delete."""
    service = open_service(tmp_path / "m.db" if durable else None)

    def work(number: int) -> set[str]:
        rng = random.Random(number)
        scope = {"app_name": "app", "user_id": f"user{number % 3}"}
        mine: dict[str, str] = {}
        for i in range(25):
            text = f"zebra w{number}x{i}"
            (id_,) = service.sync.add_memory(**scope, memories=[text])
            mine[text] = id_
            assert text in texts(service, f"w{number}x{i}", **scope)
            if rng.random() < 0.4:
                gone = rng.choice(sorted(mine))
                service.sync.delete_memory(**scope, memory_id=mine.pop(gone))
                assert gone not in texts(service, gone.split()[1], **scope)
        return set(mine)

    with ThreadPoolExecutor(8) as pool:
        kept = list(pool.map(work, range(8)))
    for user in range(3):
        scope = {"app_name": "app", "user_id": f"user{user}"}
        expected = set().union(*kept[user::3])
        assert texts(service, **scope) == sorted(expected)


def test_several_event_loops_share_one_service(open_service, tmp_path):
    """S0.31: the service holds nothing of any loop."""
    service = open_service(tmp_path / "m.db")

    async def work(number: int) -> None:
        await asyncio.gather(
            *(
                service.add_memory(**ALICE, memories=[f"zebra {number}x{i}"])
                for i in range(11)
            )
        )
        await service.search_memory(**ALICE, query="zebra")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: asyncio.run(work(number)), range(12)))
    assert len(texts(service)) == 132


def test_the_blocking_face_works_inside_a_running_loop(open_service, tmp_path, in_time):
    """It blocks that loop, and needs nothing of it."""
    service = open_service(
        tmp_path / "m.db", embedder=lambda texts: [[1.0]] * len(texts)
    )

    async def work() -> list[str]:
        service.sync.add_memory(**ALICE, memories=["zebra"])
        return texts(service)

    assert in_time(lambda: asyncio.run(work())) == ["zebra"]


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
        assert (await service.stats())["memories"] == 0
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
    assert stall < 0.15, f"the loop stood still for {stall:.3f} s"


HOLDER = """
import fcntl, os, sys
file = os.open(sys.argv[1] + ".lock", os.O_RDWR | os.O_CREAT)
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.readline()
"""


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
        assert (await service.stats())["memories"] == 1
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
    """Checks, hashes and JSON of ten thousand turns must not stop everybody else."""
    service = open_service(tmp_path / "m.db" if durable else None, durability="process")
    events = [
        {
            "id": f"e{i}",
            "author": "user",
            "timestamp": float(i),
            "content": {"parts": [{"text": f"zebra {i}"}, {"text": "caf\u00e9 " * 20}]},
            "custom_metadata": {"number": i},
        }
        for i in range(10_000)
    ]
    session = {**ALICE, "id": "s", "events": events}
    stall, _ = asyncio.run(longest_stall(service.add_session_to_memory(session)))
    assert stall < 0.15, f"the loop stood still for {stall:.3f} s"


@pytest.mark.parametrize("durable", [False, True])
def test_a_search_is_not_held_up_by_a_large_write(open_service, tmp_path, durable):
    """On the loop a search of a loaded user needs no lock that a writer holds."""
    service = open_service(tmp_path / "m.db" if durable else None, durability="process")
    service.sync.add_memory(**ALICE, memories=["zebra"])
    texts(service)
    bulk = {"app_name": "app", "user_id": "bulk"}
    writing = threading.Thread(
        target=service.sync.add_memory,
        kwargs={**bulk, "memories": [f"okapi {i}" for i in range(10_000)]},
    )

    async def search() -> None:
        await service.search_memory(**ALICE, query="zebra")

    async def work() -> float:
        longest = 0.0
        while writing.is_alive():
            before = time.perf_counter()
            await search()
            longest = max(longest, time.perf_counter() - before)
            await asyncio.sleep(0)
        return longest

    writing.start()
    longest = asyncio.run(work())
    writing.join()
    assert longest < 0.15, f"a search took {longest:.3f} s"


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
        lambda: sync.warm(**ALICE),
        sync.stats,
        lambda: asyncio.run(service.search_memory(**ALICE, query="zebra")),
        lambda: asyncio.run(service.stats()),
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
    with MemoryService(path) as service:
        service.sync.add_memory(**ALICE, memories=["zebra"])
    held = Held()

    async def work() -> None:
        service = MemoryService(path, embedder=held, warn_raw=False)
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


@pytest.fixture
def restless():
    """Threads take turns every few microseconds, so that races show."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("restless")
def test_a_search_never_shows_an_older_text_than_it_was_told(open_service, tmp_path):
    """Read your writes, also where not all texts fit into memory.

    A reader that fetched a text before it was changed must not leave it in the cache.
    """
    service = open_service(
        tmp_path / "m.db", durability="process", memory_budget=12_000
    )
    padding = "x" * 3_000  # four of seven texts fit
    stop = threading.Event()

    def search() -> None:
        while not stop.is_set():
            texts(service)

    def told(version: int, id_: str) -> MemoryEntry:
        return MemoryEntry(f"zebra {version} {padding}", id=id_)

    service.sync.add_memory(**ALICE, memories=[told(0, f"id{i}") for i in range(7)])
    readers = [threading.Thread(target=search) for _ in range(3)]
    for reader in readers:
        reader.start()
    stale = 0
    try:
        for version in range(1, 600):
            id_ = f"id{version % 7}"
            service.sync.add_memory(**ALICE, memories=[told(version, id_)])
            found = service.sync.search_memory(**ALICE, query="zebra", top_k=7)
            shown = {memory.id: memory.text for memory in found.memories}
            stale += shown[id_].split()[1] != str(version)
    finally:
        stop.set()
        for reader in readers:
            reader.join()
    assert stale == 0


def test_searches_during_a_load_see_all_of_it(open_service, tmp_path):
    """A partition that is half loaded answers nobody."""
    path = tmp_path / "m.db"
    service = open_service(path, durability="process")
    service.sync.add_memory(**ALICE, memories=[f"zebra {i}" for i in range(3_001)])
    service.close()
    service = open_service(path)

    async def work() -> list[int]:
        found = await asyncio.gather(
            *(
                service.search_memory(**ALICE, query=f"{3_000 - i}", top_k=1000)
                for i in range(40)
            )
        )
        return [len(answer.memories) for answer in found]

    assert asyncio.run(work()) == [1] * 40
