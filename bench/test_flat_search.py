"""Exact search in one set of vectors, one query at a time, beside other libraries.

    python -m pytest bench/test_flat_search.py --benchmark-group-by=param:rows

Every candidate answers the same queries over the same rows; recall is checked against
float64 before anything is timed.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from vecall import Index

DIM = 384
K = 10


def _data(rows):
    random = np.random.default_rng(rows)
    # Directions that matter unequally, as in real embeddings.
    scale = 1 / np.sqrt(1 + np.arange(DIM))
    vectors = (random.standard_normal((rows + 100, DIM)) * scale).astype(np.float32)
    return vectors[:rows], vectors[rows:]


def _vecall(vectors):
    index = Index(DIM)
    index.add(np.arange(len(vectors)), vectors)
    return lambda query: index.search(query, K)[0]


def _numpy(vectors):
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def search(query):
        scores = unit @ query
        best = np.argpartition(-scores, K)[:K]
        return best[np.argsort(-scores[best])]

    return search


def _hnswlib(vectors):
    hnswlib = pytest.importorskip("hnswlib")
    index = hnswlib.BFIndex(space="cosine", dim=DIM)
    index.init_index(max_elements=len(vectors))
    index.add_items(vectors)
    index.set_num_threads(1)
    return lambda query: index.knn_query(query, k=K)[0][0].astype(np.int64)


CANDIDATES = {"vecall": _vecall, "numpy": _numpy, "hnswlib BFIndex": _hnswlib}


@pytest.mark.parametrize("rows", [100, 1_000, 10_000])
@pytest.mark.parametrize("name", CANDIDATES)
def test_exact_search_one_query_at_a_time(benchmark, name, rows):
    vectors, queries = _data(rows)
    search = CANDIDATES[name](vectors)
    exact = vectors.astype(np.float64)
    exact /= np.linalg.norm(exact, axis=1, keepdims=True)
    for query in queries[:20]:
        best = np.argsort(-(exact @ query.astype(np.float64)))[:K]
        assert len(set(best.tolist()) & set(search(query).tolist())) >= K - 1
    turns = itertools.cycle(queries)
    benchmark(lambda: search(next(turns)))
