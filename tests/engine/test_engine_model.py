"""Any sequence of calls leaves the engine as a dict of rows says; threads too."""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from itertools import count

import numpy as np
import pytest
from helpers.campaigns import campaign
from helpers.engines import ranking_options, some_marks
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)
from vecall import Engine, Index
from vecall.errors import InvalidArgumentError

DIM = 4
NEVER = 2**63 - 1
KEYS = [("app", "user"), ("app", "user2"), ("user", "app")]
# Entries of 1 and -1, times any length: every cosine is exact in float32.
VECTORS = [
    np.array([1 - 2 * (n >> bit & 1) for bit in range(DIM)], dtype=np.float32)
    * np.float32(2.0 ** (n % 5 - 2))
    for n in range(2**DIM)
]

keys = st.sampled_from(KEYS)
ids = st.integers(-2, 12)
words = st.lists(st.integers(1, 6), max_size=6).map(tuple)
vectors = st.sampled_from(VECTORS)
times = st.integers(0, 3)
filters = {
    "session": st.integers(0, 3),
    "after": times,
    "before": times,
}
more_options = {
    "now": times,
    "min_similarity": st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0]),
    "candidates": st.integers(1, 4),
    **ranking_options,
}
row_fields = st.fixed_dictionaries(
    {
        "id": ids,
        "words": st.tuples(words, some_marks).map(lambda both: both[0] + both[1]),
        "vector": st.none() | vectors,
        "time": times,
        "expires": st.just(NEVER) | times,
        "session": st.sampled_from([0, 1, 1, 2]),
        "position": st.integers(0, 3) | st.just(float("nan")),
    }
)


class EngineMachine(RuleBasedStateMachine):
    def __init__(self, references) -> None:
        super().__init__()
        self.references = references
        self.engine = Engine(DIM)
        self.model: dict[tuple[str, str], dict] = {}

    def put(self, key: tuple[str, str], new: list) -> None:
        if new:
            self.references.put(self.model.setdefault(key, {}), new)

    @rule(key=keys, rows=st.lists(row_fields, max_size=8))
    def add_rows(self, key, rows):
        new = [self.references.Row(**fields) for fields in rows]
        self.references.add_rows(self.engine, key, new)
        self.put(key, new)

    @rule(key=keys, rows=st.lists(row_fields, min_size=1, max_size=5))
    def add_rows_without_vectors(self, key, rows):
        new = [self.references.Row(**{**fields, "vector": None}) for fields in rows]
        columns = self.references.columns(new, DIM)
        del columns["vectors"], columns["has_vector"]
        self.engine.add_rows(key, **columns)
        self.put(key, new)

    @rule(key=keys, rows=st.lists(st.tuples(ids, vectors), max_size=6))
    def add(self, key, rows):
        matrix = np.array([vector for _, vector in rows], np.float32).reshape(-1, DIM)
        self.engine.add(key, np.array([i for i, _ in rows], dtype=np.int64), matrix)
        self.put(key, [self.references.Row(i, (), vector) for i, vector in rows])

    @rule(key=keys, rows=st.lists(row_fields, min_size=1, max_size=4))
    def add_rows_of_which_one_is_bad(self, key, rows):
        new = [self.references.Row(**fields) for fields in rows]
        columns = self.references.columns(new, DIM)
        columns["has_vector"][:] = 1
        columns["vectors"][-1] = 0
        try:
            self.engine.add_rows(key, **columns)
        except InvalidArgumentError:
            return
        raise AssertionError

    @rule(key=keys, gone=st.lists(ids, max_size=6))
    def remove(self, key, gone):
        rows = self.model.get(key, {})
        known = set(gone) & rows.keys()
        assert self.engine.remove(key, np.array(gone, dtype=np.int64)) == len(known)
        for row_id in known:
            del rows[row_id]

    @rule(key=keys)
    def drop(self, key):
        assert self.engine.drop(key) is (self.model.pop(key, None) is not None)

    @rule(
        key=keys,
        vector=vectors,
        k=st.integers(1, 12) | st.just(10**18),
        options=st.fixed_dictionaries({}, optional=filters),
    )
    def search(self, key, vector, k, options):
        rows = self.model.get(key, {})
        expected = self.references.nearest(rows, vector, options)
        found = self.engine.search(key, vector, k, **options)
        self.references.assert_nearest(found, expected, k, rows, tolerance=0)

    def ask(self, key: tuple[str, str], query) -> None:
        try:
            expected = self.references.recall(self.model.get(key, {}), query)
        except self.references.UndecidedError:
            return
        found = self.references.ask(self.engine, key, query)
        self.references.assert_answers(found, expected, query.k)

    @rule(
        key=keys,
        vector=st.none() | vectors,
        asked=words,
        k=st.integers(1, 8),
        options=st.fixed_dictionaries({}, optional={**filters, **more_options}),
    )
    def recall(self, key, vector, asked, k, options):
        self.ask(key, self.references.Query(vector, asked, k, options))

    @rule(vector=st.none() | vectors)
    def recall_each_word_everywhere(self, vector):
        for key in KEYS:
            for word in range(1, 7):
                self.ask(key, self.references.Query(vector, (word,), k=20))

    @invariant()
    def the_engine_has_the_partitions_and_sizes_of_the_model(self):
        assert len(self.engine) == len(self.model)
        for key in KEYS:
            assert (key in self.engine) == (key in self.model)
            assert self.engine.size(key) == len(self.model.get(key, {}))


@pytest.mark.campaign
def test_any_sequence_of_calls_gives_what_a_dict_of_rows_gives(references):
    run_state_machine_as_test(
        lambda: EngineMachine(references),
        settings=campaign(60, 30),
    )


class LiveTimes:
    """When each row may have been live, and when it must have been."""

    def __init__(self) -> None:
        self.spans: dict[int, list[list[float]]] = {}

    def added(self, row_id: int, begin: float, end: float) -> None:
        # From the call of add to the return of remove the row may be there; from the
        # return of add to the call of remove it is.
        self.spans.setdefault(row_id, []).append([begin, end, np.inf, np.inf])

    def removed(self, row_id: int, begin: float, end: float) -> None:
        self.spans[row_id][-1][2:] = [begin, end]

    def may_be_live(self, row_id: int, begin: float, end: float) -> bool:
        spans = self.spans.get(row_id, [])
        begun = bisect_right(spans, end, key=lambda span: span[0])
        return begun > 0 and spans[begun - 1][3] >= begin

    def must_be_live(self, begin: float, end: float) -> set[int]:
        return {
            row_id
            for row_id, spans in self.spans.items()
            for span in spans
            if span[1] < begin and end < span[2]
        }


def test_searches_beside_writers_find_only_rows_that_live_with_their_own_vectors():
    dim, ids_of_a_writer, seconds = 32, 40, 0.5
    rng = np.random.default_rng(1)
    matrix = rng.standard_normal((2 * ids_of_a_writer, dim)).astype(np.float32)
    unit = matrix.astype(np.float64)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    engine, key = Engine(dim), ("app", "user")
    always = np.arange(1000, 1300, dtype=np.int64)
    engine.add(key, always, -np.ones((300, dim), np.float32))
    live = [LiveTimes(), LiveTimes()]
    hits: list[tuple[float, float, int, list, list]] = []
    problems: list[BaseException] = []
    stop = threading.Event()

    def write(writer: int) -> None:
        rng = np.random.default_rng(10 + writer)
        first = writer * ids_of_a_writer
        here: set[int] = set()
        while not stop.is_set():
            some = rng.integers(first, first + ids_of_a_writer, 5)
            absent = np.array(sorted(set(some.tolist()) - here), dtype=np.int64)
            present = np.array(sorted(set(some.tolist()) & here), dtype=np.int64)
            begin = time.perf_counter()
            engine.add(key, absent, matrix[absent])
            end = time.perf_counter()
            for row_id in absent.tolist():
                live[writer].added(row_id, begin, end)
            begin = time.perf_counter()
            assert engine.remove(key, present) == len(present)
            end = time.perf_counter()
            for row_id in present.tolist():
                live[writer].removed(row_id, begin, end)
            here = (here | set(absent.tolist())) - set(present.tolist())
            time.sleep(0.0005)

    def read(reader: int) -> None:
        rng = np.random.default_rng(20 + reader)
        while not stop.is_set():
            at = int(rng.integers(len(matrix)))
            begin = time.perf_counter()
            if reader % 2:
                found = engine.search(key, matrix[at], 10**18)
            else:
                found = engine.recall(key, matrix[at], [1, 2], 1000)[:3:2]
            end = time.perf_counter()
            kept = found[0] < 1000
            assert len(found[0]) - kept.sum() == len(always)
            assert np.all(np.abs(found[1]) <= 1)
            row = (begin, end, at, found[0][kept].tolist(), found[1][kept].tolist())
            hits.append(row)
            time.sleep(0.001)

    def guarded(work, number: int) -> None:
        try:
            work(number)
        except BaseException as problem:
            problems.append(problem)
            stop.set()

    threads = [threading.Thread(target=guarded, args=(write, n)) for n in range(2)]
    threads += [threading.Thread(target=guarded, args=(read, n)) for n in range(4)]
    for thread in threads:
        thread.start()
    stop.wait(seconds)
    stop.set()
    for thread in threads:
        thread.join()
    assert problems == []
    assert len(hits) > 20
    spans = [span for writer in live for some in writer.spans.values() for span in some]
    assert sum(span[3] < np.inf for span in spans) > 20
    for begin, end, at, found, cosines in hits:
        for row_id in found:
            writer = row_id // ids_of_a_writer
            assert live[writer].may_be_live(row_id, begin, end)
        np.testing.assert_allclose(cosines, unit[found] @ unit[at], atol=2e-6)
    for begin, end, _, found, _ in hits[:: max(1, len(hits) // 200)]:
        for writer in live:
            assert writer.must_be_live(begin, end) <= set(found)


def test_an_array_that_changes_while_it_is_added_is_added_whole_or_refused():
    count, dim, middle = 20_000, 16, 10_000
    rng = np.random.default_rng(3)
    right = rng.standard_normal((count, dim)).astype(np.float32)
    given = right.copy()
    ids = np.arange(count, dtype=np.int64)
    stop = threading.Event()

    def change() -> None:
        while not stop.is_set():
            given[middle] = np.nan
            given[middle] = right[middle]

    changer = threading.Thread(target=change)
    changer.start()
    refused, wrong, end = 0, 0, time.monotonic() + 0.4
    while time.monotonic() < end and not wrong:
        index = Index(dim)
        try:
            index.add(ids, given)
        except InvalidArgumentError:
            refused += 1
            assert len(index) == 0
            continue
        found, cosines = index.search(right[middle], 1)
        wrong += found.tolist() != [middle] or cosines[0] < 0.999
    stop.set()
    changer.join()
    assert wrong == 0


def test_calls_of_every_sort_may_come_from_many_threads_at_once(references):
    rng = np.random.default_rng(2)
    engine = Engine(DIM)
    stop = threading.Event()
    problems: list[BaseException] = []
    done = count()

    def any_call(number: int) -> None:
        rng = np.random.default_rng(30 + number)
        while not stop.is_set():
            key = KEYS[rng.integers(len(KEYS))]
            some = [
                references.Row(
                    id=int(row_id),
                    words=tuple(rng.integers(1, 9, 4).tolist()),
                    vector=VECTORS[rng.integers(16)],
                    session=int(rng.integers(1, 3)),
                    position=int(rng.integers(0, 30)),
                )
                for row_id in rng.integers(0, 200, 8)
            ]
            references.add_rows(engine, key, some)
            query = references.Query(some[0].vector, some[1].words, k=300)
            found = references.ask(engine, key, query)
            assert np.all(np.isfinite(found[1]))
            assert np.all(np.abs(found[2]) <= 1)
            assert 0 <= engine.size(key) <= 200
            engine.remove(key, np.array([row.id for row in some[:5]], dtype=np.int64))
            assert engine.nbytes > 0
            assert len(engine) <= len(KEYS)
            if rng.random() < 0.05:
                engine.drop(key)
            next(done)

    def guarded(number: int) -> None:
        try:
            any_call(number)
        except BaseException as problem:
            problems.append(problem)
            stop.set()

    threads = [threading.Thread(target=guarded, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    stop.wait(0.3)
    stop.set()
    for thread in threads:
        thread.join(30)
    assert problems == []
    assert next(done) > 20
    assert not [thread for thread in threads if thread.is_alive()]
    # Whatever came out, it answers as the same rows in a fresh engine would.
    for key in KEYS:
        engine.drop(key)
    rows = [
        references.Row(n, (1, n % 5 + 2), VECTORS[n % 16], time=n) for n in range(30)
    ]
    rows = [rows[at] for at in rng.permutation(30)]
    fresh = Engine(DIM)
    for each in (engine, fresh):
        references.add_rows(each, KEYS[0], rows)
    query = references.Query(VECTORS[3], (1, 2), k=30)
    got, wanted = (references.ask(e, KEYS[0], query) for e in (engine, fresh))
    assert [c.tobytes() for c in got] == [c.tobytes() for c in wanted]
