"""Any sequence of calls leaves an Index as a dict of rows says, with and without graph.

What a scan answers is exact; what a graph answers are rows that are here, with their
cosines, in order, and never too few.
"""

from __future__ import annotations

import time
from collections import Counter

import numpy as np
import pytest
from helpers.campaigns import campaign, scaled, unit
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from vecall import Index

POOL = 300  # vectors; of them, the last are copies and opposites of the first
MOST_IDS = 400
HUGE = 10**18


def pool_of(dim: int) -> np.ndarray:
    rng = np.random.default_rng(dim)
    pool = rng.standard_normal((POOL, dim)).astype(np.float32)
    pool[200:250] = pool[:50] * np.float32(0.125)
    pool[250:280] = -pool[:30]
    pool[280:] = np.sign(pool[280:])
    return pool


POOLS = {dim: pool_of(dim) for dim in (3, 33, 70)}

ids = st.integers(-3, MOST_IDS)
which = st.integers(0, POOL - 1)
pairs = st.lists(st.tuples(ids, which), max_size=12)
counts = st.sampled_from([1, 1, 2, 3, 7, 20, 150, 1000, HUGE])
breadths = st.sampled_from([1, 1, 2, 5, 20, 100])
# Sets of ids that keep a few, about half, or nearly all of the rows.
subsets = st.one_of(
    st.none(),
    st.none(),
    st.lists(ids, max_size=5).map(lambda some: np.array(some, dtype=np.int64)),
    st.tuples(st.sampled_from([2, 3, 10, 50]), st.booleans()).map(
        lambda how: np.array(
            [i for i in range(-3, MOST_IDS) if (i % how[0] == 0) is how[1]], np.int64
        )
    ),
)
asked_how = st.fixed_dictionaries(
    {"which": which, "k": counts, "ef": breadths, "exact": st.booleans()}
)


class IndexMachine(RuleBasedStateMachine):
    def __init__(self, references, seen: Counter) -> None:
        super().__init__()
        self.references = references
        self.seen = seen  # what was checked, over all runs
        self.rows: dict[int, int] = {}  # id -> vector of the pool
        # Ids added since build(): what waits in the tail is of these, unless rows that
        # waited there were removed.
        self.changed: set[int] = set()
        self.sure = True

    @initialize(
        tier=st.sampled_from(
            [("auto", 0), ("auto", 64), ("auto", 2000), ("hnsw", 0), ("flat", 0)]
        ),
        dim=st.sampled_from(sorted(POOLS)),
        m=st.integers(2, 4),
        breadth=st.integers(5, 20),
        codec=st.sampled_from(["int4+8", "int4+8", "int4+8+4"]),
        keep=st.booleans(),
    )
    def make(self, tier, dim, m, breadth, codec, keep):
        self.kind, flat_bytes = tier
        # One score in a million is a little farther off than the tolerance says.
        self.tolerance = 1.5 * self.references.score_tolerance(dim, codec)
        self.exact_tolerance = 2e-6 if keep else self.tolerance
        self.pool = POOLS[dim]
        self.units = unit(self.pool)
        self.index = Index(
            dim,
            self.kind,
            m,
            breadth,
            codec=codec,
            keep_float32=keep,
            flat_bytes=flat_bytes,
        )

    def put(self, new: list[tuple[int, int]]) -> None:
        numbers = np.array([row_id for row_id, _ in new], dtype=np.int64)
        self.index.add(numbers, self.pool[np.array([at for _, at in new], np.intp)])
        self.rows.update(new)
        self.changed.update(row_id for row_id, _ in new)

    @rule(new=pairs)
    def add(self, new):
        self.put(new)

    @rule(first=ids, count=st.integers(50, 200), start=which)
    def add_many(self, first, count, start):
        chosen = ((start + 7 * n) % POOL for n in range(count))
        self.put([((first + n) % MOST_IDS, at) for n, at in enumerate(chosen)])

    @rule(start=which, rounds=st.integers(1, 5))
    def replace_every_row_again_and_again(self, start, rounds):
        for turn in range(rounds):
            rows = list(self.rows)
            self.put([(i, (start + 31 * turn + n) % POOL) for n, i in enumerate(rows)])

    def take(self, gone: list[int]) -> None:
        known = set(gone) & self.rows.keys()
        assert self.index.remove(np.array(gone, dtype=np.int64)) == len(known)
        for row_id in known:
            del self.rows[row_id]
        self.sure &= not known

    @rule(gone=st.lists(ids, max_size=8))
    def remove(self, gone):
        self.take(gone)

    @rule(step=st.integers(1, 5))
    def remove_every_so_many(self, step):
        self.take(list(range(0, MOST_IDS, step)))

    @rule()
    def build(self):
        self.index.build()
        self.changed.clear()
        self.sure = True
        if self.kind == "hnsw":
            assert self.index.linked == len(self.index)

    @rule(seconds=st.sampled_from([0.0005, 0.003]))
    def let_the_background_work(self, seconds):
        time.sleep(seconds)

    def expected(self, at: int, only: np.ndarray | None) -> dict[int, float]:
        live = list(self.rows)
        if only is not None:
            live = sorted(self.rows.keys() & set(only.tolist()))
        vectors = self.units[[self.rows[row_id] for row_id in live]]
        cosines = np.clip(vectors @ self.units[at], -1, 1)
        return dict(zip(live, cosines.tolist(), strict=True))

    def check(self, found, wanted: dict[int, float], how: dict, linked: int) -> None:
        """`linked` is -1 if it changed while the index was asked."""
        k, exact = how["k"], how["exact"]
        numbers, cosines = found[0].tolist(), found[1].tolist()
        assert len(numbers) == len(cosines) == min(k, len(wanted))
        assert len(set(numbers)) == len(numbers)
        assert set(numbers) <= wanted.keys()
        tolerance = self.exact_tolerance if exact else self.tolerance
        there = [wanted[row_id] for row_id in numbers]
        np.testing.assert_allclose(cosines, there, rtol=0, atol=tolerance)
        order = [(-c, row_id) for c, row_id in zip(cosines, numbers, strict=True)]
        assert order == sorted(order)
        if not numbers:
            return
        scanned = set(wanted)
        if not (exact or linked == 0):
            waiting = len(self.index) - linked
            all_wait = self.sure and linked >= 0 and waiting == len(self.changed)
            scanned = self.changed if all_wait else set()
            self.seen["beside a graph"] += 1
        missed = (wanted[i] for i in (scanned & wanted.keys()) - set(numbers))
        assert max(missed, default=-2.0) <= cosines[-1] + 2 * tolerance

    @rule(how=asked_how, only=subsets)
    def search(self, how, only):
        query = self.pool[how["which"]]
        before = self.index.linked
        found = self.index.search(
            query, how["k"], how["ef"], exact=how["exact"], only=only
        )
        linked = before if self.index.linked == before else -1
        self.check(found, self.expected(how["which"], only), how, linked)

    @rule(
        hows=st.lists(asked_how, min_size=1, max_size=5),
        threads=st.sampled_from([1, 3]),
    )
    def search_batch(self, hows, threads):
        how = hows[0]
        queries = self.pool[[one["which"] for one in hows]]
        before = self.index.linked
        found = self.index.search_batch(
            queries, how["k"], how["ef"], exact=how["exact"], threads=threads
        )
        linked = before if self.index.linked == before else -1
        width = min(how["k"], max(1, len(self.rows)))
        assert found[0].shape == found[1].shape == (len(hows), width)
        for at, one in enumerate(hows):
            count = min(how["k"], len(self.rows))
            assert np.all(found[0][at, count:] == -1)
            answer = (found[0][at, :count], found[1][at, :count])
            self.check(answer, self.expected(one["which"], None), how, linked)

    @rule(new=st.lists(st.tuples(ids, which), min_size=1, max_size=20), by=which)
    def find_what_was_added_just_now(self, new, by):
        self.build()
        self.put(new)
        for k in (1, 5):
            self.search({"which": by, "k": k, "ef": 1, "exact": False}, None)
            last = self.rows[new[-1][0]]
            self.search({"which": last, "k": k, "ef": 1, "exact": False}, None)

    @invariant()
    def sizes_are_those_of_the_model(self):
        assert len(self.index) == len(self.rows)
        assert 0 <= self.index.linked <= len(self.rows)
        assert self.index.nbytes > 0
        if self.kind == "flat":
            assert self.index.linked == 0
        for row_id in (-3, 0, 1, 77, MOST_IDS, *list(self.rows)[:3]):
            assert (row_id in self.index) == (row_id in self.rows)


@pytest.mark.campaign
def test_any_sequence_of_calls_gives_what_a_dict_of_rows_gives(references):
    seen: Counter[str] = Counter()
    run_state_machine_as_test(
        lambda: IndexMachine(references, seen), settings=campaign(60, 30)
    )
    assert seen["beside a graph"] > scaled(100)
