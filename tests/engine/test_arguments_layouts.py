"""An array means its numbers, however they lie in memory."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.arrays import KEY, QUERY, columns
from vecall import Engine, Index
from vecall._core import testing


def with_stride(array: np.ndarray) -> np.ndarray:
    wide = np.full([2 * n for n in array.shape], 99, dtype=array.dtype)
    view = wide[tuple(slice(None, None, 2) for _ in array.shape)]
    view[...] = array
    return view


def backwards(array: np.ndarray) -> np.ndarray:
    turned = tuple(slice(None, None, -1) for _ in array.shape)
    return array[turned].copy()[turned]


def read_only(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array.flags.writeable = False
    return array


def misaligned(array: np.ndarray) -> np.ndarray:
    raw = np.zeros(array.nbytes + 1, dtype=np.uint8)
    view = raw[1:].view(array.dtype).reshape(array.shape)
    view[...] = array
    return view


def subclass(array: np.ndarray) -> np.ndarray:
    class Tagged(np.ndarray):
        pass

    return array.view(Tagged)


LAYOUTS = {
    "fortran": np.asfortranarray,
    "with stride": with_stride,
    "backwards": backwards,
    "read only": read_only,
    "misaligned": misaligned,
    "big endian": lambda array: array.astype(array.dtype.newbyteorder(">")),
    "little endian": lambda array: array.astype(array.dtype.newbyteorder("<")),
    "subclass": subclass,
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_array_of_any_layout_means_its_numbers(layout):
    change = LAYOUTS[layout]
    rng = np.random.default_rng(1)
    for dim in (1, 2, 3, 7, 33):
        vectors = rng.standard_normal((9, dim)).astype(np.float32)
        queries = rng.standard_normal((4, dim)).astype(np.float32)
        ids = rng.permutation(9).astype(np.int64)
        plain, other = Index(dim), Index(dim)
        plain.add(ids, vectors)
        other.add(change(ids), change(vectors))
        for asked, given in ((plain, queries), (other, change(queries))):
            got = asked.search_batch(given, 9)
            wanted = plain.search_batch(queries, 9)
            assert [c.tobytes() for c in got] == [c.tobytes() for c in wanted]
        one = other.search(change(queries[2].copy()), 9)
        wanted = plain.search(queries[2], 9)
        assert [c.tobytes() for c in one] == [c.tobytes() for c in wanted]
        assert other.remove(change(ids[:4].copy())) == 4
        assert sorted(other.search(queries[0], 9)[0]) == sorted(ids[4:])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_columns_of_any_layout_mean_their_numbers(layout):
    change = LAYOUTS[layout]
    plain, other = Engine(3), Engine(3)
    valid = columns(sessions=np.array([5, 2**64 - 2], dtype=np.uint64))
    plain.add_rows(**valid)
    other.add_rows(
        **{n: change(v) if isinstance(v, np.ndarray) else v for n, v in valid.items()}
    )
    for options in ({}, {"session": 2**64 - 2}, {"before": 20}, {"after": 20}):
        got = other.recall(KEY, change(QUERY), [7, 8], 5, **options)
        wanted = plain.recall(KEY, QUERY, [7, 8], 5, **options)
        assert [c.tobytes() for c in got] == [c.tobytes() for c in wanted]
        assert len(got[0]) == (1 if options else 2)


def test_a_slice_of_a_wider_matrix_is_read_where_it_lies():
    rng = np.random.default_rng(2)
    wide = rng.standard_normal((20, 50)).astype(np.float32)
    index = Index(7)
    index.add(np.arange(10, dtype=np.int64), wide[3:13, 11:18])
    for at in range(10):
        assert index.search(wide[3 + at, 11:18], 1)[0].tolist() == [at]
    column = wide[5:12, 3]
    assert testing.dot("scalar", column, column) == pytest.approx(
        float(column.astype(np.float64) @ column.astype(np.float64)), rel=1e-6
    )


def test_a_broadcast_array_means_its_numbers():
    index = Index(4)
    index.add(np.arange(3, dtype=np.int64), np.broadcast_to(np.float32(1), (3, 4)))
    ids, cosines = index.search(np.broadcast_to(np.float32(-2), (4,)), 3)
    assert ids.tolist() == [0, 1, 2]
    assert cosines.tolist() == [-1, -1, -1]
