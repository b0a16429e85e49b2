"""Adding, replacing and removing the rows of an Index."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.indexes import filled, found_ids, ids_of, random_vectors, vectors_of
from vecall import Index
from vecall.errors import DimensionError, InvalidArgumentError


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


def test_the_index_keeps_its_own_copy_of_the_vectors():
    vectors = random_vectors(18, 4, 5)
    original = vectors.copy()
    ids = np.arange(4, dtype=np.int64)
    index = filled(vectors, ids)
    vectors[:] = np.nan
    ids[:] = 9
    assert found_ids(index, original[2], 1) == [2]
    assert 9 not in index


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


@pytest.mark.parametrize("stranger", [2**70, -(2**70)])
def test_a_number_beyond_int64_is_in_no_index(stranger):
    assert stranger not in filled(random_vectors(23, 3, 11))
