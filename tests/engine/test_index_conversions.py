"""Index takes numbers as people have them, and says what it cannot take."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import numpy as np
import pytest
from helpers.campaigns import unit
from helpers.indexes import random_vectors
from vecall import Index
from vecall.errors import (
    DimensionError,
    InvalidArgumentError,
    InvalidTypeError,
    MissingFileError,
    StorageError,
)

DIM, ROWS = 6, 50
VECTORS = random_vectors(5, ROWS, DIM)
QUERY = random_vectors(6, 1, DIM)[0]


def filled(kind: str = "flat") -> Index:
    index = Index(DIM, kind)
    index.add(np.arange(ROWS, dtype=np.int64), VECTORS)
    index.build()
    return index


def best(vectors: np.ndarray, k: int, among: np.ndarray | None = None) -> list[int]:
    cosines = unit(vectors) @ unit(QUERY[None])[0]
    if among is not None:
        cosines = np.where(among, cosines, -np.inf)
    return np.argsort(-cosines)[:k].tolist()


@pytest.mark.parametrize(
    "convert",
    [
        np.float64,
        np.float16,
        lambda x: x.astype(">f4"),
        lambda x: x.astype(np.longdouble),
        np.asfortranarray,
        np.ndarray.tolist,
        lambda x: [tuple(row) for row in x.tolist()],
        lambda x: (x * 1000).astype(np.int16),
    ],
)
def test_numbers_of_any_kind_are_converted(convert) -> None:
    vectors = convert(VECTORS)
    as_stored = np.asarray(vectors, np.float64)
    index = Index(DIM)
    index.add(range(ROWS), vectors)
    found, cosines = index.search(convert(QUERY[None])[0], 5)
    assert found.tolist() == best(as_stored, 5)
    exact = unit(as_stored)[found] @ unit(np.asarray(convert(QUERY[None])[0])[None])[0]
    np.testing.assert_allclose(cosines, exact.astype(np.float64), atol=2e-6)


@pytest.mark.parametrize(
    "convert",
    [
        *(lambda x, t=t: x.astype(t) for t in "bhilBHIL"),
        lambda x: x.astype(">i8"),
        lambda x: np.repeat(x, 2)[::2],
        np.ndarray.tolist,
        lambda x: tuple(x.tolist()),
        lambda x: range(len(x)),
    ],
)
def test_integers_of_any_kind_are_ids(convert) -> None:
    index = Index(DIM)
    index.add(convert(np.arange(ROWS)), VECTORS)
    assert index.ids.tolist() == list(range(ROWS))
    some = convert(np.arange(ROWS)[:20])
    assert index.search(QUERY, 3, only=some)[0].tolist() == best(VECTORS[:20], 3)
    assert index.remove(some) == 20


def test_one_id_with_one_vector() -> None:
    index = Index(DIM)
    index.add(7, VECTORS[0])
    index.add([8], VECTORS[1])
    index.add(np.int32(9), VECTORS[2:3].tolist())
    assert index.ids.tolist() == [7, 8, 9]
    assert index.remove(8) == 1
    assert sorted(index) == [7, 9]
    with pytest.raises(InvalidArgumentError, match="same number"):
        index.add([1, 2], VECTORS[0])
    with pytest.raises(DimensionError, match="expected dimension 6, got 5"):
        index.add(1, VECTORS[0, :5])


def test_nothing_may_be_added() -> None:
    index = Index(DIM)
    index.add([], np.empty((0, DIM)))
    assert len(index) == 0
    assert index.search(QUERY, 3, only=[])[0].tolist() == []
    assert index.ids.tolist() == []


@pytest.mark.parametrize("kind", ["flat", "hnsw"])
def test_many_queries_are_answered_by_search_too(kind: str) -> None:
    index = filled(kind)
    queries = random_vectors(7, 9, DIM)
    for options in ({}, {"only": [3, 4, 5]}, {"exact": True}):
        ids, cosines = index.search(queries, 4, **options)
        batch = index.search_batch(queries.astype(np.float64), 4, threads=-1, **options)
        np.testing.assert_array_equal(ids, batch[0])
        np.testing.assert_array_equal(cosines, batch[1])
        for row, query in enumerate(queries):
            one = index.search(query, 4, **options)
            found = ids[row] >= 0
            assert ids[row][found].tolist() == one[0].tolist()
            assert cosines[row][found].tolist() == one[1].tolist()


@pytest.mark.parametrize("kind", ["flat", "hnsw"])
def test_a_mask_is_in_the_order_of_the_ids(kind: str) -> None:
    index = filled(kind)
    index.remove([3, 10, 11])
    index.add([1000], VECTORS[3:4])
    mask = np.random.default_rng(1).random(len(index)) < 0.3
    wanted = index.search(QUERY, 60, only=index.ids[mask])
    for only in (mask, mask.tolist()):
        found = index.search(QUERY, 60, only=only)
        assert [x.tobytes() for x in found] == [x.tobytes() for x in wanted]
    assert set(wanted[0].tolist()) == set(index.ids[mask].tolist())
    for length in (0, len(index) - 1, len(index) + 1):
        with pytest.raises(InvalidArgumentError, match=r"^only: .* 48 of them"):
            index.search(QUERY, 3, only=np.ones(length, bool))


def test_what_no_float32_holds_is_refused() -> None:
    index = Index(DIM)
    for bad in (1e39, -1e300, np.inf, np.nan):
        wide = VECTORS.astype(np.float64)
        wide[2, 3] = bad
        with pytest.raises(InvalidArgumentError, match="finite"):
            index.add(range(ROWS), wide)
    assert len(index) == 0


def test_an_id_beyond_64_bits_is_refused() -> None:
    index = Index(DIM)
    with pytest.raises(InvalidArgumentError, match=r"^ids: must be from -2\*\*63"):
        index.add(np.array([2**63], np.uint64), VECTORS[:1])
    for wrong in ([2**64], [1.0], [True], "7", None, [[1]], {1}):
        with pytest.raises(InvalidTypeError, match=r"^ids: expected one integer"):
            index.add(wrong, VECTORS[:1])
    assert len(index) == 0


def test_what_is_no_id_is_not_in_an_index() -> None:
    index = filled()
    assert 3 in index
    assert np.uint8(3) in index
    for other in ("3", 3.0, None, 2**70, -1, True, [3], QUERY):
        assert other not in index


def test_an_index_shows_itself() -> None:
    index = filled("hnsw")
    assert (
        repr(index)
        == f"Index(dim=6, rows=50, kind='hnsw', {index.nbytes / 1e6:.1f} MB)"
    )
    assert index.kind == "hnsw"
    assert list(index) == index.ids.tolist() == list(range(ROWS))
    assert all(type(number) is int for number in index)


@pytest.mark.parametrize("rows", [1, 63, 64, 65, 200])
@pytest.mark.parametrize("holes", [0, 7])
def test_a_mask_of_any_length_selects_what_its_ids_select(
    rows: int, holes: int
) -> None:
    """Whole words of 64 rows, the rest of one, and slots that removed rows left."""
    rng = np.random.default_rng(rows + holes)
    vectors = rng.standard_normal((rows + holes, DIM)).astype(np.float32)
    index = Index(DIM, kind="flat")
    index.add(np.arange(rows + holes), vectors)
    index.remove(rng.permutation(rows + holes)[:holes])
    for share in (0.0, 0.1, 0.5, 1.0):
        mask = rng.random(rows) < share
        found = index.search(QUERY, rows, only=mask)
        assert sorted(found[0].tolist()) == index.ids[mask].tolist()
        wanted = index.search(QUERY, rows, only=index.ids[mask])
        assert [each.tolist() for each in found] == [each.tolist() for each in wanted]
    odd = mask.view(np.uint8) * np.uint8(254)  # bytes that are true, and not 1
    assert sorted(index.search(QUERY, rows, only=odd.view(bool))[0].tolist()) == sorted(
        index.ids.tolist()
    )


@pytest.mark.parametrize("kind", ["auto", "flat", "hnsw"])
def test_an_index_is_pickled_and_copied_whole(kind: str) -> None:
    index = Index(DIM, kind, 4, codec="int4+8+4", keep_float32=True, seed=9)
    index.add(range(ROWS), VECTORS)
    for same in (pickle.loads(pickle.dumps(index)), copy.deepcopy(index)):
        # Its size depends on how it grew.
        assert repr(same).rsplit(",", 1)[0] == repr(index).rsplit(",", 1)[0]
        found, wanted = same.search(QUERY, 9), index.search(QUERY, 9)
        assert [x.tobytes() for x in found] == [x.tobytes() for x in wanted]
        same.remove(0)
        assert 0 in index


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda: Index(6, space="l2"),
            r"Index\(\): unknown argument 'space'; it takes dim",
        ),
        (lambda: Index(), r"Index\(\): argument 'dim' is missing"),
        (lambda: Index(128.0), r"^dim: expected an integer from 1 to 65536"),
        (lambda: filled().add([1]), r"add\(\): argument 'vectors' is missing"),
        (lambda: filled().search(QUERY), r"search\(\): argument 'k' is missing"),
        (lambda: filled().search(QUERY, 1, 2, True), r"at most 3 positional"),
        (lambda: filled().search(QUERY, 1, filter=None), r"unknown argument 'filter'"),
        (lambda: filled().search(QUERY, 1, exact="s3cret"), r"a wrong type; it takes"),
        (lambda: filled().search("s3cret", 1), r"^query: expected a 1-D or 2-D"),
        (lambda: filled().search([[1], [1, 2]], 1), r"^query: expected a 1-D or 2-D"),
        (lambda: filled().add([1], "s3cret"), r"^vectors: expected a 1-D or 2-D"),
        (lambda: filled().search(QUERY, 1, only=0.5), r"^only: expected a 1-D"),
        (lambda: Index.load(), r"load\(\): argument 'path' is missing"),
    ],
)
def test_an_error_names_the_argument(call, says: str) -> None:
    with pytest.raises(InvalidTypeError, match=says) as raised:
        call()
    assert "s3cret" not in str(raised.value)


def test_a_file_that_is_missing_is_missing(tmp_path: Path) -> None:
    for error in (MissingFileError, StorageError, FileNotFoundError):
        with pytest.raises(error, match="no such file"):
            Index.load(tmp_path / "none")
    with pytest.raises(StorageError) as raised:
        Index.load(tmp_path)
    assert not isinstance(raised.value, FileNotFoundError)
