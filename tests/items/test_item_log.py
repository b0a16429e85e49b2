"""A list of JSON values in items is a list, for one tenant, whoever else writes."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from helpers.campaigns import examples
from helpers.memories import ALICE
from hypothesis import given, settings
from hypothesis import strategies as st
from vecall import InvalidTypeError, LimitExceededError, Limits, MemoryService
from vecall.concurrency.join import run_async, run_sync
from vecall.item_collections import ItemLog

WHO = tuple(ALICE.values())
PLACE = ("log", "s")
VALUES = st.lists(st.integers() | st.none() | st.text("a\u00e9\x00", max_size=3))
STEP = st.one_of(
    st.tuples(st.just("extend"), VALUES),
    st.tuples(st.just("new"), VALUES, st.integers(0, 3)),
    st.tuples(st.just("pop")),
    st.tuples(st.just("clear")),
    st.tuples(st.just("read"), st.none() | st.integers(-1, 6)),
)


def do(log: ItemLog, is_async: bool, steps: Any) -> Any:
    return asyncio.run(run_async(steps)) if is_async else run_sync(steps)


def lasts(values: list[Any], number: int | None) -> list[Any]:
    if number is None or number < 0:
        return list(values)
    return values[len(values) - min(number, len(values)) :]


@pytest.mark.campaign
@settings(max_examples=examples(50), deadline=None)
@given(steps=st.lists(st.tuples(STEP, st.booleans()), max_size=12))
def test_a_log_is_a_list(steps):
    with MemoryService(embedder=None) as memory:
        log = ItemLog(memory, *WHO, PLACE)
        others = [
            ItemLog(memory, *WHO, ("log", "s2")),
            ItemLog(memory, *WHO, ("log",)),
            ItemLog(memory, "b", "u", PLACE),
        ]
        for other in others:
            run_sync(other.append_values(["other"]))
        model: list[Any] = []
        for (what, *more), is_async in steps:
            if what == "extend":
                do(log, is_async, log.append_values(more[0]))
                model += more[0]
            elif what == "new":
                values, window = more
                seen: list[Any] = []

                def choose(stored: list[Any], values=values, seen=seen) -> list[Any]:
                    seen[:] = stored
                    return values[1:]

                do(log, is_async, log.append_values(values, new=choose, window=window))
                assert seen == lasts(model, window)
                model += values[1:]
            elif what == "pop":
                expected = model.pop() if model else None
                assert do(log, is_async, log.pop_last_value()) == expected
            elif what == "clear":
                do(log, is_async, log.clear_log())
                model.clear()
            else:
                assert do(log, is_async, log.read_values(*more)) == lasts(model, *more)
        assert run_sync(log.read_values()) == model
        for other in others:
            assert run_sync(other.read_values()) == ["other"]


def test_readers_see_whole_calls_while_others_write_and_clear(open_service, tmp_path):
    services = [open_service(tmp_path / "m.db") for _ in range(2)]
    logs = [ItemLog(service, *WHO, PLACE) for service in services]
    stop = threading.Event()

    def write() -> None:
        for turn in range(60):
            run_sync(logs[0].append_values([turn, turn]))
            if turn % 20 == 19:
                run_sync(logs[0].clear_log())
        stop.set()

    thread = threading.Thread(target=write)
    thread.start()
    seen = 0
    while not stop.is_set():
        values = run_sync(logs[1].read_values())
        assert values[::2] == values[1::2]
        assert values[::2] == sorted(set(values))
        seen += 1
    thread.join()
    assert seen
    assert run_sync(logs[1].read_values()) == []


def test_a_refused_call_adds_nothing(open_service):
    log = ItemLog(open_service(), *WHO, PLACE)
    run_sync(log.append_values([1]))
    for bad, error in (
        ([2, object()], InvalidTypeError),
        ([2, float("nan")], InvalidTypeError),
        ([2] * 10_000, LimitExceededError),
    ):
        with pytest.raises(error):
            run_sync(log.append_values(bad))
        assert run_sync(log.read_values()) == [1]


def test_a_value_that_is_too_large_costs_itself_alone(open_service):
    log = ItemLog(open_service(limits=Limits(max_item_bytes=1_000)), *WHO, PLACE)
    with pytest.raises(LimitExceededError, match=r"operations\[2\]"):
        run_sync(log.append_values([1, "x" * 1_001, 2, "y" * 1_001, 3]))
    assert run_sync(log.read_values()) == [1, 2, 3]
    with pytest.raises(LimitExceededError):
        run_sync(log.append_values(["z" * 1_001]))
    assert run_sync(log.read_values()) == [1, 2, 3]


@pytest.mark.parametrize("next_call", ["extend", "clear"])
def test_the_next_call_deletes_what_an_interrupted_clear_left(
    open_service, monkeypatch, next_call
):
    monkeypatch.setattr("vecall.item_collections._MOST", 3)
    memory = open_service()

    def stored(place: tuple[str, ...]) -> list[Any]:
        return [item.value for item in memory.items.sync.find(place, **ALICE, limit=50)]

    lengths = set()
    for calls in range(1, 18):  # that are waited for, before the process ends
        place = ("log", str(calls))
        log = ItemLog(memory, *WHO, place)
        run_sync(log.append_values(range(10)))
        steps = log.clear_log()
        try:
            future = steps.send(None)
            for _ in range(calls - 1):
                future = steps.send(future.result())
            future.result()
        except StopIteration:
            pass
        steps.close()
        values = run_sync(log.read_values())
        assert values in ([], list(range(10)))
        lengths.add(len(stored(place)))
        kept = [*values, "new"] if next_call == "extend" else []
        run_sync(
            log.append_values(["new"]) if next_call == "extend" else log.clear_log()
        )
        assert run_sync(log.read_values()) == kept
        found = stored(place)
        assert len(found) == len(kept) + 1  # the state
        assert all(value in found for value in kept)
    assert lengths >= {8, 5, 2, 1}  # it was interrupted after every transaction


def test_two_that_clear_and_one_that_adds_leave_what_was_added(
    open_service, monkeypatch
):
    monkeypatch.setattr("vecall.item_collections._MOST", 2)
    memory = open_service()
    log = ItemLog(memory, *WHO, PLACE)

    async def run() -> None:
        await run_async(log.append_values(range(20)))
        await asyncio.gather(run_async(log.clear_log()), run_async(log.clear_log()))
        await run_async(log.append_values(range(20)))
        await asyncio.gather(
            run_async(log.clear_log()),
            run_async(log.clear_log()),
            run_async(log.append_values(["a"])),
        )

    asyncio.run(run())
    left = run_sync(log.read_values())
    assert left in ([], ["a"])
    found = memory.items.sync.find(PLACE, **ALICE, limit=50)
    assert len(found) == len(left) + 1


def test_a_log_is_longer_than_a_transaction(open_service):
    log = ItemLog(open_service(), *WHO, PLACE)
    for start in (0, 9_000):
        run_sync(log.append_values(range(start, start + 9_000)))
    assert run_sync(log.read_values()) == list(range(18_000))
    assert run_sync(log.read_values(2)) == [17_998, 17_999]
    run_sync(log.clear_log())
    assert run_sync(log.read_values()) == []
    run_sync(log.append_values(["again"]))
    assert run_sync(log.read_values()) == ["again"]
