"""Ties: the same answer in the same order, whatever came first."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.engines import (
    DIM,
    KEY,
    corner,
    engine_of,
    found_ids,
    random_query,
    random_row,
)
from vecall import Engine

EVEN = {"next": 1.0, "previous": 1.0, "session": 0.0}


def test_ties_go_to_the_newer_row_then_to_the_smaller_id(references):
    rng = np.random.default_rng(9)
    rows = [
        references.Row(int(n), (1,), corner(5), time=int(n) % 3)
        for n in rng.permutation(30)
    ]
    engine = engine_of(references, rows)
    wanted = sorted(range(30), key=lambda n: (-(n % 3), n))
    assert engine.search(KEY, corner(5), 30)[0].tolist() == wanted
    assert engine.search(KEY, corner(5), 13)[0].tolist() == wanted[:13]
    for vector, words in ((corner(5), ()), (None, (1,)), (corner(5), (1,))):
        query = references.Query(vector, words, k=30)
        assert found_ids(references, engine, query) == wanted


@pytest.mark.parametrize("k", [1, 3, 10, 11, 19, 20, 21, 29, 30])
@pytest.mark.parametrize("by", ["words", "vector", "both"])
def test_rows_that_tie_with_the_kth_in_score_and_time_all_come(references, by, k):
    rng = np.random.default_rng(k)
    rows = [
        references.Row(int(n), (1,), corner(5), time=int(n) % 3)
        for n in rng.permutation(30)
    ]
    engine = engine_of(references, rows)
    wanted = sorted(range(30), key=lambda n: (-(n % 3), n))
    query = references.Query(
        None if by == "words" else corner(5), () if by == "vector" else (1,), k=k
    )
    found = found_ids(references, engine, query)
    assert found == wanted[: -(-k // 10) * 10]


def test_rows_that_tie_with_the_kth_are_in_order_too(references):
    # The neighbours join after the rows with the word, with ids that lie between.
    rows = []
    for n in range(24):
        rows.append(references.Row(100 - n, (1,), session=n + 1, position=5))
        rows.append(references.Row(n, (2,), session=n + 1, position=6))
        rows.append(references.Row(200 + n, (2,), session=n + 1, position=4))
    engine = engine_of(references, rows, dim=0)
    everything = references.Query(None, (1,), k=72, options={"weights": EVEN})
    ids, scores, *_ = references.ask(engine, KEY, everything)
    assert ids.tolist() == [*range(24), *range(77, 101), *range(200, 224)]
    assert set(scores.tolist()) == {1.0}
    for k in (1, 2, 5, 23, 24, 25, 40):
        query = references.Query(None, (1,), k, everything.options)
        assert found_ids(references, engine, query) == ids.tolist()


def test_a_smaller_k_gives_the_beginning_of_the_same_answer(references):
    rng = np.random.default_rng(10)
    rows = [random_row(references, rng, n, DIM) for n in range(45)]
    engine = engine_of(references, rows)
    for _ in range(20):
        query = random_query(references, rng, DIM)
        query.options.pop("candidates", None)
        whole = references.Query(query.vector, query.words, 45, query.options)
        wanted = references.ask(engine, KEY, whole)
        for k in (1, 2, 3, 10):
            less = references.Query(query.vector, query.words, k, query.options)
            found = references.ask(engine, KEY, less)
            assert len(found[0]) >= min(k, len(wanted[0]))
            for got, all_of_it in zip(found, wanted, strict=True):
                assert got.tobytes() == all_of_it[: len(got)].tobytes()


def test_an_answer_does_not_depend_on_where_rows_lie(references):
    rng = np.random.default_rng(11)
    rows = [
        references.Row(
            id=n,
            words=tuple(rng.integers(1, 9, rng.integers(0, 6)).tolist()),
            vector=rng.standard_normal(DIM).astype(np.float32),
            time=int(rng.integers(0, 4)),
            session=n % 3,
            position=n // 3,
        )
        for n in range(40)
    ]
    engines = []
    for _ in range(5):
        engine = Engine(DIM)
        junk = [random_row(references, rng, 1000 + n, DIM) for n in range(50)]
        references.add_rows(engine, KEY, junk)
        engine.remove(KEY, 1000 + rng.permutation(50)[:25])
        for at in rng.permutation(40).tolist():
            references.add_rows(engine, KEY, [rows[at]])
        engine.remove(KEY, np.arange(1000, 1050, dtype=np.int64))
        engines.append(engine)
    for _ in range(20):
        query = random_query(references, rng, DIM)
        answers = [references.ask(engine, KEY, query) for engine in engines]
        assert len({answer[0].tobytes() for answer in answers}) == 1
        for answer in answers:
            np.testing.assert_allclose(answer[1], answers[0][1], rtol=1e-4, atol=1e-4)


def test_equal_positions_do_not_make_an_answer_depend_on_the_order_of_arrival(
    references,
):
    rows = [
        references.Row(1, (9,), session=1, position=1),
        references.Row(2, (1,), session=1, position=2),
        references.Row(3, (2,), session=1, position=2),
        references.Row(4, (9,), session=1, position=3),
    ]
    other = [rows[at] for at in (0, 2, 1, 3)]
    engines = engine_of(references, rows, 0), engine_of(references, other, 0)
    for word in (1, 2):
        query = references.Query(None, (word,))
        first, second = (found_ids(references, engine, query) for engine in engines)
        assert first == second
