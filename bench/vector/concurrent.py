"""Searches on several threads, and beside a busy writer."""

from __future__ import annotations

import itertools
import statistics
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.common import datasets
from bench.common.measure import K, built, take_turns, tune
from bench.vector.candidate import Candidate, Vecall
from bench.vector.candidates import exact, graph, usable
from bench.vector.graph import DIM, QUERIES, rows_of

GRAPHS = ("vecall", "hnswlib", "faiss HNSW", "svs Vamana LVQ8")
SCANS = ("vecall", "hnswlib BFIndex", "faiss Flat", "svs Flat f16")
INSERTS_A_SECOND = 1_000
RECALL = 0.95  # of the graphs


def run_threads(quick: bool) -> dict[str, Any]:
    """Time batches on one and two threads, then searches beside a writer."""
    return {"batches": _batches(quick), "writer": _writer(quick)}


def _batches(quick: bool) -> dict[str, Any]:
    data = datasets.load(DIM, rows_of(quick), QUERIES)
    found: dict[str, Any] = {"data": data.name, "rows": len(data)}
    for kind, candidates, names, count in (
        ("graph", graph(), GRAPHS, QUERIES),
        ("exact", exact(), SCANS, 100),
    ):
        queries = data.queries[:count]
        searches: dict[str, Callable[[Any], Any]] = {}
        recalls: dict[str, float] = {}
        for each in usable([one for one in candidates if one.name in names]):
            candidate = built(each, data)[0]
            recalls[candidate.name] = tune(candidate, data, RECALL)[1]
            for threads in (1, 2):
                searches[f"{candidate.name}:{threads}"] = _batch(
                    candidate, queries, threads
                )
        times = take_turns(searches, queries[:1], 3 if quick else 9, 0.1, 1)
        found[kind] = {
            name: {
                "queries": count,
                "recall": recall,
                "seconds": [
                    statistics.median(times[f"{name}:{threads}"]) / count
                    for threads in (1, 2)
                ],
            }
            for name, recall in recalls.items()
        }
    return found


def _batch(
    candidate: Candidate, queries: NDArray, threads: int
) -> Callable[[Any], Any]:
    return lambda _: candidate.batch(queries, K, threads)


def _writer(quick: bool) -> dict[str, Any]:
    """Return percentiles of a search, alone and while another thread inserts."""
    total, seconds, rounds = rows_of(quick), (1.0 if quick else 3.0), 2 if quick else 5
    data = datasets.load(DIM, total, QUERIES)
    first = total * 3 // 5  # The others are inserted.
    candidate = Vecall("vecall", "hnsw")
    candidate.build(data.vectors[:first])
    fresh = itertools.count(first)
    times: dict[str, list[float]] = {"quiet": [], "busy": []}
    inserted, wrote = 0, 0.0
    for _ in range(rounds):
        times["quiet"] += _search_for(candidate, data, seconds)
        stop = threading.Event()
        wrong: list[BaseException] = []
        begin, count = time.perf_counter(), next(fresh)
        thread = threading.Thread(
            target=_insert, args=(candidate.index, data, fresh, first, stop, wrong)
        )
        thread.start()
        times["busy"] += _search_for(candidate, data, seconds)
        stop.set()
        thread.join()
        if wrong:
            raise wrong[0]
        wrote += time.perf_counter() - begin
        inserted += next(fresh) - count - 1
    found: dict[str, Any] = {
        "data": data.name,
        "rows": first,
        "inserted_a_second": inserted / wrote,
        "linked": candidate.index.linked,
        "in_the_end": len(candidate.index),
    }
    for name, taken in times.items():
        p50, p99, p999 = np.quantile(taken, (0.5, 0.99, 0.999)).tolist()
        found[name] = {"p50": p50, "p99": p99, "p999": p999, "searches": len(taken)}
    return found


def _search_for(
    candidate: Candidate, data: datasets.Data, seconds: float
) -> list[float]:
    times = []
    end = time.perf_counter() + seconds
    for query in itertools.cycle(data.queries):
        begin = time.perf_counter()
        candidate.search(query, K)
        done = time.perf_counter()
        times.append(done - begin)
        if done > end:
            return times
    return times


def _insert(
    index: Any,
    data: datasets.Data,
    fresh: Any,
    first: int,
    stop: threading.Event,
    wrong: list[BaseException],
) -> None:
    """Insert ten rows at a time, at an even pace, with ids never used before."""
    spare = len(data) - first
    due = time.perf_counter()
    try:
        while not stop.is_set():
            ids = np.array([next(fresh) for _ in range(10)], np.int64)
            # A second pass over the spare rows must not make duplicates of the first.
            rows = data.vectors[first + ids % spare]
            rows = rows + (ids // spare)[:, None].astype(np.float32) * 1e-3
            index.add(ids, rows)
            due += len(ids) / INSERTS_A_SECOND
            time.sleep(max(0.0, due - time.perf_counter()))
    except BaseException as error:
        wrong.append(error)
