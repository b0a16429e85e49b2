"""Vectors that the caller computed: stored, searched, corrected, exported, moved."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.embedders import Recorder
from helpers.memories import ALICE, BOB
from hypothesis import given, settings
from hypothesis import strategies as st
from vecall import (
    ConfigError,
    DimensionError,
    EmbeddingMismatchError,
    InvalidArgumentError,
    InvalidTypeError,
    MemoryEntry,
    MemoryService,
    Ranking,
    VecallError,
    redact,
)
from vecall.embedders import CallerVectors

DIM = 8
RNG = np.random.default_rng(7)
AXES = np.eye(DIM, dtype=np.float32)


def opened(open_service: Any, *args: Any, **options: Any) -> MemoryService:
    return open_service(*args, **{"embedder": CallerVectors(DIM), **options})


def near(service: MemoryService, vector: Any, **options: Any) -> list[str]:
    call = {**ALICE, "query": "", "vector": vector, "min_similarity": 0.5, **options}
    return [memory.text for memory in service.sync.search_memory(**call).memories]


@settings(max_examples=20, deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 2**16)), min_size=1, max_size=12
    ),
    seed=st.integers(0, 2**16),
    scale=st.sampled_from([1e-6, 1.0, 1e6]),
)
def test_a_search_by_a_vector_ranks_by_its_cosine(rows, seed, scale):
    """Against float64; of one id the last vector counts, also for the same text."""
    known: dict[str, np.ndarray] = {}
    with MemoryService(embedder=CallerVectors(DIM)) as service:
        for id_, number in rows:
            vector = np.random.default_rng(number).normal(size=DIM)
            entry = MemoryEntry(f"text {id_}", id=f"m{id_}")
            service.sync.add_memory(**ALICE, memories=[entry], vectors=[vector * scale])
            known[f"m{id_}"] = vector
        query = np.random.default_rng(seed).normal(size=DIM)
        found = service.sync.search_memory(
            **ALICE, query="", vector=query, top_k=20, min_similarity=-1.0
        ).memories
        lengths = np.linalg.norm(query)
        right = {
            id_: float(vector @ query / np.linalg.norm(vector) / lengths)
            for id_, vector in known.items()
        }
        assert {memory.id for memory in found} == right.keys()
        for memory in found:
            assert memory.similarity == pytest.approx(right[str(memory.id)], abs=1e-4)


def test_a_text_without_a_vector_is_found_by_its_words(open_service):
    service = opened(open_service)
    service.sync.add_memory(
        **ALICE,
        memories=["red zebra", "blue zebra", "green zebra"],
        vectors=[AXES[0], None, np.zeros(DIM)],
    )
    service.sync.add_memory(**ALICE, memories=["plain zebra"])
    service.sync.add_memory(**BOB, memories=["zebra of Bob"], vectors=[AXES[0]])
    found = service.sync.search_memory(**ALICE, query="zebra").memories
    texts = {"red zebra", "blue zebra", "green zebra", "plain zebra"}
    assert {memory.text for memory in found} == texts
    assert near(service, AXES[0]) == ["red zebra"]
    assert near(service, AXES[2]) == []


def test_a_query_without_a_vector_where_one_is_needed_is_refused(open_service):
    service = opened(open_service)
    service.sync.add_memory(**ALICE, memories=["zebra"], vectors=[AXES[0]])
    for options in ({"min_similarity": 0.1}, {"ranking": Ranking(fusion="vectors")}):
        with pytest.raises(ConfigError, match="vector"):
            service.sync.search_memory(**ALICE, query="zebra", **options)


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        ([AXES[0]], InvalidArgumentError),
        ([AXES[0], AXES[1], AXES[2]], InvalidArgumentError),
        ([], InvalidArgumentError),
        ([AXES[0], AXES[1][:5]], DimensionError),
        ([AXES[0], [[1.0] * DIM]], DimensionError),
        ([AXES[0], [float("nan")] * DIM], InvalidArgumentError),
        ([AXES[0], [float("inf")] * DIM], InvalidArgumentError),
        ([AXES[0], [1e300] * DIM], InvalidArgumentError),
        ([AXES[0], ["1"] * DIM], InvalidTypeError),
        ([AXES[0], "12345678"], InvalidTypeError),
        ("12", InvalidTypeError),
        ({0: AXES[0], 1: AXES[1]}, InvalidTypeError),
    ],
)
def test_vectors_that_cannot_be_are_refused_and_nothing_is_written(
    open_service, wrong, kind
):
    service = opened(open_service)
    with pytest.raises(kind, match="vectors"):
        service.sync.add_memory(**ALICE, memories=["a", "b"], vectors=wrong)
    assert service.sync.count_memories(**ALICE) == 0
    words = open_service(embedder=None)
    with pytest.raises(ConfigError, match="vectors"):
        words.sync.add_memory(**ALICE, memories=["a"], vectors=[AXES[0]])


def test_the_vector_outlives_a_restart_a_kind_and_a_use(open_service, tmp_path):
    path = tmp_path / "m.db"
    with opened(open_service, path) as service:
        told = [MemoryEntry("zebra", id="m"), MemoryEntry("zebra", id="twin")]
        service.sync.add_memory(**ALICE, memories=told, vectors=AXES[:2])
        service.sync.update_memory(**ALICE, memory_id="m", kind="fact")
        service.sync.mark_used(**ALICE, memory_ids=["m"])
        service.sync.add_memory(**ALICE, memories=told)
        service.sync.archive_memory(**ALICE, memory_id="m")
        service.sync.restore_memory(**ALICE, memory_id="m")
    service = opened(open_service, path)
    for axis, id_ in ((0, "m"), (1, "twin")):
        found = service.sync.search_memory(
            **ALICE, query="", vector=AXES[axis], min_similarity=0.5
        )
        assert [memory.id for memory in found] == [id_]


def test_a_service_with_an_embedder_keeps_the_vectors_of_equal_texts_apart(
    open_service,
):
    """And embeds only the texts that came without one."""
    embedder = Recorder(DIM)
    service = open_service(embedder=embedder)
    told = [MemoryEntry("zebra", id="a"), MemoryEntry("zebra", id="b")]
    service.sync.add_memory(**ALICE, memories=told, vectors=AXES[:2])
    assert "zebra" not in embedder.asked
    service.sync.update_memory(**ALICE, memory_id="a", kind="fact")
    service.sync.update_memory(**ALICE, memory_id="b", kind="fact")
    for axis, id_ in ((0, "a"), (1, "b")):
        found = service.sync.search_memory(
            **ALICE, query="", vector=AXES[axis], min_similarity=0.5
        )
        assert [memory.id for memory in found] == [id_]


def test_a_new_text_needs_a_new_vector(open_service):
    service = opened(open_service)
    entry = MemoryEntry("zebra", id="m", author="user")
    service.sync.add_memory(**ALICE, memories=[entry], vectors=[AXES[0]])
    for change in ({"content": "lion"}, {"author": "guide"}):
        with pytest.raises(InvalidArgumentError, match="vector"):
            service.sync.update_memory(**ALICE, memory_id="m", **change)
    assert near(service, AXES[0]) == ["zebra"]
    service.sync.update_memory(
        **ALICE, memory_id="m", content="lion", vector=AXES[1].tolist()
    )
    assert near(service, AXES[0]) == []
    assert near(service, AXES[1]) == ["lion"]
    service.sync.update_memory(**ALICE, memory_id="m", vector=AXES[2])
    assert near(service, AXES[1]) == []
    assert near(service, AXES[2]) == ["lion"]
    past = service.sync.memory_history(**ALICE, memory_id="m")
    assert [revision.memory.text for revision in past] == ["zebra", "lion"]
    with pytest.raises(DimensionError):
        service.sync.update_memory(**ALICE, memory_id="m", vector=[1.0])
    with pytest.raises(InvalidArgumentError, match="changes"):
        service.sync.update_memory(**ALICE, memory_id="m")
    assert near(service, AXES[2]) == ["lion"]


def test_an_export_carries_the_vectors(open_service, tmp_path):
    service = opened(open_service)
    service.sync.add_memory(**ALICE, memories=["zebra"], vectors=[AXES[3]])
    service.admin.sync.export_jsonl(tmp_path / "e.jsonl", vectors=True)
    other = opened(open_service, tmp_path / "other.db")
    assert other.admin.sync.import_jsonl(tmp_path / "e.jsonl") == 1
    assert near(other, AXES[3]) == ["zebra"]


def test_only_the_same_model_opens_the_file(open_service, tmp_path):
    path = tmp_path / "m.db"
    with opened(open_service, path) as service:
        service.sync.add_memory(**ALICE, memories=["zebra"], vectors=[AXES[0]])
    for other in (
        CallerVectors(DIM, model_id="other"),
        CallerVectors(DIM + 1),
        Recorder(DIM),
    ):
        with pytest.raises(EmbeddingMismatchError):
            open_service(path, embedder=other)
    assert near(opened(open_service, path), AXES[0]) == ["zebra"]


def test_a_migration_to_a_model_embeds_the_texts_and_none_leads_back(
    open_service, tmp_path
):
    service = opened(open_service, tmp_path / "m.db")
    service.sync.add_memory(**ALICE, memories=["zebra", "lion"], vectors=AXES[:2])
    with pytest.raises(ConfigError, match="CallerVectors"):
        service.admin.sync.reembed(CallerVectors(4))
    assert near(service, AXES[0]) == ["zebra"]
    assert service.admin.sync.reembed(Recorder(16)) == 2
    found = service.sync.search_memory(**ALICE, query="zebra").memories
    assert found[0].text == "zebra"
    assert found[0].similarity is not None


def test_a_redacted_text_loses_the_vector_of_what_it_said(open_service):
    service = opened(open_service, on_write=lambda _: redact("hidden"))
    service.sync.add_memory(**ALICE, memories=["secret"], vectors=[AXES[0]])
    assert service.sync.count_memories(**ALICE) == 1
    assert near(service, AXES[0]) == []


@pytest.mark.parametrize("wrong", [0, -1, 65_537, "8", 8.0, True, None])
def test_dimensions_that_cannot_be_are_refused(wrong):
    with pytest.raises(ConfigError, match="dimensions"):
        CallerVectors(wrong)
    with pytest.raises(ConfigError, match="model_id"):
        CallerVectors(4, model_id="")
    with pytest.raises(VecallError):
        CallerVectors(4).embed(["x"])
