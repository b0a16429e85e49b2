"""A scan that scores whole blocks of tight rows answers as one that scores each."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from helpers.campaigns import unit
from vecall import Index
from vecall._core import Engine

ROWS, QUERIES, K = 5000, 12, 10
KEY = ("app", "user")


def tight(dim: int, spread: float, rows: int = ROWS) -> tuple[np.ndarray, np.ndarray]:
    """Rows that lie this far from one direction, and queries likewise."""
    rng = np.random.default_rng([dim, rows])
    both = unit(rng.standard_normal((1, dim)))
    noise = rng.standard_normal((rows + QUERIES, dim)) / np.sqrt(dim)
    both = (both + spread * noise).astype(np.float32)
    return both[:rows], both[rows:]


def index_of(vectors: np.ndarray, ids: np.ndarray | None = None, **options) -> Index:
    index = Index(vectors.shape[1], "flat", **options)
    ids = np.arange(len(vectors), dtype=np.int64) if ids is None else ids
    index.add(ids, vectors)
    return index


@pytest.mark.parametrize("codec", ["int4", "int4+8", "int4+8+4"])
@pytest.mark.parametrize("dim", [40, 100, 384])
@pytest.mark.parametrize("spread", [1.0, 0.1, 0.01, 0.0])
def test_rows_in_blocks_get_the_scores_that_each_gets_alone(dim, spread, codec):
    vectors, queries = tight(dim, spread)
    index = index_of(vectors, codec=codec)
    # A third of the rows at most is looked up row by row.
    some = np.sort(np.random.default_rng(1).permutation(ROWS)[: ROWS // 4])
    alone = index_of(vectors[some], some, codec=codec)
    for query in queries:
        first, second = alone.search(query, K), index.search(query, K, only=some)
        assert [one.tobytes() for one in first] == [one.tobytes() for one in second]


@pytest.mark.parametrize("dim", [33, 384, 4160])
@pytest.mark.parametrize("spread", [1.0, 0.1, 0.01])
def test_the_best_of_tight_rows_are_those_of_brute_force(dim, spread):
    vectors, queries = tight(dim, spread, 700 if dim > 1000 else ROWS)
    index = index_of(vectors)
    cosines = unit(queries) @ unit(vectors).T
    for query, true in zip(queries, cosines, strict=True):
        found, scores = index.search(query, K)
        assert np.abs(scores - true[found]).max() <= 3e-4
        assert true[found].min() >= np.sort(true)[-K] - 2e-4
        assert len(set(found.tolist())) == K


def test_rows_that_were_removed_or_do_not_pass_are_never_returned():
    vectors, queries = tight(384, 0.01)
    index = index_of(vectors)
    index.remove(np.arange(0, ROWS, 10))
    left = np.setdiff1d(np.arange(ROWS), np.arange(0, ROWS, 10))
    fresh = index_of(vectors[left], left)
    passing = left[left % 3 > 0]
    alone = index_of(vectors[passing], passing)
    for query in queries:
        for first, second in (
            (index.search(query, K), fresh.search(query, K)),
            (index.search(query, K, only=passing), alone.search(query, K)),
        ):
            assert [one.tobytes() for one in first] == [one.tobytes() for one in second]


@pytest.mark.parametrize("k", [1, 10, 300, 3000, ROWS])
@pytest.mark.parametrize("order", ["ascending", "descending", "mixed"])
def test_of_equal_rows_the_smallest_ids_come_back(order, k):
    vectors, queries = tight(64, 0.0)
    ids = np.arange(ROWS, dtype=np.int64)
    if order == "descending":
        ids = ids[::-1].copy()
    elif order == "mixed":
        ids = np.random.default_rng(3).permutation(ids)
    found, scores = index_of(vectors, ids).search(queries[0], k)
    assert found.tolist() == list(range(k))
    assert len(set(scores.tolist())) == 1


@pytest.mark.parametrize("spread", [0.0005, 0.01])
def test_the_last_row_of_a_scan_of_any_length_wins_a_tie_by_its_id(spread):
    """Rows are scored in blocks of 1,024 and compared in lanes of 16."""
    for count in (20, 255, 1023, *range(1025, 1060)):
        vectors, _ = tight(64, spread, count)
        vectors[-1] = vectors[count // 3]
        ids = np.arange(count, 0, -1, dtype=np.int64)
        assert index_of(vectors, ids).search(vectors[-1], 1)[0].tolist() == [1], count


@pytest.mark.parametrize("order", ["ascending", "descending", "mixed"])
def test_of_equal_rows_the_newest_come_back(order):
    vectors, queries = tight(64, 0.0)
    times = np.arange(ROWS, dtype=np.int64) // 3  # some are of one time
    if order == "descending":
        times = times[::-1].copy()
    elif order == "mixed":
        times = np.random.default_rng(3).permutation(times)
    engine = Engine(64, kind="flat")
    ids = np.arange(ROWS, dtype=np.int64)
    none = np.zeros(ROWS, np.uint64)
    never = np.full(ROWS, np.iinfo(np.int64).max)
    words, places = none[:0], np.zeros(ROWS + 1, np.int64)
    engine.add_rows(
        KEY, ids, times, never, none, places[1:] * 1.0, words, places, vectors
    )
    expected = sorted(ids.tolist(), key=lambda row: (-times[row], row))
    for k in (1, 10, 500):
        assert engine.search(KEY, queries[0], k)[0].tolist() == expected[:k]


def answers_digest() -> str:
    """What tests/engine/test_instruction_sets.py compares."""
    digest = hashlib.sha256()
    for dim in (100, 384):
        for spread in (2.0, 0.5, 0.01):
            vectors, queries = tight(dim, spread, 3000)
            for codec in ("int4", "int4+8", "int4+8+4"):
                index = index_of(vectors, codec=codec)
                for query in queries:
                    for part in index.search(query, K):
                        digest.update(part.tobytes())
    return digest.hexdigest()
