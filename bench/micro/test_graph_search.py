"""Graph search at equal recall, one query at a time, beside other libraries.

    python -m pytest bench/micro/test_graph_search.py --benchmark-group-by=param:target

Each candidate searches with the smallest breadth that reaches the recall. Recall,
breadth and build time are part of the JSON. Libraries that are not installed are
skipped.
"""

from __future__ import annotations

import itertools

import pytest

from bench.common import datasets
from bench.common.measure import K, built, tune
from bench.vector.candidates import graph

CANDIDATES = {candidate.name: candidate for candidate in graph()}
DIM = 384
ROWS = 4_000
QUERIES = 100


@pytest.mark.parametrize("target", [0.95, 0.99])
@pytest.mark.parametrize("name", CANDIDATES)
def test_graph_search_one_query_at_a_time(benchmark, name, target):
    candidate = CANDIDATES[name]
    why = candidate.missing()
    if why is not None:
        pytest.skip(why)
    data = datasets.load(DIM, ROWS, QUERIES)
    candidate, seconds, _ = built(candidate, data)
    ef, recall = tune(candidate, data, target)
    if recall < target and name != "vecall":
        pytest.skip(f"{name} reaches a recall of {recall:.3f}")
    assert recall >= target
    benchmark.extra_info.update(
        data=data.name, code=candidate.code, recall=recall, ef=ef, build_seconds=seconds
    )
    turns = itertools.cycle(data.queries)
    benchmark(lambda: candidate.search(next(turns), K))
