"""Marks: a row asks, tells a time, is by an author; what they do to a ranking."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.engines import (
    AUTHORS,
    KEY,
    MARKS,
    QUESTION,
    TIME,
    corner,
    engine_of,
    found_ids,
)
from vecall import Engine

OTHER = ("app", "other")
ALL = {"question_mark": QUESTION, "time_mark": TIME, "author_marks": [*AUTHORS]}


def some_marks(rng: np.random.Generator) -> list[int]:
    return [mark for mark in MARKS if rng.random() < 0.3]


def factors(references, engine: Engine, words: tuple[int, ...] = (1,), **options):
    query = references.Query(None, words, 99, options)
    found = references.ask(engine, KEY, query)
    return dict(zip(found[0].tolist(), found[4][:, 5].tolist(), strict=True))


def test_what_is_known_about_a_row_multiplies_its_score(references):
    """S2.23: every mark of a row gives its factor, and they multiply."""
    marks = [(), (QUESTION,), (TIME,), (AUTHORS[1],), (QUESTION, TIME, AUTHORS[0])]
    rows = [references.Row(n, (1, *some)) for n, some in enumerate(marks)]
    engine = engine_of(references, rows, dim=0)
    wanted = {0: 1, 1: 0.8, 2: 1.3, 3: 1.2, 4: 0.8 * 1.3 * 1.2}
    assert factors(references, engine, **ALL) == pytest.approx(wanted)
    assert factors(references, engine) == dict.fromkeys(range(5), 1)
    weights = {"question": 0.5, "time": 3.0, "author": 7.0}
    wanted = {0: 1, 1: 0.5, 2: 3, 3: 7, 4: 10.5}
    got = factors(references, engine, **ALL, weights=weights)
    assert got == pytest.approx(wanted)


def test_a_score_is_the_sum_of_its_parts_times_the_factor(references):
    rng = np.random.default_rng(1)
    rows = [
        references.Row(
            id=n,
            words=(*rng.integers(1, 6, 3).tolist(), *some_marks(rng)),
            vector=corner(n % 16),
            session=n % 3,
            position=n // 3,
        )
        for n in range(40)
    ]
    engine = engine_of(references, rows)
    found = references.ask(engine, KEY, references.Query(corner(3), (1, 2), 40, ALL))
    parts = found[4].astype(np.float64)
    np.testing.assert_allclose(found[1], parts[:, 1:5].sum(1) * parts[:, 5], rtol=1e-6)
    assert np.all((parts[:, 0] >= 0) & (parts[:, 0] <= 1))
    assert len(set(parts[:, 5].tolist())) > 4


def test_several_authors_who_are_named_give_the_factor_once(references):
    rows = [references.Row(1, (1, *AUTHORS)), references.Row(2, (1, AUTHORS[2]))]
    engine = engine_of(references, rows, dim=0)
    for named in ([*AUTHORS], [AUTHORS[2], AUTHORS[2]], [77, AUTHORS[2], 0]):
        got = factors(references, engine, author_marks=named)
        assert got == pytest.approx({1: 1.2, 2: 1.2})
    got = factors(references, engine, author_marks=[AUTHORS[0]])
    assert got == pytest.approx({1: 1.2, 2: 1})


def test_a_mark_counts_once_however_often_a_row_holds_it(references):
    engine = engine_of(references, [references.Row(1, (1, TIME, TIME, TIME))], dim=0)
    assert factors(references, engine, time_mark=TIME) == pytest.approx({1: 1.3})


def test_a_mark_of_zero_asks_nothing_even_of_rows_with_a_word_of_that_hash(references):
    rows = [
        references.Row(1, (1, 0), session=1, position=1),
        references.Row(2, (1, 0), session=1, position=2),
    ]
    engine = engine_of(references, rows, dim=0)
    nothing = {"question_mark": 0, "time_mark": 0, "author_marks": [0, 0]}
    for words in ((1,), (0,), (0, 1)):
        query = references.Query(None, words, 9, nothing)
        got = references.ask(engine, KEY, query)
        plain = references.ask(engine, KEY, references.Query(None, words, 9))
        assert [c.tobytes() for c in got] == [c.tobytes() for c in plain]
        assert set(got[4][:, 5].tolist()) == {1.0}


def test_marks_that_no_row_holds_change_nothing(references):
    rows = [references.Row(n, (1, 2 + n), corner(n)) for n in range(8)]
    for engine in (engine_of(references, rows), engine_of(references, [])):
        got = references.ask(engine, KEY, references.Query(corner(1), (1,), 9, ALL))
        plain = references.ask(engine, KEY, references.Query(corner(1), (1,), 9))
        assert [c.tobytes() for c in got] == [c.tobytes() for c in plain]


def test_marks_mean_nothing_to_rows_without_words(references):
    engine = Engine(4)
    engine.add(KEY, np.arange(3), np.array([corner(n) for n in range(3)]))
    found = references.ask(engine, KEY, references.Query(corner(0), (), 5, ALL))
    assert found[0].tolist() == [0, 1, 2]
    assert found[4][:, 5].tolist() == [1, 1, 1]


def test_a_mark_alone_finds_no_row(references):
    engine = engine_of(references, [references.Row(1, (1, QUESTION, TIME))], dim=0)
    assert found_ids(references, engine, references.Query(None, (), 5, ALL)) == []
    assert found_ids(references, engine, references.Query(None, (8,), 5, ALL)) == []


def test_a_mark_that_is_asked_as_a_word_is_a_word(references):
    rows = [references.Row(1, (1, TIME)), references.Row(2, (1, 2))]
    engine = engine_of(references, rows, dim=0)
    found = references.ask(engine, KEY, references.Query(None, (TIME,)))
    assert found[0].tolist() == [1]
    assert found[4][:, 5].tolist() == [1]


def test_what_follows_a_question_receives_more_than_what_follows_a_statement(
    references,
):
    """S2.23: the answer shares few words with the question that it follows."""

    def after(*marks: int, **options: object) -> np.ndarray:
        rows = [
            references.Row(1, (1, *marks), session=1, position=1),
            references.Row(2, (8,), session=1, position=2),
            references.Row(3, (9,), session=1, position=3),
        ]
        engine = engine_of(references, rows, dim=0)
        query = references.Query(None, (1,), 9, {"weights": {"session": 0}, **options})
        found = references.ask(engine, KEY, query)
        order = np.argsort(found[0])
        return np.column_stack([found[1], found[4]])[order]

    plain = after(question_mark=QUESTION)
    asked = after(QUESTION, question_mark=QUESTION)
    first = 0.4 / 50  # of the usual context, which stands for what is before it
    assert plain[:, 4].tolist() == pytest.approx([first, 0.4, 0.3])
    assert asked[:, 4].tolist() == pytest.approx([first, 0.8, 0.3])
    # The question's own factor lowers its score, not what its neighbours receive.
    assert asked[:, 0].tolist() == pytest.approx([0.8 * (1 + first), 0.8, 0.3])
    assert after(QUESTION)[:, 4].tolist() == pytest.approx([first, 0.4, 0.3])
    less = after(QUESTION, question_mark=QUESTION, weights={"after_question": 0.1})
    assert less[:, 4].tolist() == pytest.approx([first, 0.1, 0.3])


def test_a_row_before_a_question_receives_no_more_than_before_a_statement(references):
    rows = [
        references.Row(1, (8,), session=1, position=1),
        references.Row(2, (1, QUESTION), session=1, position=2),
    ]
    engine = engine_of(references, rows, dim=0)
    found = references.ask(engine, KEY, references.Query(None, (1,), 9, ALL))
    assert dict(
        zip(*(c.tolist() for c in (found[0], found[4][:, 3])), strict=True)
    ) == (pytest.approx({1: 0.5, 2: 0.5 / 50}))  # a usual context is after it


@pytest.mark.parametrize("sessions", [(1, 2), (0, 0), (0, 1), (1, 0)])
def test_a_row_of_another_session_never_counts(references, sessions):
    """Neither beside a row, nor for its session, nor where there is none."""
    first, second = sessions
    rows = [
        references.Row(1, (1, QUESTION), corner(0), session=first, position=1),
        references.Row(2, (2,), corner(15), session=second, position=2),
        references.Row(3, (3,), corner(14), session=second, position=3),
    ]
    engine = engine_of(references, rows)
    found = references.ask(engine, KEY, references.Query(corner(0), (1,), 9, ALL))
    parts = dict(zip(found[0].tolist(), found[4].tolist(), strict=True))
    context = {n: part[1] + part[2] for n, part in parts.items()}  # all words are found
    usual = sum(context.values()) / 50
    alone = 0.5 * usual if first else 0.5 * context[1]
    assert parts[1][3] == pytest.approx(alone, abs=1e-6)
    if not second:
        assert [parts[n][3] for n in (2, 3)] == pytest.approx(
            [0.5 * context[n] for n in (2, 3)], abs=1e-6
        )
    for row_id, session in ((1, first), (2, second), (3, second)):
        own = [context[row.id] for row in rows if session and row.session == session]
        wanted = 0.15 * (sum(own) + (3 - len(own)) * usual)
        assert parts[row_id][4] == pytest.approx(wanted, abs=1e-6)


def test_a_session_counts_by_its_best_three_rows(references):
    rows = [references.Row(n, (1,), session=1, position=9 * n) for n in range(5)]
    rows += [references.Row(10 + n, (1,), session=2, position=9 * n) for n in range(2)]
    rows += [references.Row(20, (1,))]
    engine = engine_of(references, rows, dim=0)
    found = references.ask(engine, KEY, references.Query(None, (1,), 9))
    shares = dict(zip(found[0].tolist(), found[4][:, 4].tolist(), strict=True))
    usual = 8 / 50  # stands for what a session lacks to three
    wanted = {**dict.fromkeys(range(5), 0.45), 20: 0.45 * usual}
    wanted |= dict.fromkeys((10, 11), 0.15 * (2 + usual))
    assert shares == pytest.approx(wanted)


def test_the_usual_context_is_the_mean_of_many_rows(references):
    rows = [references.Row(n, (1,), session=n + 1, position=5) for n in range(80)]
    engine = engine_of(references, rows, dim=0)
    query = references.Query(None, (1,), 80, {"candidates": 80})
    parts = references.ask(engine, KEY, query)[4]
    assert parts[:, 3].tolist() == pytest.approx([0.5] * 80)
    assert parts[:, 4].tolist() == pytest.approx([0.45] * 80)


def test_rows_that_do_not_pass_count_neither_beside_nor_for_their_session(references):
    rows = [
        references.Row(1, (1, QUESTION), session=1, position=1, author=5),
        references.Row(2, (2, 1), session=1, position=2, author=6),
        references.Row(3, (2, 1), session=1, position=3, author=6),
    ]
    engine = engine_of(references, rows, dim=0)
    found = references.ask(
        engine, KEY, references.Query(None, (1,), 9, {**ALL, "author": 6})
    )
    both = found[4]
    assert found[0].tolist() == [2, 3]
    assert both[:, 3].tolist() == pytest.approx([0.5, 0.4])
    assert both[:, 4].tolist() == pytest.approx([0.15 * (2 + 2 / 50)] * 2)
    assert found[5][4] == 2


def test_a_removed_or_changed_row_takes_its_marks_with_it(references):
    rows = [
        references.Row(1, (1, QUESTION, TIME), session=1, position=1),
        references.Row(2, (2,), session=1, position=2),
        references.Row(3, (1, QUESTION, TIME), session=2, position=1),
    ]
    engine = engine_of(references, rows, dim=0)
    engine.remove(KEY, np.array([1]))
    # Another row lies where it lay.
    references.add_rows(engine, KEY, [references.Row(4, (1,), session=1, position=1)])
    got = factors(references, engine, **ALL)
    assert got == pytest.approx({3: 0.8 * 1.3, 4: 1, 2: 1})
    found = references.ask(engine, KEY, references.Query(None, (1,), 9, ALL))
    beside = dict(zip(found[0].tolist(), found[4][:, 3].tolist(), strict=True))
    assert beside[2] == pytest.approx(0.4, abs=0.01)
    references.add_rows(engine, KEY, [references.Row(3, (1,), session=2, position=1)])
    assert factors(references, engine, **ALL) == {2: 1, 3: 1, 4: 1}
    assert engine.remove(KEY, np.array([2, 3, 4])) == 3
    references.add_rows(engine, KEY, [references.Row(5, (1, 2))])
    assert factors(references, engine, **ALL) == {5: 1}


@pytest.mark.parametrize("kind", ["auto", "flat", "hnsw"])
def test_marks_are_there_after_a_snapshot_is_restored(references, kind):
    rng = np.random.default_rng(2)
    rows = [
        references.Row(
            id=n,
            words=(*rng.integers(1, 6, 4).tolist(), *some_marks(rng)),
            vector=corner(n % 16),
            session=n % 7,
            position=n // 7,
        )
        for n in range(120)
    ]
    engine = Engine(4, kind="flat")
    references.add_rows(engine, KEY, rows)
    engine.remove(KEY, np.arange(0, 120, 5))
    other = Engine(4, kind=kind)
    other.restore(OTHER, engine.snapshot(KEY))
    known = {row.id: row for row in rows if row.id % 5}
    seen = set()
    for at in range(20):
        words = tuple(rng.integers(1, 6, 2).tolist())
        query = references.Query(corner(at % 16), words, 200, {**ALL, "ef": 500})
        want = references.ask(engine, KEY, query)
        got = references.ask(other, OTHER, query)
        if kind == "flat":
            assert [c.tobytes() for c in got] == [c.tobytes() for c in want]
        references.assert_answers(got, references.recall(known, query), 200)
        seen |= set(got[4][:, 5].tolist())
    assert len(seen) == 8, "every mark alone and with the others"


def test_the_summary_says_what_the_answer_shares(references):
    rows = [
        references.Row(1, (1, 2), corner(0), author=5),
        references.Row(2, (3,), corner(15), author=5),
        references.Row(3, (4,), author=5),
        references.Row(4, (1, 2, 9), corner(1), author=6),
    ]
    engine = engine_of(references, rows)

    def summary(vector: object, words: tuple[int, ...], **options: object) -> list:
        query = references.Query(vector, words, 9, options)
        return references.ask(engine, KEY, query)[5].tolist()

    coverage, trust, mean, deviation, count, _ = summary(corner(0), (1, 2), author=5)
    assert (coverage, trust, count) == (1, 1, 3)
    assert (mean, deviation) == pytest.approx((0, 1))
    # Word 9 is not in a row of author 5: the best row covers only a part.
    part = summary(None, (1, 9), author=5)
    assert 0 < part[0] < 1
    assert part[1:] == [0, 0, 0, 3, 0]
    assert summary(None, (77,)) == [0, 0, 0, 0, 4, 0]
    assert summary(corner(0), (1,), author=9) == [0] * 6
    assert summary(corner(0), (1,), weights={"dense": 0})[1] == 0
    nobody = engine.recall(("app", "nobody"), corner(0), [1], 9, **ALL)
    assert nobody[5].tolist() == [0] * 6
