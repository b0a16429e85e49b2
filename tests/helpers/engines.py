"""Rows and questions for Engine.recall, few enough to compare with references.py."""

from __future__ import annotations

import numpy as np
from vecall import Engine

KEY = ("app", "user")
DIM = 4
NEVER = 2**63 - 1
# Entries of 1 and -1 in four dimensions: every cosine is exact in float32.
CORNERS = [
    np.array([1 - 2 * (n >> bit & 1) for bit in range(DIM)], dtype=np.float32)
    for n in range(2**DIM)
]


def corner(n: int) -> np.ndarray:
    return CORNERS[n]


def engine_of(references, rows: list, dim: int = DIM) -> Engine:
    engine = Engine(dim)
    references.add_rows(engine, KEY, rows)
    return engine


def found_ids(references, engine: Engine, query) -> list[int]:
    return references.ask(engine, KEY, query)[0].tolist()


def random_row(references, rng: np.random.Generator, row_id: int, dim: int):
    return references.Row(
        id=row_id,
        words=tuple(rng.integers(1, 15, rng.integers(0, 12)).tolist()),
        vector=rng.standard_normal(dim).astype(np.float32)
        if dim and rng.random() < 0.8
        else None,
        time=int(rng.integers(0, 6)),
        expires=NEVER if rng.random() < 0.7 else int(rng.integers(0, 6)),
        session=int(rng.integers(0, 4)),
        position=int(rng.integers(-2, 9)),
    )


def random_query(references, rng: np.random.Generator, dim: int):
    options: dict[str, object] = {}
    for name, value in {
        "session": int(rng.integers(0, 5)),
        "after": int(rng.integers(0, 6)),
        "before": int(rng.integers(0, 7)),
        "now": int(rng.integers(0, 7)),
        "min_similarity": float(rng.uniform(-0.7, 0.7)),
        "dense_weight": float(rng.choice([0, 0.4, 0.7, 1])),
        "neighbour_weight": float(rng.choice([0, 0.5, 1])),
        "candidates": int(rng.integers(1, 60)),
    }.items():
        if rng.random() < 0.2:
            options[name] = value
    return references.Query(
        vector=rng.standard_normal(dim).astype(np.float32)
        if dim and rng.random() < 0.8
        else None,
        words=tuple(rng.integers(1, 18, rng.integers(0, 6)).tolist()),
        k=int(rng.integers(1, 30)),
        options=options,
    )
