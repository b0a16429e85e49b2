"""Search in a graph at equal recall, one query at a time, beside other libraries.

    python -m pytest bench/test_graph_search.py --benchmark-group-by=param:target

Each candidate searches as broadly as it must to reach the recall, which stands in the
JSON with the breadth and the seconds that it took to build. Those that are not
installed are skipped.
"""

from __future__ import annotations

import itertools

import datasets
import pytest
from measure import K, built, tune
from rivals import graph

CANDIDATES = {rival.name: rival for rival in graph()}
DIM = 384
ROWS = 4_000
QUERIES = 100


@pytest.mark.parametrize("target", [0.95, 0.99])
@pytest.mark.parametrize("name", CANDIDATES)
def test_graph_search_one_query_at_a_time(benchmark, name, target):
    rival = CANDIDATES[name]
    why = rival.missing()
    if why is not None:
        pytest.skip(why)
    data = datasets.load(DIM, ROWS, QUERIES)
    rival, seconds, _ = built(rival, data)
    ef, recall = tune(rival, data, target)
    if recall < target and name != "vecall":
        pytest.skip(f"{name} reaches a recall of {recall:.3f}")
    assert recall >= target
    benchmark.extra_info.update(
        data=data.name, code=rival.code, recall=recall, ef=ef, build_seconds=seconds
    )
    turns = itertools.cycle(data.queries)
    benchmark(lambda: rival.search(next(turns), K))
