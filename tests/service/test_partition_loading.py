"""A user is found whoever loads, evicts or gives up waiting at the same time."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from helpers.memories import ALICE, BOB, texts, until
from vecall import MemoryService
from vecall.index import partition_cache as _filling
from vecall.index import row_cache as _engine_rows

KEY = (ALICE["app_name"], ALICE["user_id"])


class SlowAnalysis:
    """Keeps whoever loads a memory that says "held" until it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.go_on = threading.Event()
        self.entered = 0
        real = _engine_rows.terms_of_memories

        def slow(memories: list[Any]) -> Any:
            if any("held" in text for text, *_ in memories):
                self.entered += 1
                assert self.go_on.wait(20)
            return real(memories)

        monkeypatch.setattr(_engine_rows, "terms_of_memories", slow)


@pytest.fixture
def cold(open_service, tmp_path):
    """A service of which nobody is loaded, with two users whose loading is held."""
    path = tmp_path / "m.db"
    with open_service(path) as service:
        for user in ("held1", "held2"):
            service.sync.add_memory(
                app_name="app", user_id=user, memories=["zebra held"]
            )
        service.sync.add_memory(**ALICE, memories=["zebra of alice"])
    return open_service(path)


async def while_all_is_held(cold: MemoryService, slow: SlowAnalysis, work: Any) -> None:
    """Run `work` while no partition can be loaded, then let all go on."""
    busy = [
        asyncio.ensure_future(
            cold.search_memory(app_name="app", user_id=user, query="zebra")
        )
        for user in ("held1", "held2")
    ]
    await until(lambda: slow.entered > 0)
    await asyncio.sleep(0.05)
    try:
        await work()
    finally:
        slow.go_on.set()
    for search in busy:
        assert len((await search).memories) == 1


@pytest.mark.parametrize("call", ["search", "warm"])
def test_who_gives_up_waiting_for_a_user_leaves_the_user_to_others(
    cold, monkeypatch, in_time, call
):
    slow = SlowAnalysis(monkeypatch)
    others: list[asyncio.Future[Any]] = []

    async def give_up() -> None:
        waits = {
            "search": partial(cold.search_memory, **ALICE, query="zebra"),
            "warm": partial(cold.admin.warm, **ALICE),
        }[call]()
        others.append(asyncio.ensure_future(cold.search_memory(**ALICE, query="zebra")))
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(waits, 0.05)

    async def work() -> None:
        await while_all_is_held(cold, slow, give_up)
        for search in others:
            assert [m.text for m in (await search).memories] == ["zebra of alice"]
        found = await cold.search_memory(**ALICE, query="zebra")
        assert [m.text for m in found.memories] == ["zebra of alice"]

    in_time(lambda: asyncio.run(work()))
    assert in_time(lambda: texts(cold)) == ["zebra of alice"]
    cold.sync.add_memory(**ALICE, memories=["zebra again"])
    assert len(in_time(lambda: texts(cold))) == 2


class SlowEngine:
    """An engine that drops a partition only when it is let go on."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self.go_on = threading.Event()
        self.dropping = threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def __len__(self) -> int:
        return len(self._engine)

    def drop(self, key: Any) -> bool:
        if threading.current_thread().name.startswith("evicting"):
            self.dropping.set()
            assert self.go_on.wait(20)
        return bool(self._engine.drop(key))


def test_an_eviction_drops_nothing_that_is_loaded_after_it_began(
    open_service, tmp_path, in_time
):
    service = open_service(tmp_path / "m.db")
    service.sync.add_memory(**ALICE, memories=[f"zebra {i}" for i in range(60)])
    assert len(texts(service)) == 60
    loader = service._memory.search_index.partitions
    slow = SlowEngine(loader._engine)
    loader._engine = slow
    with (
        ThreadPoolExecutor(1, thread_name_prefix="evicting") as evicting,
        ThreadPoolExecutor(1) as searching,
    ):
        eviction = evicting.submit(loader._evict_if_free, KEY)
        assert slow.dropping.wait(20)
        search = searching.submit(texts, service)
        # What loads now must not lose its rows to the drop that is still to come.
        threading.Event().wait(0.2)
        slow.go_on.set()
        eviction.result(20)
        assert len(search.result(20)) == 60
    assert len(in_time(lambda: texts(service))) == 60


def test_a_failed_change_leaves_nothing_in_the_engine_that_no_budget_counts(
    open_service, tmp_path, monkeypatch, caplog
):
    service = open_service(tmp_path / "m.db")
    service.sync.add_memory(**ALICE, memories=["zebra one"])
    service.sync.add_memory(**BOB, memories=["zebra two"])
    for who in (ALICE, BOB):
        assert len(texts(service, **who)) == 1

    def fails(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(_filling, "add_rows", fails)
        service.sync.add_memory(**ALICE, memories=["zebra three"])
        assert "read back" in caplog.text
        assert service.sync.admin.stats()["loaded_users"] == 1
    assert len(texts(service)) == 2


def test_rows_that_the_engine_lost_are_loaded_again(open_service, tmp_path):
    service = open_service(tmp_path / "m.db")
    service.sync.add_memory(**ALICE, memories=["zebra one", "zebra two"])
    assert len(texts(service)) == 2
    assert service._memory.search_index.engine.drop(KEY)
    assert len(texts(service)) == 2
