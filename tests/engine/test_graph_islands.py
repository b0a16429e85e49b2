"""A graph finds rows of groups that nothing outside of the group is linked to."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from helpers.campaigns import unit, wait_until_linked
from vecall import Index

DIM, K, EF = 64, 10, 64
TOLERANCE = 3e-4  # what the codes say of a cosine is off by less


def topics(seed: int, count: int, rows: int, spread: float) -> np.ndarray:
    """Rows near `count` random directions, one topic after another."""
    rng = np.random.default_rng(seed)
    middles = unit(np.random.default_rng(count).standard_normal((count, DIM)))
    chosen = np.sort(rng.integers(count, size=rows))
    noise = spread / np.sqrt(DIM) * rng.standard_normal((rows, DIM))
    return np.asarray(middles[chosen] + noise, np.float32)


def linked(vectors: np.ndarray, step: int | None = None) -> Index:
    """An index that got `step` rows at a time, all of them linked."""
    index = Index(vectors.shape[1], "hnsw")
    for begin in range(0, len(vectors), step or len(vectors)):
        some = vectors[begin : begin + (step or len(vectors))]
        index.add(np.arange(begin, begin + len(some), dtype=np.int64), some)
        index.build()
    assert index.linked == len(vectors)
    return index


def near_enough(index: Index, vectors: np.ndarray, queries: np.ndarray) -> float:
    """The share of answers whose cosine reaches that of the true k-th best."""
    cosines = unit(queries) @ unit(vectors).T
    least = np.partition(cosines, -K, axis=1)[:, -K] - TOLERANCE
    found = [index.search(query, K, EF)[0] for query in queries]
    return float(np.mean([cosines[i][f] >= least[i] for i, f in enumerate(found)]))


@pytest.mark.parametrize("order", ["topic after topic", "mixed"])
def test_twenty_tight_topics_are_told_apart_from_within(order):
    vectors = topics(1, 20, 5_000, 0.1)
    if order == "mixed":
        vectors = np.random.default_rng(2).permutation(vectors)
    assert near_enough(linked(vectors), vectors, topics(3, 20, 150, 0.1)) >= 0.98


@pytest.mark.parametrize("at_once", [None, 1000])
def test_many_tighter_topics_are_each_entered(at_once):
    vectors = topics(1, 300, 4_500, 0.02)
    index = linked(vectors, at_once)
    assert near_enough(index, vectors, topics(3, 300, 250, 0.02)) >= 0.98


@pytest.mark.parametrize("order", ["one after another", "mixed"])
def test_an_exact_copy_is_found_among_fifty_vectors_with_100_copies_each(order):
    base = unit(np.random.default_rng(0).standard_normal((50, DIM))).astype(np.float32)
    which = np.repeat(np.arange(50), 100)
    if order == "mixed":
        which = np.random.default_rng(4).permutation(which)
    index = linked(base[which])
    copies = 0
    for at, vector in enumerate(base):
        found, cosines = index.search(vector, K, EF)
        assert which[found[0]] == at
        assert cosines[0] >= 1 - TOLERANCE
        copies += int(np.sum(which[found] == at))
    assert copies >= 0.95 * 50 * K


def test_a_graph_of_equal_rows_answers_with_as_many_as_asked():
    vectors = np.tile(topics(1, 1, 1, 0.1), (3000, 1))
    index = linked(vectors)
    for k in (1, 10, 500, 3000):
        found, cosines = index.search(vectors[0], k, EF)
        assert len(set(found.tolist())) == k
        assert cosines.min() >= 1 - TOLERANCE


def test_replaced_and_removed_rows_leave_every_topic_open():
    """The sample of rows that searches begin at goes out of date and is mended."""
    before, after = (topics(seed, 20, 4_000, 0.1) for seed in (1, 5))
    index = linked(before)
    ids = np.arange(4_000, dtype=np.int64)
    for some in np.array_split(np.random.default_rng(6).permutation(ids), 4):
        index.remove(some[::2])
        index.add(some, -after[some])  # to where no row was
        index.build()
    assert len(index) == index.linked == 4_000
    assert near_enough(index, -after, -topics(3, 20, 150, 0.1)) >= 0.98
    index.remove(ids[::2])
    cosines = unit(-after[1::2]) @ unit(-after[1::20]).T
    for at, query in enumerate(-after[1::20]):
        found, _ = index.search(query, 1, EF)
        assert found[0] % 2 == 1
        assert cosines[found[0] // 2, at] >= 1 - TOLERANCE


def test_a_loaded_graph_enters_every_topic_as_the_saved_one(tmp_path):
    vectors, queries = topics(1, 100, 4_000, 0.05), topics(3, 100, 100, 0.05)
    index = linked(vectors, 2000)
    index.remove(np.arange(0, 4_000, 7))
    index.save(tmp_path / "index")
    loaded = Index.load(tmp_path / "index")
    for query in queries:
        first, second = (one.search(query, K, EF) for one in (index, loaded))
        assert [x.tobytes() for x in first] == [x.tobytes() for x in second]


def test_rows_are_found_while_the_background_links_topic_after_topic():
    vectors = topics(1, 40, 4_000, 0.05)
    index = Index(DIM, "hnsw")
    for begin in range(0, 4_000, 500):
        ids = np.arange(begin, begin + 500, dtype=np.int64)
        index.add(ids, vectors[ids])
        for at in ids[::100]:
            assert index.search(vectors[at], 1, EF)[1][0] >= 1 - TOLERANCE
    wait_until_linked(index)
    assert near_enough(index, vectors, topics(3, 40, 100, 0.05)) >= 0.98


def answers_digest() -> str:
    """What tests/engine/test_instruction_sets.py compares."""
    index = linked(topics(1, 50, 1500, 0.05))
    digest = hashlib.sha256()
    for query in topics(3, 50, 60, 0.05):
        for part in index.search(query, K, EF):
            digest.update(part.tobytes())
    return digest.hexdigest()


def test_a_search_with_room_for_every_row_leaves_no_equal_out():
    """Copies are left out of a pool only where it is too small for all rows."""
    corners = np.array(
        [[1 - 2 * (n >> bit & 1) for bit in range(4)] for n in range(16)], np.float32
    )
    rng = np.random.default_rng(4)
    for count in (60, 200, 400):
        rows = corners[rng.integers(0, 16, count)]
        index = linked(rows)
        for query in corners:
            _, cosines = index.search(query, 100, ef=10_000)
            exact = np.sort(rows @ query / 4)[::-1][: min(100, count)]
            assert np.allclose(cosines, exact, atol=2e-6), count
