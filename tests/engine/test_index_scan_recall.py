"""A scan of codes finds what brute force in float64 finds, also in awkward data."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from helpers.campaigns import best_of, grown, recall_of, unit
from vecall import Index

ROWS, QUERIES, K = grown(2000), 250, 10
IDS = np.arange(ROWS, dtype=np.int64)
DIMS = [64, 256, 384, 768]


def realistic(dim: int, count: int) -> np.ndarray:
    """A common mean, clusters, and a spectrum that falls off, as of embedded texts."""
    rng = np.random.default_rng(dim)
    scales = (1 + np.arange(dim)) ** -0.5
    turn = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
    centres = rng.standard_normal((40, dim))
    rows = 0.7 * centres[rng.integers(40, size=count)]
    rows += rng.standard_normal((count, dim))
    return np.asarray((rows * scales) @ turn + 0.5 / np.sqrt(dim), np.float32)


def with_outliers(factor: float):
    """Three dimensions far larger than the others, as language models make them."""

    def make(dim: int, count: int) -> np.ndarray:
        vectors = np.random.default_rng(dim + 1).standard_normal((count, dim))
        vectors[:, [1, dim // 2, dim - 1]] *= factor
        return np.asarray(vectors, np.float32)

    return make


def sparse(dim: int, count: int) -> np.ndarray:
    """Nearly all zeros, as word counts are."""
    rng = np.random.default_rng(dim + 2)
    vectors = rng.exponential(size=(count, dim)) * (rng.random((count, dim)) < 0.06)
    vectors[:, 0] += 0.01
    return np.asarray(vectors, np.float32)


SETS = {
    "realistic": realistic,
    "outliers x8": with_outliers(8),
    "outliers x16": with_outliers(16),
    "sparse": sparse,
}


class Truth:
    """Rows, queries and what brute force finds."""

    def __init__(self, name: str, dim: int) -> None:
        both = SETS[name](dim, ROWS + QUERIES)
        self.vectors, self.queries = both[:ROWS], both[ROWS:]
        self.cosines = unit(self.queries) @ unit(self.vectors).T
        self.best = best_of(self.cosines, K)

    def search(self, codec: str, keep: bool = False, exact: bool = False):
        dim = self.vectors.shape[1]
        index = Index(dim, "flat", codec=codec, keep_float32=keep)
        index.add(IDS, self.vectors)
        return index.search_batch(self.queries, K, exact=exact)

    def errors(self, found) -> np.ndarray:
        return np.abs(found[1] - np.take_along_axis(self.cosines, found[0], axis=1))

    def recall_by_score(self, ids: np.ndarray, slack: float) -> float:
        """A row that ties with the k-th best but for `slack` is as good."""
        kth = np.take_along_axis(self.cosines, self.best[:, -1:], axis=1)
        there = np.take_along_axis(self.cosines, ids, axis=1)
        return float(np.mean(there >= kth - slack))


truth_of = functools.cache(Truth)


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("name", SETS)
def test_a_scan_finds_what_brute_force_finds(references, name, dim):
    truth = truth_of(name, dim)
    found, finer = truth.search("int4+8"), truth.search("int4+8+4")
    rough, fine = truth.errors(found), truth.errors(finer)
    recall, recall_of_finer = (recall_of(f[0], truth.best) for f in (found, finer))
    # Ties but for the last bits of a score make up the difference to 1.
    assert truth.recall_by_score(found[0], 4 * rough.max()) == 1
    assert truth.recall_by_score(finer[0], 4 * fine.max()) == 1
    assert rough.max() <= references.score_tolerance(dim, "int4+8")
    assert fine.max() <= references.score_tolerance(dim, "int4+8+4")
    assert fine.mean() < rough.mean() / 4
    assert recall_of_finer >= recall
    assert recall >= 0.997
    assert recall_of_finer >= 0.9995


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("codec", ["int4", "int4+8"])
@pytest.mark.parametrize("name", SETS)
def test_an_exact_search_of_kept_vectors_is_brute_force(name, codec, dim):
    truth = truth_of(name, dim)
    found = truth.search(codec, keep=True, exact=True)
    assert truth.errors(found).max() <= 2e-6
    assert truth.recall_by_score(found[0], 4e-6) == 1
    assert recall_of(found[0], truth.best) >= 0.9995


@pytest.mark.parametrize("name", SETS)
def test_four_bits_alone_find_most_of_it(references, name):
    truth = truth_of(name, 384)
    found = truth.search("int4")
    assert truth.errors(found).max() <= references.score_tolerance(384, "int4")
    assert recall_of(found[0], truth.best) >= 0.6
