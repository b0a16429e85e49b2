"""How long the long tests run, and waiting for the graph's background thread."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, settings
from vecall import Index

# Multiplies the sizes of campaigns. The default shows that they work; CI runs them at
# 0.5, and 20 runs for minutes.
SCALE = float(os.environ.get("VECALL_TEST_SCALE", "0.03"))
REPEATS = SCALE <= 1  # above that a campaign looks where nobody has looked
WAIT_S = 60.0


FULL_SIZE_ONLY = pytest.mark.skipif(
    SCALE < 1, reason="starts and kills servers of its own: VECALL_TEST_SCALE=1"
)


def scaled(count: float, least: int = 1) -> int:
    """The size of a campaign that is `count` at scale 1; its tests have the marker."""
    return max(least, round(count * SCALE))


def examples(count: int) -> int:
    """How many examples of `count` at scale 1; their tests have the marker, too."""
    return round(count * (1 if SCALE >= 1 else 0.4 if SCALE >= 0.5 else 0.15))


def grown(count: int) -> int:
    """A size that is `count` up to scale 1: what the thresholds of a test need."""
    return round(count * max(1.0, SCALE))


def campaign(examples: int, steps: int, least: int | None = None) -> settings:
    """Hypothesis settings for a state machine of `examples` programs at scale 1.

    Below that it has `least` programs, or a tenth.
    """
    if least is None:
        least = max(2, round(examples / 10))
    return settings(
        derandomize=REPEATS,
        max_examples=scaled(examples, least),
        stateful_step_count=steps,
        deadline=None,
        database=None,
        phases=[Phase.generate],  # add Phase.shrink for the smallest case: minutes
    )


def wait_until_linked(index: Index) -> float:
    """Waits for the background to link every row; returns how long that took."""
    begin = time.monotonic()
    while index.linked < len(index):
        assert time.monotonic() < begin + WAIT_S, f"{index.linked} of {len(index)}"
        time.sleep(0.002)
    return time.monotonic() - begin


def unit(vectors: np.ndarray) -> np.ndarray:
    """The vectors in float64, of norm 1."""
    wide = vectors.astype(np.float64)
    return np.asarray(wide / np.linalg.norm(wide, axis=-1, keepdims=True))


CENTRES = 30


def centres(dim: int) -> np.ndarray:
    return np.random.default_rng(99).standard_normal((CENTRES, dim))


def clusters(seed: int, count: int, dim: int) -> np.ndarray:
    """Vectors about some centres, which are the same for every seed."""
    rng = np.random.default_rng(seed)
    noise = 0.4 * rng.standard_normal((count, dim))
    chosen = rng.integers(CENTRES, size=count)
    return np.asarray(centres(dim)[chosen] + noise, np.float32)


def best_of(cosines: np.ndarray, k: int) -> np.ndarray:
    """By row the positions of the k largest."""
    return np.argsort(-cosines, axis=1, kind="stable")[:, :k]


def recall_of(found: np.ndarray, wanted: np.ndarray) -> float:
    """The share of the wanted ids, row by row, that was found."""
    rows = zip(found.tolist(), wanted.tolist(), strict=True)
    return float(np.mean([len(set(f) & set(w)) / len(w) for f, w in rows]))


def answers(
    index: Index, queries: np.ndarray, k: int, ef: int = 64, **asked: Any
) -> np.ndarray:
    """The ids that `search` finds for each query; -1 where it finds fewer than k."""
    ids = np.full((len(queries), k), -1, dtype=np.int64)
    for at, query in enumerate(queries):
        found = index.search(query, k, ef, **asked)[0]
        ids[at, : len(found)] = found
    return ids
