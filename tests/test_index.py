"""Index against brute force in float64 and against hnswlib."""

from __future__ import annotations

import numpy as np
import pytest
from vecall import Index
from vecall.errors import (
    ConfigError,
    DimensionError,
    InvalidArgumentError,
    VecallError,
)

HUGE = (10**18, 2**63 - 1, 2**63, 2**64, 2**70)


def ids_of(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def vectors_of(*rows: list[float]) -> np.ndarray:
    return np.array(rows, dtype=np.float32)


def random_vectors(seed: int, count: int, dim: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((count, dim)).astype(np.float32)


def filled(vectors: np.ndarray, ids: np.ndarray | None = None) -> Index:
    index = Index(vectors.shape[1])
    index.add(np.arange(len(vectors), dtype=np.int64) if ids is None else ids, vectors)
    return index


def found_ids(index: Index, query: np.ndarray, k: int) -> list[int]:
    return index.search(query, k)[0].tolist()


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
                references.assert_nearest(found, exact, k, rows)


def test_hnswlib_finds_the_same_neighbours():
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
        np.testing.assert_allclose(cosines, 1 - distances, atol=2e-6)
        assert np.mean(ids == labels.astype(np.int64)) > 0.99  # but for near ties


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
    for value in (0.0, -0.0, 1e-45):
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


def test_add_replaces_rows_with_the_same_id():
    index = filled(vectors_of([1, 0], [0, 1]), ids_of(5, 6))
    index.add(ids_of(5), vectors_of([0, -1]))
    assert len(index) == 2
    ids, cosines = index.search(vectors_of([0, 1])[0], 5)
    assert ids.tolist() == [6, 5]
    assert cosines.tolist() == [1, -1]


def test_the_last_of_equal_ids_in_one_batch_wins():
    index = filled(vectors_of([1, 0], [0, 1], [-1, 0]), ids_of(5, 6, 5))
    assert len(index) == 2
    ids, cosines = index.search(vectors_of([1, 0])[0], 5)
    assert ids.tolist() == [6, 5]
    assert cosines.tolist() == [0, -1]


def test_a_removed_row_is_not_found_until_it_is_added_again():
    vectors = random_vectors(8, 6, 5)
    index = filled(vectors)
    assert index.remove(ids_of(2, 4, 4, 99, -1)) == 2
    assert len(index) == 4
    assert 2 not in index
    assert 3 in index
    assert sorted(found_ids(index, vectors[2], 10)) == [0, 1, 3, 5]
    assert index.remove(ids_of(2)) == 0
    index.add(ids_of(2), vectors[4:5])
    assert 2 in index
    assert found_ids(index, vectors[4], 1) == [2]
    assert len(index) == 5


def test_ids_may_be_any_int64():
    ids = [-(2**63), -1, 0, 1, 2**63 - 1]
    vectors = random_vectors(9, 5, 3)
    index = filled(vectors, np.array(ids, dtype=np.int64))
    for wanted, vector in zip(ids, vectors, strict=True):
        assert wanted in index
        assert found_ids(index, vector, 1) == [wanted]


def test_adding_and_removing_nothing_changes_nothing():
    vectors = random_vectors(10, 3, 4)
    index = filled(vectors)
    index.add(ids_of(), np.zeros((0, 4), np.float32))
    assert index.remove(ids_of()) == 0
    assert len(index) == 3
    empty = Index(4)
    empty.add(ids_of(), np.zeros((0, 4), np.float32))
    assert len(empty) == 0


def test_an_index_may_have_one_dimension():
    index = filled(vectors_of([2.5], [-1e-20], [1e30]), ids_of(1, 2, 3))
    ids, cosines = index.search(np.array([0.125], np.float32), 3)
    assert ids.tolist() == [1, 3, 2]
    assert cosines.tolist() == [1, 1, -1]


def test_an_index_may_have_65536_dimensions():
    vectors = random_vectors(12, 4, 65_536)
    index = filled(vectors)
    ids, cosines = index.search(vectors[2] * np.float32(1e-3), 2)
    assert ids[0] == 2
    assert cosines[0] == pytest.approx(1, abs=1e-5)
    wide = vectors.astype(np.float64)
    exact = wide @ wide[2] / np.linalg.norm(wide, axis=1) / np.linalg.norm(wide[2])
    assert cosines[1] == pytest.approx(np.sort(exact)[-2], abs=1e-5)


@pytest.mark.parametrize("dim", [0, 65_537, 2**40])
def test_other_dimensions_are_refused(dim):
    with pytest.raises(InvalidArgumentError, match="65536"):
        Index(dim)


@pytest.mark.parametrize("dim", [-1, 2**70])
def test_impossible_dimensions_are_refused_as_documented(dim):
    with pytest.raises(InvalidArgumentError):
        Index(dim)


def test_kind_is_auto_or_flat():
    vectors = random_vectors(13, 20, 4)
    for kind in ("auto", "flat"):
        index = Index(4, kind)
        index.add(np.arange(20, dtype=np.int64), vectors)
        assert found_ids(index, vectors[7], 1) == [7]
    with pytest.raises(InvalidArgumentError, match="flat") as raised:
        Index(4, "hnsw-of-alice")
    assert "alice" not in str(raised.value)
    assert not isinstance(raised.value, ConfigError)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 0.0])
@pytest.mark.parametrize("at", [0, 3, 6])
def test_one_bad_vector_in_a_batch_adds_nothing(at, bad):
    vectors = random_vectors(14, 7, 4)
    index = filled(vectors[:2], ids_of(0, 1))
    before = [column.tobytes() for column in index.search(vectors[5], 10)]
    batch = random_vectors(15, 7, 4)
    batch[at] = bad if bad == 0.0 else batch[at]
    batch[at, 2] = bad
    with pytest.raises(InvalidArgumentError) as raised:
        index.add(np.arange(7, dtype=np.int64), batch)
    assert type(raised.value) is InvalidArgumentError
    assert len(index) == 2
    assert 5 not in index
    assert [column.tobytes() for column in index.search(vectors[5], 10)] == before


def test_a_refused_batch_leaves_an_index_that_works():
    index = Index(3)
    for _ in range(3):
        with pytest.raises(InvalidArgumentError):
            index.add(ids_of(1, 2), vectors_of([1, 0, 0], [0, 0, 0]))
        assert len(index) == 0
    index.add(ids_of(1, 2), vectors_of([1, 0, 0], [0, 1, 0]))
    assert found_ids(index, vectors_of([0, 1, 0])[0], 2) == [2, 1]


def test_vectors_of_another_dimension_are_refused():
    index = filled(random_vectors(16, 3, 4))
    for dim in (0, 1, 3, 5, 8):
        with pytest.raises(DimensionError, match="4"):
            index.add(ids_of(7), np.ones((1, dim), np.float32))
        with pytest.raises(DimensionError, match="4"):
            index.search(np.ones(dim, np.float32), 1)
        with pytest.raises(DimensionError, match="4"):
            index.search_batch(np.ones((2, dim), np.float32), 1)
    assert len(index) == 3


@pytest.mark.parametrize(("ids", "vectors"), [(2, 3), (3, 2), (0, 1), (1, 0)])
def test_every_vector_needs_one_id(ids, vectors):
    index = Index(4)
    with pytest.raises(InvalidArgumentError, match="ids"):
        index.add(np.arange(ids, dtype=np.int64), random_vectors(1, vectors, 4))
    assert len(index) == 0


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


def test_the_index_keeps_its_own_copy_of_the_vectors():
    vectors = random_vectors(18, 4, 5)
    original = vectors.copy()
    ids = np.arange(4, dtype=np.int64)
    index = filled(vectors, ids)
    vectors[:] = np.nan
    ids[:] = 9
    assert found_ids(index, original[2], 1) == [2]
    assert 9 not in index


def test_answers_belong_to_the_caller():
    index = filled(random_vectors(19, 4, 5))
    query = random_vectors(20, 1, 5)[0]
    first = index.search(query, 4)
    kept = [column.copy() for column in first]
    index.search(-query, 4)
    index.remove(np.arange(4, dtype=np.int64))
    assert [column.tolist() for column in first] == [c.tolist() for c in kept]
    first[0][:] = 77  # writable


def test_slots_that_removal_freed_are_used_again():
    index = Index(32)
    vectors = random_vectors(21, 500, 32)
    ids = np.arange(500, dtype=np.int64)
    index.add(ids, vectors)
    held = index.nbytes
    assert held >= 500 * 32 * 4
    for turn in range(1, 6):
        assert index.remove(ids + (turn - 1) * 500) == 500
        assert len(index) == 0
        index.add(ids + turn * 500, vectors)
    assert index.nbytes <= held * 1.2
    assert found_ids(index, vectors[123], 1) == [5 * 500 + 123]


def test_random_adds_and_removes_leave_what_brute_force_finds(references):
    rng = np.random.default_rng(22)
    index, rows = Index(7), {}
    for step in range(300):
        ids = rng.integers(0, 60, rng.integers(0, 9)).astype(np.int64)
        if rng.random() < 0.6:
            vectors = rng.standard_normal((len(ids), 7)).astype(np.float32)
            index.add(ids, vectors)
            new = zip(ids.tolist(), vectors, strict=True)
            references.put(rows, [references.Row(i, vector=v) for i, v in new])
        else:
            known = set(ids.tolist()) & rows.keys()
            assert index.remove(ids) == len(known)
            for gone in known:
                del rows[gone]
        assert len(index) == len(rows)
        if step % 5 == 0:
            query = rng.standard_normal(7).astype(np.float32)
            k = int(rng.integers(1, 70))
            expected = references.nearest(rows, query)
            references.assert_nearest(index.search(query, k), expected, k, rows)


def test_an_index_says_what_it_holds():
    index = filled(random_vectors(23, 3, 11))
    assert index.dim == 11
    assert len(index) == 3
    with pytest.raises(AttributeError):
        index.dim = 5


@pytest.mark.parametrize("stranger", [2**70, -(2**70)])
def test_a_number_beyond_int64_is_in_no_index(stranger):
    assert stranger not in filled(random_vectors(23, 3, 11))


def test_errors_of_the_index_are_vecall_errors():
    assert issubclass(DimensionError, InvalidArgumentError)
    assert issubclass(InvalidArgumentError, VecallError)
    with pytest.raises(ValueError, match="k"):
        filled(random_vectors(23, 3, 11)).search(np.ones(11, np.float32), 0)
