"""Writers, readers and the background at once: answers hold rows that may be live."""

from __future__ import annotations

import os
import sys
import threading
import time
from bisect import bisect_right
from collections.abc import Callable

import numpy as np
import pytest
from helpers.campaigns import SCALE, unit, wait_until_linked
from helpers.processes import run
from vecall import Index

pytestmark = pytest.mark.xdist_group("timing")

DIM, WRITERS, IDS_OF_ONE, VERSIONS = 40, 2, 300, 4
SECONDS = max(0.4, 0.9 * SCALE)
TOLERANCE = 6e-4  # of a score; versions are farther apart
NEVER = float("inf")
# Version v of id i is the vector of row v * count + i: which one a hit was, its cosine
# tells.
COUNT = WRITERS * IDS_OF_ONE
VECTORS = np.random.default_rng(1).standard_normal((VERSIONS * COUNT, DIM))
VECTORS = VECTORS.astype(np.float32)
UNITS = unit(VECTORS)
ALWAYS = np.arange(10_000, 10_400, dtype=np.int64)  # never written again
ALWAYS_VECTORS = -np.abs(np.random.default_rng(2).standard_normal((400, DIM)))
ALWAYS_VECTORS = ALWAYS_VECTORS.astype(np.float32)

Span = tuple[float, float, int]  # from, to, version: when it may have been live


class Lives:
    """When which version of each id may have been live."""

    def __init__(self) -> None:
        self.spans: dict[int, list[list]] = {}

    def added(self, row_id: int, version: int, begin: float, end: float) -> None:
        self.ended(row_id, end)
        self.spans.setdefault(row_id, []).append([begin, NEVER, version])

    def ended(self, row_id: int, end: float) -> None:
        spans = self.spans.get(row_id)
        if spans and spans[-1][1] == NEVER:
            spans[-1][1] = end

    def versions(self, row_id: int, begin: float, end: float) -> set[int]:
        spans = self.spans.get(row_id, [])
        last = bisect_right(spans, end, key=lambda span: span[0])
        return {span[2] for span in spans[:last] if span[1] >= begin}


def write(index: Index, writer: int, lives: Lives, stop: threading.Event) -> None:
    rng = np.random.default_rng(10 + writer)
    while not stop.is_set():
        some = writer * IDS_OF_ONE + rng.permutation(IDS_OF_ONE)[: rng.integers(1, 40)]
        some = some.astype(np.int64)
        begin = time.perf_counter()
        if rng.random() < 0.4:
            index.remove(some)
            end = time.perf_counter()
            for row_id in some.tolist():
                lives.ended(row_id, end)
        else:
            version = int(rng.integers(VERSIONS))
            index.add(some, VECTORS[version * COUNT + some])
            end = time.perf_counter()
            for row_id in some.tolist():
                lives.added(row_id, version, begin, end)
        time.sleep(0.0003)


def read(index: Index, reader: int, answers: list, stop: threading.Event) -> None:
    rng = np.random.default_rng(20 + reader)
    while not stop.is_set():
        at = int(rng.integers(len(VECTORS)))
        only = None
        if rng.random() < 0.3:
            only = np.flatnonzero(rng.random(COUNT) < rng.random()).astype(np.int64)
        k, ef = int(rng.choice([1, 5, 50])), int(rng.choice([1, 20, 100]))
        begin = time.perf_counter()
        if reader == 0 and only is None:
            both = index.search_batch(VECTORS[at : at + 1], k, ef, threads=2)
            found = [column[0].tolist() for column in both]
        else:
            found = [c.tolist() for c in index.search(VECTORS[at], k, ef, only=only)]
        answers.append((begin, time.perf_counter(), at, k, only, *found))
        assert 0 <= index.linked <= COUNT + len(ALWAYS)
        assert index.nbytes > 0
        time.sleep(0.0005)


def all_at_once(works: list[tuple[Callable, tuple]], stop: threading.Event) -> None:
    problems: list[BaseException] = []

    def guarded(work: Callable, arguments: tuple) -> None:
        try:
            work(*arguments, stop)
        except BaseException as problem:
            problems.append(problem)
            stop.set()

    threads = [threading.Thread(target=guarded, args=one) for one in works]
    for thread in threads:
        thread.start()
    stop.wait(SECONDS)
    stop.set()
    for thread in threads:
        thread.join(30)
    assert problems == []
    assert not [thread for thread in threads if thread.is_alive()]


def check(answer: tuple, lives: list[Lives]) -> None:
    begin, end, at, k, only, ids, cosines = answer
    if only is None:
        assert len(ids) == k  # more than that are always here
    else:
        assert set(ids) <= set(only.tolist())
    assert len(set(ids)) == len(ids)
    assert cosines == sorted(cosines, reverse=True)
    for row_id, cosine in zip(ids, cosines, strict=True):
        if row_id >= ALWAYS[0]:
            right = [float(unit(ALWAYS_VECTORS[row_id - ALWAYS[0]]) @ UNITS[at])]
        else:
            versions = lives[row_id // IDS_OF_ONE].versions(row_id, begin, end)
            right = [float(UNITS[v * COUNT + row_id] @ UNITS[at]) for v in versions]
        assert min((abs(cosine - r) for r in right), default=9) <= TOLERANCE


@pytest.mark.parametrize(
    ("kind", "flat_bytes"), [("hnsw", 0), ("auto", 500 * DIM // 2), ("flat", 0)]
)
def test_searches_beside_writers_and_the_linker_find_rows_that_may_be_live(
    kind, flat_bytes
):
    index = Index(DIM, kind, 6, 30, flat_bytes=flat_bytes)  # crossed on the way
    index.add(ALWAYS, ALWAYS_VECTORS)
    lives = [Lives() for _ in range(WRITERS)]
    answers: list[tuple] = []
    stop = threading.Event()
    works: list[tuple[Callable, tuple]] = [
        (write, (index, n, lives[n])) for n in range(WRITERS)
    ]
    works += [(read, (index, n, answers)) for n in range(2)]
    all_at_once(works, stop)
    assert len(answers) > 20
    for answer in answers:
        check(answer, lives)
    if kind == "flat":
        assert index.linked == 0
    else:
        wait_until_linked(index)
    live = {
        row_id: life.spans[row_id][-1][2]
        for life in lives
        for row_id in life.spans
        if life.spans[row_id][-1][1] == NEVER
    }
    assert len(index) == len(live) + len(ALWAYS)
    for row_id, version in live.items():
        assert row_id in index
        found, cosines = index.search(VECTORS[version * COUNT + row_id], 1, 1000)
        assert found.tolist() == [row_id]
        assert abs(cosines[0] - 1) <= TOLERANCE


def test_build_may_be_called_from_many_threads_beside_the_background():
    index = Index(DIM, "hnsw", 6, 30)
    stop = threading.Event()

    def build(threads: int, stop: threading.Event) -> None:
        while not stop.is_set():
            index.build(threads=threads)
            time.sleep(0.001)

    def add(writer: int, stop: threading.Event) -> None:
        rng = np.random.default_rng(writer)
        while not stop.is_set():
            some = rng.permutation(len(VECTORS))[:50].astype(np.int64)
            index.add(some, VECTORS[some])
            assert index.search(VECTORS[some[0]], 1, 200)[0].tolist() == [some[0]]
            time.sleep(0.001)

    all_at_once([(build, (1,)), (build, (2,)), (add, (2,))], stop)
    index.build()
    assert index.linked == len(index)


def test_an_index_may_go_while_the_background_links_it():
    for turn in range(30):
        index = Index(DIM, "hnsw")
        index.add(np.arange(300, dtype=np.int64), VECTORS[:300])
        if turn % 3 == 0:
            time.sleep(0.002)
        del index
    last = Index(DIM, "hnsw")
    last.add(np.arange(300, dtype=np.int64), VECTORS[:300])
    wait_until_linked(last)


_WITHOUT_THREADS = """
import os, resource
import numpy as np
import vecall
index = vecall.Index(8)
index.add(np.arange(5), np.eye(8, dtype=np.float32)[:5])
queries = np.eye(8, dtype=np.float32)
wanted = index.search_batch(queries, 2)
os.setgid(65533)
os.setuid(65533)
resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
found = index.search_batch(queries, 2, threads=-1)
print(all(np.array_equal(a, b) for a, b in zip(wanted, found)))
"""


@pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="limits the threads of a user"
)
def test_a_batch_is_searched_where_the_system_has_no_thread_to_spare() -> None:
    assert run(_WITHOUT_THREADS, imports="numpy").stdout == "True\n"
