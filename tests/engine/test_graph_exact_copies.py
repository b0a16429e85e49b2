"""A graph search for a vector that a row has finds that row, whatever the links are."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.campaigns import campaign, unit
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from vecall import Index

EF, K = 8, 10  # a narrow pool, which misses what only links lead to
ONE = 1 - 3e-4


def linked(vectors: np.ndarray, ids: np.ndarray | None = None, **options) -> Index:
    index = Index(vectors.shape[1], "hnsw", **options)
    ids = np.arange(len(vectors), dtype=np.int64) if ids is None else ids
    index.add(ids, vectors)
    index.build()
    return index


def different(count: int, dim: int, seed: int = 0) -> np.ndarray:
    """Vectors of any length that differ in every value."""
    rng = np.random.default_rng([seed, dim])
    return (rng.uniform(0.1, 9, (count, 1)) * rng.standard_normal((count, dim))).astype(
        np.float32
    )


@pytest.mark.parametrize("codec", ["int4", "int4+8", "int4+8+4"])
@pytest.mark.parametrize("dim", [4, 33, 64, 384])
def test_each_of_many_vectors_is_found_among_its_copies(dim, codec):
    base = different(300, dim)
    which = np.repeat(np.arange(300), 10)
    index = linked(base[which], codec=codec, m=4, ef_construction=10)
    for at, vector in enumerate(base):
        found, scores = index.search(vector, 1, EF)
        assert which[found].tolist() == [at]
        assert scores[0] >= (ONE if codec != "int4" else 0.98)


def test_a_thousand_vectors_with_ten_copies_each_are_all_found():
    base = unit(np.random.default_rng(0).standard_normal((1000, 64))).astype(np.float32)
    which = np.repeat(np.arange(1000), 10)
    index = linked(base[which])
    missed = copies = 0
    for at, vector in enumerate(base):
        found, _ = index.search(vector, K, 64)
        missed += which[found[0]] != at
        copies += int(np.sum(which[found] == at))
    assert missed == 0
    assert copies == 1000 * K


def test_the_copy_that_passes_a_filter_is_found():
    base = different(200, 64)
    which = np.repeat(np.arange(200), 12)
    index = linked(base[which], m=4, ef_construction=10)
    passing = np.arange(7, len(which), 12)  # one copy of each
    others = np.setdiff1d(np.arange(len(which)), passing)
    for at, vector in enumerate(base):
        assert index.search(vector, 1, EF, only=passing)[0].tolist() == [passing[at]]
        assert which[index.search(vector, 1, EF, only=others)[0]].tolist() == [at]


def test_a_loaded_graph_finds_the_copies_that_the_saved_one_found(tmp_path):
    base = different(300, 64)
    which = np.repeat(np.arange(300), 10)
    index = linked(base[which], m=4, ef_construction=10)
    index.remove(np.arange(0, len(which), 10))
    index.save(tmp_path / "index")
    loaded = Index.load(tmp_path / "index")
    for at, vector in enumerate(base):
        found, scores = loaded.search(vector, 1, EF)
        assert which[found].tolist() == [at]
        assert scores[0] >= ONE


@pytest.mark.parametrize("kept", [1, 3])
def test_of_thousands_of_equal_rows_those_that_are_left_are_found(kept):
    vectors = different(1500, 64)
    equal = np.sort(np.random.default_rng(2).permutation(1500)[:1200])
    vectors[equal] = vectors[equal[0]]
    common = vectors[equal[0]]
    index = linked(vectors)
    assert index.remove(equal[kept:]) == 1200 - kept
    assert sorted(index.search(common, kept, EF)[0].tolist()) == equal[:kept].tolist()


class CopiesOfAFewVectors(RuleBasedStateMachine):
    """Rows come, go, change places and are linked; copies are found all the while."""

    BASE = different(12, 40)
    FILL = different(400, 40, seed=1)

    def __init__(self) -> None:
        super().__init__()
        self.index = Index(40, "hnsw", m=2, ef_construction=4)
        self.rows: dict[int, int] = {}
        ids = np.arange(1000, 1000 + len(self.FILL), dtype=np.int64)
        self.index.add(ids, self.FILL)
        self.index.build()

    @rule(ids=st.lists(st.integers(0, 60), min_size=1, max_size=20), at=st.integers(0))
    def add(self, ids: list[int], at: int) -> None:
        chosen = [(at + one) % len(self.BASE) for one in range(len(ids))]
        self.index.add(np.array(ids), self.BASE[chosen])
        self.rows |= dict(zip(ids, chosen, strict=True))

    @rule(ids=st.lists(st.integers(0, 60), min_size=1, max_size=30))
    def remove(self, ids: list[int]) -> None:
        self.index.remove(np.array(ids))
        for one in ids:
            self.rows.pop(one, None)

    @rule()
    def replace_all_others(self) -> None:
        """Enough removals, often enough, have the graph built again."""
        ids = np.arange(1000, 1000 + len(self.FILL), dtype=np.int64)
        self.index.add(ids, self.FILL[::-1].copy())

    @rule()
    def link(self) -> None:
        self.index.build()

    @invariant()
    def a_copy_comes_first_where_there_is_one(self) -> None:
        for at, vector in enumerate(self.BASE):
            copies = [one for one, which in self.rows.items() if which == at]
            found, scores = self.index.search(vector, 1, 1)
            if copies:
                assert found[0] in copies
                assert scores[0] >= ONE
                some = np.array(copies[-1:])
                assert self.index.search(vector, 1, 1, only=some)[0].tolist() == some
            else:
                assert scores[0] < ONE


TestCopiesOfAFewVectors = pytest.mark.campaign(CopiesOfAFewVectors.TestCase)
TestCopiesOfAFewVectors.settings = campaign(12, 25)
