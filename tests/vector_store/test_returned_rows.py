"""What a vector store returns is checked before it becomes a memory."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers.embedders import Recorder
from helpers.memories import ALICE, BOB
from helpers.vector_stores.reference import ReferenceVectorStore
from hypothesis import given
from hypothesis import strategies as st
from vecall import Filter, InvalidMemoryError, MemoryEntry
from vecall.other_storage.vector_store import VectorStoreMemoryService
from vecall.vector_store import VectorSearchResult
from vecall.vector_store.base import meets

TEXTS = ["zebra one", "zebra two", "zebra three", "zebra four"]


class Altering(ReferenceVectorStore):
    """A store that alters its results; `alter` takes and returns a list of rows."""

    alter: Any = staticmethod(list)

    async def search(self, *given: Any, **named: Any) -> Any:
        return self.alter(await super().search(*given, **named))

    def rows_of(self, **who: str) -> list[VectorSearchResult]:
        pair = tuple(who.values())
        return [
            VectorSearchResult(row[0][2], 0.5, dict(row[2]))
            for row in self.rows
            if row[0][:2] == pair
        ]


@pytest.fixture(scope="module")
def opened():
    store = Altering()
    with VectorStoreMemoryService(store, Recorder(16)) as service:
        entries = [MemoryEntry(text, id=text) for text in TEXTS]
        service.sync.add_memory(**ALICE, memories=entries)
        service.sync.add_memory(**BOB, memories=[MemoryEntry("zebra of Bob")])
        yield store, service


@pytest.fixture
def altered(opened, monkeypatch):
    store, service = opened

    def search(alter: Any, **options: Any) -> list[MemoryEntry]:
        monkeypatch.setattr(store, "alter", alter)
        call = {**ALICE, "query": "zebra", **options}
        return service.sync.search_memory(**call).memories

    return search


def scored(score: Any) -> Any:
    """Give the second row a score."""
    return lambda rows: [rows[0], replace(rows[1], score=score), *rows[2:]]


@pytest.mark.parametrize(
    "score",
    [math.nan, math.inf, -math.inf, 1.01, -1.01, 7, None, "0.5", True, 10**400, 1j],
    ids=lambda score: str(score)[:5],
)
def test_a_score_that_is_no_cosine_is_an_error(altered, score):
    with pytest.raises(InvalidMemoryError, match=r"score.*\[-1, 1\]") as caught:
        altered(scored(score))
    assert "zebra" not in str(caught.value)


@pytest.mark.parametrize("kind", [float, np.float32, np.float64])
def test_a_cosine_that_rounding_put_beyond_one_is_one(altered, kind):
    for sign in (1, -1):
        score = kind(sign * 1.00001)
        (only,) = altered(lambda rows, score=score: [replace(rows[0], score=score)])
        assert type(only.similarity) is float
        assert only.similarity == sign
        assert 0.0 < only.confidence < 1.0


@pytest.mark.parametrize(
    "alter",
    [
        lambda rows: [replace(rows[0], metadata={**rows[0].metadata, **BOB})],
        lambda rows: [
            replace(rows[0], metadata={**rows[0].metadata, "app_name": "another"})
        ],
        lambda rows: [replace(rows[0], metadata={"text": "zebra", "created_at": 1.0})],
    ],
    ids=["another user's", "another app's", "without names"],
)
def test_a_row_of_another_user_is_an_error(altered, alter):
    with pytest.raises(InvalidMemoryError, match="another user"):
        altered(alter)


def test_a_store_that_ignores_its_filter_is_an_error(opened, altered):
    store, _ = opened
    bob = store.rows_of(**BOB)
    with pytest.raises(InvalidMemoryError, match="another user") as caught:
        altered(lambda rows: [*rows, *bob])
    assert "Bob" not in str(caught.value)


@pytest.mark.parametrize(
    "alter",
    [
        lambda rows: None,
        lambda rows: 7,
        lambda rows: [None],
        lambda rows: [(rows[0].id, rows[0].score)],
        lambda rows: [replace(rows[0], id=5)],
        lambda rows: [replace(rows[0], id="")],
        lambda rows: [replace(rows[0], metadata=None)],
        lambda rows: [replace(rows[0], metadata={**ALICE, "text": "zebra"})],
        lambda rows: [replace(rows[0], metadata={**rows[0].metadata, "text": 5})],
        lambda rows: [
            replace(rows[0], metadata={**rows[0].metadata, "expires_at": "soon"})
        ],
        lambda rows: [
            replace(rows[0], metadata={**rows[0].metadata, "created_at": math.nan})
        ],
    ],
)
def test_what_is_no_memory_is_an_error(altered, alter):
    with pytest.raises(InvalidMemoryError, match="not a memory"):
        altered(alter)


@given(order=st.lists(st.integers(0, len(TEXTS) - 1), max_size=12), top_k=st.just(3))
def test_rows_come_once_best_first_and_at_most_top_k(opened, order, top_k):
    store, service = opened
    store.alter = lambda rows: [rows[i % len(rows)] for i in order] if rows else rows
    try:
        call = {**ALICE, "query": "zebra", "top_k": top_k}
        found = service.sync.search_memory(**call).memories
        store.alter = list
        right = service.sync.search_memory(**{**call, "top_k": len(TEXTS)}).memories
    finally:
        store.alter = list
    # The store was asked for three, so a number above two wraps around.
    wanted = {i % top_k for i in order}
    expected = [memory for i, memory in enumerate(right) if i in wanted][:top_k]
    assert [memory.id for memory in found] == [memory.id for memory in expected]
    assert [memory.similarity for memory in found] == [
        memory.similarity for memory in expected
    ]


def test_more_rows_than_asked_for_are_cut(opened, altered):
    store, _ = opened
    everything = store.rows_of(**ALICE)
    assert len(everything) == len(TEXTS)
    assert len(altered(lambda _: everything, top_k=2)) == 2


@pytest.mark.parametrize("label", [7, None, True, 0.5, [], ["a"], {}, {"a": 1}])
def test_a_label_that_is_no_text_meets_no_condition_that_names_a_text(label):
    """As the row of another program may have it."""
    fields = ("author", "kind", "source", "trust", "session_id")
    row = dict.fromkeys(fields, label)
    for condition in (
        {"kind_prefix": "a"}, {"kind_prefix": ["a", ""]}, {"session_prefix": "a"},
        {"author": "a"}, {"kind": "a"}, {"source": ["a"]}, {"trust": "verified"},
    ):  # fmt: skip
        assert not meets(row, Filter(**condition))
    assert meets(row, Filter(not_kind="a", not_session_id="a"))
