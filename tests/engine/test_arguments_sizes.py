"""Lengths, offsets, dimensions and values that do not fit are refused whole."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.arrays import (
    KEY,
    QUERY,
    TWO_IDS,
    TWO_VECTORS,
    assert_says_nothing,
    columns,
    engine_with_two_rows,
)
from vecall import Engine
from vecall.errors import DimensionError, InvalidArgumentError, LimitExceededError


@pytest.mark.parametrize("length", [0, 1, 3])
@pytest.mark.parametrize(
    "column", ["ids", "times", "expires", "sessions", "positions", "has_vector"]
)
def test_a_column_of_another_length_is_refused(column, length):
    engine = Engine(3)
    wrong = np.resize(columns()[column], length)
    with pytest.raises(InvalidArgumentError, match=r"entry|number|dimension"):
        engine.add_rows(**columns(**{column: wrong}))
    assert KEY not in engine


@pytest.mark.parametrize("length", [0, 1, 3])
def test_has_vector_of_another_length_is_refused_even_without_vectors(length):
    engine = Engine(3)
    wrong = np.ones(length, dtype=np.uint8)
    with pytest.raises(InvalidArgumentError, match="has_vector"):
        engine.add_rows(**columns(vectors=None, has_vector=wrong))
    assert KEY not in engine


@pytest.mark.parametrize(
    "offsets",
    [
        [0, 3],
        [0, 1, 2, 3],
        [1, 2, 3],
        [0, 1, 2],
        [0, 1, 4],
        [0, 4, 3],
        [0, -1, 3],
        [-1, 1, 3],
        [0, 2**62, 3],
        [3, 1, 0],
    ],
    ids=str,
)
def test_offsets_that_do_not_cut_the_words_into_rows_are_refused(offsets):
    engine = Engine(3)
    with pytest.raises(InvalidArgumentError, match="offsets"):
        engine.add_rows(**columns(offsets=np.array(offsets, dtype=np.int64)))
    assert KEY not in engine


def test_words_without_offsets_are_refused():
    engine = Engine(3)
    with pytest.raises(InvalidArgumentError, match="offsets"):
        engine.add_rows(**columns(offsets=np.array([], dtype=np.int64)))
    assert KEY not in engine


def test_a_batch_of_no_rows_makes_no_partition():
    engine = Engine(3)
    nothing = {
        name: value[:0]
        for name, value in columns().items()
        if isinstance(value, np.ndarray)
    }
    nothing["offsets"] = np.array([0], dtype=np.int64)
    engine.add_rows(KEY, **nothing)
    engine.add(KEY, TWO_IDS[:0], TWO_VECTORS[:0])
    assert KEY not in engine
    assert len(engine) == 0
    assert engine.size(KEY) == 0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 0.0])
def test_one_bad_vector_among_rows_adds_nothing(bad):
    engine, other = engine_with_two_rows(), engine_with_two_rows()
    vectors = TWO_VECTORS.copy()
    vectors[1] = bad
    new = columns(ids=np.array([1, 3], dtype=np.int64), vectors=vectors)
    with pytest.raises(InvalidArgumentError) as raised:
        engine.add_rows(**new)
    assert_says_nothing(raised.value)
    with pytest.raises(InvalidArgumentError):
        engine.add(KEY, np.array([1, 3], dtype=np.int64), vectors)
    with pytest.raises(InvalidArgumentError):
        engine.add_rows(**{**new, "key": ("app", "nobody")})
    assert len(engine) == 1
    assert engine.size(KEY) == 2
    got, wanted = (e.recall(KEY, QUERY, [7, 8], 5) for e in (engine, other))
    assert [c.tobytes() for c in got] == [c.tobytes() for c in wanted]


def test_a_vector_that_is_to_be_ignored_may_hold_anything():
    engine = Engine(3)
    for bad in (np.nan, np.inf, 0.0):
        vectors = TWO_VECTORS.copy()
        vectors[1] = bad
        ignored = np.array([1, 0], dtype=np.uint8)
        engine.add_rows(**columns(vectors=vectors, has_vector=ignored))
        assert engine.search(KEY, QUERY, 5)[0].tolist() == [1]
    engine.add_rows(**columns(has_vector=np.array([255, 2], dtype=np.uint8)))
    assert engine.search(KEY, QUERY, 5)[0].tolist() == [1, 2]


def test_vectors_of_another_dimension_are_refused():
    engine = engine_with_two_rows()
    for dim in (0, 1, 2, 4, 6):
        matrix = np.ones((2, dim), dtype=np.float32)
        for call in (
            lambda matrix=matrix: engine.add(KEY, TWO_IDS, matrix),
            lambda matrix=matrix: engine.add_rows(**columns(vectors=matrix)),
            lambda matrix=matrix: engine.search(KEY, matrix[0], 5),
            lambda matrix=matrix: engine.recall(KEY, matrix[0], [7], 5),
            lambda matrix=matrix: engine.search(("no", "body"), matrix[0], 5),
            lambda matrix=matrix: engine.recall(("no", "body"), matrix[0], [7], 5),
        ):
            with pytest.raises(DimensionError, match=f"3, got {dim}"):
                call()
    assert engine.size(KEY) == 2


def test_an_engine_of_words_alone_takes_no_vectors():
    engine = Engine(0)
    assert engine.dim == 0
    with pytest.raises(DimensionError):
        engine.add_rows(**columns())
    with pytest.raises(DimensionError):
        engine.add(KEY, TWO_IDS, TWO_VECTORS)
    assert KEY not in engine
    engine.add_rows(**columns(vectors=None, has_vector=None))
    assert engine.recall(KEY, None, [8], 5)[0].tolist() == [2]
    with pytest.raises(DimensionError):
        engine.recall(KEY, QUERY, [8], 5)


def test_an_engine_of_words_alone_refuses_a_vector_search():
    engine = Engine(0)
    engine.add_rows(**columns(vectors=None, has_vector=None))
    with pytest.raises(DimensionError):
        engine.search(KEY, QUERY, 5)


def test_an_engine_has_at_most_65536_dimensions():
    assert Engine(65_536).dim == 65_536
    for dim in (65_537, 2**40):
        with pytest.raises(LimitExceededError, match="65536"):
            Engine(dim)
