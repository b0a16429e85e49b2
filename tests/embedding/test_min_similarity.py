"""What the vectors of an embedder do to a search: cosines and their floor."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.embedders import Fixed, Recorder, found, session
from helpers.memories import ALICE


def test_the_nearest_memory_comes_first_without_a_common_word(open_service):
    """S0.16, S0.19, S4.12: ranked by cosine where no word matches."""
    vectors = {
        "user: I like parrots": [0.9, 0.1],
        "user: I like trams": [0.1, 0.9],
        "which bird": [1.0, 0.0],
    }
    service = open_service(embedder=Fixed(vectors))
    service.sync.add_session_to_memory(session("I like parrots", id_="a"))
    service.sync.add_session_to_memory(session("I like trams", id_="b"))
    assert found(service, "which bird", top_k=1) == ["I like parrots"]


def test_a_similarity_is_the_cosine(open_service):
    """Scores: cosine in [-1, 1] against double precision, within 12 bits a value."""
    recorder = Recorder(37)
    service = open_service(embedder=recorder, top_k=1000)
    texts = [f"zebra {i}" for i in range(53)]
    service.sync.add_memory(**ALICE, memories=texts)
    answer = service.sync.search_memory(**ALICE, query="zebra asked").memories
    asked = recorder.vector("zebra asked")
    assert len(answer) == 53
    for memory in answer:
        stored = recorder.vector(memory.text).astype(np.float32).astype(float)
        cosine = stored @ asked / np.linalg.norm(stored) / np.linalg.norm(asked)
        assert memory.similarity == pytest.approx(cosine, abs=3e-4)


@pytest.mark.parametrize("scale", [1e-25, 1.0, 1e37])
def test_the_length_of_a_vector_does_not_matter(open_service, scale):
    vectors = {
        "zebra": [3 * scale, 4 * scale, 0.0],
        "okapi": [0.0, scale, 0.0],
        "asked zebra": [scale, 0.0, 0.0],
    }
    service = open_service(embedder=Fixed(vectors))
    service.sync.add_memory(**ALICE, memories=["zebra", "okapi"])
    answer = service.sync.search_memory(**ALICE, query="asked zebra").memories
    by_text = {memory.text: memory.similarity for memory in answer}
    assert by_text["zebra"] == pytest.approx(0.6, abs=1e-5)
    assert by_text.get("okapi", 0.0) == pytest.approx(0.0, abs=1e-5)


def test_a_floor_on_the_similarity_is_inclusive(open_service):
    """S0.20, S0.28: exactly at the floor is in, below is out."""
    vectors = {
        "zebra same": [1.0, 0.0, 0.0, 0.0],
        "zebra half": [0.5, 0.5, 0.5, 0.5],
        "zebra none": [0.0, 1.0, 0.0, 0.0],
        "zebra opposite": [-1.0, 0.0, 0.0, 0.0],
        "zebra": [1.0, 0.0, 0.0, 0.0],
    }
    service = open_service(embedder=Fixed(vectors), min_similarity=-1.0)
    service.sync.add_memory(**ALICE, memories=list(vectors)[:4])
    for floor, count in [
        (1.0, 1),
        (0.75, 1),
        (0.5, 2),
        (0.25, 2),
        (0.0, 3),
        (-0.5, 3),
        (-1.0, 4),
        (None, 4),
    ]:
        assert len(found(service, "zebra", min_similarity=floor)) == count, floor
    strict = open_service(embedder=Fixed(vectors), min_similarity=0.5)
    strict.sync.add_memory(**ALICE, memories=list(vectors)[:4])
    assert sorted(found(strict, "zebra")) == ["zebra half", "zebra same"]
    assert len(found(strict, "zebra", min_similarity=-1)) == 4


def test_a_query_vector_of_zero_norm_searches_by_words(open_service):
    """contracts.md, errors: neither raises nor finds nothing."""
    vectors = {"zebra": [1.0, 0.0], "okapi": [0.0, 1.0], "the zebra": [0.0, 0.0]}
    service = open_service(embedder=Fixed(vectors))
    service.sync.add_memory(**ALICE, memories=["zebra", "okapi"])
    assert found(service, "the zebra") == ["zebra"]


def test_a_query_with_a_lone_surrogate_reaches_the_embedder_as_text(open_service):
    """Bug class 30: any query is answered; the embedder never sees broken text."""

    def embed(texts: list[str]) -> list[list[float]]:
        return [[float(len(text.encode())), 1.0] for text in texts]

    service = open_service(embedder=embed)
    service.sync.add_memory(**ALICE, memories=["zebra"])
    assert found(service, "zebra \ud800") == ["zebra"]
