"""Calls that fail before any argument is looked at print no argument."""

from __future__ import annotations

import pytest
from helpers.arrays import (
    KEY,
    QUERY,
    TWO_IDS,
    assert_says_nothing,
    engine_with_two_rows,
)
from vecall import Engine, Index
from vecall._core import Ranking, testing
from vecall.errors import VecallError

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
    "weight by itself": lambda e, i: e.recall(KEY, QUERY, [7], 1, dense=31337),
    "ranking as text": lambda e, i: e.recall(KEY, QUERY, [7], 1, ranking="s3cret"),
    "ranking as a dict": lambda e, i: e.recall(
        KEY, QUERY, [7], 1, ranking={"s3cret": 31337}
    ),
    "weight by position": lambda e, i: Ranking(31337),
    "unknown weight": lambda e, i: Ranking(s3kret=31337),
    "mark as text": lambda e, i: e.recall(KEY, QUERY, [7], 1, time_mark="s3cret"),
    "negative mark": lambda e, i: e.recall(KEY, QUERY, [7], 1, question_mark=-31337),
    "mark too large": lambda e, i: e.recall(KEY, QUERY, [7], 1, time_mark=2**64),
    "authors as text": lambda e, i: e.recall(
        KEY, QUERY, [7], 1, author_marks=["s3cret"]
    ),
    "one author alone": lambda e, i: e.recall(KEY, QUERY, [7], 1, author_marks=31337),
    "mark by position": lambda e, i: e.recall(KEY, QUERY, [7], 1, 31337),
    "floor as text": lambda e, i: e.recall(KEY, QUERY, [7], 1, min_similarity="s3cret"),
    "index search without k": lambda e, i: i.search(QUERY),
    "index batch without k": lambda e, i: i.search_batch(QUERY.reshape(1, 3)),
    "kind of another type": lambda e, i: Index(3, ["s3cret"]),
    "dim of another type": lambda e, i: Engine("s3cret"),
    "dot of one vector": lambda e, i: testing.dot("scalar", QUERY),
}


@pytest.mark.parametrize("call", WRONG_CALLS)
def test_a_call_with_wrong_arguments_prints_none_of_them(call):
    with pytest.raises((TypeError, VecallError)) as raised:
        WRONG_CALLS[call](engine_with_two_rows(), Index(3))
    assert_says_nothing(raised.value)
