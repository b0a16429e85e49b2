"""Rows and questions for Engine.recall, few enough to compare with references.py."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from vecall import Engine

KEY = ("app", "user")
DIM = 4
NEVER = 2**63 - 1
PART = np.uint64(2**63)
# Terms that stand for what is known about a row; any term may be one.
QUESTION, TIME = 101, 2**63 - 1
AUTHORS = (103, 2**62, 105)
MARKS = (QUESTION, TIME, *AUTHORS)
WEIGHTS = {
    "dense": (0.0, 0.25, 0.4, 0.7, 1.0),
    "coverage_power": (0.0, 0.5, 1.0, 2.0),
    "next": (0.0, 0.5, 1.0, 10.0),
    "previous": (0.0, 0.4, 1.0),
    "after_question": (0.0, 0.8, 1.0, 3.0),
    "second": (0.0, 0.3, 1.0),
    "session": (0.0, 0.15, 1.0),
    "question": (0.0, 0.8, 1.0, 2.0),
    "time": (0.0, 1.0, 1.3, 10.0),
    "author": (0.0, 1.0, 1.2),
    "favoured": (0.0, 1.0, 1.2),
    "reply": (0.5, 0.97, 1.0, 2.0),
    "outside": (0.0, 0.1, 1.0, 2.0),
}
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


# For hypothesis: options of Engine.recall about its ranking, and marks of a row.
a_mark = st.sampled_from([0, *MARKS, 3])  # 3 is a word as well
some_marks = st.lists(st.sampled_from([0, *MARKS]), max_size=4).map(tuple)
ranking_options = {
    "weights": st.fixed_dictionaries(
        {}, optional={name: st.sampled_from(some) for name, some in WEIGHTS.items()}
    ),
    "question_mark": st.just(QUESTION) | a_mark,
    "time_mark": st.just(TIME) | a_mark,
    "author_marks": st.lists(st.sampled_from(AUTHORS) | a_mark, max_size=4),
    "favoured_authors": st.lists(st.integers(0, 4), max_size=3),
    "known_model": st.booleans(),
    "period_from": st.none() | st.integers(0, 6),
    "period_until": st.none() | st.integers(0, 6),
    "dated_mark": a_mark,
}


def random_row(references, rng: np.random.Generator, row_id: int, dim: int):
    return references.Row(
        id=row_id,
        words=(
            *rng.integers(1, 15, rng.integers(0, 12)).tolist(),
            *(
                PART + rng.integers(1, 20, rng.integers(0, 4)).astype(np.uint64)
            ).tolist(),
            *(mark for mark in MARKS if rng.random() < 0.2),
        ),
        vector=rng.standard_normal(dim).astype(np.float32)
        if dim and rng.random() < 0.8
        else None,
        time=int(rng.integers(0, 6)),
        expires=NEVER if rng.random() < 0.7 else int(rng.integers(0, 6)),
        session=int(rng.integers(0, 4)),
        position=float("nan") if rng.random() < 0.1 else int(rng.integers(-2, 9)),
        author=int(rng.integers(0, 4)),
    )


def random_query(references, rng: np.random.Generator, dim: int):
    options: dict[str, object] = {}
    for name, value in {
        "session": int(rng.integers(0, 5)),
        "after": int(rng.integers(0, 6)),
        "before": int(rng.integers(0, 7)),
        "now": int(rng.integers(0, 7)),
        "min_similarity": float(rng.uniform(-0.7, 0.7)),
        "candidates": int(rng.integers(1, 60)),
    }.items():
        if rng.random() < 0.2:
            options[name] = value
    for name, marks in {
        "question_mark": QUESTION,
        "time_mark": TIME,
        "author_marks": [mark for mark in AUTHORS if rng.random() < 0.5],
        "favoured_authors": rng.integers(0, 5, rng.integers(0, 3)).tolist(),
        "known_model": True,
        "period_from": int(rng.integers(0, 6)),
        "period_until": int(rng.integers(1, 7)),
        "dated_mark": TIME,
    }.items():
        if rng.random() < 0.5:
            options[name] = marks
    if rng.random() < 0.5:
        options["weights"] = {
            name: float(rng.choice(some))
            for name, some in WEIGHTS.items()
            if rng.random() < 0.3
        }
    return references.Query(
        vector=rng.standard_normal(dim).astype(np.float32)
        if dim and rng.random() < 0.8
        else None,
        words=(
            *rng.integers(1, 18, rng.integers(0, 6)).tolist(),
            *(
                PART + rng.integers(1, 18, rng.integers(0, 3)).astype(np.uint64)
            ).tolist(),
        ),
        k=int(rng.integers(1, 30)),
        options=options,
    )
