"""Vectors, ids and columns of another type are refused; Index converts numbers."""

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
from vecall import Engine, Index
from vecall._core import LinearMap, testing
from vecall.errors import InvalidTypeError

WRONG_VECTORS = {
    "float64": QUERY.astype(np.float64),
    "float16": QUERY.astype(np.float16),
    "int32": QUERY.astype(np.int32),
    "uint32": QUERY.astype(np.uint32),
    "complex64": QUERY.astype(np.complex64),
    "bool": QUERY.astype(bool),
    "object": QUERY.astype(object),
    "text": np.array(["0.7182", "0.5", "0.25"]),
    "bytes": np.array([b"0.71"] * 3),
    "dates": np.array([31337] * 3, dtype="datetime64[s]"),
    "record": np.array([(0.7182,)] * 3, dtype=[("x", np.float32)]),
    "list": QUERY.tolist(),
    "tuple": tuple(QUERY.tolist()),
    "buffer": memoryview(QUERY),
    "raw": QUERY.tobytes(),
    "number": 0.7182,
    "scalar": QUERY[0],
    "no array": "s3cret",
    "0-d": np.array(0.7182, dtype=np.float32),
    "3-d": QUERY.reshape(1, 1, 3),
}


# Of these, Index makes float32; an Engine is given what it keeps.
NUMBERS = {"float64", "float16", "int32", "uint32", "list", "tuple", "buffer"}


def index_calls(vector: object, matrix: object) -> list:
    index = Index(3)
    return [
        lambda: index.search(vector, 5),
        lambda: index.search_batch(matrix, 5),
        lambda: index.add(np.array([1], dtype=np.int64), matrix),
        lambda: LinearMap(matrix),
        lambda: LinearMap(np.eye(3)).apply(matrix),
    ]


def engine_calls(vector: object, matrix: object) -> list:
    engine = engine_with_two_rows()
    return [
        lambda: engine.search(KEY, vector, 5),
        lambda: engine.recall(KEY, vector, [7], 5),
        lambda: engine.add(KEY, np.array([1], dtype=np.int64), matrix),
        lambda: engine.add_rows(**columns(vectors=matrix)),
        lambda: testing.dot("scalar", vector, QUERY),
        lambda: testing.dot("scalar", QUERY, vector),
        lambda: testing.normalise(vector),
    ]


@pytest.mark.parametrize("kind", WRONG_VECTORS)
def test_a_vector_of_another_type_is_refused(kind):
    wrong = WRONG_VECTORS[kind]
    matrix = wrong
    if isinstance(wrong, np.ndarray) and wrong.ndim == 1:
        matrix = wrong.reshape(1, 3)
    elif isinstance(wrong, (list, tuple)):
        matrix = [list(wrong)]
    calls = [(call, "float32") for call in engine_calls(wrong, matrix)]
    if kind not in NUMBERS:
        calls += [(call, "list of numbers") for call in index_calls(wrong, matrix)]
    for call, expected in calls:
        with pytest.raises(InvalidTypeError, match=expected) as raised:
            call()
        assert isinstance(raised.value, TypeError)
        assert_says_nothing(raised.value)


def test_a_vector_is_no_matrix_and_a_matrix_no_vector():
    for call in engine_calls(QUERY.reshape(1, 3), QUERY):
        with pytest.raises(InvalidTypeError, match="-D"):
            call()
    with pytest.raises(InvalidTypeError, match=r"^queries: expected a 2-D"):
        Index(3).search_batch(QUERY, 5)


def test_none_is_a_vector_for_recall_and_for_rows_only():
    index, engine = Index(3), engine_with_two_rows()
    with pytest.raises(InvalidTypeError):
        index.search(None, 5)
    with pytest.raises(InvalidTypeError):
        engine.search(KEY, None, 5)
    with pytest.raises(InvalidTypeError):
        engine.add(KEY, TWO_IDS, None)
    assert engine.recall(KEY, None, [7], 5)[0].tolist() == [1]
    engine.add_rows(**columns(vectors=None, has_vector=None))
    assert engine.search(KEY, QUERY, 5)[0].tolist() == []


@pytest.mark.parametrize(
    "ids",
    [
        TWO_IDS.astype(np.int32),
        TWO_IDS.astype(np.uint64),
        TWO_IDS.astype(np.float64),
        TWO_IDS.astype("datetime64[us]"),
        TWO_IDS.astype("timedelta64[us]"),
        TWO_IDS.astype(object),
        TWO_IDS.reshape(1, 2),
        TWO_IDS.tolist(),
        np.array(31337),
        31337,
        None,
        "s3cret",
    ],
    ids=lambda ids: str(getattr(ids, "dtype", type(ids).__name__)),
)
def test_ids_of_another_type_are_refused(ids):
    index, engine = Index(3), engine_with_two_rows()
    whole = isinstance(ids, (int, list)) or getattr(ids, "dtype", None) in (
        np.int32,
        np.int64,
        np.uint64,
    )
    if not whole or getattr(ids, "ndim", 1) == 2:
        for call in (lambda: index.add(ids, TWO_VECTORS), lambda: index.remove(ids)):
            with pytest.raises(InvalidTypeError, match=r"^ids: .* integer") as raised:
                call()
            assert_says_nothing(raised.value)
    calls = [
        lambda: engine.add(KEY, ids, TWO_VECTORS),
        lambda: engine.remove(KEY, ids),
        lambda: engine.add_rows(**columns(ids=ids)),
    ]
    for call in calls:
        with pytest.raises(InvalidTypeError, match="int64") as raised:
            call()
        assert_says_nothing(raised.value)
    assert len(index) == 0
    assert engine.size(KEY) == 2


COLUMN_TYPES = {
    "times": np.int64,
    "expires": np.int64,
    "sessions": np.uint64,
    "positions": np.int32,
    "terms": np.uint64,
    "offsets": np.int64,
    "has_vector": np.uint8,
}


@pytest.mark.parametrize("column", COLUMN_TYPES)
def test_a_column_of_another_type_is_refused(column):
    engine = Engine(3)
    right = columns()[column]
    assert right.dtype == COLUMN_TYPES[column]
    others = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint32, np.uint64]
    wrong = [right.astype(t) for t in [*others, bool, np.float64, object]]
    taken = {right.dtype.name} | ({"float64"} if column == "positions" else set())
    wrong = [w for w in wrong if w.dtype.name not in taken]
    wrong += [right.tolist(), right.reshape(1, -1), "s3cret", 31337]
    wrong += [] if column == "has_vector" else [None]
    for value in wrong:
        with pytest.raises(InvalidTypeError, match=right.dtype.name) as raised:
            engine.add_rows(**columns(**{column: value}))
        assert_says_nothing(raised.value)
    assert len(engine) == 0
