"""A row that is found lifts those beside it in its session."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.engines import KEY, engine_of, found_ids


def test_a_row_lifts_those_one_position_beside_it(references):
    rows = [references.Row(n, (n,), session=1, position=n) for n in range(1, 8)]
    engine = engine_of(references, rows, dim=0)
    found = references.ask(engine, KEY, references.Query(None, (4,)))
    # The row before receives a share as next, the one after as previous, the others as
    # second; and all of them a share of their session.
    assert found[0].tolist() == [4, 3, 5, 2, 6]
    assert found[4][:, 3].tolist() == pytest.approx([0, 0.5, 0.4, 0.3, 0.3])
    assert found[4][:, 4].tolist() == pytest.approx([0.15] * 5)
    assert found[1].tolist() == pytest.approx([1.15, 0.65, 0.55, 0.45, 0.45])
    assert found[3][1:].tolist() == [0] * 4


def test_the_better_of_two_neighbours_counts(references):
    rows = [
        references.Row(1, (1, 1, 1), session=1, position=1),
        references.Row(2, (), session=1, position=2),
        references.Row(3, (1, 5, 6, 7, 8), session=1, position=3),
    ]
    engine = engine_of(references, rows, dim=0)
    asked = references.Query(None, (1,), options={"weights": {"session": 0}})
    found = references.ask(engine, KEY, asked)
    beside = dict(zip(found[0].tolist(), found[4][:, 3].tolist(), strict=True))
    lexical = dict(zip(found[0].tolist(), found[3].tolist(), strict=True))
    weaker = lexical[3] / lexical[1]
    assert 0 < weaker < 0.8
    usual = (1 + weaker) / 50  # stands for what is before row 1 and after row 3
    wanted = {1: max(0.3 * weaker, 0.4 * usual), 2: 0.4, 3: max(0.3, 0.5 * usual)}
    assert beside == pytest.approx(wanted, rel=1e-5)
    asked.options["weights"].update(next=1, second=0)
    found = references.ask(engine, KEY, asked)
    beside = dict(zip(found[0].tolist(), found[4][:, 3].tolist(), strict=True))
    wanted = {1: 0.4 * usual, 2: max(0.4, weaker), 3: usual}
    assert beside == pytest.approx(wanted, rel=1e-5)


def test_rows_of_no_session_or_another_one_are_no_neighbours(references):
    rows = [
        references.Row(1, (1,), session=0, position=1),
        references.Row(2, (2,), session=0, position=2),
        references.Row(3, (2,), session=7, position=0),
    ]
    engine = engine_of(references, rows, dim=0)
    assert found_ids(references, engine, references.Query(None, (1,))) == [1]


def test_a_gap_in_a_session_parts_it_until_it_is_filled(references):
    rows = [references.Row(n, (n,), session=1, position=n) for n in (1, 2, 4, 5)]
    engine = engine_of(references, rows, dim=0)
    query = references.Query(None, (2,))
    assert found_ids(references, engine, query) == [2, 1]
    late = references.Row(3, (3,), session=1, position=3)
    references.add_rows(engine, KEY, [late])
    assert found_ids(references, engine, query) == [2, 1, 3, 4]
    engine.remove(KEY, np.array([3], dtype=np.int64))
    assert found_ids(references, engine, query) == [2, 1]
    engine.remove(KEY, np.array([5, 1], dtype=np.int64))
    assert found_ids(references, engine, query) == [2]


def test_a_row_that_moves_to_another_session_leaves_its_neighbours(references):
    rows = [references.Row(n, (n,), session=1, position=n) for n in (1, 2, 3)]
    rows += [references.Row(8, (8,), session=2, position=3)]
    engine = engine_of(references, rows, dim=0)
    moved = references.Row(2, (2,), session=2, position=2)
    references.add_rows(engine, KEY, [moved])
    assert found_ids(references, engine, references.Query(None, (2,))) == [2, 8]
    assert found_ids(references, engine, references.Query(None, (1,))) == [1]


def test_positions_may_be_any_int32(references):
    low, high = -(2**31), 2**31 - 1
    positions = [low, low + 1, -1, 0, high - 1, high, high]
    rows = [
        references.Row(n, (n,), session=1, position=position)
        for n, position in enumerate(positions)
    ]
    engine = engine_of(references, rows, dim=0)
    beside = {
        n: sorted(found_ids(references, engine, references.Query(None, (n,))))
        for n in range(6)
    }
    assert beside == {0: [0, 1], 1: [0, 1], 2: [2, 3], 3: [2, 3], 4: [4, 5], 5: [4, 5]}


def test_positions_may_be_fractions_and_rows_may_have_none(references):
    """Neighbours stand at most one position apart; a row without one has none."""
    nowhere = float("nan")
    positions = [1.0, 1.5, 2.0, 2.5 + 2.0**-20, 4.0, nowhere, nowhere, -0.25, 0.75]
    rows = [
        references.Row(n, (n,), session=1, position=position)
        for n, position in enumerate(positions)
    ]
    engine = engine_of(references, rows, dim=0)
    beside = {
        n: sorted(found_ids(references, engine, references.Query(None, (n,))))
        for n in range(len(rows))
    }
    order = [7, 8, 0, 1, 2, 3]
    for at, n in enumerate(order):
        assert beside[n] == sorted(order[max(at - 2, 0) : at + 3])
    assert (beside[4], beside[5], beside[6]) == ([4], [5], [6])
    everything = references.Query(None, tuple(range(9)), 20, {"session": 1})
    assert sorted(found_ids(references, engine, everything)) == list(range(9))


def test_rows_without_a_position_share_nothing_of_their_session(references):
    """A session's facts are no turns; filters see which session they are of."""
    nowhere = float("nan")
    rows = [
        references.Row(1, (1,), session=1, position=1),
        references.Row(2, (1,), session=1, position=2),
        references.Row(3, (1, 1), session=1, position=nowhere),
        references.Row(4, (1,), session=1, position=nowhere),
        references.Row(5, (1,), session=0, position=nowhere),
        references.Row(6, (1,), session=2, position=1),
    ]
    engine = engine_of(references, rows, dim=0)
    found = references.ask(engine, KEY, references.Query(None, (1,), 10))
    parts = dict(zip(found[0].tolist(), found[4].tolist(), strict=True))
    words, beside, session = 1, 3, 4
    usual = sum(part[words] for part in parts.values()) / 50
    of_turns = 0.15 * (parts[1][words] + parts[2][words] + usual)
    of_others = dict.fromkeys((3, 4, 5), 0.15 * 3 * usual)
    wanted = {1: of_turns, 2: of_turns, **of_others}
    wanted[6] = 0.15 * (parts[6][words] + 2 * usual)
    assert {n: part[session] for n, part in parts.items()} == pytest.approx(wanted)
    own = [0.5 * parts[n][words] for n in (3, 4, 5)]
    assert [parts[n][beside] for n in (3, 4, 5)] == pytest.approx(own)
    assert parts[6][beside] == pytest.approx(0.5 * usual)
    assert parts[3][words] > parts[4][words] == parts[5][words]
    only = references.Query(None, (1,), 10, {"session": 1})
    assert sorted(found_ids(references, engine, only)) == [1, 2, 3, 4]
    without = references.Query(None, (1,), 10, {"without_sessions": [1]})
    assert sorted(found_ids(references, engine, without)) == [5, 6]


def test_a_session_told_out_of_order_has_the_same_neighbours(references):
    rng = np.random.default_rng(12)
    rows = [references.Row(n, (n,), session=1, position=n) for n in range(60)]
    for _ in range(5):
        told = [rows[at] for at in rng.permutation(60)]
        engine = engine_of(references, told, dim=0)
        for n in range(60):
            around = (n - 1, n + 1, n - 2, n + 2)
            wanted = [n, *(m for m in around if 0 <= m < 60)]
            query = references.Query(None, (n,))
            assert found_ids(references, engine, query) == wanted
