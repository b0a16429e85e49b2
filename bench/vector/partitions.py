"""Many small partitions in one engine: memory, creation, a search in a random one."""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from vecall import Engine

from bench.common import datasets
from bench.common.measure import K, in_child, rss

# Partitions, rows in each, dimensions; the first in few dimensions for want of memory.
SIZES = ((1_000_000, 10, 32), (100_000, 10, 384), (10_000, 100, 384))
BLOCK = 20_000
SEARCHES = 20_000


def run_tenants(quick: bool) -> list[dict[str, Any]]:
    """Measure each size in a process of its own."""
    found = []
    for partitions, rows, dim in SIZES:
        count = partitions // 50 if quick else partitions
        found.append(in_child(fill, count, rows, dim))
    return found


def fill(partitions: int, rows: int, dim: int) -> dict[str, Any]:
    """Fill an engine and search it; bytes are of one partition, times in seconds."""
    vectors = datasets.synthetic(dim, BLOCK)
    ids = np.arange(rows, dtype=np.int64)
    of_rows = _row_bytes(vectors) * rows
    blocks = [vectors[i : i + rows] for i in range(0, BLOCK - rows + 1, rows)]
    engine = Engine(dim)
    before = rss()
    begin = time.perf_counter()
    for number in range(partitions):
        engine.add(("tenants", f"user-{number}"), ids, blocks[number % len(blocks)])
    seconds = time.perf_counter() - begin
    after = rss()
    random = np.random.default_rng(datasets.SEED)
    asked = vectors[random.integers(BLOCK, size=SEARCHES)]
    numbers = random.integers(partitions, size=SEARCHES)
    anywhere = _search(engine, numbers.tolist(), asked)
    same = _search(engine, [int(numbers[0])] * SEARCHES, asked)
    weight = None if before is None or after is None else (after - before) / partitions
    return {
        "partitions": partitions,
        "rows": rows,
        "dim": dim,
        "created_a_second": partitions / seconds,
        "rss": weight,
        "nbytes": engine.nbytes / partitions,
        "of_rows": of_rows,
        "p50": statistics.median(anywhere),
        "p99": float(np.quantile(anywhere, 0.99)),
        "p50_of_one": statistics.median(same),
    }


def _search(engine: Engine, numbers: list[int], queries: NDArray) -> list[float]:
    """Return the seconds that a search in each of some partitions takes."""
    times = []
    for number, query in zip(numbers, queries, strict=True):
        key = ("tenants", f"user-{number}")
        begin = time.perf_counter()
        found, _ = engine.search(key, query, K)
        times.append(time.perf_counter() - begin)
        if len(found) != K:
            msg = f"{key}: {len(found)} hits"
            raise RuntimeError(msg)
    return times


def _row_bytes(vectors: NDArray) -> float:
    """Return what the engine says that one row more takes in a small partition.

    The slope from four rows to eight: what a partition takes beside its rows cancels
    out, and so does the slack that a large one has.
    """
    weights = []
    for rows in (4, 8):
        engine = Engine(vectors.shape[1])
        ids = np.arange(rows, dtype=np.int64)
        for number in range(1_000):
            engine.add(("tenants", f"user-{number}"), ids, vectors[:rows])
        weights.append(engine.nbytes / 1_000)
    return (weights[1] - weights[0]) / 4
