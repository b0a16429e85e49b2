"""The weights of recall: which are known, how far they go, and what each one does."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest
from helpers.arrays import QUERY, assert_says_nothing, engine_with_two_rows
from helpers.engines import AUTHORS, KEY, QUESTION, TIME, corner, engine_of
from helpers.ranking import DEFAULTS
from vecall._core import Ranking
from vecall.errors import InvalidArgumentError, InvalidTypeError

NAMES = sorted(DEFAULTS)
MOST = {name: 1.0 if name == "dense" else 10.0 for name in NAMES}


def refused(error: type[Exception], **weights: object) -> str:
    with pytest.raises(error) as raised:
        Ranking(**weights)
    assert type(raised.value) is error
    assert_says_nothing(raised.value)
    return str(raised.value)


@pytest.mark.parametrize("name", NAMES)
def test_a_weight_outside_its_range_is_refused_by_its_name(name):
    above = float(np.nextafter(np.float32(MOST[name]), np.float32(math.inf)))
    for value in (math.nan, math.inf, -math.inf, -1e-9, -31337, above, 31337, 1e300):
        expected = f"{name}: must be within [0, {MOST[name]:g}]"
        assert refused(InvalidArgumentError, **{name: value}) == expected
        both = {"second": 0.5, name: value}
        assert refused(InvalidArgumentError, **both) == expected


@pytest.mark.parametrize("name", NAMES)
def test_a_weight_may_be_any_number_of_its_range(name):
    engine = engine_with_two_rows()
    for value in (0, 0.0, -0.0, 1e-45, 1, np.float64(0.5), MOST[name]):
        ranking = Ranking(**{name: value})
        found = engine.recall(KEY, QUERY, [7, 8], 5, ranking=ranking)
        assert np.all(np.isfinite(found[1]))
        assert len(found[0]) == 2


@pytest.mark.parametrize(
    "value",
    ["s3cret", "0.5", b"1", None, [0.5], (1,), 1j, np.array([0.7182]), object()],
)
@pytest.mark.parametrize("name", NAMES)
def test_a_weight_that_is_no_number_is_refused_by_its_name(name, value):
    assert refused(InvalidTypeError, **{name: value}) == f"{name}: expected a float"


@pytest.mark.parametrize("value", [10**400, -(10**400)], ids=["huge", "negative"])
def test_a_weight_that_no_float_can_hold_is_refused(value):
    assert refused(InvalidTypeError, next=value) == "next: expected a float"


@pytest.mark.parametrize(
    "name", ["", "Dense", "dense ", "dense_weight", "neighbour_weight"]
)
def test_an_unknown_name_is_refused_with_those_that_are_known(name):
    said = refused(InvalidTypeError, **{"dense": 0.5, name: 0.5})
    assert said.startswith(f"Ranking(): unknown argument '{name}'; it takes dense, ")
    assert all(known in said for known in NAMES)


@pytest.mark.parametrize(
    "ranking", [[], (), {}, "s3cret", {31337}, [("dense", 1)], {"dense": 1.0}, Ranking]
)
def test_a_ranking_of_another_type_is_refused_by_the_arguments_name(ranking):
    engine = engine_with_two_rows()
    for key in (KEY, ("no", "body")):
        with pytest.raises(InvalidTypeError, match=r"^ranking: expected") as raised:
            engine.recall(key, QUERY, [7], 5, ranking=ranking)
        assert_says_nothing(raised.value)


def test_one_ranking_serves_many_engines_and_does_not_change(references):
    _, engine, marks = a_conversation(references)
    ranking = Ranking(dense=0.9, next=0.1)
    asked = {**marks, "ranking": ranking}
    first = engine.recall(KEY, corner(0), [1, 2], 9, **asked)
    other = engine_with_two_rows()
    other.recall(KEY, QUERY, [7], 5, ranking=ranking)
    again = engine.recall(KEY, corner(0), [1, 2], 9, **asked)
    assert [c.tobytes() for c in first] == [c.tobytes() for c in again]
    with pytest.raises(AttributeError):
        ranking.dense = 0.5


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_ranking_cannot_be_copied_without_its_weights(copied):
    with pytest.raises(InvalidTypeError, match="pickled or copied"):
        copied(Ranking())


def test_a_ranking_without_init_is_refused():
    engine = engine_with_two_rows()
    with pytest.raises(InvalidTypeError, match=r"^ranking: __init__ was not called"):
        engine.recall(KEY, QUERY, [7], 5, ranking=Ranking.__new__(Ranking))


def a_conversation(references):
    """An engine in which every weight makes a difference, and a question to it."""
    rows = [
        references.Row(1, (1, 2, QUESTION), corner(0), session=1, position=1),
        references.Row(2, (3,), corner(1), session=1, position=2, author=3),
        references.Row(3, (1, TIME), corner(3), session=1, position=3),
        references.Row(4, (4, AUTHORS[0]), corner(7), session=1, position=4),
        references.Row(5, (2, 5, 6), corner(2), session=1, position=5),
        references.Row(6, (1, 7, 8, 9), corner(15), author=3, time=-1),
    ]
    marks = {
        "question_mark": QUESTION,
        "time_mark": TIME,
        "author_marks": list(AUTHORS),
        "favoured_authors": [3],
        "period_from": 0,
    }
    return rows, engine_of(references, rows), marks


def test_weights_that_are_not_named_keep_their_defaults(references):
    _, engine, marks = a_conversation(references)
    plain = references.Query(corner(0), (1, 2), 9, marks)
    same = references.Query(corner(0), (1, 2), 9, {**marks, "weights": DEFAULTS})
    got, wanted = (references.ask(engine, KEY, query) for query in (plain, same))
    assert [c.tobytes() for c in got] == [c.tobytes() for c in wanted]


@pytest.mark.parametrize("name", NAMES)
def test_every_weight_changes_what_its_formula_says_and_nothing_else(references, name):
    rows, engine, marks = a_conversation(references)
    known = {row.id: row for row in rows}
    seen = set()
    for value in (0.0, 0.3, 1.0, MOST[name]):
        options = {**marks, "weights": {name: value}}
        query = references.Query(corner(0), (1, 2), 9, options)
        found = references.ask(engine, KEY, query)
        references.assert_answers(found, references.recall(known, query), 9)
        seen.add((found[0].tobytes(), found[1].tobytes()))
    assert len(seen) > 1, "the weight does nothing"


def test_a_weight_of_zero_leaves_its_part_out(references):
    _, engine, marks = a_conversation(references)
    off = dict.fromkeys(("next", "previous", "after_question", "second"), 0.0)

    def parts(**weights: float) -> np.ndarray:
        options = {**marks, "weights": weights}
        query = references.Query(corner(0), (1, 2), 9, options)
        return references.ask(engine, KEY, query)[4]

    assert np.all(parts(**off)[:, 3] == 0)
    assert np.all(parts(session=0)[:, 4] == 0)
    assert np.all(parts(dense=0)[:, 2] == 0)
    assert np.all(parts(dense=1)[:, 1] == 0)
    ones = dict.fromkeys(
        ("question", "time", "author", "favoured", "reply", "outside"), 1.0
    )
    assert np.all(parts(**ones)[:, 5] == 1)


def test_the_words_of_a_row_count_by_the_share_of_the_query_that_they_cover(references):
    # Row 1 says one word often, row 2 both words once.
    rows = [
        references.Row(1, (1, 1, 1, 1, 1)),
        references.Row(2, (1, 2, 3, 4, 5, 6, 7, 8)),
        *(references.Row(n, (8, 9)) for n in range(3, 9)),
    ]
    engine = engine_of(references, rows, dim=0)
    words = {}
    for power in (0.0, 0.5, 1.0, 10.0):
        options = {"weights": {"coverage_power": power}}
        found = references.ask(engine, KEY, references.Query(None, (1, 2), 5, options))
        assert found[0].tolist() == [2, 1]
        assert found[4][0, :2].tolist() == [1, 1]
        words[power] = found[4][1, 1]
        share = found[4][1, 0]
    plain = words[0.0]
    assert 0 < share < 1
    for power, weighed in words.items():
        assert weighed == pytest.approx(plain * share**power, rel=1e-4)
