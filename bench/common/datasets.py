"""Data sets of the vector benchmarks, with exact neighbours in float64.

The folder named by VECALL_EMBEDDINGS may hold real embeddings of 384 dimensions,
minilm384-50k.npy and minilm384-queries.npy. Every other set is synthetic, the same at
each run, and its name says so. Vectors are float32 of norm 1.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

REAL_DIM = 384
REAL_FILES = ("minilm384-50k.npy", "minilm384-queries.npy")
SEED = 7


class Data:
    """Rows, queries, and the exact neighbours in float64."""

    def __init__(self, name: str, vectors: NDArray, queries: NDArray) -> None:
        self.name = name
        self.vectors = _unit(vectors)
        self.queries = _unit(queries)
        self.ids = np.arange(len(vectors), dtype=np.int64)
        self.dim = vectors.shape[1]
        self._limits: dict[tuple[int, bytes | None], NDArray] = {}

    def __len__(self) -> int:
        return len(self.vectors)

    @functools.cached_property
    def _exact(self) -> tuple[NDArray, NDArray]:
        return _unit64(self.vectors), _unit64(self.queries)

    def limits(self, k: int, among: NDArray | None = None) -> NDArray:
        """Return the cosine of each query's k-th neighbour, among some ids or all."""
        key = (k, None if among is None else among.tobytes())
        if key not in self._limits:
            rows, queries = self._exact
            if among is not None:
                rows = rows[among]
            k = min(k, len(rows))
            found = []
            for start in range(0, len(queries), 64):
                scores = queries[start : start + 64] @ rows.T
                found.append(np.partition(scores, -k, axis=1)[:, -k])
            self._limits[key] = np.concatenate(found)
        return self._limits[key]

    def recall(
        self, found: Sequence[NDArray], k: int, among: NDArray | None = None
    ) -> float:
        """Return the share of the true neighbours in what was found.

        found holds one array of ids a query, for the first queries. A row that ties
        with the k-th neighbour counts as one of them.
        """
        rows, queries = self._exact
        hits = 0
        limits = self.limits(k, among)
        for ids, query, limit in zip(found, queries, limits, strict=False):
            known = np.unique(np.asarray(ids, np.int64)[:k])
            known = known[known >= 0]
            if among is not None:
                known = known[np.isin(known, among)]
            hits += int(np.sum(rows[known] @ query >= limit - 1e-12))
        most = min(k, len(rows) if among is None else len(among))
        return hits / (most * len(found))


@functools.lru_cache(maxsize=4)
def load(dim: int, rows: int, queries: int = 500) -> Data:
    """Return real rows if there are any of this dimension, else made-up ones."""
    folder = os.environ.get("VECALL_EMBEDDINGS")
    if folder and dim == REAL_DIM:
        vectors, asked = (np.load(Path(folder) / file) for file in REAL_FILES)
        if rows <= len(vectors):
            # A sample, the same at each run; the smaller sets are parts of the larger.
            order = np.random.default_rng(SEED).permutation(len(vectors))
            return Data(f"MiniLM {dim}", vectors[order[:rows]], asked[:queries])
    vectors = synthetic(dim, rows + queries)
    return Data(f"synthetic {dim}", vectors[queries:], vectors[:queries])


def noisy_copies(data: Data, copies: int, noise: float) -> Data:
    """Return so many copies of every row, each with noise of that length, normal."""
    random = np.random.default_rng(SEED)
    made = np.repeat(data.vectors, copies, axis=0)
    for start in range(0, len(made), 8_192):
        part = made[start : start + 8_192]
        part += random.standard_normal(part.shape, np.float32) * (
            noise / np.sqrt(data.dim)
        )
    return Data(f"{data.name}, {copies} noisy copies", made, data.queries)


def synthetic(dim: int, rows: int, seed: int = SEED) -> NDArray[np.float32]:
    """Return vectors with the shape of embeddings.

    Variances along the principal axes fall as a power; rows lie around centres of
    unequal weight, some closely and some loosely; the axes are turned at random; four
    coordinates are shifted and wider. For 50,000 rows of 384 the cosine to the nearest
    is 0.72, to the tenth 0.60, to any 0.12 (MiniLM: 0.65, 0.54, 0.12), the intrinsic
    dimension 18 (MiniLM: 25).
    """
    random = np.random.default_rng([seed, dim])
    scale = (1.0 + np.arange(dim)) ** -0.4
    scale /= np.linalg.norm(scale)
    turn = np.linalg.qr(random.standard_normal((dim, dim)))[0]
    centres = random.standard_normal((3_000, dim)) * scale
    weights = (1.0 + np.arange(len(centres))) ** -0.5
    outliers = random.choice(dim, 4, replace=False)
    shift = random.choice([-0.25, 0.25], 4)
    made = np.empty((rows, dim), np.float32)
    for start in range(0, rows, 8_192):
        count = min(8_192, rows - start)
        centre = random.choice(len(centres), count, p=weights / weights.sum())
        spread = random.uniform(0.6, 1.2, (count, 1))
        noise = random.standard_normal((count, dim)) * scale * spread
        part = (centres[centre] + noise) @ turn
        part[:, outliers] = 2 * part[:, outliers] + shift
        made[start : start + count] = part
    return _unit(made)


def _unit(vectors: NDArray) -> NDArray[np.float32]:
    vectors = np.ascontiguousarray(vectors, np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def _unit64(vectors: NDArray) -> NDArray[np.float64]:
    wide = vectors.astype(np.float64)
    return wide / np.linalg.norm(wide, axis=1, keepdims=True)
