"""Rows in the period that a query names come first; others follow, none is hidden."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers.engines import KEY, TIME, corner, engine_of, found_ids

LONG_AGO, THEN, LATER = 10, 20, 30
PERIOD = {"period_from": 15, "period_until": 25}


def ask(references, engine, words=(1,), vector=None, k=99, **options):
    return references.ask(
        engine, KEY, references.Query(vector, words, k, {**PERIOD, **options})
    )


@pytest.mark.parametrize("vector", [None, corner(0)], ids=["words", "both"])
def test_a_row_in_the_period_is_before_better_ones_outside(references, vector):
    rows = [
        references.Row(1, (1, 2), corner(0), time=LONG_AGO),
        references.Row(2, (3,), corner(15), time=THEN),
        references.Row(3, (1, 2), corner(0), time=LATER),
    ]
    engine = engine_of(references, rows)
    found = ask(references, engine, (1, 2), vector)
    assert found[0].tolist() == [2, 3, 1]
    np.testing.assert_allclose(
        found[1], found[4][:, 1:5].sum(1) * found[4][:, 5], rtol=1e-6
    )
    assert found[4][:, 5].tolist() == pytest.approx([1, 0.1, 0.1])
    assert found[5][5] == 1


def test_a_row_that_nothing_else_proposes_is_found(references):
    """Hundreds of rows are nearer by words and by vectors."""
    rows = [references.Row(n, (1,), corner(0), time=LATER) for n in range(300)]
    rows.append(references.Row(999, (2,), corner(15), time=THEN))
    engine = engine_of(references, rows)
    for words, vector in (((1,), None), ((), corner(0)), ((1,), corner(0))):
        found = ask(references, engine, words, vector, k=5)
        assert found[0].tolist()[0] == 999
        assert len(found[0]) >= 5


def test_the_rows_in_the_period_are_ranked_by_relevance(references):
    rows = [references.Row(n, (1,) * n + (9,) * (9 - n), time=THEN) for n in range(9)]
    rows += [references.Row(20 + n, (1,), time=LATER) for n in range(9)]
    engine = engine_of(references, rows, dim=0)
    assert found_ids(references, engine, references.Query(None, (1,), 9, PERIOD)) == [
        8,
        7,
        6,
        5,
        4,
        3,
        2,
        1,
        0,
    ]


def test_a_row_without_a_time_of_its_own_is_lowered_by_the_root(references):
    rows = [
        references.Row(1, (1, TIME), time=THEN),
        references.Row(2, (1, TIME), time=LATER),
        references.Row(3, (1,), time=LATER),
        references.Row(4, (1,), time=THEN),
    ]
    engine = engine_of(references, rows, dim=0)
    found = ask(references, engine, dated_mark=TIME, weights={"outside": 0.25})
    factors = dict(zip(found[0].tolist(), found[4][:, 5].tolist(), strict=True))
    assert factors == pytest.approx({1: 1, 2: 0.25, 3: 0.5, 4: 1})
    assert found[0].tolist()[2:] == [3, 2]


def test_a_period_without_rows_finds_nothing_and_says_so(references):
    rows = [references.Row(1, (1,), corner(0), time=LATER)]
    engine = engine_of(references, rows)
    found = ask(references, engine, vector=corner(0))
    assert found[0].tolist() == []
    assert found[5].tolist() == [0, 0, 0, 0, 1, 0]
    assert ask(references, engine, period_until=31)[0].tolist() == [1]


def test_a_filter_bounds_the_period_too(references):
    rows = [references.Row(n, (1,), time=n) for n in range(40)]
    engine = engine_of(references, rows, dim=0)
    found = ask(references, engine, after=18, before=30)
    assert sorted(found[0].tolist()) == list(range(18, 30))
    assert sorted(found[0].tolist()[:7]) == list(range(18, 25))
    assert found[5].tolist()[4:] == [12, 7]
    assert ask(references, engine, after=25)[0].tolist() == []


@pytest.mark.parametrize(
    ("start", "end", "inside"),
    [(15, None, {20, 30}), (None, 20, {10}), (20, 20, set()), (10, 31, {10, 20, 30})],
)
def test_a_period_may_be_open_and_ends_before_its_end(references, start, end, inside):
    rows = [references.Row(n, (1,), time=n) for n in (LONG_AGO, THEN, LATER)]
    engine = engine_of(references, rows, dim=0)
    found = ask(references, engine, period_from=start, period_until=end)
    factors = dict(zip(found[0].tolist(), found[4][:, 5].tolist(), strict=True))
    assert {row for row, factor in factors.items() if factor == 1} == inside
    assert not inside or len(factors) == 3


def test_a_period_alone_is_a_query(references):
    rows = [references.Row(n, (n,), time=n) for n in (LONG_AGO, THEN, THEN + 1)]
    engine = engine_of(references, rows, dim=0)
    found = ask(references, engine, ())
    assert found[0].tolist() == [THEN + 1, THEN]  # the newer one first
    idf = math.log(1 + 1.5 / 2.5)
    assert found[3].tolist() == pytest.approx([idf, idf])
