"""Threads and event loops share one service, and see what was written."""

from __future__ import annotations

import asyncio
import random
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from helpers.campaigns import scaled
from helpers.memories import ALICE, texts
from vecall import MemoryEntry


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


@pytest.fixture
def restless():
    """Threads take turns every few microseconds, so that races show."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.campaign
@pytest.mark.usefixtures("restless")
def test_a_search_never_shows_an_older_text_than_it_was_told(open_service, tmp_path):
    """Read your writes, also where not all texts fit into memory.

    A reader that fetched a text before it was changed must not leave it in the cache.
    """
    service = open_service(tmp_path / "m.db", durability="process", cache_bytes=12_000)
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
        for version in range(1, scaled(600, 80)):
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
