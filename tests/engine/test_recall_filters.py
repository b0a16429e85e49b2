"""Recall by session, time, expiry and least similarity."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.engines import DIM, KEY, NEVER, corner, engine_of, found_ids, random_row
from vecall import Engine

EARLIEST, LATEST = -(2**63), 2**63 - 1


def test_a_filter_is_half_open_in_time_and_an_end_is_exclusive(references):
    rows = [references.Row(t, (1,), corner(0), time=t, expires=t) for t in range(6)]
    engine = engine_of(references, rows)

    def found(**options: int) -> list[int]:
        query = references.Query(corner(0), (1,), k=9, options=options)
        return sorted(found_ids(references, engine, query))

    assert found() == [0, 1, 2, 3, 4, 5]
    assert found(after=2) == [2, 3, 4, 5]
    assert found(before=2) == [0, 1]
    assert found(after=2, before=4) == [2, 3]
    assert found(now=2) == [3, 4, 5]
    assert found(now=5) == []


@pytest.mark.parametrize("by", ["words", "vector"])
def test_rows_that_do_not_pass_never_crowd_out_those_that_do(references, by):
    # 200 better rows are of another session, too old, too new, or have ended.
    better = [references.Row(n, (1,), corner(0), time=50, session=2) for n in range(50)]
    better += [references.Row(n, (1,), corner(0), time=9) for n in range(50, 100)]
    better += [references.Row(n, (1,), corner(0), time=90) for n in range(100, 150)]
    better += [
        references.Row(n, (1,), corner(0), time=50, expires=60, session=1)
        for n in range(150, 200)
    ]
    worse = references.Row(
        999, (1, 2, 3, 4), corner(1), time=50, session=1, position=77
    )
    engine = engine_of(references, [*better, worse])
    query = references.Query(
        corner(0) if by == "vector" else None,
        (1,) if by == "words" else (),
        k=1,
        options={
            "session": 1,
            "after": 10,
            "before": 90,
            "now": 60,
            "candidates": 1,
        },
    )
    assert found_ids(references, engine, query) == [999]


def test_a_neighbour_that_does_not_pass_is_neither_found_nor_counted(references):
    rows = [
        references.Row(1, (9,), time=1, session=1, position=1),
        references.Row(2, (1,), time=5, session=1, position=2),
        references.Row(3, (9,), time=5, expires=7, session=1, position=3),
    ]
    engine = engine_of(references, rows, dim=0)
    options = {"after": 2, "now": 8, "weights": {"session": 0}}
    alone = references.Query(None, (1,), options=options)
    ids, scores, *_, summary = references.ask(engine, KEY, alone)
    assert ids.tolist() == [2]
    assert scores.tolist() == pytest.approx([1 + 0.5 / 50])  # of the usual context
    assert summary.tolist() == [1, 0, 0, 0, 1, 0]
    assert found_ids(references, engine, references.Query(None, (1,))) == [2, 1, 3]


@pytest.mark.parametrize("session", [0, 1, 2**63, 2**64 - 1])
def test_a_session_may_be_any_64_bit_hash(references, session):
    rows = [
        references.Row(n, (1,), corner(0), session=s)
        for n, s in enumerate([0, 1, 2**63, 2**64 - 1])
    ]
    engine = engine_of(references, rows)
    query = references.Query(corner(0), (1,), options={"session": session})
    wanted = [row.id for row in rows if row.session == session]
    assert found_ids(references, engine, query) == wanted
    assert engine.search(KEY, corner(0), 9, session=session)[0].tolist() == wanted


@pytest.mark.parametrize("time", [EARLIEST, EARLIEST + 1, 0, LATEST - 1, LATEST])
@pytest.mark.parametrize("others", [0, 1])
def test_a_row_of_any_time_is_found_where_no_time_is_asked(references, time, others):
    # A row that ends makes a scan ask every row.
    rows = [references.Row(1, (1,), corner(0), time=time)]
    rows += [references.Row(2, (2,), corner(15), expires=5)] * others
    engine = engine_of(references, rows)
    assert engine.search(KEY, corner(0), 1)[0].tolist() == [1]
    assert found_ids(references, engine, references.Query(corner(0), k=1)) == [1]
    assert found_ids(references, engine, references.Query(None, (1,))) == [1]


@pytest.mark.parametrize("now", [0, LATEST - 1, LATEST])
def test_a_row_without_an_end_never_ends(references, now):
    rows = [references.Row(1, (1,), corner(0)), references.Row(2, (1,), expires=-1)]
    engine = engine_of(references, rows)
    for vector, words in ((corner(0), ()), (None, (1,)), (corner(0), (1,))):
        query = references.Query(vector, words, options={"now": now})
        assert found_ids(references, engine, query) == [1]


@pytest.mark.parametrize("expires", [EARLIEST, -1, 0, 5])
def test_without_a_now_no_row_has_ended(references, expires):
    rows = [
        references.Row(1, (1,), corner(0), expires=expires),
        references.Row(2, (1,), corner(15)),
    ]
    engine = engine_of(references, rows)
    for _ in range(2):
        assert engine.search(KEY, corner(0), 1)[0].tolist() == [1]
        query = references.Query(None, (1,), k=9)
        assert 1 in found_ids(references, engine, query)
        references.add_rows(engine, KEY, [references.Row(3, (2,))])
        engine.remove(KEY, np.array([3], dtype=np.int64))  # leaves a hole in the scan


def test_min_similarity_is_inclusive(references):
    # Cosines with corner 0: 1, 0.5, 0, -0.5 and -1.
    rows = [references.Row(n, (1,), corner(2**n - 1)) for n in range(5)]
    engine = engine_of(references, [*rows, references.Row(5, (1,))])
    for floor, wanted in [
        (1.0, {0}),
        (0.5, {0, 1}),
        (float(np.nextafter(np.float32(0.5), 1)), {0}),
        (0.0, {0, 1, 2}),
        (-0.5, {0, 1, 2, 3}),
        (-1.0, {0, 1, 2, 3, 4}),
        (-5.0, {0, 1, 2, 3, 4}),
        (1.5, set()),
        (None, {0, 1, 2, 3, 4, 5}),
    ]:
        query = references.Query(
            corner(0), (1,), k=9, options={"min_similarity": floor}
        )
        assert set(found_ids(references, engine, query)) == wanted


def test_min_similarity_cuts_the_answer_and_changes_no_score(references):
    rng = np.random.default_rng(8)
    rows = [random_row(references, rng, n, DIM) for n in range(40)]
    engine = engine_of(references, rows)
    query = rng.standard_normal(DIM).astype(np.float32)
    whole = references.ask(engine, KEY, references.Query(query, (1, 2, 3), k=99))
    options = {"min_similarity": 0.2}
    cut = references.ask(engine, KEY, references.Query(query, (1, 2, 3), 99, options))
    kept = whole[2] >= np.float32(0.2)
    assert 0 < kept.sum() < len(kept)
    assert [c.tolist() for c in cut[:5]] == [c[kept].tolist() for c in whole[:5]]
    assert cut[5].tolist() == whole[5].tolist()


def test_without_a_vector_nothing_reaches_a_similarity(references):
    engine = engine_of(references, [references.Row(1, (1,), corner(0))])
    options = {"min_similarity": -1.0}
    assert found_ids(references, engine, references.Query(None, (1,), 5, options)) == []


@pytest.mark.parametrize("dim", [0, DIM])
def test_rows_and_sessions_that_are_left_out_are_not_found(references, dim):
    rng = np.random.default_rng(21)
    rows = [random_row(references, rng, number, dim) for number in range(120)]
    engine = engine_of(references, rows, dim=dim)
    model = {row.id: row for row in rows}
    sessions = sorted({row.session for row in rows})
    for _ in range(30):
        options = {
            "without": rng.integers(-5, 130, rng.integers(0, 40)),
            "without_sessions": [
                0,
                2**64 - 1,
                *map(int, rng.choice(sessions, rng.integers(0, 3))),
            ],
        }
        if rng.random() < 0.5:
            options["kind"] = int(rng.integers(0, 3))
        query = references.Query(corner(0) if dim else None, (1, 2, 3), 120, options)
        found = references.ask(engine, KEY, query)
        references.assert_answers(found, references.recall(model, query), query.k)
        hidden = {
            *options["without"],
            *(
                row.id
                for row in rows
                if row.session and row.session in options["without_sessions"]
            ),
        }
        assert not hidden & set(found[0].tolist())


def test_a_partition_may_have_more_kinds_than_sixteen_bits_count():
    count = 70_000
    numbers = np.arange(1, count + 1)
    engine = Engine(0)
    engine.add_rows(
        KEY,
        ids=numbers,
        times=numbers,
        expires=np.full(count, NEVER),
        sessions=np.zeros(count, np.uint64),
        positions=np.full(count, np.nan),
        terms=np.full(count, 5, np.uint64),
        offsets=np.arange(count + 1),
        kinds=numbers.astype(np.uint64) + 100,
    )
    other = Engine(0)
    other.restore(KEY, engine.snapshot(KEY))
    for each in (engine, other):
        for number in (1, 65_535, 65_536, 65_537, count):
            ids = each.recall(KEY, None, [5], 9, kind=number + 100)[0]
            assert ids.tolist() == [number]
