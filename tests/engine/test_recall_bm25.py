"""Recall by words: BM25 with the statistics of one partition."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.engines import DIM, KEY, corner, engine_of, found_ids, random_row
from vecall import Engine


def test_bm25_is_the_formula_with_the_statistics_of_the_partition(references):
    texts = [(1, 1, 2), (1, 3, 3, 3, 4, 5, 6), (), (2,), (7, 8, 9, 7), ()]
    rows = [references.Row(i, words) for i, words in enumerate(texts)]
    engine = engine_of(references, rows, dim=0)
    # N = 4 rows with words, of 15 words in all; word 1 is in 2 of them, word 3 in 1.
    idf = {1: np.log(1 + 2.5 / 2.5), 3: np.log(1 + 3.5 / 1.5)}

    def part(word: int, count: int, length: int) -> float:
        norm = 0.9 * (1 - 0.75 + 0.75 * length / (15 / 4))
        return idf[word] * count * 1.9 / (count + norm)

    ids, _, _, lexical, *_ = engine.recall(KEY, None, [1, 3], 5)
    assert ids.tolist() == [1, 0]
    assert lexical[1] == pytest.approx(part(1, 2, 3), rel=1e-5)
    assert lexical[0] == pytest.approx(part(1, 1, 7) + part(3, 3, 7), rel=1e-5)


def test_rows_without_words_do_not_change_a_bm25_score(references):
    rows = [references.Row(1, (1, 2)), references.Row(2, (2, 3, 4))]
    engine = engine_of(references, rows)
    before = references.ask(engine, KEY, references.Query(None, (1, 2)))
    more = [references.Row(n, (), corner(n % 16)) for n in range(10, 90)]
    references.add_rows(engine, KEY, more)
    after = references.ask(engine, KEY, references.Query(None, (1, 2)))
    assert [c.tobytes() for c in before[:5]] == [c.tobytes() for c in after[:5]]


def test_statistics_are_exact_after_updates_and_removals(references):
    rng = np.random.default_rng(5)
    engine = Engine(0)
    for _ in range(60):
        ids = rng.permutation(30)[:10].tolist()
        references.add_rows(
            engine, KEY, [random_row(references, rng, i, 0) for i in ids]
        )
        engine.remove(KEY, rng.integers(0, 30, 5).astype(np.int64))
    final = [random_row(references, rng, i, 0) for i in range(20)]
    engine.remove(KEY, np.arange(30, dtype=np.int64))
    references.add_rows(engine, KEY, final)
    fresh = engine_of(references, final, dim=0)
    for word in range(1, 16):
        query = references.Query(None, (word, 3), k=30)
        old, new = (references.ask(e, KEY, query) for e in (engine, fresh))
        assert [c.tobytes() for c in old] == [c.tobytes() for c in new]


def test_words_and_rows_that_are_gone_leave_no_memory_behind(references):
    engine = Engine(DIM)
    held = []
    for turn in range(8):
        rows = [
            references.Row(
                id=1000 * turn + n,
                words=tuple(range(10_000 * turn + 20 * n, 10_000 * turn + 20 * n + 20)),
                vector=corner(n % 16),
                session=turn + 1,
                position=n,
            )
            for n in range(300)
        ]
        references.add_rows(engine, KEY, rows)
        held.append(engine.nbytes)
        ids = np.array([row.id for row in rows], dtype=np.int64)
        assert engine.remove(KEY, ids) == len(rows)
    assert max(held[2:]) <= 1.1 * held[1]


def test_a_repeated_word_of_the_query_counts_as_often_as_it_occurs(references):
    rows = [references.Row(1, (1, 2, 3)), references.Row(2, (2, 4, 5))]
    engine = engine_of(references, rows, dim=0)
    once = references.ask(engine, KEY, references.Query(None, (1,)))[3]
    thrice = references.ask(engine, KEY, references.Query(None, (1, 1, 1)))[3]
    assert thrice.tolist() == pytest.approx((3 * once).tolist(), rel=1e-5)


def test_the_order_of_the_words_means_nothing(references):
    rng = np.random.default_rng(6)
    rows = [random_row(references, rng, i, 0) for i in range(30)]
    turned = [
        references.Row(
            r.id, r.words[::-1], None, r.time, r.expires, r.session, r.position
        )
        for r in rows
    ]
    engines = engine_of(references, rows, 0), engine_of(references, turned, 0)
    words = (3, 1, 4, 1, 5, 9, 2, 6)
    answers = [
        references.ask(engine, KEY, references.Query(None, asked, k=30))
        for engine in engines
        for asked in (words, words[::-1], tuple(sorted(words)))
    ]
    assert len({tuple(c.tobytes() for c in answer) for answer in answers}) == 1


def test_unknown_words_find_nothing(references):
    engine = engine_of(references, [references.Row(1, (1, 2))])
    assert found_ids(references, engine, references.Query(None, (8, 9))) == []


def test_unknown_words_weaken_the_words_but_not_the_order(references):
    rows = [references.Row(n, (1,) * n + (2,) * (9 - n)) for n in range(1, 9)]
    engine = engine_of(references, rows, dim=0)
    plain = references.ask(engine, KEY, references.Query(None, (1,)))
    vague = references.ask(engine, KEY, references.Query(None, (1, 77, 78)))
    assert plain[0].tolist() == vague[0].tolist()
    assert np.all(vague[1] < plain[1])
    assert vague[3].tolist() == plain[3].tolist()


def test_a_question_without_words_and_vector_finds_nothing(references):
    engine = engine_of(references, [references.Row(1, (1, 2), corner(3))])
    assert found_ids(references, engine, references.Query()) == []
    zero = np.zeros(DIM, dtype=np.float32)
    assert found_ids(references, engine, references.Query(zero)) == []
