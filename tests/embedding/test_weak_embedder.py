"""A bad embedder buries no exact word."""

from __future__ import annotations

import numpy as np
from helpers.engines import DIM, KEY, corner, engine_of, found_ids
from hypothesis import given, settings
from hypothesis import strategies as st


@settings(derandomize=True, max_examples=100, deadline=None)
@given(data=st.data())
def test_an_exact_rare_word_is_at_rank_1_whatever_the_vectors_say(references, data):
    count = data.draw(st.integers(1, 60))
    rare = data.draw(st.integers(0, count - 1))
    seed = data.draw(st.integers(0, 2**32))
    rng = np.random.default_rng(seed)
    query = rng.standard_normal(DIM).astype(np.float32)
    # From all rows near the query and the rare one opposite, to pure noise.
    noise = data.draw(st.sampled_from([0.0, 0.01, 0.3, 3.0]))
    vectors = query + noise * rng.standard_normal((count, DIM)).astype(np.float32)
    if data.draw(st.booleans()):
        vectors[rare] = -query
    rows = [
        references.Row(
            id=n,
            words=(77, 1, 2) if n == rare else (1, 2, 3),
            vector=vectors[n],
            session=1,
            position=n,
        )
        for n in range(count)
    ]
    engine = engine_of(references, rows)
    found = references.ask(engine, KEY, references.Query(query, (77,), k=1))
    assert found[0][0] == rare
    assert found[3][0] > 0


def test_an_exact_rare_word_is_found_among_a_thousand_rows_that_look_nearer(references):
    rng = np.random.default_rng(13)
    query = rng.standard_normal(DIM).astype(np.float32)
    near = query + 0.1 * rng.standard_normal((1000, DIM)).astype(np.float32)
    rows = [
        references.Row(n, (1, 2, 3), near[n], session=n // 20 + 1, position=n % 20)
        for n in range(1000)
    ]
    rows[517] = references.Row(517, (77, 1, 2, 3, 4, 5, 6), -query, time=-5)
    engine = engine_of(references, rows)
    assert engine.search(KEY, query, 999)[0].tolist().count(517) == 0
    for candidates in (1, 50):
        options = {"candidates": candidates}
        asked = references.Query(query, (77,), 1, options)
        assert found_ids(references, engine, asked) == [517]


def test_an_embedder_that_tells_no_texts_apart_changes_no_order(references):
    rng = np.random.default_rng(14)
    for _ in range(20):
        rows = [
            references.Row(n, tuple(rng.integers(1, 30, rng.integers(1, 9)).tolist()))
            for n in range(40)
        ]
        blind = [references.Row(row.id, row.words, corner(6)) for row in rows]
        words = tuple(rng.integers(1, 34, 3).tolist())
        lexical = engine_of(references, rows)
        hybrid = engine_of(references, blind)
        wanted = found_ids(references, lexical, references.Query(None, words, k=40))
        found = found_ids(references, hybrid, references.Query(corner(2), words, k=40))
        assert found[: len(wanted)] == wanted
