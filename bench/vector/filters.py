"""Searches among some rows, and searches by words and vector together."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from vecall import Engine

from bench.common import datasets
from bench.common.measure import K, built, ratio, take_turns
from bench.vector.candidate import EFS, Candidate, Vecall
from bench.vector.graph import DIM, QUERIES, rows_of

SHARES = (0.5, 0.1, 0.01, 0.001)
RECALL = 0.99
KEY = ("bench", "user")
VOCABULARY = 20_000
WORDS_A_ROW = 12
WORDS_A_QUERY = 6
NEVER = np.iinfo(np.int64).max


def run_filters(quick: bool) -> list[dict[str, Any]]:
    """Time a search among some ids: through the graph, and by an exact scan."""
    data = datasets.load(DIM, rows_of(quick), QUERIES)
    ways = {
        "graph": built(Vecall("vecall", "hnsw"), data)[0],
        "flat": built(Vecall("vecall", "flat"), data)[0],
    }
    found = []
    for share in SHARES:
        random = np.random.default_rng(datasets.SEED)
        kept = random.choice(len(data), max(1, int(share * len(data))), replace=False)
        only = np.sort(kept).astype(np.int64)
        facts: dict[str, Any] = {
            "data": data.name,
            "rows": len(data),
            "share": share,
            "kept": len(only),
        }
        searches = {}
        for name, way in ways.items():
            ef, recall = _tune(way, data, only)
            facts[name] = {"ef": ef, "recall": recall}
            searches[name] = _filtered(way, ef, only)
        times = take_turns(searches, data.queries, 3 if quick else 9)
        for name, medians in times.items():
            facts[name]["seconds"] = statistics.median(medians)
        facts["flat_to_graph"] = ratio(times["flat"], times["graph"])
        found.append(facts)
    return found


def _tune(way: Candidate, data: datasets.Data, only: NDArray) -> tuple[int, float]:
    """Return the smallest breadth that is enough, and the recall."""
    for ef in EFS if way.efs else (64,):
        search = _filtered(way, ef, only)
        recall = data.recall([search(query)[0] for query in data.queries], K, only)
        if recall >= RECALL:
            break
    return ef, recall


def _filtered(way: Candidate, ef: int, only: NDArray) -> Callable[[NDArray], Any]:
    return lambda query: way.index.search(query, K, ef, only=only)


def run_hybrid(quick: bool) -> list[dict[str, Any]]:
    """Time one partition's recall by vector, by words, and by both."""
    found = []
    for rows in (1_000, 10_000) if quick else (1_000, 10_000, 50_000):
        data = datasets.load(DIM, rows, QUERIES)
        engine, random = _with_words(data), np.random.default_rng(datasets.SEED)
        words = [_words(random, WORDS_A_QUERY).tolist() for _ in data.queries]
        times = take_turns(_ways(engine, words), data.queries, 3 if quick else 9)
        found.append(
            {
                "data": data.name,
                "rows": rows,
                "words_a_row": WORDS_A_ROW,
                "words_a_query": WORDS_A_QUERY,
                "seconds": {n: statistics.median(t) for n, t in times.items()},
                "to_search": {n: ratio(t, times["search"]) for n, t in times.items()},
            }
        )
    return found


def _ways(
    engine: Engine, words: list[list[int]]
) -> dict[str, Callable[[NDArray], Any]]:
    alone, beside = itertools.cycle(words), itertools.cycle(words)
    return {
        "search": lambda query: engine.search(KEY, query, K),
        "recall, vector": lambda query: engine.recall(KEY, query, [], K),
        "recall, words": lambda _: engine.recall(KEY, None, next(alone), K),
        "recall, both": lambda query: engine.recall(KEY, query, next(beside), K),
    }


def _with_words(data: datasets.Data) -> Engine:
    rows = len(data)
    random = np.random.default_rng(datasets.SEED + 1)
    engine = Engine(data.dim, kind="flat")  # nothing is linked while it is timed
    engine.add_rows(
        KEY,
        ids=data.ids,
        times=np.arange(rows, dtype=np.int64),
        expires=np.full(rows, NEVER),
        sessions=np.ones(rows, np.uint64),
        positions=np.arange(rows, dtype=np.int32),
        terms=_words(random, rows * WORDS_A_ROW),
        offsets=np.arange(rows + 1, dtype=np.int64) * WORDS_A_ROW,
        vectors=data.vectors,
    )
    return engine


def _words(random: np.random.Generator, count: int) -> NDArray[np.uint64]:
    """Return hashes of words as unequally common as those of a language."""
    rank = np.floor(VOCABULARY ** random.random(count)).astype(np.uint64)
    return rank * np.uint64(0x9E3779B97F4A7C15)
