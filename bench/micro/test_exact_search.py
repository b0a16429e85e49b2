"""Exact search in one set of vectors, one query at a time, beside other libraries.

    python -m pytest bench/micro/test_exact_search.py --benchmark-group-by=param:rows

Every candidate answers the same queries over the same rows on one thread. Recall is
checked against float64 before the timing, and is part of the JSON. Libraries that are
not installed are skipped.
"""

from __future__ import annotations

import itertools

import pytest

from bench.common import datasets
from bench.common.measure import K, tune
from bench.vector.candidates import exact

CANDIDATES = {candidate.name: candidate for candidate in exact()}
DIM = 384
QUERIES = 100
TARGET = 0.9995
LEAST = 0.85  # of codes that are not ranked again


@pytest.mark.parametrize("rows", [1_000, 10_000])
@pytest.mark.parametrize("name", CANDIDATES)
def test_exact_search_one_query_at_a_time(benchmark, name, rows):
    candidate = CANDIDATES[name]
    why = candidate.missing()
    if why is not None:
        pytest.skip(why)
    data = datasets.load(DIM, rows, QUERIES)
    candidate.build(data.vectors)
    breadth, recall = tune(candidate, data, TARGET)
    assert recall >= (0.999 if name == "vecall" else LEAST)
    benchmark.extra_info.update(
        data=data.name, code=candidate.code, recall=recall, breadth=breadth
    )
    turns = itertools.cycle(data.queries)
    benchmark(lambda: candidate.search(next(turns), K))
    candidate.index = None
