"""What the engine accepts as an array, a key, a number, and what its errors say."""

from __future__ import annotations

import numpy as np
import pytest
from vecall import Engine, Index
from vecall._core import testing
from vecall.errors import (
    DimensionError,
    InvalidArgumentError,
    InvalidTypeError,
    LimitExceededError,
    VecallError,
)

KEY = ("app", "user")
NEVER = 2**63 - 1
# Values that no message may contain, and that repr() of an array would print.
SECRETS = ("0.7182", "7182", "31337", "s3cret")
QUERY = np.array([0.71828, 0.5, 0.25], dtype=np.float32)
TWO_IDS = np.array([1, 2], dtype=np.int64)
TWO_VECTORS = np.array([[1, 0, 0], [0, 1, 0]], dtype=np.float32)


def columns(**changed: object) -> dict[str, object]:
    """Valid arguments of Engine.add_rows for two rows, some of them changed."""
    valid: dict[str, object] = {
        "key": KEY,
        "ids": np.array([1, 2], dtype=np.int64),
        "times": np.array([10, 20], dtype=np.int64),
        "expires": np.array([NEVER, NEVER], dtype=np.int64),
        "sessions": np.array([5, 5], dtype=np.uint64),
        "positions": np.array([0, 5], dtype=np.int32),
        "terms": np.array([7, 8, 8], dtype=np.uint64),
        "offsets": np.array([0, 1, 3], dtype=np.int64),
        "vectors": TWO_VECTORS.copy(),
        "has_vector": np.array([1, 1], dtype=np.uint8),
    }
    return {**valid, **changed}


def engine_with_two_rows() -> Engine:
    engine = Engine(3)
    engine.add_rows(**columns())
    return engine


def assert_says_nothing(error: BaseException) -> None:
    seen: BaseException | None = error
    while seen is not None:
        assert not [secret for secret in SECRETS if secret in str(seen)], str(seen)
        seen = seen.__cause__ or seen.__context__


# Another memory layout, the same numbers.


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


# Types.

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


def every_vector_call(vector: object, matrix: object) -> list:
    index, engine = Index(3), engine_with_two_rows()
    return [
        lambda: index.search(vector, 5),
        lambda: index.search_batch(matrix, 5),
        lambda: index.add(np.array([1], dtype=np.int64), matrix),
        lambda: engine.search(KEY, vector, 5),
        lambda: engine.recall(KEY, vector, [7], 5),
        lambda: engine.add(KEY, np.array([1], dtype=np.int64), matrix),
        lambda: engine.add_rows(**columns(vectors=matrix)),
        lambda: testing.dot("scalar", vector, QUERY),
        lambda: testing.dot("scalar", QUERY, vector),
        lambda: testing.dot_rows("scalar", QUERY, matrix),
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
    for call in every_vector_call(wrong, matrix):
        with pytest.raises(InvalidTypeError, match="float32") as raised:
            call()
        assert isinstance(raised.value, TypeError)
        assert_says_nothing(raised.value)


def test_a_vector_is_no_matrix_and_a_matrix_no_vector():
    for call in every_vector_call(QUERY.reshape(1, 3), QUERY):
        with pytest.raises(InvalidTypeError, match="-D"):
            call()


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
    calls = [
        lambda: index.add(ids, TWO_VECTORS),
        lambda: index.remove(ids),
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
    wrong = [w for w in wrong if w.dtype != right.dtype]
    wrong += [right.tolist(), right.reshape(1, -1), "s3cret", 31337]
    wrong += [] if column == "has_vector" else [None]
    for value in wrong:
        with pytest.raises(InvalidTypeError, match=right.dtype.name) as raised:
            engine.add_rows(**columns(**{column: value}))
        assert_says_nothing(raised.value)
    assert len(engine) == 0


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


# Numbers.


@pytest.mark.parametrize("k", [0, -1, -(2**70)])
def test_a_k_below_one_is_refused(k):
    engine = engine_with_two_rows()
    with pytest.raises(InvalidArgumentError, match="k"):
        engine.search(KEY, QUERY, k)
    with pytest.raises(InvalidArgumentError, match="k"):
        engine.recall(KEY, QUERY, [7], k)


@pytest.mark.parametrize("k", [1.0, "s3cret", None, True, False, np.float64(3), [1]])
def test_a_k_that_is_no_integer_is_refused(k):
    index, engine = Index(3), engine_with_two_rows()
    for call in (
        lambda: index.search(QUERY, k),
        lambda: index.search_batch(QUERY.reshape(1, 3), k),
        lambda: engine.search(KEY, QUERY, k),
        lambda: engine.recall(KEY, QUERY, [7], k),
    ):
        with pytest.raises(InvalidTypeError, match="integer") as raised:
            call()
        assert_says_nothing(raised.value)


@pytest.mark.parametrize("k", [10**18, 2**63, 2**70, np.int64(9), np.uint8(9)])
def test_a_k_may_be_any_integer_of_at_least_one(k):
    engine = engine_with_two_rows()
    assert engine.search(KEY, QUERY, k)[0].tolist() == [1, 2]
    assert sorted(engine.recall(KEY, QUERY, [7], k)[0]) == [1, 2]
    assert sorted(engine.recall(KEY, QUERY, [7], 1, candidates=k)[0]) == [1]


@pytest.mark.parametrize(
    "terms",
    [
        (7,),
        np.array([7], dtype=np.uint64),
        {7},
        "s3cret",
        None,
        [7.0],
        ["s3cret"],
        [None],
        [-1],
        [2**64],
        [7, [8]],
        [np.uint64(7)],
    ],
    ids=str,
)
def test_terms_other_than_a_list_of_hashes_are_refused(terms):
    engine = engine_with_two_rows()
    with pytest.raises(InvalidTypeError, match="terms") as raised:
        engine.recall(KEY, QUERY, terms, 5)
    assert_says_nothing(raised.value)


def test_terms_may_be_any_64_bit_hash():
    engine = Engine(0)
    hashes = [0, 1, 2**63, 2**64 - 1]
    for at, word in enumerate(hashes):
        terms = np.array([word, word, word], dtype=np.uint64)
        ids = np.array([2 * at, 2 * at + 1], dtype=np.int64)
        engine.add_rows(**columns(ids=ids, terms=terms, vectors=None, has_vector=None))
    for at, word in enumerate(hashes):
        found = engine.recall(KEY, None, [word], 5)[0]
        assert sorted(found) == [2 * at, 2 * at + 1]


NOT_ALLOWED = [
    ("dense_weight", float("nan")),
    ("dense_weight", -0.1),
    ("dense_weight", 1.1),
    ("dense_weight", float("inf")),
    ("neighbour_weight", float("nan")),
    ("neighbour_weight", float("inf")),
    ("neighbour_weight", -0.1),
    ("min_similarity", float("nan")),
]


@pytest.mark.parametrize(("name", "value"), NOT_ALLOWED)
def test_a_weight_outside_its_range_is_refused(name, value):
    engine = engine_with_two_rows()
    with pytest.raises(InvalidArgumentError, match=name):
        engine.recall(KEY, QUERY, [7], 5, **{name: value})


@pytest.mark.parametrize("name", ["candidates", "ef"])
def test_a_wrong_number_is_called_by_its_own_name(name):
    engine = engine_with_two_rows()
    calls = {
        "ef": lambda: engine.search(KEY, QUERY, 5, ef=0),
        "candidates": lambda: engine.recall(KEY, QUERY, [7], 5, candidates=0),
    }
    with pytest.raises(InvalidArgumentError, match=name):
        calls[name]()


# Keys.


@pytest.mark.parametrize(
    "key",
    [
        ("", "user"),
        ("app", ""),
        ("", ""),
        ("s3cret\0", "user"),
        ("app", "\0s3cret"),
        ("app", "s3c\0ret"),
        ("s3cret\ud800", "user"),
        ("app", "\udfffs3cret"),
    ],
    ids=ascii,
)
def test_a_key_with_an_empty_or_broken_name_is_refused(key):
    for call in every_key_call(key):
        with pytest.raises(InvalidArgumentError, match=r"app_name|user_id") as raised:
            call()
        assert type(raised.value) is InvalidArgumentError
        assert_says_nothing(raised.value)


@pytest.mark.parametrize(
    "key",
    [
        "s3cret",
        "ab",
        ("s3cret",),
        ("app", "s3cret", "x"),
        ["app", "s3cret"],
        (),
        None,
        31337,
        (b"s3cret", "user"),
        ("app", b"s3cret"),
        (31337, "user"),
        ("app", None),
        ("app", ("s3cret",)),
    ],
    ids=ascii,
)
def test_a_key_of_another_type_is_refused(key):
    for call in every_key_call(key):
        with pytest.raises(InvalidTypeError, match=r"app_name|user_id|key") as raised:
            call()
        assert isinstance(raised.value, TypeError)
        assert_says_nothing(raised.value)


def every_key_call(key: object) -> list:
    engine = engine_with_two_rows()
    return [
        lambda: engine.add(key, TWO_IDS, TWO_VECTORS),
        lambda: engine.add_rows(**columns(key=key)),
        lambda: engine.search(key, QUERY, 5),
        lambda: engine.recall(key, QUERY, [7], 5),
        lambda: engine.remove(key, TWO_IDS),
        lambda: engine.drop(key),
        lambda: engine.size(key),
        lambda: key in engine,
    ]


# Calls that fail before any argument is looked at.

WRONG_CALLS = {
    "search without k": lambda e, i: e.search(("app", "s3cret"), QUERY),
    "recall without k": lambda e, i: e.recall(("app", "s3cret"), QUERY, [31337]),
    "add without vectors": lambda e, i: e.add(("app", "s3cret"), TWO_IDS + 31337),
    "too many": lambda e, i: e.search(("app", "s3cret"), QUERY, 1, 2, 3, 4),
    "unknown keyword": lambda e, i: e.search(KEY, QUERY, 1, text="s3cret"),
    "session as text": lambda e, i: e.search(KEY, QUERY, 1, session="s3cret"),
    "negative session": lambda e, i: e.recall(KEY, QUERY, [7], 1, session=-31337),
    "session too large": lambda e, i: e.recall(KEY, QUERY, [7], 1, session=2**64),
    "time as float": lambda e, i: e.recall(KEY, QUERY, [7], 1, now=31337.5),
    "time too large": lambda e, i: e.recall(KEY, QUERY, [7], 1, after=2**63),
    "weight as text": lambda e, i: e.recall(KEY, QUERY, [7], 1, dense_weight="s3cret"),
    "floor as text": lambda e, i: e.recall(KEY, QUERY, [7], 1, min_similarity="s3cret"),
    "index search without k": lambda e, i: i.search(QUERY),
    "index batch without k": lambda e, i: i.search_batch(QUERY.reshape(1, 3)),
    "text in index": lambda e, i: "s3cret" in i,
    "kind of another type": lambda e, i: Index(3, ["s3cret"]),
    "dim of another type": lambda e, i: Engine("s3cret"),
    "dot of one vector": lambda e, i: testing.dot("scalar", QUERY),
}


@pytest.mark.parametrize("call", WRONG_CALLS)
def test_a_call_with_wrong_arguments_prints_none_of_them(call):
    with pytest.raises((TypeError, VecallError)) as raised:
        WRONG_CALLS[call](engine_with_two_rows(), Index(3))
    assert_says_nothing(raised.value)
