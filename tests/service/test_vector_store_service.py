"""VectorStoreMemoryService: memories in a vector store of the user's own."""

from __future__ import annotations

import asyncio
import math
import threading
import time

import numpy as np
import pytest
from helpers.embedders import Fixed, Recorder
from helpers.options import grouped
from helpers.services import ALICE, turn
from helpers.vector_stores.reference import ReferenceVectorStore
from vecall import (
    Calibration,
    ClosedError,
    ConfigError,
    EmbedderError,
    Filter,
    InvalidArgumentError,
    InvalidMemoryError,
    MemoryEntry,
    SearchOptions,
)
from vecall.other_storage.vector_store import VectorStoreMemoryService
from vecall.vector_store import InMemoryVectorStore

TEXTS = [f"memory number {n}" for n in range(12)]
WAIT_S = 15.0


@pytest.fixture
def recorder():
    return Recorder(16)


@pytest.fixture
def store():
    return ReferenceVectorStore()


@pytest.fixture
def service(store, recorder):
    with VectorStoreMemoryService(store, recorder) as opened:
        yield opened


def told(*texts):
    return {**ALICE, "id": "s", "events": [turn(n, t) for n, t in enumerate(texts)]}


def tell(service, *texts):
    return asyncio.run(service.add_session_to_memory(told(*texts)))


def answer(service, query, **asked):
    return asyncio.run(service.search_memory(**ALICE, query=query, **asked)).memories


def cosines(recorder, query):
    def unit(text):
        vector = np.asarray(recorder.vector(text), np.float64)
        return vector / np.linalg.norm(vector)

    return {text: float(unit(f"user: {text}") @ unit(query)) for text in TEXTS}


@pytest.mark.parametrize("query", ["zebra", "memory number 3", "\u732b"])
def test_memories_are_ranked_by_cosine_similarity_alone(service, recorder, query):
    """S4.55, S0.19: against float64."""
    tell(service, *TEXTS)
    expected = cosines(recorder, query)
    hits = answer(service, query, top_k=12)
    assert [hit.text for hit in hits] == sorted(TEXTS, key=lambda t: -expected[t])
    for hit in hits:
        assert hit.similarity == hit.score
        assert hit.score == pytest.approx(expected[hit.text], abs=1e-5)
        assert 0.0 < hit.importance < 0.5  # it is of 1970


def test_confidence_is_a_logistic_law_of_the_place_and_the_share_of_the_best_cosine(
    service,
):
    """S2.12: alike for every embedder."""
    tell(service, *TEXTS)
    weights = Calibration.shipped().cosine
    _, place_weight, share_weight, *others = weights.weights
    assert not any(others)
    hits = answer(service, "zebra", top_k=12)
    best = hits[0].score
    assert len({hit.confidence for hit in hits}) == len(hits)
    place = 0.0
    for before, hit in zip([hits[0], *hits], hits, strict=False):
        place += min((before.score - hit.score) / (0.05 * best), 1.0)
        odds = weights.bias + place_weight * math.log1p(place)
        odds += share_weight * hit.score / best
        assert hit.confidence == pytest.approx(1 / (1 + math.exp(-odds)), rel=1e-6)


def test_the_floor_is_inclusive(store, recorder):
    """S0.20, S0.28."""
    with VectorStoreMemoryService(
        store, recorder, top_k=12, search=SearchOptions(min_similarity=-1.0)
    ) as service:
        tell(service, *TEXTS)
        hits = answer(service, "zebra")
        assert len(hits) == 12
        floor = hits[2].score
        assert answer(service, "zebra", min_similarity=floor) == hits[:3]
    with VectorStoreMemoryService(
        store, recorder, top_k=2, search=SearchOptions(min_similarity=floor)
    ) as service:
        assert answer(service, "zebra") == hits[:2]
        assert answer(service, "zebra", top_k=12) == hits[:3]


def test_each_text_is_embedded_once_and_in_batches(service, recorder):
    """S0.17, S0.18."""
    tell(service, *TEXTS)
    tell(service, *TEXTS[::-1])
    asyncio.run(service.add_memory(**ALICE, memories=["zebra", "zebra"]))
    assert sorted(recorder.asked) == sorted([*(f"user: {t}" for t in TEXTS), "zebra"])
    recorder.asked.clear()
    answer(service, "okapi")
    answer(service, "okapi", top_k=3)
    answer(service, "?!")
    assert recorder.asked == ["okapi"]


def test_what_the_store_holds_another_service_finds(store, recorder):
    """S4.55: all that is remembered is in the store."""
    entry = MemoryEntry(
        {"role": "user", "parts": [{"text": "zebra"}, {"text": "okapi"}]},
        id="mine",
        author="agent",
        timestamp=1.5,
        session_id="t",
        event_id="e",
        kind="fact",
        source="book",
        trust="high",
        custom_metadata={"deep": {"a": [1, None, "\u00e9"]}},
        importance=1.0,
    )
    before = time.time()
    with VectorStoreMemoryService(store, recorder) as first:
        asyncio.run(first.add_memory(**ALICE, memories=[entry]))
    after = time.time()
    with VectorStoreMemoryService(store, recorder) as second:
        (found,) = answer(second, "zebra")
    for name in (
        "content id author timestamp session_id event_id kind source trust "
        "custom_metadata importance"
    ).split():
        assert getattr(found, name) == getattr(entry, name), name
    assert before <= found.created_at <= after


def test_a_store_needs_to_hold_no_nested_values(service, store):
    """S4.55: most stores' metadata is flat."""
    event = turn(1, custom_metadata={"deep": {"a": [1]}}, text=None)
    del event["text"]
    event = {**event, "content": {"parts": [{"text": "a"}, {"text": "b"}]}}
    asyncio.run(service.add_events_to_memory(**ALICE, events=[event]))
    (row,) = store.rows
    metadata = row[2]
    assert all(isinstance(value, str | float) for value in metadata.values())
    assert metadata["app_name"] == ALICE["app_name"]
    assert metadata["user_id"] == ALICE["user_id"]


def test_a_filter_by_session_and_time_is_the_stores(service):
    tell(service, *TEXTS)
    entry = MemoryEntry("zebra", session_id="t", timestamp=99.0)
    asyncio.run(service.add_memory(**ALICE, memories=[entry]))

    def times(**asked):
        hits = answer(service, "zebra", top_k=100, filter=Filter(**asked))
        return sorted(hit.timestamp for hit in hits)

    assert times(session_id="t") == [99.0]
    assert times(after=10, before=99) == [10.0, 11.0]
    assert times(session_id="s", after=11) == [11.0]
    for asked in ({"author": "user"}, {"kind": "fact"}):
        with pytest.raises(InvalidArgumentError, match="filter"):
            times(**asked)


def test_what_has_expired_leaves_the_store(service, store):
    """S1.7: with the search that comes upon it."""
    events = [turn(n) for n in range(20)]
    asyncio.run(
        service.add_events_to_memory(
            **ALICE, events=events, custom_metadata={"ttl": 0.05, "a": 1}
        )
    )
    asyncio.run(service.add_memory(**ALICE, memories=["okapi"]))
    time.sleep(0.06)
    (found,) = answer(service, "zebra 1", top_k=20)
    assert found.text == "okapi"
    assert len(store.rows) == 1


def test_a_query_that_is_near_to_nothing_finds_nothing(store):
    vectors = {"zebra": [1.0, 0.0], "okapi": [0.0, 0.0]}
    with VectorStoreMemoryService(store, Fixed(vectors)) as service:
        asyncio.run(service.add_memory(**ALICE, memories=["zebra"]))
        assert answer(service, "okapi") == []
        with pytest.raises(EmbedderError):
            asyncio.run(service.add_memory(**ALICE, memories=["zebra", "okapi"]))
        assert len(store.rows) == 1


class Blocking(ReferenceVectorStore):
    """A store that blocks the thread that calls it until it is let go."""

    def __init__(self):
        super().__init__()
        self.entered = threading.Event()
        self.go_on = threading.Event()

    def wait(self):
        self.entered.set()
        assert self.go_on.wait(WAIT_S), "nobody could let the store go"

    async def upsert(self, id, embedding, metadata):
        self.wait()
        await super().upsert(id, embedding, metadata)

    async def search(self, embedding, top_k, filter=None):
        self.wait()
        return await super().search(embedding, top_k, filter)

    async def delete(self, id, *, app_name, user_id):
        self.wait()
        return await super().delete(id, app_name=app_name, user_id=user_id)


@pytest.mark.parametrize(
    "call",
    [
        lambda service: service.add_session_to_memory(told("zebra")),
        lambda service: service.search_memory(**ALICE, query="zebra"),
        lambda service: service.delete_memory(**ALICE, memory_id="m"),
    ],
    ids=["add", "search", "delete"],
)
def test_a_store_that_blocks_keeps_no_event_loop_waiting(recorder, call):
    """S4.55, S0.31."""
    store = Blocking()

    async def live(service):
        task = asyncio.create_task(call(service))
        assert await asyncio.to_thread(store.entered.wait, WAIT_S)
        assert not task.done()
        store.go_on.set()
        await task

    with VectorStoreMemoryService(store, recorder) as service:
        asyncio.run(live(service))


class Clinging(ReferenceVectorStore):
    """A store whose client clings to the first event loop that uses it."""

    def __init__(self):
        super().__init__()
        self.loops = set()

    async def upsert(self, id, embedding, metadata):
        self.loops.add(asyncio.get_running_loop())
        await super().upsert(id, embedding, metadata)

    async def search(self, embedding, top_k, filter=None):
        self.loops.add(asyncio.get_running_loop())
        return await super().search(embedding, top_k, filter)


def test_a_store_sees_one_event_loop_whoever_calls(recorder):
    """S0.31."""
    store = Clinging()
    with VectorStoreMemoryService(store, recorder) as service:
        for text in TEXTS[:3]:
            tell(service, text)
            assert answer(service, text)
    assert len(store.loops) == 1


class Failing(ReferenceVectorStore):
    """A store that fails at one row, once."""

    calls = 0

    async def upsert(self, id, embedding, metadata):
        self.calls += 1
        if self.calls == 3:
            raise ConnectionError
        await super().upsert(id, embedding, metadata)


def test_after_an_error_of_the_store_the_session_can_be_told_again(recorder):
    store = Failing()
    with VectorStoreMemoryService(store, recorder, top_k=100) as service:
        with pytest.raises(ConnectionError):
            tell(service, *TEXTS)
        tell(service, *TEXTS)
        assert sorted(hit.text for hit in answer(service, "zebra")) == sorted(TEXTS)
        assert len(recorder.asked) == len(TEXTS) + 1


def test_a_row_that_is_no_memory_is_told(service, store):
    metadata = {**ALICE, "summary": "s3cret"}
    asyncio.run(store.upsert("row", np.ones(16), metadata))
    with pytest.raises(InvalidMemoryError) as caught:
        answer(service, "zebra")
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("bad", [None, "store", object(), InMemoryVectorStore.search])
def test_what_is_no_store_is_refused(recorder, bad):
    with pytest.raises(ConfigError, match="store"):
        VectorStoreMemoryService(bad, recorder)


def test_without_an_embedder_there_is_no_vector_search(store):
    with pytest.raises(ConfigError, match="embedder"):
        VectorStoreMemoryService(store, None)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("top_k", 0),
        ("top_k", True),
        ("min_similarity", 1.5),
        ("min_similarity", float("nan")),
    ],
)
def test_options_out_of_range_are_refused(store, recorder, name, value):
    """S0.27, S0.28."""
    with pytest.raises(ValueError, match=name):
        VectorStoreMemoryService(store, recorder, **grouped(**{name: value}))
    with (
        VectorStoreMemoryService(store, recorder) as service,
        pytest.raises(ValueError, match=name),
    ):
        answer(service, "zebra", **{name: value})


def test_after_closing_it_refuses_and_the_store_is_the_callers(recorder):
    store = InMemoryVectorStore()
    service = VectorStoreMemoryService(store, recorder)
    tell(service, "zebra")
    service.close()
    service.close()
    for call in (
        lambda: tell(service, "zebra"),
        lambda: answer(service, "zebra"),
        lambda: answer(service, "?!"),
        lambda: asyncio.run(service.delete_memory(**ALICE, memory_id="m")),
    ):
        with pytest.raises(ClosedError):
            call()
    assert len(store) == 1


def test_leaving_its_block_closes_it(store, recorder):
    async def live():
        async with VectorStoreMemoryService(store, recorder) as service:
            await service.add_session_to_memory(told("zebra"))
        with pytest.raises(ClosedError):
            await service.search_memory(**ALICE, query="zebra")

    asyncio.run(live())
    assert len(store.rows) == 1


def test_it_says_what_it_cannot_do(service):
    """S0.8: a bare store has no lookup by id."""
    assert service.capabilities == {
        "add_events_to_memory",
        "add_memory",
        "delete_memory",
    }
    with pytest.raises(NotImplementedError):
        asyncio.run(service.get_memory(**ALICE, memory_id="m"))
