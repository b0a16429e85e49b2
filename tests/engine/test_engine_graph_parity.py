"""Rows with names, words, times and ids are found the same with and without a graph.

A search as broad as a partition has rows must answer as the model does; a narrow one
may miss rows, but those that it finds pass, with their cosines, and are not too few.
"""

from __future__ import annotations

import time
from collections import Counter

import numpy as np
import pytest
from helpers.campaigns import SCALE, campaign
from helpers.engines import MARKS, ranking_options, some_marks
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from vecall import Engine

NEVER = 2**63 - 1
KEYS = [("app", "user"), ("app", "user2")]
MOSTLY_ONE = [KEYS[0]] * 4 + [KEYS[1]]
MOST_IDS = 300
BROAD = 1000  # at least the rows of a partition


def pool_of(dim: int) -> list[np.ndarray]:
    """Vectors of 1 and -1: every cosine is exact in float32, and many tie.

    With 64 of 2**16 directions few rows are equal: a graph links a row to at
    most eight that equal it, and need not reach all of more.
    """
    rng = np.random.default_rng(dim)
    signs = np.where(rng.random((64, dim)) < 0.5, 1, -1)
    return list((signs * 2.0 ** rng.integers(-2, 3, (64, 1))).astype(np.float32))


POOLS = {dim: pool_of(dim) for dim in (16,)}

ids = st.integers(-2, MOST_IDS)
words = st.lists(st.integers(1, 6), max_size=5).map(tuple)
which = st.integers(0, 63)
times = st.integers(0, 5)
labels = st.integers(0, 3)
id_sets = st.one_of(
    st.lists(ids, max_size=6),
    st.integers(2, 12).map(lambda step: list(range(0, MOST_IDS, step))),
    st.integers(2, 12).map(lambda step: [i for i in range(-2, 300) if i % step]),
).map(lambda some: np.array(some, dtype=np.int64))
filters = st.fixed_dictionaries(
    {},
    optional={
        "session": labels,
        "author": labels,
        "kind": labels,
        "after": times,
        "before": times,
        "now": times,
        "only": id_sets,
    },
)
# Most rows pass these, so that the graph is worth its while.
mild_filters = st.sampled_from(
    [{}, {"after": 1}, {"before": 5}, {"kind": 0}, {"now": 0}, {"now": 5, "after": 0}]
)
rows_strategy = st.fixed_dictionaries(
    {
        "id": ids,
        "words": st.tuples(words, some_marks).map(lambda both: both[0] + both[1]),
        "vector": st.none() | which,
        "time": times,
        "expires": st.just(NEVER) | times,
        "session": labels,
        "position": st.integers(0, 4),
        "author": labels,
        "kind": labels,
    }
)


class TierMachine(RuleBasedStateMachine):
    def __init__(self, references, seen: Counter) -> None:
        super().__init__()
        self.references = references
        self.seen = seen
        self.model: dict[tuple[str, str], dict] = {}

    @initialize(
        tier=st.sampled_from([("hnsw", 0), ("auto", 0), ("auto", 300), ("flat", 0)]),
        dim=st.sampled_from(sorted(POOLS)),
        codec=st.sampled_from(["int4+8", "int4+8+4"]),
        count=st.integers(0, 290),
    )
    def make(self, tier, dim, codec, count):
        kind, flat_bytes = tier
        self.pool = POOLS[dim]
        self.engine = Engine(dim, kind=kind, flat_bytes=flat_bytes, codec=codec)
        self.add_many_rows(KEYS[0], 0, count, 0)

    def put(self, key, fields: list[dict]) -> None:
        rows = [
            self.references.Row(**{**row, "vector": self.vector(row["vector"])})
            for row in fields
        ]
        self.references.add_rows(self.engine, key, rows)
        if rows:
            self.references.put(self.model.setdefault(key, {}), rows)

    def vector(self, at: int | None) -> np.ndarray | None:
        return None if at is None else self.pool[at]

    @rule(key=st.sampled_from(MOSTLY_ONE), fields=st.lists(rows_strategy, max_size=8))
    def add_rows(self, key, fields):
        self.put(key, fields)

    @rule(
        key=st.sampled_from(MOSTLY_ONE),
        first=ids,
        count=st.integers(40, 260),
        seed=st.integers(0, 99),
    )
    def add_many_rows(self, key, first, count, seed):
        rng = np.random.default_rng(seed)
        self.put(
            key,
            [
                {
                    "id": (first + n) % MOST_IDS,
                    "words": (
                        *rng.integers(1, 7, rng.integers(0, 4)).tolist(),
                        *(mark for mark in MARKS if rng.random() < 0.1),
                    ),
                    "vector": None if rng.random() < 0.1 else int(rng.integers(64)),
                    "time": int(rng.integers(6)),
                    "expires": NEVER if rng.random() < 0.8 else int(rng.integers(6)),
                    "session": int(rng.integers(4)),
                    "position": int(rng.integers(40)),
                    "author": int(rng.integers(4)),
                    "kind": int(rng.integers(4)) if rng.random() < 0.2 else 0,
                }
                for n in range(count)
            ],
        )

    @rule(
        key=st.sampled_from(MOSTLY_ONE),
        pairs=st.lists(st.tuples(ids, which), max_size=9),
    )
    def add_bare_vectors(self, key, pairs):
        matrix = np.array([self.pool[at] for _, at in pairs], np.float32)
        matrix = matrix.reshape(-1, self.engine.dim)
        self.engine.add(key, np.array([i for i, _ in pairs], dtype=np.int64), matrix)
        rows = [self.references.Row(i, vector=self.pool[at]) for i, at in pairs]
        if rows:
            self.references.put(self.model.setdefault(key, {}), rows)

    def take(self, key, gone: list[int]) -> None:
        rows = self.model.get(key, {})
        known = set(gone) & rows.keys()
        assert self.engine.remove(key, np.array(gone, dtype=np.int64)) == len(known)
        for row_id in known:
            del rows[row_id]

    @rule(key=st.sampled_from(MOSTLY_ONE), gone=st.lists(ids, max_size=8))
    def remove(self, key, gone):
        self.take(key, gone)

    @rule(key=st.sampled_from(MOSTLY_ONE), step=st.integers(2, 40))
    def remove_every_so_many(self, key, step):
        self.take(key, list(range(0, MOST_IDS, step)))

    @rule(key=st.sampled_from([KEYS[0], *[KEYS[1]] * 9]))
    def drop(self, key):
        assert self.engine.drop(key) is (self.model.pop(key, None) is not None)

    @rule(seconds=st.sampled_from([0.001, 0.02]))
    def let_the_background_work(self, seconds):
        time.sleep(seconds)

    @rule(
        key=st.sampled_from(MOSTLY_ONE),
        at=which,
        k=st.sampled_from([1, 3, 10, 100, 10**18]),
        exact=st.booleans(),
        options=filters | mild_filters,
    )
    def search_broadly(self, key, at, k, exact, options):
        rows = self.model.get(key, {})
        expected = self.references.nearest(rows, self.pool[at], options)
        found = self.engine.search(key, self.pool[at], k, BROAD, exact=exact, **options)
        self.references.assert_nearest(found, expected, k, rows)
        self.seen["broad, filtered" if options else "broad"] += len(expected) > 40

    @rule(at=which, k=st.sampled_from([1, 3, 10, 100]))
    def search_the_whole_graph(self, at, k):
        self.search_broadly(KEYS[0], at, k, False, {})

    @rule(
        key=st.sampled_from(MOSTLY_ONE),
        at=which,
        k=st.sampled_from([1, 2, 3, 10, 100]),
        ef=st.integers(1, 3),
        options=filters | mild_filters,
    )
    def search_narrowly(self, key, at, k, ef, options):
        rows = self.model.get(key, {})
        expected = self.references.nearest(rows, self.pool[at], options)
        found = self.engine.search(key, self.pool[at], k, ef, **options)
        # Rows that the search did not find count as if they were not there.
        there = {row_id: expected[row_id] for row_id in found[0].tolist()}
        assert len(there) == min(k, len(expected))
        self.references.assert_nearest(found, there, k, rows)
        self.seen["narrow"] += len(expected) > 100

    @rule(
        key=st.sampled_from(MOSTLY_ONE),
        at=st.none() | which,
        asked=words,
        k=st.sampled_from([1, 5, 20]),
        options=filters | mild_filters,
        more=st.fixed_dictionaries(
            {},
            optional={
                "min_similarity": st.sampled_from([-0.5, 0.0, 0.5]),
                "candidates": st.sampled_from([1, 4, 50, 1000]),
                **ranking_options,
            },
        ),
    )
    def recall(self, key, at, asked, k, options, more):
        options = {**options, **more, "ef": BROAD}
        query = self.references.Query(self.vector(at), asked, k, options)
        rows = self.model.get(key, {})
        try:
            expected = self.references.recall(rows, query)
        except self.references.UndecidedError:
            self.seen["undecided"] += 1
            return
        found = self.references.ask(self.engine, key, query)
        self.references.assert_answers(found, expected, k)
        self.seen["recalled"] += len(rows) > 40 and at is not None

    @invariant()
    def sizes_are_those_of_the_model(self):
        assert len(self.engine) == len(self.model)
        for key in KEYS:
            assert self.engine.size(key) == len(self.model.get(key, {}))
        assert self.engine.nbytes > 0 or not self.model


@pytest.mark.campaign
def test_any_sequence_of_calls_gives_what_rows_in_a_dict_give_with_a_graph_too(
    references,
):
    seen: Counter[str] = Counter()
    run_state_machine_as_test(
        lambda: TierMachine(references, seen), settings=campaign(110, 30)
    )
    assert seen["broad"] > 0, seen
    if SCALE >= 1:
        for what in ("broad", "broad, filtered", "narrow", "recalled"):
            assert seen[what] > 10, seen
