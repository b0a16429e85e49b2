"""Options of an Index, an Engine and a search: what is wrong is refused by its name."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from helpers.arrays import KEY, SECRETS, assert_says_nothing
from helpers.indexes import ids_of, random_vectors
from vecall import Engine, Index
from vecall.errors import InvalidArgumentError, InvalidTypeError, VecallError

DIM = 5
HUGE = (10**18, 2**63 - 1, 2**63, 2**200)
MAKERS: list[Callable] = [Index, Engine]

BAD_OPTIONS = [
    ("kind", "s3cret", InvalidArgumentError),
    ("kind", "", InvalidArgumentError),
    ("kind", "HNSW", InvalidArgumentError),
    ("kind", "hnsw\0", InvalidArgumentError),
    ("codec", "s3cret", InvalidArgumentError),
    ("codec", "", InvalidArgumentError),
    ("codec", "int8", InvalidArgumentError),
    ("codec", "int4 + 8", InvalidArgumentError),
    ("m", 1, InvalidArgumentError),
    ("m", 0, InvalidArgumentError),
    ("m", -31337, InvalidArgumentError),
    ("m", 257, InvalidArgumentError),
    ("m", 2**70, InvalidArgumentError),
    ("m", 16.0, InvalidTypeError),
    ("m", "s3cret", InvalidTypeError),
    ("m", True, InvalidTypeError),
    ("m", None, InvalidTypeError),
    ("ef_construction", 0, InvalidArgumentError),
    ("ef_construction", -(2**70), InvalidArgumentError),
    ("ef_construction", 100_001, InvalidArgumentError),
    ("ef_construction", 0.7182, InvalidTypeError),
    ("ef_construction", "s3cret", InvalidTypeError),
    ("flat_bytes", -1, InvalidArgumentError),
    ("flat_bytes", -(2**70), InvalidArgumentError),
    ("flat_bytes", 1e6, InvalidTypeError),
    ("flat_bytes", "s3cret", InvalidTypeError),
    ("flat_bytes", None, InvalidTypeError),
]
# Of these, the message names no argument: no overload fits.
UNNAMED_OPTIONS = [
    ("kind", None),
    ("kind", 31337),
    ("kind", "\ud800"),
    ("codec", None),
    ("codec", ["s3cret"]),
    ("keep_float32", "s3cret"),
    ("keep_float32", 31337),
    ("keep_float32", None),
    ("bytes_flat", 31337),
]


def filled(kind: str) -> tuple[Index, Engine]:
    vectors = random_vectors(1, 80, DIM)
    index, engine = Index(DIM, kind, 2, 5), Engine(DIM, kind=kind, m=2)
    index.add(np.arange(80, dtype=np.int64), vectors)
    index.build()
    engine.add(KEY, np.arange(80, dtype=np.int64), vectors)
    return index, engine


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(("name", "value", "error"), BAD_OPTIONS)
def test_an_option_that_is_not_allowed_is_refused_by_its_name(make, name, value, error):
    with pytest.raises(error, match=rf"^{name}: ") as raised:
        make(DIM, **{name: value})
    assert type(raised.value) is error
    assert_says_nothing(raised.value)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(("name", "value"), UNNAMED_OPTIONS)
def test_an_option_of_another_type_is_refused_without_its_value(make, name, value):
    with pytest.raises(InvalidTypeError) as raised:
        make(DIM, **{name: value})
    assert_says_nothing(raised.value)


@pytest.mark.parametrize("make", MAKERS)
def test_the_ends_of_what_is_allowed_are_allowed(make):
    for options in (
        {"m": 2, "ef_construction": 1, "kind": "hnsw"},
        {"m": 256, "ef_construction": 100_000, "kind": "hnsw"},
        {"flat_bytes": 0},
        {"flat_bytes": 2**70},
        {"codec": "int4", "keep_float32": True},
        {"m": np.int32(3), "flat_bytes": np.uint64(5)},
    ):
        made = make(DIM, **options)
        assert made.dim == DIM
        arguments = (ids_of(1, 2, 3), random_vectors(2, 3, DIM))
        if make is Index:
            made.add(*arguments)
            made.build()
            assert made.search(arguments[1][2], 1)[0].tolist() == [3]
        else:
            made.add(KEY, *arguments)
            assert made.search(KEY, arguments[1][2], 1)[0].tolist() == [3]


@pytest.mark.parametrize("kind", ["flat", "hnsw"])
@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("ef", 0, InvalidArgumentError),
        ("ef", -(2**70), InvalidArgumentError),
        ("ef", 31337.5, InvalidTypeError),
        ("ef", "s3cret", InvalidTypeError),
        ("ef", None, InvalidTypeError),
        ("only", "s3cret", InvalidTypeError),
        ("only", {31337}, InvalidTypeError),
        ("only", np.array([0.7182]), InvalidTypeError),
        ("only", np.array([[31337]]), InvalidTypeError),
        ("only", np.ones((80, 1), dtype=bool), InvalidTypeError),
    ],
    ids=str,
)
def test_how_a_search_is_asked_is_refused_by_name(kind, name, value, error):
    index, engine = filled(kind)
    query = random_vectors(3, 1, DIM)[0]
    for ask in (
        lambda: index.search(query, 3, **{name: value}),
        lambda: engine.search(KEY, query, 3, **{name: value}),
        lambda: engine.recall(KEY, query, [1], 3, **{name: value}),
    ):
        with pytest.raises(error, match=name) as raised:
            ask()
        assert_says_nothing(raised.value)


@pytest.mark.parametrize("value", ["s3cret", 31337, None, 0.7182, [True]])
def test_exact_is_true_or_false(value):
    index, engine = filled("hnsw")
    queries = random_vectors(3, 2, DIM)
    for ask in (
        lambda: index.search(queries[0], 3, exact=value),
        lambda: index.search_batch(queries, 3, exact=value),
        lambda: engine.search(KEY, queries[0], 3, exact=value),
    ):
        with pytest.raises(InvalidTypeError) as raised:
            ask()
        assert_says_nothing(raised.value)


@pytest.mark.parametrize("kind", ["flat", "hnsw"])
def test_threads_are_at_least_one_and_may_be_too_many(kind):
    index, _ = filled(kind)
    queries = random_vectors(3, 7, DIM)
    for threads, error in (
        (0, InvalidArgumentError),
        (-2, InvalidArgumentError),
        (-31337, InvalidArgumentError),
        (1.5, InvalidTypeError),
        ("s3cret", InvalidTypeError),
        (None, InvalidTypeError),
    ):
        with pytest.raises(error, match=r"^threads: ") as raised:
            index.search_batch(queries, 3, threads=threads)
        assert_says_nothing(raised.value)
    wanted = index.search_batch(queries, 3)
    for threads in (-1, 2, 100, 2**70):
        for count in (0, 1, 7):
            found = index.search_batch(queries[:count], 3, threads=threads)
            assert found[0].tolist() == wanted[0][:count].tolist()
            assert found[1].tolist() == wanted[1][:count].tolist()


@pytest.mark.parametrize("kind", ["flat", "hnsw"])
def test_only_some_ids_however_they_are_given(kind):
    index, engine = filled(kind)
    query = random_vectors(4, 1, DIM)[0]

    def found(only: np.ndarray, k: int = 200) -> list[int]:
        got = index.search(query, k, only=only)[0].tolist()
        assert engine.search(KEY, query, k, only=only)[0].tolist() == got
        recalled = engine.recall(KEY, query, [], k, only=only, candidates=200)
        assert sorted(recalled[0].tolist()) == sorted(got)
        return got

    assert found(ids_of()) == []
    assert found(ids_of(-1, 80, -(2**63), 2**63 - 1)) == []
    assert found(ids_of(7)) == [7]
    assert found(ids_of(7, 7, 7, -7)) == [7]
    assert sorted(found(ids_of(9, 3, 9, 70, 1000))) == [3, 9, 70]
    every = np.arange(80, dtype=np.int64)
    assert len(found(every, 1)) == 1
    assert found(np.repeat(every[::-1], 3)) == found(every)
    assert sorted(found(every[::3])) == every[::3].tolist()
    index.remove(ids_of(7))
    engine.remove(KEY, ids_of(7))
    assert found(ids_of(7)) == []


@pytest.mark.parametrize("k", HUGE)
def test_a_huge_k_finds_every_row_of_a_graph(k):
    index, engine = filled("hnsw")
    query = random_vectors(4, 1, DIM)[0]
    half = np.arange(0, 80, 2, dtype=np.int64)
    assert sorted(index.search(query, k, 1)[0].tolist()) == list(range(80))
    assert sorted(index.search(query, k, only=half)[0].tolist()) == half.tolist()
    assert index.search_batch(query.reshape(1, -1), k)[0].shape == (1, 80)
    assert len(engine.search(KEY, query, k)[0]) == 80
    assert len(engine.recall(KEY, query, [], k)[0]) == 80
    assert len(engine.recall(KEY, query, [], 1, candidates=k)[0]) == 1


@pytest.mark.parametrize("ef", HUGE)
def test_a_huge_breadth_is_as_good_as_one_of_every_row(ef):
    index, engine = filled("hnsw")
    query = random_vectors(4, 1, DIM)[0]
    wanted = index.search(query, 9, 80)[0].tolist()
    assert index.search(query, 9, ef)[0].tolist() == wanted
    assert index.search_batch(query.reshape(1, -1), 9, ef)[0][0].tolist() == wanted
    assert len(engine.search(KEY, query, 9, ef)[0]) == 9
    assert len(engine.recall(KEY, query, [], 9, ef=ef)[0]) == 9


@pytest.mark.parametrize("kind", ["flat", "hnsw"])
def test_ids_of_a_graph_may_be_any_int64(kind):
    some = np.array([-(2**63), -1, 0, 2**63 - 1], dtype=np.int64)
    vectors = random_vectors(6, 4, DIM)
    index = Index(DIM, kind)
    index.add(some, vectors)
    index.build()
    for number, vector in zip(some, vectors, strict=True):
        assert index.search(vector, 1)[0].tolist() == [number]
        assert index.search(vector, 9, only=some[:1])[0].tolist() == [-(2**63)]
        assert int(number) in index
    assert index.remove(some) == 4


@pytest.mark.parametrize("kind", ["flat", "hnsw", "auto"])
def test_a_graph_without_rows_answers_and_is_built(kind):
    index = Index(DIM, kind, flat_bytes=0)
    query = random_vectors(5, 1, DIM)[0]
    for _ in range(2):
        index.build()
        assert (len(index), index.linked) == (0, 0)
        assert index.search(query, 3, only=ids_of(1))[0].tolist() == []
        assert index.search_batch(query.reshape(1, -1), 3)[0].tolist() == [[-1]]
        index.add(ids_of(), np.zeros((0, DIM), np.float32))
        index.add(ids_of(1), query.reshape(1, -1))
        index.build()
        assert index.search(query, 3)[0].tolist() == [1]
        assert index.remove(ids_of(1)) == 1


@pytest.mark.parametrize(("dim", "count"), [(1, 300), (65_536, 12)])
@pytest.mark.parametrize("kind", ["flat", "hnsw"])
@pytest.mark.parametrize("codec", ["int4", "int4+8", "int4+8+4"])
def test_the_fewest_and_the_most_dimensions_have_graphs_too(
    references, dim, count, kind, codec
):
    vectors = random_vectors(7, count, dim)
    index = Index(dim, kind, 4, 10, codec=codec)
    index.add(np.arange(count, dtype=np.int64), vectors)
    index.build()
    rows = {n: references.Row(n, vector=v) for n, v in enumerate(vectors)}
    expected = references.nearest(rows, vectors[3])
    found = index.search(vectors[3], count)
    tolerance = references.score_tolerance(dim, codec)
    references.assert_nearest(found, expected, count, rows, tolerance=tolerance)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 0.0])
def test_a_refused_batch_changes_no_graph(bad):
    index, _ = filled("hnsw")
    linked, query = index.linked, random_vectors(8, 1, DIM)[0]
    before = [column.tobytes() for column in index.search(query, 80)]
    batch = random_vectors(9, 50, DIM)
    batch[49] = bad
    with pytest.raises(VecallError) as raised:
        index.add(np.arange(50, dtype=np.int64), batch)
    assert not [secret for secret in SECRETS if secret in str(raised.value)]
    assert (index.linked, len(index)) == (linked, 80)
    assert [column.tobytes() for column in index.search(query, 80)] == before
