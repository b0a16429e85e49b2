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


def assert_same_answers(a: Index, b: Index, dim: int) -> None:
    assert (len(a), a.dim) == (len(b), b.dim)
    for query in random_vectors(99, 12, dim):
        for k in (1, 7, 400):
            for asked in ({}, {"exact": True}, {"only": np.arange(0, 400, 3)}):
                first, second = (one.search(query, k, **asked) for one in (a, b))
                assert [x.tobytes() for x in first] == [x.tobytes() for x in second]


def made(kind: str, codec: str, dim: int, *, floats: bool, rows: str) -> Index:
    # A graph of "auto" needs more than flat_bytes of 4-bit codes.
    index = Index(dim, kind, 4, 20, codec, floats, flat_bytes=1000)
    if rows == "empty":
        return index
    vectors = random_vectors(1, 400, dim)
    index.add(np.arange(300), vectors[:300])
    index.build()
    if rows in ("holes", "tail"):
        index.remove(np.arange(0, 300, 5))
        index.add(np.arange(10, 40), vectors[300:330])  # some of them in other places
    if rows != "tail":  # else the last rows may wait to be linked
        index.build()
    return index
