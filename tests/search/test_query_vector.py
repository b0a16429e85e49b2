"""A search whose query vector the caller has already computed."""

from __future__ import annotations

import asyncio
import math

import numpy as np
import pytest
from helpers.embedders import Recorder
from helpers.memories import ALICE, BOB
from vecall import (
    ConfigError,
    DimensionError,
    Filter,
    InMemoryMemoryService,
    InvalidArgumentError,
    InvalidTypeError,
    MemoryService,
    Ranking,
    Scopes,
    VectorMemoryService,
    WritePolicy,
)

TEXTS = [f"memory number {n}" for n in range(12)]


class Down(Recorder):
    """Embeds texts, but no queries."""

    def embed_queries(self, texts):
        raise AssertionError(len(texts))


def filled(service, **more):
    service.sync.add_memory(**ALICE, memories=TEXTS, **more)
    return service


@pytest.fixture
def recorder():
    return Down(16, "recorder")


@pytest.fixture
def service(recorder):
    with filled(MemoryService(embedder=recorder)) as memory:
        yield memory


def found(service, **asked):
    return service.sync.search_memory(**ALICE, **{"query": "", **asked}).memories


def by_cosine(recorder, vector):
    """An independent order: float64 cosines."""

    def cosine(text):
        own = np.asarray(recorder.vector(text), np.float64)
        given = np.asarray(vector, np.float64)
        return own @ given / np.linalg.norm(own) / np.linalg.norm(given)

    return {text: cosine(text) for text in TEXTS}


@pytest.mark.parametrize("kind", [list, tuple, np.float64, np.float16, "strided"])
def test_a_vector_of_any_number_type_finds_by_cosine(service, recorder, kind):
    given = np.linspace(-1, 1, 16) ** 3
    if kind == "strided":
        vector = np.repeat(given, 2)[::2]
    else:
        vector = given.astype(kind) if kind in (np.float64, np.float16) else kind(given)
    expected = by_cosine(recorder, given)
    memories = found(
        service, vector=vector, top_k=12, ranking=Ranking(fusion="vectors")
    )
    assert {memory.text for memory in memories} == set(TEXTS)
    for memory in memories:
        assert memory.similarity == pytest.approx(expected[memory.text], abs=2e-3)


def test_with_words_both_count(service, recorder):
    vector = recorder.vector("memory number 3")
    memories = found(service, query="number 7", vector=vector, top_k=2)
    assert {memory.text[-1] for memory in memories} == {"3", "7"}
    assert found(service, vector=vector)[0].text == "memory number 3"


def test_a_vector_searches_as_the_same_vector_of_the_embedder(open_service, recorder):
    plain = Recorder(16, "recorder")
    with filled(MemoryService(embedder=plain)) as other:
        for query in ("number 7", "memory", "what is 3?"):
            theirs = other.sync.search_memory(**ALICE, query=query, explain=True)
            ours = other.sync.search_memory(
                **ALICE, query=query, explain=True, vector=plain.vector(query)
            )
            assert [(m.text, m.score, m.confidence) for m in ours.memories] == [
                (m.text, m.score, m.confidence) for m in theirs.memories
            ]


def test_the_callers_array_may_change_afterwards(service, recorder):
    vector = np.asarray(recorder.vector("memory number 3"), np.float32)

    async def both():
        search = service.search_memory(**ALICE, query="", vector=vector)
        task = asyncio.ensure_future(search)
        await asyncio.sleep(0)
        vector[:] = np.nan
        return await task

    assert asyncio.run(both()).memories[0].text == "memory number 3"


@pytest.mark.parametrize("size", [1e-30, 1.0, 1e30])
def test_the_length_of_a_vector_does_not_matter(service, recorder, size):
    vector = np.asarray(recorder.vector("memory number 3"), np.float64) * size
    best = found(service, vector=vector, min_similarity=0.99)[0]
    assert best.text == "memory number 3"
    assert best.similarity == pytest.approx(1.0, abs=1e-4)


BAD = {
    "short": ([1.0] * 15, DimensionError, "16 numbers"),
    "long": ([1.0] * 17, DimensionError, "16 numbers"),
    "empty": ([], DimensionError, "16 numbers"),
    "batch": ([[1.0] * 16], DimensionError, "16 numbers"),
    "ragged": ([[1.0], [1.0, 2.0]], InvalidTypeError, "16 numbers"),
    "text": ("1" * 16, InvalidTypeError, "16 numbers"),
    "texts": (["1"] * 16, InvalidTypeError, "16 numbers"),
    "flags": ([True] * 16, InvalidTypeError, "16 numbers"),
    "complex": ([1j] * 16, InvalidTypeError, "16 numbers"),
    "huge": ([10**400] * 16, InvalidTypeError, "16 numbers"),
    "number": (1.0, InvalidTypeError, "16 numbers"),
    "nothing": ([None] * 16, InvalidTypeError, "16 numbers"),
    "nan": ([math.nan] * 16, InvalidArgumentError, "finite"),
    "inf": ([math.inf] * 16, InvalidArgumentError, "finite"),
    "overflow": ([1e300] * 16, InvalidArgumentError, "finite"),
    "zero": ([0.0] * 16, InvalidArgumentError, "zero"),
    "underflow": ([1e-300] * 16, InvalidArgumentError, "zero"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_vector_that_cannot_be_used_is_refused(service, name):
    vector, error, rule = BAD[name]
    with pytest.raises(error, match=f"^vector: .*{rule}"):
        found(service, vector=vector, query="number 7")


def test_a_service_that_searches_no_vectors_refuses_one():
    for service in (
        MemoryService(embedder=None),
        InMemoryMemoryService("substring"),
        InMemoryMemoryService("words"),
    ):
        with filled(service), pytest.raises(ConfigError, match="vector: "):
            found(service, query="memory", vector=[1.0])


def test_a_ranking_by_words_alone_refuses_a_vector(service):
    with pytest.raises(ConfigError, match="vector: "):
        found(service, vector=[1.0] * 16, ranking=Ranking(fusion="words"))


def test_filter_floor_and_reranking_hold(service, recorder):
    vector = recorder.vector("memory number 3")
    filter = Filter(metadata={"topic": "tea"})
    assert not found(service, vector=vector, filter=filter)
    tagged = {"topic": "tea"}
    service.sync.add_memory(**ALICE, memories=["tagged"], custom_metadata=tagged)
    assert [m.text for m in found(service, vector=vector, filter=filter)] == ["tagged"]
    above = found(service, vector=vector, min_similarity=0.999)
    assert [memory.text for memory in above] == ["memory number 3"]
    spread = found(service, vector=vector, ranking=Ranking(diversity=0.5))
    assert spread[0].text == "memory number 3"


def test_every_scope_is_searched_and_no_other_user(recorder):
    scopes = Scopes(read=("app",), write=("app",))
    with filled(
        MemoryService(embedder=recorder, writes=WritePolicy(scopes=scopes))
    ) as service:
        service.sync.add_memory(**BOB, memories=["of the app"], scope="app")
        service.sync.add_memory(**BOB, memories=["of bob"])
        memories = found(service, vector=recorder.vector("of the app"), top_k=100)
        (shared,) = (memory for memory in memories if memory.scope == "app")
        assert shared.text == "of the app"
        assert shared.similarity == pytest.approx(1.0, abs=1e-4)
        assert "of bob" not in [memory.text for memory in memories]


def test_a_file_that_is_only_read_is_searched_by_a_vector(tmp_path, recorder):
    path = tmp_path / "m.db"
    with filled(MemoryService(path, embedder=recorder)):
        pass
    with MemoryService(path, embedder=recorder, read_only=True) as service:
        vector = recorder.vector("memory number 3")
        assert found(service, vector=vector)[0].text == "memory number 3"


def test_a_vector_memory_service_takes_a_vector(recorder):
    with filled(VectorMemoryService(recorder)) as service:
        vector = recorder.vector("memory number 3")
        assert found(service, vector=vector)[0].text == "memory number 3"


def test_a_vector_comes_over_http(recorder, open_service):
    pytest.importorskip("httptools")
    pytest.importorskip("httpx")
    http = pytest.importorskip("helpers.http")
    door = http.door_to(open_service(embedder=recorder))
    door.ask("POST", f"{http.ALICE}/memories", json={"memories": TEXTS})
    vector = [float(x) for x in recorder.vector("memory number 3")]

    def ask(vector):
        body = {"query": "", "vector": vector}
        return door.ask("POST", f"{http.ALICE}/memories/search", json=body)

    answer = ask(vector)
    assert answer.json()["memories"][0]["content"] == "memory number 3"
    for bad in ([], [1.0], ["x"] * 16, "x", None, [0.0] * 16, [1.0] * 8193, [True]):
        refused = ask(bad)
        assert 400 <= refused.status_code < 500, bad
        assert "vector" in refused.json()["error"]["message"]
