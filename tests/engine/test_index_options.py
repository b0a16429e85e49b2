"""Dimensions and kinds of an Index, what it says of itself, and its errors."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.indexes import filled, found_ids, ids_of, random_vectors, vectors_of
from vecall import Index
from vecall.errors import ConfigError, DimensionError, InvalidArgumentError, VecallError


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


def test_an_index_says_what_it_holds():
    index = filled(random_vectors(23, 3, 11))
    assert index.dim == 11
    assert len(index) == 3
    with pytest.raises(AttributeError):
        index.dim = 5


def test_errors_of_the_index_are_vecall_errors():
    assert issubclass(DimensionError, InvalidArgumentError)
    assert issubclass(InvalidArgumentError, VecallError)
    with pytest.raises(ValueError, match="k"):
        filled(random_vectors(23, 3, 11)).search(np.ones(11, np.float32), 0)
