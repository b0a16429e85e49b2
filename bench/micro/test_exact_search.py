"""Exact search in one set of vectors, one query at a time, beside other libraries.

    python -m pytest bench/test_exact_search.py --benchmark-group-by=param:rows

Every candidate answers the same queries over the same rows on one thread; recall is
checked against float64 before anything is timed, and stands in the JSON. Those that are
not installed are skipped.
"""

from __future__ import annotations

import itertools

import datasets
import pytest
from measure import K, tune
from rivals import exact

CANDIDATES = {rival.name: rival for rival in exact()}
DIM = 384
QUERIES = 100
TARGET = 0.9995
LEAST = 0.85  # of codes that are not ranked again


@pytest.mark.parametrize("rows", [1_000, 10_000])
@pytest.mark.parametrize("name", CANDIDATES)
def test_exact_search_one_query_at_a_time(benchmark, name, rows):
    rival = CANDIDATES[name]
    why = rival.missing()
    if why is not None:
        pytest.skip(why)
    data = datasets.load(DIM, rows, QUERIES)
    rival.build(data.vectors)
    breadth, recall = tune(rival, data, TARGET)
    assert recall >= (0.999 if name == "vecall" else LEAST)
    benchmark.extra_info.update(
        data=data.name, code=rival.code, recall=recall, breadth=breadth
    )
    turns = itertools.cycle(data.queries)
    benchmark(lambda: rival.search(next(turns), K))
    rival.index = None
