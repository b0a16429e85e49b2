"""Rows that differ by little are ranked as their cosines are, not as they came."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.campaigns import unit
from vecall import Index
from vecall._core import Engine

ROWS, QUERIES = 2000, 3000
IDS = np.arange(ROWS, dtype=np.int64)
SAME = 1e-7  # what a float32 cannot tell apart


def near_copies(dim: int, spread: float = 1e-3) -> tuple[np.ndarray, np.ndarray]:
    """20 places with rows that lie this far from them; queries likewise."""
    rng = np.random.default_rng(dim)
    places = unit(rng.standard_normal((20, dim)))
    both = places[rng.integers(0, 20, ROWS + QUERIES)]
    both += spread * rng.standard_normal(both.shape) / np.sqrt(dim)
    both = both.astype(np.float32)
    return both[:ROWS], both[ROWS:]


def best_found(cosines: np.ndarray, first: np.ndarray) -> float:
    """How often the first answer is the best row, or as good as a float32 can tell."""
    found = np.take_along_axis(cosines, first[:, None], axis=1)[:, 0]
    return float(np.mean(found >= cosines.max(axis=1) - SAME))


@pytest.mark.parametrize(
    ("dim", "codec", "less"),
    # In so few dimensions the steps of 12 bits hide some of what float32 still tells.
    [(33, "int4+8", 0.05), (33, "int4+8+4", 0), (64, "int4+8", 0), (384, "int4+8", 0)],
)
def test_the_nearest_of_near_copies_comes_first_as_with_float32(
    dim: int, codec: str, less: float
) -> None:
    rows, queries = near_copies(dim)
    cosines = unit(queries) @ unit(rows).T
    of_float32 = (
        unit(queries).astype(np.float32) @ unit(rows).astype(np.float32).T
    ).argmax(axis=1)
    index = Index(dim, "flat", codec=codec)
    index.add(IDS, rows)
    found, scores = index.search_batch(queries, 1)
    assert best_found(cosines, found[:, 0]) >= best_found(cosines, of_float32) - less
    assert scores.max() <= 1.0


@pytest.mark.parametrize("dim", [8, 33, 384])
def test_no_cosine_beyond_one_is_returned(dim: int) -> None:
    rows, _ = near_copies(dim, spread=1e-6)
    both = np.concatenate([rows, -rows])
    ids = np.arange(len(both), dtype=np.int64)
    index, engine, key = Index(dim, "flat"), Engine(dim), ("app", "user")
    index.add(ids, both)
    engine.add(key, ids, both)
    for query in rows[:20]:
        cosines = index.search(query, len(both))[1]
        assert cosines.max() == pytest.approx(1.0, abs=2e-7)
        assert cosines.min() >= -1.0
        assert cosines.max() <= 1.0
        similarities = engine.recall(key, query, [], 5)[2]
        assert similarities.max() <= 1.0


@pytest.mark.parametrize("share", [0.0, 0.75, 0.9, 0.99, 0.9999])
@pytest.mark.parametrize("dim", [48, 384])
def test_rows_with_much_in_common_are_found_as_others(dim: int, share: float) -> None:
    # Cosines near `share`, as of many models, and of one topic told over and over.
    rng = np.random.default_rng(dim)
    common = unit(rng.standard_normal((1, dim)))
    own = unit(rng.standard_normal((3000 + 60, dim)))
    both = (np.sqrt(share) * common + np.sqrt(1 - share) * own).astype(np.float32)
    rows, queries = both[:3000], both[3000:]
    cosines = unit(queries) @ unit(rows).T
    index = Index(dim, "flat")
    index.add(np.arange(3000, dtype=np.int64), rows)
    found = index.search_batch(queries, 10)[0]
    kth = np.sort(cosines, axis=1)[:, -10][:, None]
    # What is returned is within a score's own error of the best.
    assert np.take_along_axis(cosines, found, axis=1).min() >= (kth - 3e-4).min()
    there = np.take_along_axis(cosines, found, axis=1)
    slack = 3e-4 * np.sqrt(1 - share) + 2e-7
    assert np.mean(there >= kth - slack) >= 0.999
