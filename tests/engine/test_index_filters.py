"""A filter inside a search of the graph hides nothing that passes, whatever it keeps.

Rows count as found if their cosine reaches that of the k-th best row that passes, but
for the rounding of two scores.
"""

from __future__ import annotations

import numpy as np
import pytest
from helpers.campaigns import CENTRES, centres, clusters, grown, unit
from vecall import Index

DIM, K, ROWS = 48, 10, grown(8000)
IDS = np.arange(ROWS, dtype=np.int64)
QUERIES = clusters(1, 40, DIM)
VECTORS = clusters(2, ROWS, DIM)
COSINES = unit(QUERIES) @ unit(VECTORS).T
SUBJECTS = np.argmax(unit(VECTORS) @ unit(centres(DIM)).T, axis=1)
ASKED = np.argmax(unit(QUERIES) @ unit(centres(DIM)).T, axis=1)


@pytest.fixture(scope="module")
def index() -> Index:
    made = Index(DIM, "hnsw")
    made.add(IDS, VECTORS)
    made.build()
    return made


def at_random(at: int, kept: float) -> np.ndarray:
    return np.random.default_rng(at).permutation(IDS)[: max(1, round(kept * ROWS))]


def some_subjects(at: int, kept: float) -> np.ndarray:
    """As a session or an author keeps to its subjects."""
    order = np.random.default_rng(at).permutation(CENTRES)
    return IDS[np.isin(SUBJECTS, order[: max(1, round(kept * CENTRES))])]


def other_subjects(at: int, kept: float) -> np.ndarray:
    """Of one who never spoke of what is asked."""
    allowed = some_subjects(at, kept)
    return allowed[SUBJECTS[allowed] != ASKED[at]]


def farthest(at: int, kept: float) -> np.ndarray:
    """All but what is near the query."""
    return np.argsort(COSINES[at])[: max(1, round(kept * ROWS))].astype(np.int64)


def shares_found(references, index: Index, choose, kept: float, ef: int) -> list[float]:
    slack = 2 * references.score_tolerance(DIM)
    shares = []
    for at, query in enumerate(QUERIES):
        allowed = choose(at, kept)
        passing = np.sort(COSINES[at][allowed])[::-1][:K]
        found, cosines = index.search(query, K, ef, only=allowed)
        assert len(found) == len(passing)
        assert len(set(found.tolist())) == len(found)
        assert np.all(np.isin(found, allowed))
        right = COSINES[at][found]
        np.testing.assert_allclose(cosines, right, rtol=0, atol=slack / 2)
        shares.append(float(np.mean(right >= passing[-1] - slack)))
    return shares


@pytest.mark.parametrize("kept", [0.95, 0.5, 0.1, 0.01, 0.001])
def test_a_filter_that_keeps_rows_at_random_finds_the_best_of_them(
    references, index, kept
):
    assert np.mean(shares_found(references, index, at_random, kept, 64)) >= 0.99
    assert np.mean(shares_found(references, index, at_random, kept, K)) >= 0.95


@pytest.mark.parametrize("kept", [0.1, 0.3, 0.5, 0.7, 0.9])
@pytest.mark.parametrize("choose", [some_subjects, other_subjects, farthest])
def test_a_filter_that_goes_by_subject_finds_the_best_of_what_it_keeps(
    references, index, kept, choose
):
    shares = shares_found(references, index, choose, kept, 64)
    assert np.mean(shares) >= 0.98
    assert min(shares) >= 0.5


def test_a_filter_beside_a_tail_and_removed_rows_finds_the_best(references):
    """Half of the rows are linked, some of these are gone, the rest wait."""
    index = Index(DIM, "hnsw")
    half = ROWS // 2
    index.add(IDS[:half], VECTORS[:half])
    index.build()
    index.remove(IDS[:half:5])
    index.add(IDS[half:], VECTORS[half:])
    live = np.concatenate([np.setdiff1d(IDS[:half], IDS[:half:5]), IDS[half:]])
    for kept in (0.95, 0.3, 0.01):

        def allowed(at: int, kept: float = kept) -> np.ndarray:
            return np.intersect1d(at_random(at, kept), live)

        shares = shares_found(references, index, lambda at, _: allowed(at), kept, 64)
        assert np.mean(shares) >= 0.99


def test_rows_that_wait_to_be_linked_are_found_by_the_narrowest_search():
    """Again until the background linked nothing between two looks at its count."""
    half = ROWS // 2
    for _ in range(50):
        index = Index(DIM, "hnsw")
        index.add(IDS[:half], VECTORS[:half])
        index.build()
        index.add(IDS[half:], VECTORS[half:])
        linked = index.linked
        found = [index.search(VECTORS[at], 1, 1)[0].tolist() for at in (-1, -2, -3)]
        if index.linked <= ROWS - 3:
            assert found == [[IDS[at]] for at in (-1, -2, -3)]
            return
    pytest.fail(f"the background was faster than three searches; {linked} linked")


def shares_after_removal(references, ef: int) -> list[float]:
    """All that was near a query is deleted, and the graph is not built anew for it."""
    slack = 2 * references.score_tolerance(DIM)
    shares = []
    for at in range(0, len(QUERIES), 8):
        index = Index(DIM, "hnsw", 8, 40)
        index.add(IDS[:2000], VECTORS[:2000])
        index.build()
        cosines = COSINES[at][:2000]
        order = np.argsort(-cosines)
        index.remove(order[:900].astype(np.int64))
        left = order[900:]
        for k in (1, K):
            found = index.search(QUERIES[at], k, ef)[0]
            assert len(found) == k
            assert np.all(np.isin(found, left))
            shares.append(
                float(np.mean(cosines[found] >= cosines[left[k - 1]] - slack))
            )
    return shares


def test_as_many_are_found_however_many_were_removed_nearby(references):
    for ef in (1, K, 64):
        shares_after_removal(references, ef)


@pytest.mark.parametrize("ef", [K, 64])
def test_rows_that_were_removed_crowd_out_none_that_are_here(references, ef):
    assert np.mean(shares_after_removal(references, ef)) >= 0.95
