"""Vectors, and an Index filled with them."""

from __future__ import annotations

import numpy as np
from vecall import Index


def ids_of(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def vectors_of(*rows: list[float]) -> np.ndarray:
    return np.array(rows, dtype=np.float32)


def random_vectors(seed: int, count: int, dim: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((count, dim)).astype(np.float32)


def filled(vectors: np.ndarray, ids: np.ndarray | None = None) -> Index:
    index = Index(vectors.shape[1])
    index.add(np.arange(len(vectors), dtype=np.int64) if ids is None else ids, vectors)
    return index


def found_ids(index: Index, query: np.ndarray, k: int) -> list[int]:
    return index.search(query, k)[0].tolist()
