"""Graph search: recall against time, the cost of the build, and memory."""

from __future__ import annotations

import statistics
from typing import Any

from bench.common import datasets
from bench.common.measure import (
    built,
    in_child,
    ratio,
    recall_of,
    rss,
    searching,
    take_turns,
)
from bench.vector.candidate import Candidate
from bench.vector.candidates import graph, usable

DIM = 384
TARGETS = (0.95, 0.99)
ENOUGH = 0.997
QUERIES = 500
COMMON_EF = 64  # every curve goes this far, so recalls at one breadth compare


def rows_of(quick: bool) -> int:
    """Return how many rows the larger comparisons take."""
    return 5_000 if quick else 50_000


def run_graph(quick: bool) -> dict[str, Any]:
    """Build, sweep the breadth, time at equal recall, weigh."""
    rows = rows_of(quick)
    data = datasets.load(DIM, rows, QUERIES)
    searched, candidates = [], {}
    for each in usable(graph()):
        weight = in_child(weigh, each.name, rows)
        candidate, wall, cpu = built(each, data)
        searched.append(candidate)
        candidates[candidate.name] = {
            "code": candidate.code,
            "version": candidate.version,
            "build_seconds": min(wall, weight["wall"]),
            "build_cpu_seconds": min(cpu, weight["cpu"]),
            "ef_construction": candidate.construction,
            "rss_bytes": weight["rss"],
            "nbytes": candidate.nbytes,
            "curve": _recalls(candidate, data),
        }
        _say(candidate.name, candidates[candidate.name], rows)
    _time_curves(searched, candidates, data, 2 if quick else 5)
    at = {t: _at(searched, candidates, data, t, 3 if quick else 9) for t in TARGETS}
    return {
        "data": data.name,
        "dim": DIM,
        "rows": rows,
        "candidates": candidates,
        "at": {str(target): found for target, found in at.items()},
    }


def weigh(name: str, rows: int) -> dict[str, Any]:
    """Build one candidate here, in a fresh process, and see what it weighs."""
    data = datasets.load(DIM, rows, QUERIES)
    candidate = next(candidate for candidate in graph() if candidate.name == name)
    candidate.load()
    before = rss()
    _, wall, cpu = built(candidate, data)
    after = rss()
    weight = None if before is None or after is None else after - before
    return {"rss": weight, "wall": wall, "cpu": cpu}


def _recalls(candidate: Candidate, data: datasets.Data) -> list[dict[str, Any]]:
    """Return breadth and recall, until the recall is enough."""
    curve: list[dict[str, Any]] = []
    for ef in candidate.efs:
        candidate.set_ef(ef)
        curve.append({"ef": ef, "recall": recall_of(candidate, data)})
        if curve[-1]["recall"] >= ENOUGH and ef >= COMMON_EF:
            break
    return curve


def _time_curves(
    searched: list[Candidate],
    candidates: dict[str, Any],
    data: datasets.Data,
    rounds: int,
) -> None:
    """Add the seconds to the points of every curve, the candidates taking turns."""
    for point in range(max(len(c["curve"]) for c in candidates.values())):
        searches = {}
        for candidate in searched:
            curve = candidates[candidate.name]["curve"]
            if point < len(curve):
                candidate.set_ef(curve[point]["ef"])
                searches[candidate.name] = searching(candidate)
        times = take_turns(searches, data.queries, rounds, 0.05)
        for name, medians in times.items():
            candidates[name]["curve"][point]["seconds"] = statistics.median(medians)


def _at(
    searched: list[Candidate],
    candidates: dict[str, Any],
    data: datasets.Data,
    target: float,
    rounds: int,
) -> dict[str, Any]:
    """Return breadth and time of each candidate that reaches a recall."""
    found: dict[str, Any] = {}
    searches = {}
    for candidate in searched:
        for point in candidates[candidate.name]["curve"]:
            if point["recall"] >= target:
                candidate.set_ef(point["ef"])
                searches[candidate.name] = searching(candidate)
                found[candidate.name] = {"ef": point["ef"], "recall": point["recall"]}
                break
    times = take_turns(searches, data.queries, rounds) if searches else {}
    for name, medians in times.items():
        found[name]["seconds"] = statistics.median(medians)
        found[name]["rounds"] = medians
        if "vecall" in times:
            found[name]["to_vecall"] = ratio(medians, times["vecall"])
    return found


def _say(name: str, facts: dict[str, Any], rows: int) -> None:
    last = facts["curve"][-1]
    print(
        f"built {name} with {rows:,} rows in {facts['build_seconds']:.1f} s; "
        f"recall {last['recall']:.4f} at breadth {last['ef']}",
        flush=True,
    )
