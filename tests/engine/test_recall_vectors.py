"""Recall and search by vectors: exact cosines."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.engines import DIM, KEY, corner, engine_of, found_ids, random_row
from vecall import Engine


def test_a_zero_vector_asks_by_words_alone(references):
    rows = [references.Row(n, (n % 3 + 1,), corner(n)) for n in range(9)]
    engine = engine_of(references, rows)
    zero = np.zeros(DIM, dtype=np.float32)
    by_words = references.ask(engine, KEY, references.Query(None, (1,)))
    assert by_words[0].tolist() == [0, 3, 6]
    assert np.all(np.isnan(by_words[2]))
    for value in (0.0, -0.0):
        found = references.ask(engine, KEY, references.Query(zero + value, (1,)))
        assert [c.tobytes() for c in found] == [c.tobytes() for c in by_words]


def test_a_question_without_words_ranks_by_cosine(references):
    rng = np.random.default_rng(7)
    rows = [
        references.Row(n, (1,), rng.standard_normal(DIM).astype(np.float32))
        for n in range(40)
    ]
    engine = engine_of(references, rows)
    query = rng.standard_normal(DIM).astype(np.float32)
    nearest, cosines = engine.search(KEY, query, 10)
    found = references.ask(engine, KEY, references.Query(query, k=10))
    assert found[0].tolist() == nearest.tolist()
    assert found[2].tolist() == cosines.tolist()
    assert found[4][0, 2] == pytest.approx(0.4)
    assert np.all(found[3] == 0)


def test_rows_without_a_vector_have_no_similarity(references):
    rows = [references.Row(1, (1,), corner(0)), references.Row(2, (1,))]
    engine = engine_of(references, rows)
    found = references.ask(engine, KEY, references.Query(corner(0), (1,)))
    assert found[0].tolist() == [1, 2]
    assert found[2][0] == 1
    assert np.isnan(found[2][1])
    assert engine.search(KEY, corner(0), 5)[0].tolist() == [1]


def test_an_update_without_a_vector_or_words_takes_them_away(references):
    engine = engine_of(references, [references.Row(1, (1,), corner(0))])
    references.add_rows(engine, KEY, [references.Row(1, (), corner(0))])
    assert found_ids(references, engine, references.Query(None, (1,))) == []
    references.add_rows(engine, KEY, [references.Row(1, (1,))])
    assert engine.search(KEY, corner(0), 5)[0].tolist() == []
    assert found_ids(references, engine, references.Query(None, (1,))) == [1]
    engine.add(KEY, np.array([1], dtype=np.int64), corner(0)[None])
    assert found_ids(references, engine, references.Query(None, (1,))) == []
    assert engine.search(KEY, corner(0), 5)[0].tolist() == [1]


@pytest.mark.parametrize("dim", [1, 3, 4, 8, 19])
def test_search_is_exact_with_and_without_filters(references, dim):
    rng = np.random.default_rng(dim)
    rows = {}
    references.put(
        rows, [random_row(references, rng, n * 3 - 100, dim) for n in range(300)]
    )
    engine = engine_of(references, list(rows.values()), dim)
    for options in (
        {},
        {"session": 2},
        {"session": 0},
        {"session": 99},
        {"after": 3},
        {"before": 3},
        {"after": 2, "before": 4},
        {"after": 4, "before": 4},
        {"session": 1, "after": 1, "before": 5},
    ):
        query = rng.standard_normal(dim).astype(np.float32)
        expected = references.nearest(rows, query, options)
        for k in (1, 7, 299, references.HUGE_K):
            found = engine.search(KEY, query, k, **options)
            references.assert_nearest(found, expected, k, rows)


@pytest.mark.parametrize("dim", [4, 128, 384])
@pytest.mark.parametrize("rows", [1, 2, 3, 64])
@pytest.mark.parametrize("filtered", [False, True])
@pytest.mark.parametrize("kind", ["flat", "hnsw"])
def test_mean_and_deviation_of_few_cosines_have_no_noise(dim, rows, filtered, kind):
    """A summary of one row has its cosine as mean, and no deviation.

    Removed rows do not count.
    """
    rng = np.random.default_rng(6)
    removed = 7
    count = rows + 500 * filtered
    vectors = rng.standard_normal((count + removed, dim)).astype(np.float32)
    query = rng.standard_normal(dim).astype(np.float32)
    engine = Engine(dim, kind=kind)
    engine.add(KEY, np.arange(len(vectors)), vectors)
    engine.remove(KEY, np.arange(count, count + removed))
    only = np.arange(rows) if filtered else None
    *_, (_, _, mean, deviation, *_) = engine.recall(KEY, query, [], 5, only=only)
    few = vectors[:rows].astype(np.float64)
    cosines = few @ query / (np.linalg.norm(few, axis=1) * np.linalg.norm(query))
    assert mean == pytest.approx(cosines.mean(), abs=2e-4)
    assert deviation == pytest.approx(cosines.std(), abs=2e-4)


@pytest.mark.parametrize("dim", [4, 64, 128, 384])
@pytest.mark.parametrize(
    ("spread", "error"), [(0.1, 0.15), (0.3, 0.02), (1.0, 0.02), (10.0, 0.02)]
)
def test_the_summary_has_mean_and_deviation_of_all_cosines(dim, spread, error):
    """Cosines are estimated from 4 bits a value; their noise is subtracted."""
    rng = np.random.default_rng(5)
    topic = rng.standard_normal(dim)
    noise = rng.standard_normal((3000, dim)) / np.sqrt(dim)
    vectors = (topic / np.linalg.norm(topic) + spread * noise).astype(np.float32)
    query = rng.standard_normal(dim).astype(np.float32)
    engine = Engine(dim, kind="flat")
    engine.add(KEY, np.arange(3000), vectors)
    *_, (_, _, mean, deviation, rows, _) = engine.recall(KEY, query, [], 5)
    norms = np.linalg.norm(vectors.astype(np.float64), axis=1) * np.linalg.norm(query)
    cosines = vectors.astype(np.float64) @ query / norms
    assert mean == pytest.approx(cosines.mean(), abs=0.005)
    assert deviation == pytest.approx(cosines.std(), rel=error)
    assert rows == 3000
