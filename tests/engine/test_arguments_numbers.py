"""Which k, terms and numbers the engine accepts; weights: test_recall_weights.py."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.arrays import (
    KEY,
    QUERY,
    assert_says_nothing,
    columns,
    engine_with_two_rows,
)
from vecall import Engine, Index
from vecall.errors import InvalidArgumentError, InvalidTypeError


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


def test_terms_may_be_any_63_bit_hash():
    engine = Engine(0)
    hashes = [0, 1, 2**62, 2**63 - 1]
    for at, word in enumerate(hashes):
        terms = np.array([word, word, word], dtype=np.uint64)
        ids = np.array([2 * at, 2 * at + 1], dtype=np.int64)
        engine.add_rows(**columns(ids=ids, terms=terms, vectors=None, has_vector=None))
    for at, word in enumerate(hashes):
        found = engine.recall(KEY, None, [word], 5)[0]
        assert sorted(found) == [2 * at, 2 * at + 1]


def test_a_least_similarity_is_a_number():
    engine = engine_with_two_rows()
    with pytest.raises(InvalidArgumentError, match="min_similarity"):
        engine.recall(KEY, QUERY, [7], 5, min_similarity=float("nan"))


@pytest.mark.parametrize("name", ["candidates", "ef"])
def test_a_wrong_number_is_called_by_its_own_name(name):
    engine = engine_with_two_rows()
    calls = {
        "ef": lambda: engine.search(KEY, QUERY, 5, ef=0),
        "candidates": lambda: engine.recall(KEY, QUERY, [7], 5, candidates=0),
    }
    with pytest.raises(InvalidArgumentError, match=name):
        calls[name]()
