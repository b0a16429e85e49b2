"""Words, vectors, sessions and filters together, against references.py."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.campaigns import examples, scaled
from helpers.engines import (
    CORNERS,
    DIM,
    KEY,
    NEVER,
    engine_of,
    random_query,
    random_row,
    ranking_options,
    some_marks,
)
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from vecall import Engine
from vecall._core import Ranking


@pytest.mark.parametrize("dim", [0, 1, 3, 24])
@pytest.mark.parametrize("seed", range(scaled(12, 4)))
def test_recall_of_random_rows_is_what_the_reference_finds(references, seed, dim):
    rng = np.random.default_rng([seed, dim])
    engine, rows, compared = Engine(dim), {}, 0
    for _ in range(12):
        new = [
            random_row(references, rng, int(rng.integers(0, 40)), dim)
            for _ in range(rng.integers(0, 12))
        ]
        references.put(rows, new)
        references.add_rows(engine, KEY, new)
        gone = rng.integers(0, 40, 4).astype(np.int64)
        assert engine.remove(KEY, gone) == len(set(gone.tolist()) & rows.keys())
        for row_id in gone.tolist():
            rows.pop(row_id, None)
        for _ in range(4):
            query = random_query(references, rng, dim)
            try:
                expected = references.recall(rows, query)
            except references.UndecidedError:
                continue
            found = references.ask(engine, KEY, query)
            references.assert_answers(found, expected, query.k, tolerance=5e-4)
            lists = references.ask_for_lists(engine, KEY, query)
            assert repr(lists) == repr(tuple(column.tolist() for column in found))
            compared += 1
    assert compared > 20


def test_recall_found_takes_its_arguments_by_position(references):
    words = ((1, 2, 7), (1, 5, 9), (1, 6, 3), (1, 8, 8))
    rows = [references.Row(i, own, author=i) for i, own in enumerate(words)]
    rows.append(references.Row(4, (1, 4), expires=50))
    engine = engine_of(references, rows, dim=0)
    ranking = Ranking(question=0.5, favoured=1.1)
    for now in (49, 50):
        given = (now, 7, 9, [3], [3], ranking, True)
        found, _, summary = engine.recall_found(KEY, None, [1], 5, *given)
        named = engine.recall(
            KEY,
            None,
            [1],
            5,
            now=now,
            question_mark=7,
            time_mark=9,
            author_marks=[3],
            favoured_authors=[3],
            ranking=ranking,
            known_model=True,
        )
        lists = (*found.lists(), summary[:-1])
        assert repr(lists) == repr(tuple(column.tolist() for column in named))
        ids, scores, *_ = lists
        assert set(ids) == set(range(5 if now < 50 else 4))
        assert len(set(scores)) == len(scores)


@pytest.mark.campaign
@settings(
    derandomize=True,
    max_examples=examples(150),
    deadline=None,
    phases=[Phase.generate],  # add Phase.shrink for the smallest case: minutes
)
@given(data=st.data())
def test_recall_of_rows_with_exact_cosines_is_what_the_reference_finds(
    references, data
):
    corners = st.none() | st.sampled_from(CORNERS)
    words = st.lists(st.integers(1, 6), max_size=5).map(tuple)
    row = st.builds(
        references.Row,
        id=st.integers(-3, 20),
        words=st.tuples(words, some_marks).map(lambda both: both[0] + both[1]),
        vector=corners,
        time=st.integers(0, 2),
        expires=st.just(NEVER) | st.integers(0, 3),
        session=st.integers(0, 2),
        position=st.integers(0, 5),
    )
    options = st.fixed_dictionaries(
        {},
        optional={
            "session": st.integers(0, 3),
            "after": st.integers(0, 3),
            "before": st.integers(0, 3),
            "now": st.integers(0, 3),
            "min_similarity": st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0]),
            "candidates": st.integers(1, 5),
            **ranking_options,
        },
    )
    rows, engine = {}, Engine(DIM)
    for batch in data.draw(st.lists(st.lists(row, max_size=8), max_size=3)):
        references.put(rows, batch)
        references.add_rows(engine, KEY, batch)
    queries = st.builds(
        references.Query,
        vector=corners,
        words=words,
        k=st.integers(1, 8),
        options=options,
    )
    for query in data.draw(st.lists(queries, min_size=1, max_size=4)):
        try:
            expected = references.recall(rows, query)
        except references.UndecidedError:
            continue
        found = references.ask(engine, KEY, query)
        references.assert_answers(found, expected, query.k)


def test_recall_of_more_rows_than_candidates_is_what_the_reference_finds(references):
    rng = np.random.default_rng(3)
    compared = 0
    for _ in range(12):
        rows = {}
        references.put(
            rows,
            [
                references.Row(
                    id=row_id,
                    words=tuple(rng.zipf(1.5, rng.integers(0, 20)).tolist()),
                    vector=rng.standard_normal(16).astype(np.float32),
                    time=row_id % 7,
                    session=row_id // 30 + 1,
                    position=row_id % 30,
                )
                for row_id in range(400)
            ],
        )
        engine = engine_of(references, list(rows.values()), 16)
        for _ in range(6):
            query = references.Query(
                vector=rng.standard_normal(16).astype(np.float32),
                words=tuple(rng.integers(2, 12, 3).tolist()),
                k=int(rng.choice([5, 20, 70])),
            )
            try:
                expected = references.recall(rows, query)
            except references.UndecidedError:
                continue
            assert len(expected.rows) < 400
            found = references.ask(engine, KEY, query)
            references.assert_answers(found, expected, query.k, tolerance=5e-4)
            compared += 1
    assert compared > 20
