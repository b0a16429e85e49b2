"""LangGraph's store over items: what it promises, and what it refuses."""

from __future__ import annotations

import asyncio
import math
import threading
from datetime import date, datetime, time, timezone
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from helpers.clocks import SettableClock

pytest.importorskip("langgraph.store.base")

from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    PutOp,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore
from vecall import (
    BusyError,
    ClosedError,
    ConfigError,
    DimensionError,
    EmbedderError,
    InvalidArgumentError,
    InvalidTypeError,
    LimitExceededError,
    MemoryService,
    StorageOptions,
)
from vecall import langgraph as store_module
from vecall.langgraph import VecallStore
from vecall.limits import SHARED_APP

NOTES = ("alice", "notes")


def letters(texts: list[str]) -> list[list[float]]:
    """A vector of letter counts; that of a text without letters is zero."""
    return [[float(text.count(letter)) for letter in "abcdefgh"] for text in texts]


INDEX: dict[str, Any] = {"embed": letters, "dims": 8, "fields": ["text"]}


@pytest.fixture
def store(tmp_path):
    with VecallStore(
        tmp_path / "m.db", index=INDEX, ttl={"default_ttl": None}
    ) as opened:
        yield opened


def test_values_come_back_after_a_reopening(tmp_path):
    value = {"z": [1, None, 2.5, 10**25], "a": {"text": "é\0"}}
    with VecallStore.from_conn_string(str(tmp_path / "m.db")) as store:
        store.setup()
        store.put(NOTES, "k", {"old": True})
        created = store.get(NOTES, "k").created_at
        store.put(NOTES, "k", value)
    with VecallStore.from_conn_string(str(tmp_path / "m.db")) as store:
        item = store.get(NOTES, "k")
        assert item.value == value
        assert list(item.value) == ["z", "a"]
        assert (item.namespace, item.key) == (NOTES, "k")
        assert item.created_at == created <= item.updated_at
        store.delete(NOTES, "k")
        assert store.get(NOTES, "k") is None
        assert store.list_namespaces() == []


def test_namespaces_are_found_by_their_ends_and_in_pages(store):
    for labels in (("b", "x"), ("b",), ("a", "y"), ("a", "x", "z"), ("a", "x")):
        store.put(labels, "k", {})
    found = store.list_namespaces
    assert found(suffix=("x",)) == [("a", "x"), ("b", "x")]
    assert found(suffix=("*", "x")) == [("a", "x"), ("b", "x")]
    assert found(prefix=("a", "*")) == [("a", "x"), ("a", "x", "z"), ("a", "y")]
    assert found(max_depth=1) == [("a",), ("b",)]
    assert found(limit=2, offset=2) == [("a", "y"), ("b",)]


def test_a_search_ranks_by_cosine_and_then_what_has_no_vector(store):
    store.put(NOTES, "a", {"text": "aaaa"})
    store.put(NOTES, "b", {"text": "aabb"})
    store.put(NOTES, "zero", {"text": "zzz"})
    store.put(NOTES, "none", {"text": "aaaa"}, index=False)
    store.put(("bob",), "a", {"text": "aaaa"})
    found = store.search(NOTES, query="a")
    assert [item.key for item in found] == ["a", "b", "none", "zero"]
    assert [item.score for item in found] == [
        pytest.approx(1.0),
        pytest.approx(0.5**0.5),
        None,
        None,
    ]
    assert [item.key for item in store.search((), query="a", limit=2)] == ["a", "a"]
    other = store.search(NOTES, query="a", filter={"text": {"$ne": "aaaa"}})
    assert [item.key for item in other] == ["b", "zero"]


@pytest.mark.parametrize(
    ("op", "error"),
    [
        (PutOp(("a.b",), "k", {}), InvalidNamespaceError),
        (PutOp((), "k", {}), InvalidNamespaceError),
        (PutOp(("a\0",), "k", {}), InvalidNamespaceError),
        (PutOp(NOTES, "k", {"x": float("nan")}), InvalidTypeError),
        (PutOp(NOTES, "k", {"x": object()}), InvalidTypeError),
        (PutOp(NOTES, "k", {"x": "y" * 40_000_000}), LimitExceededError),
        (SearchOp(NOTES, filter={"x": {"$near": 1}}), InvalidArgumentError),
        (SearchOp(NOTES, filter={"x' OR 1": 1}), InvalidArgumentError),
        ("no operation", ValueError),
    ],
)
def test_a_refused_operation_leaves_nothing_of_its_batch(store, op, error):
    with pytest.raises(error):
        store.batch([PutOp(NOTES, "good", {"text": "aa"}), op])
    assert store.get(NOTES, "good") is None
    with pytest.raises(error):
        asyncio.run(store.abatch([PutOp(NOTES, "good", {"text": "aa"}), op]))
    assert store.search(()) == []


def test_a_failing_embedder_fails_the_batch_and_is_not_called_at_opening(tmp_path):
    def fails(texts: list[str]) -> Any:
        raise RuntimeError

    with VecallStore(tmp_path / "m.db", index={"embed": fails}) as store:
        store.put(NOTES, "k", {"text": "x"}, index=False)
        with pytest.raises(RuntimeError):
            store.batch([PutOp(NOTES, "l", {"t": "x"}), PutOp(NOTES, "k", None)])
        assert [item.key for item in store.search(())] == ["k"]


def test_vectors_of_another_dimension_are_refused(store, tmp_path):
    store.put(NOTES, "k", {"text": "aa"})
    three = {"embed": lambda texts: [[1.0, 2.0, 3.0]] * len(texts)}
    with VecallStore(tmp_path / "m.db", index=three) as other:
        with pytest.raises(DimensionError):
            other.put(NOTES, "l", {"text": "b"})
        with pytest.raises(DimensionError):
            other.search(NOTES, query="b")
    wrong = {**INDEX, "dims": 9}
    with VecallStore(":memory:", index=wrong) as other, pytest.raises(EmbedderError):
        other.put(NOTES, "l", {"text": "b"})
    with pytest.raises(ConfigError):
        VecallStore(":memory:", index={**INDEX, "distance_type": "hamming"})
    with pytest.raises(ConfigError):
        VecallStore(":memory:", index={**INDEX, "distance_type": ["l2"]})


def unit(texts: list[str]) -> list[list[float]]:
    """A vector of norm 1 for each text: the angle is its number."""
    angles = [float(text) for text in texts]
    return [[math.cos(angle), math.sin(angle)] for angle in angles]


@pytest.mark.parametrize(
    ("distance", "score"),
    [
        ("cosine", lambda x, y: x[0] * y[0] + x[1] * y[1]),
        ("inner_product", lambda x, y: x[0] * y[0] + x[1] * y[1]),
        ("l2", lambda x, y: -math.dist(x, y)),
    ],
)
def test_scores_are_those_of_the_distance(distance, score):
    index = {"embed": unit, "fields": ["a"], "distance_type": distance}
    angles = ["0", "0.5", "1.5", "3", "3.14159"]
    with VecallStore(":memory:", index=index) as store:
        for angle in angles:
            store.put(NOTES, angle, {"a": angle})
        store.put(NOTES, "none", {"b": "1"})
        *found, last = store.search(NOTES, query="0", limit=6)
        assert [item.key for item in found] == angles
        for item in found:
            assert item.score == pytest.approx(score(*unit(["0", item.key])), abs=1e-3)
        assert (last.key, last.score) == ("none", None)
        assert [item.score for item in store.search(NOTES)] == [None] * 6


@pytest.mark.parametrize("distance", ["inner_product", "l2"])
def test_a_distance_of_vectors_that_do_not_have_norm_1_is_refused(distance):
    index = {**INDEX, "distance_type": distance}
    with VecallStore(":memory:", index=index) as store:
        with pytest.raises(EmbedderError, match="norm 1"):
            store.put(NOTES, "k", {"text": "aab"})
        with pytest.raises(EmbedderError, match="norm 1"):
            store.search(NOTES, query="aab")
        assert store.search(NOTES) == []
        store.put(NOTES, "k", {"text": "a"})
        store.put(NOTES, "zero", {"text": "-"})
        assert [item.key for item in store.search(NOTES, query="a")] == ["k", "zero"]


def test_it_shares_the_file_of_a_service_and_leaves_it_open(tmp_path):
    memory = MemoryService(tmp_path / "m.db", embedder=None)
    with VecallStore(memory, user_id="alice") as store:
        store.put(NOTES, "k", {"x": 1})
    with VecallStore(memory, user_id="bob") as other:
        assert other.search(()) == []
        assert other.list_namespaces() == []
    memory.sync.delete_user(app_name="langgraph", user_id="alice")
    with VecallStore(memory, user_id="alice") as store:
        assert store.get(NOTES, "k") is None
    memory.close()


def test_reads_come_before_the_writes_of_a_batch_and_the_last_write_counts(store):
    store.put(NOTES, "k", {"n": 1})
    ops = [PutOp(NOTES, "k", {"n": n}) for n in (2, 3)]
    results = store.batch([*ops, GetOp(NOTES, "k")])
    assert [results[0], results[1], results[2].value] == [None, None, {"n": 1}]
    assert store.get(NOTES, "k").value == {"n": 3}


@pytest.mark.parametrize("name", ["app_name", "user_id"])
def test_a_wrong_name_opens_no_file(tmp_path, name):
    for wrong in ("", "a\0b", SHARED_APP):
        with pytest.raises(InvalidArgumentError):
            VecallStore(tmp_path / "m.db", **{name: wrong})
    assert list(tmp_path.iterdir()) == []


def test_threads_and_tasks_share_a_store(store):
    def work(name: str) -> None:
        for n in range(20):
            store.put((name,), str(n), {"text": "ab" * n, "n": n})
            store.search((name,), query="a")

    threads = [threading.Thread(target=work, args=(f"t{i}",)) for i in range(4)]
    for thread in threads:
        thread.start()

    async def tasks() -> None:
        await asyncio.gather(
            *(store.aput(("task",), str(n), {"text": "a", "n": n}) for n in range(20))
        )
        found = await store.asearch(("task",), query="a", limit=50)
        assert {item.value["n"] for item in found} == set(range(20))

    asyncio.run(tasks())
    for thread in threads:
        thread.join()
    assert len(store.list_namespaces()) == 5
    assert len(store.search((), limit=200)) == 100


READS = {
    "get": lambda store, fresh: store.get(NOTES, "k", refresh_ttl=fresh),
    "batch": lambda store, fresh: store.batch([GetOp(NOTES, "k", bool(fresh))] * 2),
    "aget": lambda store, fresh: asyncio.run(store.aget(NOTES, "k", refresh_ttl=fresh)),
    "search": lambda store, fresh: store.search(NOTES, refresh_ttl=fresh),
}


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("fresh", [True, False])
def test_a_read_begins_the_ttl_again_if_it_is_to(tmp_path, read, fresh):
    clock = SettableClock()
    options = StorageOptions(clock=clock, maintenance_interval=None)
    with MemoryService(tmp_path / "m.db", embedder=None, storage=options) as memory:
        store = VecallStore(memory, ttl={"default_ttl": 10})
        store.put(NOTES, "k", {"n": 1})
        clock.let_pass(8 * 60.0)
        assert READS[read](store, fresh)
        clock.let_pass(8 * 60.0)
        assert (store.get(NOTES, "k", refresh_ttl=False) is not None) == fresh


@pytest.mark.parametrize("configured", [None, True, False])
def test_a_get_begins_the_ttl_again_as_it_is_configured(tmp_path, configured):
    clock = SettableClock()
    options = StorageOptions(clock=clock, maintenance_interval=None)
    ttl = {} if configured is None else {"refresh_on_read": configured}
    with MemoryService(tmp_path / "m.db", embedder=None, storage=options) as memory:
        store = VecallStore(memory, ttl={"default_ttl": 10, **ttl})
        store.put(NOTES, "k", {"n": 1})
        clock.let_pass(8 * 60.0)
        assert store.get(NOTES, "k") is not None
        clock.let_pass(8 * 60.0)
        assert (store.get(NOTES, "k") is None) == (configured is False)


def test_a_closed_store_leaves_no_sweeper_in_an_open_service(tmp_path):
    with MemoryService(tmp_path / "m.db", embedder=None) as memory:
        store = VecallStore(memory, ttl={"sweep_interval_minutes": 60})
        ended = store.start_ttl_sweeper()
        sweeper = store._sweeper
        store.close()
        assert ended.done()
        assert not sweeper.is_alive()


def test_the_sweeper_stops(tmp_path):
    store = VecallStore(tmp_path / "m.db", ttl={"sweep_interval_minutes": 1})
    ended = store.start_ttl_sweeper()
    assert store.start_ttl_sweeper() is ended
    assert store.stop_ttl_sweeper(20)
    assert ended.done()
    again = store.start_ttl_sweeper()
    again.cancel()
    assert store.stop_ttl_sweeper(20)
    store.close()


@pytest.mark.parametrize(
    ("ttl", "seconds"),
    [({"default_ttl": 7}, 300.0), ({"sweep_interval_minutes": 2}, 120.0)],
)
def test_the_sweeper_comes_every_five_minutes_or_as_it_is_told(
    tmp_path, monkeypatch, ttl, seconds
):
    waits = []

    class Stopping(threading.Event):
        def wait(self, timeout=None):
            waits.append(timeout)
            return super().wait(0.001)

    patched = SimpleNamespace(**{**vars(threading), "Event": Stopping})
    monkeypatch.setattr(store_module, "threading", patched)
    store = VecallStore(tmp_path / "m.db", ttl=ttl)
    ended = store.start_ttl_sweeper()
    while len(waits) < 2:
        assert not ended.done()
    assert store.stop_ttl_sweeper(20)
    store.close()
    assert set(waits) == {seconds}


def test_the_sweeper_goes_on_after_an_error_until_the_store_is_closed(
    tmp_path, monkeypatch, caplog
):
    with MemoryService(tmp_path / "m.db", embedder=None) as memory:
        store = VecallStore(memory, ttl={"sweep_interval_minutes": 1e-5})
        swept = threading.Semaphore(0)
        errors = [BusyError("of zebra"), RuntimeError("of zebra")]
        sweep = store.sweep_ttl

        def failing() -> int:
            if errors:
                raise errors.pop()
            swept.release()
            return sweep()

        monkeypatch.setattr(store, "sweep_ttl", failing)
        ended = store.start_ttl_sweeper()
        assert all(swept.acquire(timeout=20) for _ in range(2))
        assert not ended.done()
        logged = [record.getMessage() for record in caplog.records]
        assert [line.rsplit(" ", 1)[1] for line in logged] == [
            "RuntimeError",
            "BusyError",
        ]
        assert "zebra" not in caplog.text
    with pytest.raises(ClosedError):  # of the service, for which no later sweep helps
        ended.result(20)
    store.close()


def test_a_file_is_opened_on_another_thread_and_closed_if_that_is_cancelled(tmp_path):
    begun, go_on = threading.Event(), threading.Event()
    opened: list[Any] = []

    class Slow(VecallStore):
        def __init__(self, *args: Any, **options: Any) -> None:
            begun.set()
            assert go_on.wait(20)
            super().__init__(*args, **options)
            opened.append(self)

    async def use() -> None:
        async with Slow.afrom_conn_string(str(tmp_path / "m.db")) as store:
            await store.aput(NOTES, "k", {"n": 1})

    async def run(cancels: bool) -> None:
        begun.clear()
        go_on.clear()
        task = asyncio.ensure_future(use())
        assert await asyncio.to_thread(begun.wait, 20)  # the loop turns meanwhile
        if cancels:
            task.cancel()
            await asyncio.sleep(0)
        go_on.set()
        await task

    asyncio.run(run(cancels=False))
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(run(cancels=True))
    assert len(opened) == 2
    for store in opened:
        with pytest.raises(ClosedError):
            store.get(NOTES, "k")


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ({"$lt": float("inf")}, 2),
        ({"$gt": float("-inf")}, 2),
        ({"$gte": float("inf")}, 0),
        ({"$eq": float("nan")}, 0),
        ({"$gte": float("nan")}, 0),
        ({"$lte": float("nan")}, 0),
        ({"$ne": float("nan")}, 2),
        ({"$lt": 10**400}, 2),
    ],
)
def test_numbers_compare_with_infinity_and_nan_as_floats_do(condition, found):
    with VecallStore(":memory:") as store:
        for key, price in (("a", 10), ("b", -2.5)):
            store.put(NOTES, key, {"price": price})
        assert len(store.search(NOTES, filter={"price": condition})) == found


ODD_KEYS = ("", "\0", "k\0", "\ud800", "\x1bkey:", '\x1bkey:""', "\x1b", "\n", "é", "k")


def test_every_key_that_langgraphs_own_store_takes_is_a_key_of_its_own(store):
    own = InMemoryStore()
    for other in (own, store):
        for number, key in enumerate(ODD_KEYS):
            other.put(NOTES, key, {"n": number})
    for key in ODD_KEYS:
        assert store.get(NOTES, key).value == own.get(NOTES, key).value
        assert store.get(NOTES, key).key == key
        found = store.batch([GetOp(NOTES, key), PutOp(NOTES, "new", {"n": 0})])
        assert found[0].key == key
    store.delete(NOTES, "new")
    assert {item.key for item in store.search(NOTES, limit=50)} == set(ODD_KEYS)
    for key in ODD_KEYS:
        store.delete(NOTES, key)
    assert store.search(NOTES) == []


@pytest.mark.parametrize("count", [1, 3_000])
def test_dates_times_and_uuids_are_stored_as_their_texts(store, count):
    moment = datetime(2026, 1, 2, 3, 4, tzinfo=timezone.utc)
    given = {
        "text": "aa",
        "at": moment,
        "deep": [{"day": date(2026, 1, 2)}] * count,
        "pair": (time(3, 4), UUID(int=7)),
    }
    expected = {
        "text": "aa",
        "at": "2026-01-02T03:04:00+00:00",
        "deep": [{"day": "2026-01-02"}] * count,
        "pair": ["03:04:00", "00000000-0000-0000-0000-000000000007"],
    }
    store.put(NOTES, "k", given)
    asyncio.run(store.aput(NOTES, "a", given))
    assert store.get(NOTES, "k").value == store.get(NOTES, "a").value == expected
    assert given["at"] is moment
    later = datetime(2027, 1, 1, tzinfo=timezone.utc)
    for condition, keys in (
        ({"at": moment}, {"k", "a"}),
        ({"at": {"$lt": later}}, {"k", "a"}),
        ({"at": {"$gt": later}}, set()),
    ):
        assert {each.key for each in store.search(NOTES, filter=condition)} == keys
