"""Searching an Index, against brute force in float64 and against hnswlib."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.indexes import filled, found_ids, ids_of, random_vectors, vectors_of
from vecall import Index
from vecall.errors import InvalidArgumentError

HUGE = (10**18, 2**63 - 1, 2**63, 2**64, 2**70)


@pytest.mark.parametrize("dim", [1, 2, 3, 7, 8, 9, 16, 17, 31, 64, 100, 257, 384])
def test_search_is_exact_top_k(references, dim):
    for count in (1, 2, 5, 255, 256, 257, 600):
        vectors = random_vectors(dim * 1000 + count, count, dim)
        ids = np.random.default_rng(count).permutation(count * 3)[:count] - count
        index = filled(vectors, ids)
        rows = {int(i): references.Row(int(i)) for i in ids}
        for query in random_vectors(dim, 3, dim):
            wide, q = vectors.astype(np.float64), query.astype(np.float64)
            norms = np.linalg.norm(wide, axis=1) * np.linalg.norm(q)
            exact = dict(zip(ids.tolist(), (wide @ q / norms).tolist(), strict=True))
            for k in (1, 2, 10, count, count + 1):
                found = index.search(query, k)
                tolerance = references.score_tolerance(dim)
                references.assert_nearest(found, exact, k, rows, tolerance=tolerance)


def test_hnswlib_finds_the_same_neighbours(references):
    hnswlib = pytest.importorskip("hnswlib")
    for dim, count in ((5, 50), (33, 300), (128, 1000)):
        # Of norm 1 already: its brute-force index normalises rows but not queries.
        vectors, queries = (
            v / np.linalg.norm(v, axis=1, keepdims=True)
            for v in (random_vectors(dim, count, dim), random_vectors(dim + 1, 20, dim))
        )
        other = hnswlib.BFIndex(space="cosine", dim=dim)
        other.init_index(max_elements=count)
        other.add_items(vectors, np.arange(count))
        labels, distances = other.knn_query(queries, k=10)
        ids, cosines = filled(vectors).search_batch(queries, 10)
        tolerance = references.score_tolerance(dim)
        np.testing.assert_allclose(cosines, 1 - distances, atol=tolerance)
        assert np.mean(ids == labels.astype(np.int64)) > 0.97  # but for near ties


def test_equal_vectors_come_by_smaller_id_whatever_their_order_of_arrival():
    rng = np.random.default_rng(11)
    for count in (2, 7, 300):
        ids = rng.permutation(count).astype(np.int64) - count // 2
        index = filled(np.repeat(random_vectors(1, 1, 6), count, axis=0), ids)
        for k in (1, 2, 3, count // 2, count, count + 5):
            found = found_ids(index, random_vectors(2, 1, 6)[0], k)
            assert found == sorted(ids.tolist())[:k]


def test_scaled_copies_of_one_vector_tie():
    index = filled(
        vectors_of([1, 1], [4, 4], [0.25, 0.25], [1, -1]), ids_of(9, 3, 5, 1)
    )
    ids, cosines = index.search(vectors_of([2, 2])[0], 4)
    assert ids.tolist() == [3, 5, 9, 1]
    assert cosines[0] == cosines[1] == cosines[2]
    assert cosines[3] == pytest.approx(0, abs=1e-7)


def test_ties_at_the_border_of_k_go_to_the_smaller_id():
    # Exact cosines: 1 for the first four rows, 0.5 for the rest.
    near, far = [1, 1, 1, 1], [1, 1, 1, -1]
    order = [8, 2, 6, 4, 7, 1, 5, 3]
    vectors = vectors_of(*([near] * 4 + [far] * 4))
    index = filled(vectors, np.array(order, dtype=np.int64))
    ids, cosines = index.search(vectors_of(near)[0], 6)
    assert ids.tolist() == [2, 4, 6, 8, 1, 3]
    assert cosines.tolist() == [1, 1, 1, 1, 0.5, 0.5]


@pytest.mark.parametrize("k", [*HUGE, 4, 5, np.int64(7)])
def test_a_k_above_the_size_finds_every_row(k):
    index = filled(random_vectors(3, 4, 5))
    query = random_vectors(4, 1, 5)
    ids, cosines = index.search(query[0], k)
    assert sorted(ids.tolist()) == [0, 1, 2, 3]
    batch_ids, batch_cosines = index.search_batch(query, k)
    assert batch_ids.tolist() == [ids.tolist()]
    assert batch_cosines.tolist() == [cosines.tolist()]


@pytest.mark.parametrize("k", [0, -1, -(10**18), -(2**70)])
def test_a_k_below_one_is_refused(k):
    index = filled(random_vectors(3, 4, 5))
    for ask in (index.search, index.search_batch):
        query = random_vectors(4, 1, 5)
        with pytest.raises(InvalidArgumentError, match="k"):
            ask(query if ask == index.search_batch else query[0], k)


def test_ef_changes_nothing_in_an_exact_index():
    vectors = random_vectors(5, 50, 6)
    index = filled(vectors)
    for ef in (1, 10, 2**70):
        wanted = found_ids(index, vectors[0], 10)
        assert index.search(vectors[0], 10, ef)[0].tolist() == wanted
        assert index.search_batch(vectors, 10, ef=ef)[0][0].tolist() == wanted


def test_a_wrong_ef_is_not_called_a_wrong_k():
    index = filled(random_vectors(3, 4, 5))
    with pytest.raises(InvalidArgumentError) as raised:
        index.search(random_vectors(4, 1, 5)[0], 1, ef=0)
    assert "ef" in str(raised.value)


def test_an_empty_index_finds_nothing():
    index = Index(4)
    query = random_vectors(1, 3, 4)
    assert [column.shape for column in index.search(query[0], 5)] == [(0,), (0,)]
    ids, cosines = index.search_batch(query, 5)
    assert ids.tolist() == [[-1]] * 3
    assert cosines.tolist() == [[-np.inf]] * 3
    assert len(index) == 0
    assert 0 not in index
    assert index.remove(ids_of(0, 1)) == 0


def test_a_zero_query_finds_nothing():
    index = filled(random_vectors(1, 9, 4))
    for value in (0.0, -0.0):
        query = np.full(4, value, dtype=np.float32)
        assert found_ids(index, query, 5) == []
        ids, cosines = index.search_batch(
            np.stack([query, random_vectors(2, 1, 4)[0]]), 3
        )
        assert ids[0].tolist() == [-1] * 3
        assert cosines[0].tolist() == [-np.inf] * 3
        assert ids[1].min() >= 0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_query_with_nan_or_inf_is_refused(bad):
    index = filled(random_vectors(1, 9, 4))
    queries = random_vectors(2, 3, 4)
    queries[1, 2] = bad
    with pytest.raises(InvalidArgumentError, match="finite"):
        index.search(queries[1], 5)
    with pytest.raises(InvalidArgumentError, match="finite"):
        index.search_batch(queries, 5)


def test_search_batch_answers_each_query_as_search_does():
    vectors = random_vectors(6, 300, 19)
    index = filled(vectors)
    queries = random_vectors(7, 41, 19)
    queries[5] = 0
    for k in (1, 10, 300, 1000):
        ids, cosines = index.search_batch(queries, k)
        assert ids.shape == cosines.shape == (41, min(k, 300))
        assert ids.dtype == np.int64
        assert cosines.dtype == np.float32
        for at, query in enumerate(queries):
            one_ids, one_cosines = index.search(query, k)
            assert ids[at, : len(one_ids)].tolist() == one_ids.tolist()
            assert cosines[at, : len(one_ids)].tolist() == one_cosines.tolist()
            assert np.all(ids[at, len(one_ids) :] == -1)
            assert np.all(cosines[at, len(one_ids) :] == -np.inf)


def test_search_batch_of_no_queries_is_empty():
    ids, cosines = filled(random_vectors(1, 9, 4)).search_batch(
        np.zeros((0, 4), np.float32), 5
    )
    assert ids.shape == cosines.shape == (0, 5)


def test_a_cosine_never_leaves_minus_one_to_one():
    for dim in (3, 5, 7, 11, 100):
        vectors = random_vectors(dim, 200, dim)
        index = filled(vectors)
        for query in vectors[:50]:
            for sign in (1, -1):
                cosines = index.search(sign * query, 200)[1]
                assert cosines.max() <= 1
                assert cosines.min() >= -1


def test_vectors_of_huge_and_tiny_norm_are_compared_by_direction():
    directions = random_vectors(17, 5, 6)
    scales = np.array([1e-25, 1e-10, 1.0, 1e10, 1e35], dtype=np.float32)
    index = filled(directions * scales[:, None])
    for at, direction in enumerate(directions):
        for scale in scales:
            ids, cosines = index.search(direction * scale, 1)
            assert ids.tolist() == [at]
            assert cosines[0] == pytest.approx(1, abs=1e-6)


def test_answers_belong_to_the_caller():
    index = filled(random_vectors(19, 4, 5))
    query = random_vectors(20, 1, 5)[0]
    first = index.search(query, 4)
    kept = [column.copy() for column in first]
    index.search(-query, 4)
    index.remove(np.arange(4, dtype=np.int64))
    assert [column.tolist() for column in first] == [c.tolist() for c in kept]
    first[0][:] = 77  # writable
