"""A graph finds what brute force finds: fresh, churned, being built."""

from __future__ import annotations

import functools
import time

import numpy as np
import pytest
from helpers.campaigns import (
    answers,
    best_of,
    clusters,
    grown,
    recall_of,
    unit,
    wait_until_linked,
)
from vecall import Index

DIM, K, EF = 48, 10, 100
ROWS = grown(3000)
IDS = np.arange(ROWS, dtype=np.int64)
QUERIES = clusters(1, 200, DIM)
VECTORS = clusters(2, ROWS, DIM)
CHURNED = ROWS // 2


def linked_index(vectors: np.ndarray, **options) -> Index:
    index = Index(DIM, "hnsw", **options)
    index.add(IDS[: len(vectors)], vectors)
    index.build()
    assert index.linked == len(vectors)
    return index


def recall_at_10(index: Index, vectors: np.ndarray, ef: int = EF) -> float:
    wanted = best_of(unit(QUERIES) @ unit(vectors).T, K)
    return recall_of(answers(index, QUERIES, K, ef), wanted)


def test_a_graph_finds_what_brute_force_finds():
    index = linked_index(VECTORS)
    for ef, least in ((10, 0.985), (30, 0.995), (EF, 0.995)):
        assert recall_at_10(index, VECTORS, ef) >= least
    together = index.search_batch(QUERIES, K, EF)[0]
    assert np.array_equal(together, answers(index, QUERIES, K, EF))


def test_the_order_of_arrival_does_not_spoil_a_graph():
    """Cluster after cluster, as conversations come."""
    nearest = np.argmax(unit(VECTORS) @ unit(VECTORS[:30]).T, axis=1)
    vectors = VECTORS[np.argsort(nearest, kind="stable")]
    assert recall_at_10(linked_index(vectors), vectors) >= 0.98


def test_a_hundred_copies_that_arrive_together_cut_off_no_other_row():
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((3000, 32)).astype(np.float32)
    rows[:1500] = rows[rng.integers(10, size=1500)]
    queries = rows[1500:1600] + np.float32(0.04) * rng.standard_normal((100, 32))
    index = Index(32, "hnsw")
    index.add(np.arange(3000), rows)
    index.build()
    wanted = best_of(unit(queries) @ unit(rows).T, 1)
    assert recall_of(answers(index, queries, 1, 1000), wanted) == 1


def test_queries_far_from_all_rows_find_the_nearest():
    rng = np.random.default_rng(7)
    rows, queries = (rng.standard_normal((count, 24)) for count in (6000, 200))
    index = Index(24, "hnsw")
    index.add(np.arange(6000), rows)
    index.build()
    for k in (1, 5):
        wanted = best_of(unit(queries) @ unit(rows).T, k)
        assert recall_of(answers(index, queries, k, 48), wanted) >= 0.98


@pytest.mark.parametrize("share", [0.02, 0.1, 0.4, 0.7])
def test_many_copies_of_one_vector_hide_no_other(share):
    """'Ok' and 'thanks' are said a thousand times."""
    rng = np.random.default_rng(3)
    vectors = VECTORS.copy()
    copies = rng.permutation(ROWS)[: int(share * ROWS)]
    vectors[copies] = VECTORS[0]
    others = np.setdiff1d(IDS, copies)[:300]
    index = linked_index(vectors)
    found = answers(index, vectors[others], 1, EF)[:, 0]
    assert np.mean(found == others) >= 0.98


@functools.cache
def last_of_five() -> Index:
    return linked_index(clusters(14, CHURNED, DIM))


@pytest.mark.parametrize("how", ["add", "remove and add", "slowly"])
def test_replacing_every_row_five_times_costs_no_recall(how):
    vectors = VECTORS[:CHURNED]
    index = linked_index(vectors)
    step = CHURNED // 10 if how == "slowly" else CHURNED
    for turn in range(5):
        vectors = clusters(10 + turn, CHURNED, DIM)
        order = np.random.default_rng(turn).permutation(IDS[:CHURNED])
        for begin in range(0, CHURNED, step):
            some = order[begin : begin + step]
            if how == "remove and add":
                assert index.remove(some) == len(some)
            index.add(some, vectors[some])
            if how == "slowly":
                index.build()
    index.build()
    assert len(index) == index.linked == CHURNED
    fresh = last_of_five()
    for ef in (10, 30, EF):
        churned, whole = (recall_at_10(i, vectors, ef) for i in (index, fresh))
        assert churned >= whole - 0.01
    assert index.nbytes <= 1.1 * fresh.nbytes


@pytest.mark.parametrize("kind", ["auto", "hnsw"])
def test_a_row_is_found_at_once_while_the_background_links_the_others(kind):
    index = Index(DIM, kind, flat_bytes=1000)
    for begin in range(0, ROWS, 100):
        some = IDS[begin : begin + 100]
        index.add(some, VECTORS[some])
        for at in some[::20]:
            found, cosines = index.search(VECTORS[at], 1)
            assert found.tolist() == [at]
            assert cosines[0] >= 1 - 1e-3
    wait_until_linked(index)
    assert recall_at_10(index, VECTORS) >= 0.95


def test_a_replaced_row_is_found_at_its_new_place_at_once():
    index = linked_index(VECTORS)
    new = clusters(5, ROWS, DIM)
    for at in range(0, ROWS, 10):
        index.add(IDS[at : at + 1], new[at : at + 1])
        assert index.search(new[at], 1)[0].tolist() == [at]
        found, cosines = index.search(VECTORS[at], 1)
        assert found.tolist() != [at] or cosines[0] < 0.999
    wait_until_linked(index)
    for at in range(0, ROWS, 10):
        assert index.search(new[at], 1)[0].tolist() == [at]


def test_searches_go_on_while_a_graph_is_built():
    """No search waits for the linker longer than it links one row."""
    index = Index(DIM, "hnsw")
    index.add(IDS, VECTORS)
    index.build()
    longest, end = 0.0, time.monotonic() + 0.5
    index.add(IDS, clusters(7, ROWS, DIM))
    while time.monotonic() < end:
        begin = time.perf_counter()
        index.search(QUERIES[0], K)
        longest = max(longest, time.perf_counter() - begin)
    assert longest < 0.25


def test_rows_removed_before_they_were_linked_count_for_nothing():
    """As many rows come back as there are, however many of those that wait are gone."""
    vectors = np.random.default_rng(8).standard_normal((400, DIM)).astype(np.float32)
    for turn in range(30):
        index = Index(DIM, "hnsw", m=4)
        index.add(np.arange(300), vectors[:300])
        index.build()
        index.remove(np.random.default_rng(turn).permutation(300)[:280])
        index.add(np.arange(300, 360), vectors[300:360])
        index.remove(np.arange(300, 360))  # before the background has linked them
        found, _ = index.search(vectors[399], 20, 1)
        assert len(found) == len(index) == 20
