"""Terms that are parts of words: half a word's score, no length, no coverage lost."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.engines import KEY, engine_of

PART = 2**63


def lexical(found) -> dict[int, float]:
    return dict(zip(found[0].tolist(), found[3].tolist(), strict=True))


def coverage(found) -> float:
    return float(found[5][0])


def test_an_optional_term_that_nothing_holds_changes_no_score(references):
    rows = [references.Row(1, (1, 2)), references.Row(2, (3,))]
    engine = engine_of(references, rows, dim=0)
    plain = references.ask(engine, KEY, references.Query(None, (1, 9)))
    more = references.ask(engine, KEY, references.Query(None, (1, 9, PART + 77)))
    for before, after in zip(plain, more, strict=True):
        np.testing.assert_array_equal(before, after)


def test_parts_of_a_row_count_in_no_length(references):
    bare = [references.Row(1, (1, 2)), references.Row(2, (3, 4, 5))]
    parts = [references.Row(1, (1, 2, PART + 8, PART + 9)), bare[1]]
    query = references.Query(None, (1,))
    scores = [
        lexical(references.ask(engine_of(references, rows, dim=0), KEY, query))
        for rows in (bare, parts)
    ]
    assert scores[0] == scores[1]


def test_a_word_of_the_query_that_is_a_part_of_a_row_is_covered(references):
    rows = [references.Row(1, (1, PART + 7)), references.Row(2, (2,))]
    engine = engine_of(references, rows, dim=0)
    assert lexical(references.ask(engine, KEY, references.Query(None, (7,)))) == {}
    found = references.ask(engine, KEY, references.Query(None, (7, PART + 7)))
    assert found[0].tolist() == [1]
    assert 0.3 < coverage(found) < 1


def test_a_part_of_the_query_finds_a_word_and_a_part_and_no_row_twice(references):
    rows = [
        references.Row(1, (7,)),
        references.Row(2, (1, PART + 7)),
        references.Row(3, (2,)),
    ]
    engine = engine_of(references, rows, dim=0)
    found = lexical(references.ask(engine, KEY, references.Query(None, (9, PART + 7))))
    assert found.keys() == {1, 2}
    whole = lexical(references.ask(engine, KEY, references.Query(None, (7,))))
    both = lexical(references.ask(engine, KEY, references.Query(None, (7, PART + 7))))
    assert both[1] == whole[1]


@pytest.mark.parametrize("asked", [(), (PART + 7,), (PART,)])
def test_a_query_without_words_finds_nothing(references, asked):
    rows = [references.Row(1, (7, 0, PART + 7, PART))]
    engine = engine_of(references, rows, dim=0)
    assert lexical(references.ask(engine, KEY, references.Query(None, asked))) == {}


def test_rows_of_parts_alone_outlive_a_snapshot(references, tmp_path):
    rows = [
        references.Row(1, (PART + 7,)),
        references.Row(2, (1, 2, PART + 7)),
        references.Row(3, (2, 2)),
    ]
    engine = engine_of(references, rows, dim=0)
    query = references.Query(None, (2, 7, PART + 7))
    before = references.ask(engine, KEY, query)
    assert set(before[0].tolist()) == {1, 2, 3}
    again = type(engine)(0)
    again.restore(KEY, engine.snapshot(KEY))
    after = references.ask(again, KEY, query)
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)
