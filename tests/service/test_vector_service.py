"""VectorMemoryService: embedding retrieval and nothing else."""

from __future__ import annotations

import asyncio
import math

import numpy as np
import pytest
from helpers.conversations import ALICE, session, turn
from helpers.embedders import Recorder
from vecall import ConfigError, MemoryService, VectorMemoryService

TEXTS = [f"memory number {n}" for n in range(12)]


@pytest.fixture
def recorder():
    return Recorder(16, "recorder")


@pytest.fixture
def service(recorder):
    with VectorMemoryService(recorder) as memory:
        events = [turn(f"e{n}", text, author="user") for n, text in enumerate(TEXTS)]
        memory.sync.add_session_to_memory(session(*events))
        yield memory


def found(service, query, **asked):
    return service.sync.search_memory(**ALICE, query=query, **asked).memories


def cosines(recorder, query):
    def unit(text):
        vector = np.asarray(recorder.vector(text), np.float64)
        return vector / np.linalg.norm(vector)

    return {text: float(unit(f"user: {text}") @ unit(query)) for text in TEXTS}


@pytest.mark.parametrize("query", ["zebra", "memory number 3", "NUMBER", "\u732b"])
def test_memories_are_ranked_by_cosine_similarity_alone(service, recorder, query):
    """S0.16, S0.19: against float64; words, order and questions do not count."""
    expected = cosines(recorder, query)
    order = sorted(TEXTS, key=lambda text: -expected[text])
    hits = found(service, query, top_k=12)
    assert [hit.text for hit in hits] == order
    for hit in hits:
        assert hit.similarity == pytest.approx(expected[hit.text], abs=1e-3)


def test_five_memories_and_no_floor_by_default(service):
    """S0.26."""
    assert len(found(service, "zebra")) == 5
    assert len(found(service, "zebra", top_k=12)) == 12


def test_the_number_of_memories_and_the_floor_can_be_chained(service, recorder):
    """S0.27, S0.28, S0.29, S0.20: the floor is inclusive."""
    expected = sorted(cosines(recorder, "zebra").values(), reverse=True)
    floor = found(service, "zebra", top_k=12)[2].similarity
    assert service.with_top_k(10).with_min_score(floor) is service
    hits = found(service, "zebra")
    assert len(hits) == 3
    assert hits[-1].similarity == floor
    assert floor == pytest.approx(expected[2], abs=1e-3)
    assert len(found(service.with_min_score(-1.0), "zebra")) == 10


@pytest.mark.parametrize("k", [0, -1, True, 1.5, "s3cret"])
def test_a_number_of_memories_below_one_is_refused(service, k):
    """S0.27: a ValueError; what was set stays."""
    with pytest.raises(ValueError, match="top_k"):
        service.with_top_k(k)
    assert len(found(service, "zebra")) == 5


@pytest.mark.parametrize("score", [-1.01, 1.01, math.nan, math.inf, True, "s3cret"])
def test_a_floor_outside_of_the_cosines_range_is_refused(service, score):
    """S0.28."""
    with pytest.raises(ValueError, match="min_similarity"):
        service.with_min_score(score)
    assert len(found(service, "zebra")) == 5


def test_entries_are_embedded_once_and_each_search_embeds_its_query(service, recorder):
    """S0.17, S0.18."""
    assert sorted(recorder.asked) == sorted(f"user: {text}" for text in TEXTS)
    recorder.asked.clear()
    found(service, "zebra")
    found(service, "zebra", top_k=3)
    assert recorder.asked == ["zebra"]


def test_nothing_outlives_the_process(recorder, tmp_path, monkeypatch):
    """S0.21: process-local."""
    monkeypatch.chdir(tmp_path)
    with VectorMemoryService(recorder) as memory:
        memory.sync.add_memory(**ALICE, memories=["zebra"])
        assert found(memory, "zebra")
    assert list(tmp_path.iterdir()) == []
    with VectorMemoryService(recorder) as memory:
        assert found(memory, "zebra") == []


def test_without_an_embedder_there_is_no_vector_search():
    with pytest.raises(ConfigError, match="embedder"):
        VectorMemoryService(None)


@pytest.mark.parametrize("kind", [MemoryService, VectorMemoryService])
def test_one_program_runs_on_either_service(kind, recorder):
    """S0.30, S0.31: a drop-in replacement, shared by concurrent callers."""
    service = kind(embedder=recorder) if kind is VectorMemoryService else kind()
    scope = {"app_name": "app", "user_id": "u"}

    async def scenario():
        await service.add_session_to_memory(
            {**scope, "id": "s", "events": [turn("e1", "a red bicycle")]}
        )
        await service.add_memory(**scope, memories=["a green car"])
        answers = await asyncio.gather(
            *[service.search_memory(**scope, query="bicycle car") for _ in range(20)]
        )
        other = await service.search_memory(
            app_name="app", user_id="v", query="bicycle"
        )
        return answers, other

    with service:
        answers, other = asyncio.run(scenario())
    assert other.memories == []
    for answer in answers:
        assert {m.text for m in answer.memories} == {"a red bicycle", "a green car"}
        assert answer == answers[0]
