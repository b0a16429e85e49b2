"""A text whose vector is zero is stored without one, and found by its words."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from helpers.memories import ALICE
from helpers.vector_stores.reference import ReferenceVectorStore
from vecall import EmbedderError, FunctionEmbedder
from vecall.other_storage.vector_store import VectorStoreMemoryService


def vector_of(text: str, dim: int = 3) -> list[float]:
    """Zero for a text without a letter of the model's alphabet."""
    if "qqq" in text:
        return [0.0] * dim
    return [1.0 + text.count("a"), float(text.count("e")), *[1.0] * (dim - 2)]


def embedder(dim: int = 3, name: str = "letters") -> FunctionEmbedder:
    def embed(texts: list[str]) -> list[list[float]]:
        return [vector_of(text, dim) for text in texts]

    return FunctionEmbedder(embed, dimensions=dim, model_id=name)


def similarities(service: Any, query: str) -> dict[str, float | None]:
    found = service.sync.search_memory(**ALICE, query=query, top_k=10).memories
    return {memory.text: memory.similarity for memory in found}


def test_the_other_memories_of_the_call_keep_their_vectors(open_service):
    service = open_service(embedder=embedder())
    texts = ["qqq zebra", "a zebra", "the zebra", "qqq zebra"]
    ids = service.sync.add_memory(**ALICE, memories=texts)
    assert all(ids)
    found = similarities(service, "zebra")
    assert set(found) == set(texts)
    assert found.pop("qqq zebra") is None
    assert None not in found.values()
    assert service.sync.admin.stats()["embedded"] == 2


def test_a_row_without_a_vector_survives_reopening_and_a_change_of_its_text(
    open_service, tmp_path
):
    path = tmp_path / "m.db"
    service = open_service(path, embedder=embedder())
    (id_,) = service.sync.add_memory(**ALICE, memories=["a zebra"])
    service.sync.update_memory(**ALICE, memory_id=id_, content="qqq zebra")
    assert similarities(service, "zebra") == {"qqq zebra": None}
    service.close()
    service = open_service(path, embedder=embedder())
    service._memory.restart_backfill().wait_for_backfill()
    assert similarities(service, "zebra") == {"qqq zebra": None}
    service.sync.update_memory(**ALICE, memory_id=id_, content="the zebra")
    assert similarities(service, "zebra")["the zebra"] is not None


def test_a_file_moves_to_a_model_with_zero_vectors_and_back(open_service, tmp_path):
    path = tmp_path / "m.db"
    plain = FunctionEmbedder(
        lambda texts: [[1.0, len(text)] for text in texts],
        dimensions=2,
        model_id="plain",
    )
    service = open_service(path, embedder=plain)
    service.sync.add_memory(**ALICE, memories=["qqq zebra", "a zebra"])
    assert None not in similarities(service, "zebra").values()
    service.sync.admin.reembed(embedder())
    found = similarities(service, "zebra")
    assert found["qqq zebra"] is None
    assert found["a zebra"] is not None
    service.sync.admin.reembed(plain)
    service._memory.restart_backfill().wait_for_backfill()
    assert None not in similarities(service, "zebra").values()


def test_a_query_with_a_zero_vector_finds_by_words(open_service):
    service = open_service(embedder=embedder())
    service.sync.add_memory(**ALICE, memories=["qqq zebra", "a horse"])
    assert next(iter(similarities(service, "qqq zebra"))) == "qqq zebra"


def test_two_calls_with_the_same_text_at_once_both_store_it(open_service):
    entered, gate = threading.Event(), threading.Event()

    def embed(texts: list[str]) -> list[list[float]]:
        entered.set()
        assert gate.wait(10)
        return [[0.0, 0.0] for _ in texts]

    service = open_service(embedder=FunctionEmbedder(embed, dimensions=2, model_id="z"))
    done: list[Any] = []

    def add(id_: str) -> None:
        entry = {"text": "zebra", "id": id_}
        done.append(service.sync.add_memory(**ALICE, memories=[entry]))

    threads = [threading.Thread(target=add, args=(name,)) for name in "ab"]
    threads[0].start()
    assert entered.wait(10)
    threads[1].start()
    gate.set()
    for thread in threads:
        thread.join(10)
    assert sorted(map(tuple, done)) == [("a",), ("b",)]
    assert service.sync.admin.stats()["memories"] == 2


def test_a_vector_store_refuses_a_text_without_a_vector():
    with VectorStoreMemoryService(ReferenceVectorStore(), embedder()) as service:
        with pytest.raises(EmbedderError, match="zero vector"):
            service.sync.add_memory(**ALICE, memories=["qqq zebra", "a zebra"])
        assert similarities(service, "zebra") == {}


def test_opening_calls_no_embedder_whose_dimensions_are_given(open_service, tmp_path):
    def embed(texts: list[str]) -> list[list[float]]:
        msg = "no network"
        raise ConnectionRefusedError(msg)

    offline = FunctionEmbedder(embed, dimensions=2)
    service = open_service(tmp_path / "m.db", embedder=offline)
    assert service.sync.search_memory(**ALICE, query="").memories == []
    with pytest.raises(EmbedderError):
        service.sync.add_memory(**ALICE, memories=["zebra"])
    service.close()
    open_service(tmp_path / "m.db", embedder=FunctionEmbedder(embed, dimensions=2))
