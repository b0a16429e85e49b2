"""Exact search, one query at a time, and the overhead of a call."""

from __future__ import annotations

import statistics
from typing import Any

from bench.common import datasets
from bench.common.measure import (
    K,
    Search,
    built,
    forget,
    ratio,
    reading,
    searching,
    take_turns,
    tune,
)
from bench.vector.candidates import exact, usable

TARGET = 0.9995
SIZES = (
    *((384, rows) for rows in (100, 1_000, 10_000, 50_000)),
    *((dim, rows) for dim in (256, 768, 1_536) for rows in (1_000, 10_000)),
)
QUICK_SIZES = ((384, 100), (384, 1_000), (384, 10_000), (256, 1_000))
QUERIES = 500  # fewer would not tell a recall of 0.9995 from one of 0.995
CALLS = 200


def run_exact(quick: bool) -> list[dict[str, Any]]:
    """Time every candidate at each size."""
    found = []
    for dim, rows in QUICK_SIZES if quick else SIZES:
        data = datasets.load(dim, rows, QUERIES)
        found.append(_one(data, 3 if quick else 9))
        forget()
    return found


def _one(data: datasets.Data, rounds: int) -> dict[str, Any]:
    rows = len(data)
    candidates: dict[str, dict[str, Any]] = {}
    searches: dict[str, Search] = {}
    for each in usable(exact()):
        candidate, seconds, _ = built(each, data)
        breadth, recall = tune(candidate, data, TARGET)
        candidates[candidate.name] = {
            "code": candidate.code,
            "version": candidate.version,
            "build_seconds": seconds,
            "breadth": breadth,
            "recall": recall,
            "row_bytes": float(candidate.row_bytes(data.dim)),
            "nbytes": candidate.nbytes,
        }
        searches[candidate.name] = searching(candidate)
    # What a core reads in the same rounds, for every size of a row.
    as_float32 = 4.0 * data.dim
    sizes = {facts["row_bytes"] for facts in candidates.values()} | {as_float32}
    streams = {f"reading {size}": reading(size * rows) for size in sizes}
    times = take_turns(searches | streams, data.queries, rounds)
    for name, facts in candidates.items():
        facts["seconds"] = statistics.median(times[name])
        facts["rounds"] = times[name]
        facts["to_vecall"] = ratio(times[name], times["vecall"])
        stream = times[f"reading {facts['row_bytes']}"]
        facts["bandwidth_share"] = ratio(stream, times[name])
    others = {
        name: facts["seconds"]
        for name, facts in candidates.items()
        if facts["recall"] >= TARGET and not name.startswith("vecall")
    }
    plain = {n: s for n, s in others.items() if candidates[n]["code"] == "float32"}
    return {
        "data": data.name,
        "dim": data.dim,
        "rows": rows,
        "k": K,
        "target": TARGET,
        "queries": len(data.queries),
        "candidates": candidates,
        "best_float32": min(plain, key=plain.__getitem__),
        "best_of_any_code": min(others, key=others.__getitem__),
        "float32_stream_seconds": statistics.median(times[f"reading {as_float32}"]),
    }


def run_overhead(quick: bool) -> list[dict[str, Any]]:
    """Time calls among ten vectors: next to nothing to compute."""
    found = []
    for dim in (8, 384):
        data = datasets.load(dim, 10, 20)
        searches = {}
        for candidate in usable(exact()):
            if "PQ" not in candidate.name:  # those need more than ten rows to train on
                searches[candidate.name] = _many(searching(built(candidate, data)[0]))
        rounds = take_turns(searches, data.queries, 3 if quick else 15, 0.02, 3)
        times = {n: statistics.median(t) / CALLS for n, t in rounds.items()}
        found.append({"dim": dim, "rows": len(data), "seconds": times})
        forget()
    return found


def _many(search: Search) -> Search:
    def searches(query: Any) -> None:
        for _ in range(CALLS):
            search(query)

    return searches
