"""Index.build by several threads: the graph of one, found by brute force to be good."""

from __future__ import annotations

import pickle
import threading

import numpy as np
import pytest
from helpers.campaigns import answers, best_of, clusters, grown, recall_of, unit
from helpers.indexes import random_vectors
from vecall import Index, InvalidArgumentError

DIM, K, EF = 48, 10, 100
ROWS = grown(2000)
IDS = np.arange(ROWS, dtype=np.int64)


def by_topic() -> np.ndarray:
    """Return cluster after cluster, as conversations come."""
    rows = clusters(3, ROWS, DIM)
    topics = np.argmax(unit(rows) @ unit(rows[:30]).T, axis=1)
    return rows[np.argsort(topics, kind="stable")]


def near_copies() -> np.ndarray:
    """Return rows of which a thousand that follow each other are copies, nearly."""
    rows = random_vectors(5, ROWS, DIM)
    rows[100:1100] = rows[100] + 0.05 * rows[100:1100]
    return rows


DATA = {
    "clusters": clusters(2, ROWS, DIM),
    "one topic after another": by_topic(),
    "Gaussian": random_vectors(4, ROWS, DIM),
    "near copies": near_copies(),
}


def built(vectors: np.ndarray, threads: int, step: int = ROWS) -> Index:
    index = Index(DIM, "hnsw", 8, 60)
    for begin in range(0, ROWS, step):
        index.add(IDS[begin : begin + step], vectors[begin : begin + step])
        index.build(threads=threads)
    return index


@pytest.mark.parametrize("name", DATA)
def test_the_graph_of_two_threads_is_that_of_one(name):
    vectors = DATA[name]
    whole, other = (pickle.dumps(built(vectors, threads)) for threads in (1, 2))
    assert whole == other
    in_steps, other = (pickle.dumps(built(vectors, n, 700)) for n in (1, -1))
    assert in_steps == other


@pytest.mark.parametrize("name", DATA)
def test_rows_that_are_linked_together_are_found_as_if_they_came_one_by_one(name):
    vectors = DATA[name]
    queries = vectors[::10] + 0.1 * random_vectors(6, len(vectors[::10]), DIM)
    wanted = best_of(unit(queries) @ unit(vectors).T, K)
    together = recall_of(answers(built(vectors, 2), queries, K, EF), wanted)
    one_by_one = recall_of(answers(built(vectors, 1, 1), queries, K, EF), wanted)
    assert together >= one_by_one - 0.01


def test_searches_find_every_row_while_threads_link():
    vectors = DATA["clusters"]
    index = built(vectors, 2)
    index.add(IDS + ROWS, DATA["Gaussian"])
    over = threading.Event()

    def build() -> None:
        index.build(threads=2)
        over.set()

    builder = threading.Thread(target=build)
    builder.start()
    at = 0
    while not over.is_set():
        for rows, first in ((vectors, 0), (DATA["Gaussian"], ROWS)):
            assert index.search(rows[at % ROWS], 1)[0].tolist() == [first + at % ROWS]
        at += 7
    builder.join()
    assert index.linked == len(index) == 2 * ROWS


def test_the_number_of_threads_is_at_least_one():
    for threads in (0, -2):
        with pytest.raises(InvalidArgumentError, match="threads"):
            Index(DIM).build(threads=threads)
