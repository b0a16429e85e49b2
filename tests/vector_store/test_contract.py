"""Vector stores: the contract, and what vecall's own store says beyond it."""

from __future__ import annotations

import asyncio
import threading
from datetime import datetime, timezone
from functools import partial

import numpy as np
import pytest
from helpers.vector_stores.contract import VectorStoreContract
from helpers.vector_stores.plain import ALICE, Plain, X, three
from helpers.vector_stores.reference import ReferenceVectorStore
from vecall.errors import (
    ClosedError,
    ConfigError,
    DimensionError,
    InvalidArgumentError,
    InvalidTypeError,
    LimitExceededError,
)
from vecall.limits import Limits
from vecall.types import Filter
from vecall.vector_store import (
    InMemoryVectorStore,
    MemorySummary,
    VectorStore,
    VectorStoreFilter,
)

SUMMARY = {
    "id": "m1",
    "session_id": "s",
    "user_id": "alice",
    "app_name": "app",
    "summary": "She owns a parrot.",
    "topics": ["pets", "birds"],
    "key_facts": ["parrot: Polly"],
    "timestamp": 100.5,
    "event_count": 7,
}


class TestInMemoryVectorStore(VectorStoreContract):
    def make_store(self):
        return InMemoryVectorStore()


class TestReferenceVectorStore(VectorStoreContract):
    """The contract is not only what one store happens to do."""

    def make_store(self):
        return ReferenceVectorStore()


class TestLargeStore(VectorStoreContract):
    """The same where every call is long enough for a thread of its own."""

    @pytest.fixture(autouse=True)
    def every_call_is_long(self, monkeypatch):
        monkeypatch.setattr("vecall.vector_store.in_memory._LONG_WORK", 0)

    def make_store(self):
        return InMemoryVectorStore()


def test_the_length_of_vectors_is_given_or_that_of_the_first():
    """S4.3."""
    store = Plain(InMemoryVectorStore())
    assert store.store.dimensions is None
    assert three(store).store.dimensions == 3
    assert store.delete_many() == 3
    assert store.store.dimensions == 3
    given = Plain(InMemoryVectorStore(4))
    assert given.store.dimensions == 4
    with pytest.raises(DimensionError, match="expected 4 numbers, not 3"):
        given.put("a", X)
    with pytest.raises(DimensionError):
        given.search(X)


@pytest.mark.parametrize("bad", [0, -1, 1.0, "3", True, 65_537])
def test_a_length_that_no_vector_has_is_refused(bad):
    """S4.3."""
    with pytest.raises(ConfigError, match="dimensions"):
        InMemoryVectorStore(bad)


def test_a_store_knows_how_many_rows_it_has():
    """S4.3."""
    store = Plain(InMemoryVectorStore())
    assert len(store.store) == 0
    three(store).put("a", X, user_id="bob")
    assert len(store.store) == 4
    store.put("a", X)
    assert len(store.store) == 4
    store.delete("a")
    assert len(store.store) == 3
    store.delete_many()
    assert len(store.store) == 1


def test_a_closed_store_says_so():
    """S4.3."""
    store = three(Plain(InMemoryVectorStore()))
    store.store.close()
    store.store.close()
    assert len(store.store) == 0
    for call in (
        lambda: store.put("a", X),
        lambda: store.search(X),
        lambda: store.delete("a"),
        store.delete_many,
    ):
        with pytest.raises(ClosedError):
            call()


def test_limits_are_those_that_were_given():
    """S4.25, S4.26."""
    limits = Limits(
        max_top_k=2, max_name_bytes=5, max_text_bytes=80, max_metadata_depth=2
    )
    store = Plain(InMemoryVectorStore(limits=limits))
    store.put("a", X, tags=["x"])
    for call, setting in (
        (lambda: store.search(X, 3), "max_top_k"),
        (lambda: store.put("toolong", X), "max_name_bytes"),
        (lambda: store.put("a", X, text="x" * 80), "max_text_bytes"),
        (lambda: store.put("a", X, tags=[["x"]]), "max_metadata_depth"),
    ):
        with pytest.raises(LimitExceededError, match=setting):
            call()
    assert store.search(X, 2)[0].metadata["tags"] == ["x"]


def test_an_integer_of_thousands_of_digits_is_refused():
    """S4.25."""
    store = Plain(InMemoryVectorStore())
    with pytest.raises(InvalidArgumentError):
        store.put("a", X, n=10**10_000)
    assert len(store.store) == 0


def test_the_best_of_many_rows_are_the_best_of_float64():
    """S4.3: 4-bit codes choose the candidates and lose none that count."""
    random = np.random.default_rng(3)
    count, dimensions = 3000, 256
    rows = random.normal(size=(count, dimensions)) + 2 * random.normal(size=dimensions)
    store = InMemoryVectorStore()

    async def fill():
        for i, row in enumerate(rows):
            where = {"session_id": f"{i % 1000}", "timestamp": i}
            await store.upsert(f"{i}", row, {**ALICE, **where})

    asyncio.run(fill())
    unit = rows / np.linalg.norm(rows, axis=1)[:, None]
    plain = Plain(store)
    for _ in range(20):
        query = rows[random.integers(count)] + random.normal(size=dimensions)
        cosines = unit @ (query / np.linalg.norm(query))
        found = plain.search(query, 20)
        best = np.argsort(-cosines)[:20]
        assert [hit.id for hit in found] == [f"{i}" for i in best]
        error = np.abs(np.array([hit.score for hit in found]) - cosines[best])
        assert error.max() < 1e-6
        # 0.1 % pass, of which half are recent enough.
        assert len(plain.search(query, 3, session_id="17")) == 3
        assert plain.ids(query, 9, session_id="17", after=2000) == ["2017"]
        late = plain.ids(query, 10, after=2990)
        assert sorted(map(int, late)) == list(range(2990, 3000))


def test_an_event_loop_is_not_kept_waiting_by_a_long_search(monkeypatch):
    """S4.3: neither for a search of its own nor for another thread's."""
    seen = []
    monkeypatch.setattr("vecall.vector_store.in_memory._LONG_WORK", 1000)
    store = InMemoryVectorStore()
    original = store._search_rows

    def search(*args):
        seen.append(threading.get_ident())
        return original(*args)

    store._search_rows = search
    plain = Plain(store)
    plain.put("a", X)
    monkeypatch.setattr("vecall.vector_store.in_memory._RESULT_COST", 1)
    plain.search(X)
    assert seen == [threading.get_ident()]
    three(plain)
    plain.search(X)
    assert seen[1] != threading.get_ident()


def while_it_looks(monkeypatch, store, work):
    """Do something on another thread between the engine's answer and the store's."""
    (part,) = store.store._partitions.values()
    original, calls = part.find_nearest_rows, []

    def find(*args):
        hits = original(*args)
        calls.append(len(hits))
        if not store.store._lock.locked():
            thread = threading.Thread(target=work, args=(len(calls),))
            thread.start()
            thread.join()
        return hits

    monkeypatch.setattr(part, "find_nearest_rows", find)
    return calls


@pytest.mark.parametrize(("replaced", "asked"), [(0, 1), (1, 2), (2, 3), (9, 4)])
def test_a_row_that_goes_while_the_engine_looks_is_looked_for_again(
    monkeypatch, replaced, asked
):
    """S4.26: an answer is never short of rows that were there all the time."""
    store = three(Plain(InMemoryVectorStore()))

    def replace(turn):
        if turn <= replaced:
            store.put("a", X, session_id="s", timestamp=10.0)

    calls = while_it_looks(monkeypatch, store, replace)
    assert store.ids(X, 3) == ["a", "b", "c"]
    assert len(calls) == asked


@pytest.mark.parametrize(
    "asked", [{}, {"session_id": "s"}, {"where": Filter(not_session_id="t")}]
)
def test_a_row_that_is_replaced_before_the_engine_looks_is_found(monkeypatch, asked):
    """Also where the rows that may be found were listed before."""
    store = three(Plain(InMemoryVectorStore()))
    (part,) = store.store._partitions.values()
    original = part.find_nearest_rows

    def find(*args):
        monkeypatch.setattr(part, "find_nearest_rows", original)
        again = partial(store.put, "a", X, session_id="s", timestamp=10.0)
        thread = threading.Thread(target=again)
        thread.start()
        thread.join()
        return original(*args)

    monkeypatch.setattr(part, "find_nearest_rows", find)
    assert store.ids(X, 2, **asked) == ["a", "b"]


def test_rows_that_tie_in_score_and_not_in_time_are_asked_for_once(monkeypatch):
    """The engine has the newer ones first, so no row that is missing is better."""
    store = Plain(InMemoryVectorStore())
    for number in range(50):
        store.put(f"{number:02}", X, timestamp=float(number))
    calls = while_it_looks(monkeypatch, store, lambda _: None)
    assert store.ids(X, 3) == ["49", "48", "47"]
    assert len(calls) == 1


def test_a_user_deleted_while_the_engine_looks_is_not_found(monkeypatch):
    """S4.26, S4.28."""
    store = three(Plain(InMemoryVectorStore()))
    while_it_looks(monkeypatch, store, lambda _: store.delete_many())
    assert store.ids(X) == []
    assert len(store.store._engine) == 0


def test_a_store_closed_while_the_engine_looks_says_so(monkeypatch):
    """S4.3."""
    store = three(Plain(InMemoryVectorStore()))
    while_it_looks(monkeypatch, store, lambda _: store.store.close())
    with pytest.raises(ClosedError):
        store.ids(X)


def test_a_failing_engine_leaves_the_store_as_it_was(monkeypatch):
    """S4.25."""
    store = three(Plain(InMemoryVectorStore()))
    (part,) = store.store._partitions.values()
    before = store.search(X)

    class Full:
        def add_rows(self, *args):
            raise MemoryError

    monkeypatch.setattr(part, "_engine", Full())
    for id_ in ("a", "new"):
        with pytest.raises(MemoryError):
            store.put(id_, [0.0, 0.0, 1.0], session_id="new")
    monkeypatch.undo()
    assert store.search(X) == before
    assert store.ids(X, session_id="new") == []
    assert len(store.store) == 3


def test_what_is_deleted_frees_its_memory():
    """S4.27, S4.28."""
    store = Plain(InMemoryVectorStore())
    for user in ("a", "b", "c"):
        three(store)
        store.put("x", X, user_id=user)
        store.delete("x", user_id=user)
    assert store.delete_many() == 3
    assert store.store._partitions == {}
    assert len(store.store._engine) == 0
    three(store).delete("c")
    (part,) = store.store._partitions.values()
    assert list(part.sessions) == ["s"]


def test_a_row_that_goes_while_many_are_deleted_is_not_counted(monkeypatch):
    """S4.28: nor is one that was replaced deleted."""
    store = three(Plain(InMemoryVectorStore()))

    def meanwhile(candidates):
        assert store.store._delete_row(("app", "alice"), "a")
        thread = threading.Thread(target=store.put, args=("b", X))
        thread.start()
        thread.join()
        return candidates

    monkeypatch.setattr("vecall.vector_store.in_memory.in_slices", meanwhile)
    assert store.delete_many() == 1
    assert store.ids(X) == ["b"]


def test_a_store_without_search_is_no_vector_store():
    """S4.25-S4.28: deletion is optional, searching is not."""

    class Half:
        async def upsert(self, id, embedding, metadata):
            return None

        async def delete(self, id):
            return None

    assert not isinstance(Half(), VectorStore)


def test_filters_are_values():
    """S4.29."""
    one = VectorStoreFilter(**ALICE, session_id="s", after=1.0, before=2.0)
    assert one == VectorStoreFilter(**ALICE, session_id="s", after=1.0, before=2.0)
    assert VectorStoreFilter() == VectorStoreFilter(
        user_id=None, app_name=None, session_id=None, after=None, before=None
    )
    with pytest.raises(AttributeError):
        one.user_id = "bob"
    with pytest.raises(TypeError):
        VectorStoreFilter("alice")


def test_a_summary_goes_into_a_store_and_comes_back():
    """S4.30."""
    store = Plain(InMemoryVectorStore())
    summary = MemorySummary(**SUMMARY)
    store.upsert(summary.id, X, summary.to_metadata())
    (hit,) = store.search(X, session_id="s", after=100.5, before=101.0)
    assert MemorySummary.from_metadata(hit.id, hit.metadata) == summary
    assert summary.topics == ("pets", "birds")
    assert hash(summary) == hash(MemorySummary(**SUMMARY))


def test_a_summary_needs_neither_topics_nor_facts_nor_a_count():
    """S4.30."""
    least = {
        name: value
        for name, value in SUMMARY.items()
        if name not in {"topics", "key_facts", "event_count"}
    }
    summary = MemorySummary(**least)
    assert (summary.topics, summary.key_facts, summary.event_count) == ((), (), None)
    metadata = summary.to_metadata()
    assert metadata.keys() == least.keys() - {"id"}
    again = MemorySummary.from_metadata("m1", {**metadata, "score": 1, "id": "other"})
    assert again == summary


def test_a_summary_of_no_events_keeps_its_count():
    """S4.30."""
    summary = MemorySummary(**{**SUMMARY, "event_count": 0})
    assert summary.to_metadata()["event_count"] == 0


@pytest.mark.parametrize(
    "told", ["1970-01-01T00:01:40.500Z", datetime.fromtimestamp(100.5, timezone.utc)]
)
def test_a_summary_takes_any_time(told):
    """S4.30."""
    assert MemorySummary(**{**SUMMARY, "timestamp": told}).timestamp == 100.5


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("id", ""), ("id", None), ("session_id", None), ("session_id", "a\0"),
        ("user_id", ""), ("user_id", 7), ("app_name", None), ("app_name", "x" * 513),
        ("summary", ""), ("summary", " \n"), ("summary", None), ("summary", b"x"),
        ("topics", "pets"), ("topics", [1]), ("topics", None), ("topics", {"a": 1}),
        ("key_facts", "x"), ("key_facts", [None]), ("timestamp", None),
        ("timestamp", float("nan")), ("timestamp", "today"), ("event_count", -1),
        ("event_count", 1.5), ("event_count", True), ("event_count", "7"),
    ],
)  # fmt: skip
def test_a_summary_that_cannot_be_is_refused(name, bad):
    """S4.30."""
    spoiled = {**SUMMARY, name: bad}
    with pytest.raises(InvalidArgumentError, match=name):
        MemorySummary(**spoiled)
    id_ = spoiled.pop("id")
    with pytest.raises(InvalidArgumentError, match=name):
        MemorySummary.from_metadata(id_, spoiled)


def test_metadata_that_is_no_summary_is_refused():
    """S4.30."""
    metadata = MemorySummary(**SUMMARY).to_metadata()
    for name in ("session_id", "user_id", "app_name", "summary", "timestamp"):
        rest = {key: value for key, value in metadata.items() if key != name}
        with pytest.raises(InvalidArgumentError, match=name):
            MemorySummary.from_metadata("m1", rest)
    with pytest.raises(InvalidTypeError):
        MemorySummary.from_metadata("m1", [])
