"""Scans take turns by user, end with their caller, and a filter has a budget."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from vecall import Filter, LimitExceededError, MemoryService, Put
from vecall.concurrency.executor import FairPool
from vecall.concurrency.time_slices import in_slices
from vecall.filters import metadata as conditions
from vecall.filters.metadata import compile_conditions

APP = "app"
ROWS = 1_500
DEAR: Any = {  # seven comparisons of each row, none of which SQL can make
    "$or": [{"n": {"$gt": 10**6 + k}} for k in range(7)]
}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemoryService]:
    """A file in which eve has many memories and bob has one."""
    path = tmp_path_factory.mktemp("scans") / "memory.db"
    with MemoryService(path, embedder=None) as memory:
        eve = memory.sync.user(APP, "eve")
        eve.add(
            [
                {"content": f"tea {n}", "id": f"e{n}", "custom_metadata": {"n": n}}
                for n in range(ROWS)
            ]
        )
        memory.sync.items.write(
            [Put(("notes",), f"k{n}", {"n": n}) for n in range(200)],
            app_name=APP,
            user_id="eve",
        )
        memory.sync.user(APP, "bob").add(
            [{"content": "tea", "custom_metadata": {"n": 1}}]
        )
        yield memory


def test_the_scans_of_one_user_do_not_delay_those_of_another(filled):
    """By order of arrival bob's count would come last."""

    async def ends() -> list[str]:
        order: list[str] = []

        async def count(user: str, wanted: Any) -> None:
            await filled.count_memories(
                app_name=APP, user_id=user, filter={"metadata": wanted}
            )
            order.append(user)

        tasks = [asyncio.create_task(count("eve", DEAR)) for _ in range(12)]
        await asyncio.sleep(0)  # all of eve's are in the queue
        await count("bob", {"n": {"$gt": 0}})
        await asyncio.gather(*tasks)
        return order

    assert asyncio.run(ends()).index("bob") <= 3


def endless(stop: threading.Event, seen: list[float]) -> None:
    """Work that ends only if it is stopped."""
    begin = time.perf_counter()
    for _ in in_slices(range(10**9)):
        seen.append(time.perf_counter() - begin)
        if stop.is_set():
            return


def test_work_under_way_ends_when_its_caller_is_gone():
    """Closing the pool would otherwise wait for it."""
    pool, stop, seen = FairPool(2, 2, thread_name_prefix="scans"), threading.Event(), []
    late = threading.Timer(5, stop.set)
    late.start()
    try:
        future = pool.submit("eve", endless, stop, seen)
        while not seen:
            time.sleep(0.001)
        future.cancel()
        pool.shutdown()
        assert not stop.is_set()
    finally:
        late.cancel()
        stop.set()


def test_work_in_the_queue_is_dropped_when_its_caller_is_gone():
    pool = FairPool(2, 2, thread_name_prefix="scans")
    begun, go = threading.Event(), threading.Event()
    first = pool.submit("eve", lambda: begun.set() or go.wait(5))
    assert begun.wait(5)
    ran: list[int] = []
    second = pool.submit("eve", ran.append, 2)
    third = pool.submit("eve", ran.append, 3)
    assert second.cancel()
    go.set()
    assert first.result(5)
    third.result(5)
    pool.shutdown()
    assert ran == [3]


def test_each_owner_has_one_piece_of_work_under_way():
    pool, now, most = FairPool(6, 6, thread_name_prefix="scans"), {"a": 0, "b": 0}, []
    lock = threading.Lock()

    def work(owner: str) -> None:
        with lock:
            now[owner] += 1
            most.append(now[owner])
        time.sleep(0.001)
        with lock:
            now[owner] -= 1

    futures = [pool.submit(owner, work, owner) for owner in "ababaabb" for _ in "123"]
    for future in futures:
        future.result(5)
    pool.shutdown()
    assert (len(most), max(most)) == (24, 1)


def test_long_work_of_several_owners_lets_that_of_another_end_first():
    """There is one turn at a time; the short work comes last and does not wait."""
    pool = FairPool(4, 1, thread_name_prefix="scans")
    stop, seen = threading.Event(), []
    long = [pool.submit(owner, endless, stop, seen) for owner in ("a", "b", "c")]
    while not seen:
        time.sleep(0.001)
    try:
        assert pool.submit("bob", lambda: 7).result(5) == 7
        assert not any(each.done() for each in long)
    finally:
        stop.set()
        pool.shutdown()


def test_the_work_of_a_pool_that_is_closed_is_refused():
    pool = FairPool(1, 1, thread_name_prefix="scans")
    pool.shutdown()
    with pytest.raises(RuntimeError):
        pool.submit("eve", int)


@pytest.mark.xdist_group("timing")
def test_counts_that_were_given_up_use_no_more_time(filled):
    """Eight are given up at once: less than three of them are paid for."""

    async def count() -> None:
        await filled.count_memories(
            app_name=APP, user_id="eve", filter={"metadata": DEAR}
        )

    async def given_up() -> None:
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(count(), 0.001)

    async def eight() -> None:
        await asyncio.gather(*[given_up() for _ in range(8)])
        await filled.count_memories(app_name=APP, user_id="eve")  # the queue is empty

    asyncio.run(count())
    begin = time.process_time()
    asyncio.run(count())
    one = time.process_time() - begin
    begin = time.process_time()
    asyncio.run(eight())
    assert time.process_time() - begin < 3 * one + 0.02


def scans(memory: MemoryService) -> dict[str, Any]:
    """Every call that compares rows with conditions, by name."""
    eve = memory.sync.user(APP, "eve")
    where = {"metadata": DEAR}
    items, of_eve = memory.sync.items, {"app_name": APP, "user_id": "eve"}
    return {
        "count": lambda: eve.count(filter=where),
        "list": lambda: eve.list(filter=where),
        "search": lambda: eve.search("tea", filter=where),
        "delete_where": lambda: memory.sync.delete_where(**of_eve, filter=where),
        "find": lambda: items.find((), **of_eve, where=DEAR),
        "find_all": lambda: items.find_all((), **of_eve, where=DEAR),
        "items.count": lambda: items.count((), **of_eve, where=DEAR),
        "items.delete": lambda: items.delete((), **of_eve, where=DEAR),
    }


def test_a_scan_within_its_budget_is_answered(filled, monkeypatch):
    monkeypatch.setattr(conditions, "MOST_COMPARISONS", 7 * ROWS)
    for name, scan in scans(filled).items():
        assert not scan(), name


def test_a_scan_over_its_budget_is_refused_and_changes_nothing(filled, monkeypatch):
    before = filled.sync.user(APP, "eve").count()
    for name, scan in scans(filled).items():
        rows = 200 if "find" in name or "items" in name else ROWS
        monkeypatch.setattr(conditions, "MOST_COMPARISONS", 7 * rows - 1)
        with pytest.raises(LimitExceededError, match="comparisons") as refused:
            scan()
        named = "where" if rows == 200 else "filter.metadata"
        assert str(refused.value).startswith(f"{named}: at most {7 * rows - 1:,} ")
    assert filled.sync.user(APP, "eve").count() == before


def test_conditions_that_sql_excludes_first_cost_no_budget(filled, monkeypatch):
    """No row contains the text, so no row is compared."""
    monkeypatch.setattr(conditions, "MOST_COMPARISONS", 1)
    eve = filled.sync.user(APP, "eve")
    assert eve.count(filter=Filter(metadata={"n": "never"})) == 0


SCALARS = st.one_of(
    st.none(), st.booleans(), st.sampled_from([0, 1, -1, 1.0, 0.0, 2**53 + 1, 2.0**53]),
    st.sampled_from(["", "1", "true", "a"]), st.just(float("nan")),
)  # fmt: skip
VALUES = st.one_of(SCALARS, st.lists(SCALARS, max_size=2), st.dictionaries(
    st.sampled_from(["a", "b"]), SCALARS, max_size=2
))  # fmt: skip


def equal(one: Any, two: Any) -> bool:
    """Whether two JSON values are the same; true is no number."""
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(equal, one, two))
    if isinstance(one, dict) and isinstance(two, dict):
        return one.keys() == two.keys() and all(equal(one[k], two[k]) for k in one)
    if isinstance(one, bool) != isinstance(two, bool):
        return False
    return type(one == two) is bool and one == two


@given(VALUES, st.lists(VALUES, max_size=4))
def test_a_value_is_among_others_if_it_equals_one_of_them(stored, values):
    expected = any(equal(stored, each) for each in values)
    assert compile_conditions({"v": {"$in": values}})({"v": stored}) is expected
    assert compile_conditions({"v": {"$nin": values}})({"v": stored}) is not expected


@pytest.mark.xdist_group("timing")
def test_a_long_list_after_nin_costs_as_much_as_a_short_one():
    def seconds(values: list[int]) -> float:
        test = compile_conditions({"n": {"$nin": values}})
        best = 9.0
        for _ in range(5):
            begin = time.process_time()
            for _ in range(2_000):
                test({"n": -1})
            best = min(best, time.process_time() - begin)
        return best

    assert seconds(list(range(64))) < 3 * seconds([1]) + 0.001


def test_a_deletion_by_metadata_delays_no_write_of_another_user(tmp_path):
    """The metadata are compared before the transaction that deletes."""
    with MemoryService(tmp_path / "m.db", embedder=None) as memory:
        eve, bob = memory.user(APP, "eve"), memory.user(APP, "bob")
        order: list[str] = []

        async def delete() -> None:
            dear = {"$not": {"$or": [DEAR] * 60}}
            await memory.delete_where(
                app_name=APP, user_id="eve", filter={"metadata": dear}
            )
            order.append("eve")

        async def both() -> None:
            await eve.add(
                [
                    {"content": f"tea {n}", "custom_metadata": {"n": n}}
                    for n in range(400)
                ]
            )
            task = asyncio.create_task(delete())
            await asyncio.sleep(0.02)
            await bob.add(["tea"])
            order.append("bob")
            await task

        asyncio.run(both())
        assert order == ["bob", "eve"]
        assert memory.sync.user(APP, "eve").count() == 0
        assert memory.sync.user(APP, "bob").count() == 1
