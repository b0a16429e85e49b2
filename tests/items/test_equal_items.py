"""Of items with equal vectors a search finds the latest, in every storage."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.memories import ALICE
from vecall import Drop, Put, item_collections
from vecall.item_collections import ItemCollection

SPACES = [("docs",), ("docs", "a"), ("docs", "b"), ("docs", "b", "c"), ("other",)]
COUNT = 300


class Written:
    """Items of three vectors, of which some were written again or deleted."""

    def __init__(self, items: Any, dim: int) -> None:
        rng = np.random.default_rng(dim)
        self.vectors = rng.normal(size=(3, dim)).astype(np.float32)
        self.query = self.vectors[0] + 0.2 * rng.normal(size=dim)
        self.live: dict[Any, tuple[int, int, int]] = {}
        for start in range(0, COUNT, 150):
            chosen = [
                ((SPACES[rng.integers(len(SPACES))], f"k{n % 225}"), rng.integers(3), n)
                for n in range(start, start + 150)
            ]
            puts = [
                Put(*key, {"odd": n % 2}, self.vectors[vector])
                for key, vector, n in chosen
            ]
            versions = items.write(puts, **ALICE)
            for (key, vector, n), version in zip(chosen, versions, strict=True):
                self.live[key] = (version, int(vector), n)
        gone = sorted(self.live)[::7]
        items.write([Drop(*key) for key in gone], **ALICE)
        for key in gone:
            del self.live[key]

    def nearest(self, namespace: tuple[str, ...], *, even: bool) -> list[Any]:
        """All keys in their order, by this test's own arithmetic."""
        query = self.query / np.linalg.norm(self.query)
        cosines = [float(v @ query / np.linalg.norm(v)) for v in self.vectors]
        assert np.diff(sorted(cosines)).min() > 1e-3
        ranked = sorted(
            (-cosines[vector], -version, key)
            for key, (version, vector, n) in self.live.items()
            if key[0][: len(namespace)] == namespace and not (even and n % 2)
        )
        return [key for _, _, key in ranked]


@pytest.mark.parametrize("dim", [2, 384])
def test_of_equal_items_the_latest_are_found(open_service, place, dim):
    items = open_service(place).items.sync
    written = Written(items, dim)
    for turn in range(2):
        for namespace in (("docs", "a"), ("docs", "b"), ()):
            for where in (None, {"odd": 0}):
                expected = written.nearest(namespace, even=where is not None)
                for limit, offset in ((1, 0), (10, 0), (7, 21), (300, 0)):
                    found = items.find(
                        namespace,
                        vector=written.query,
                        where=where,
                        limit=limit,
                        offset=offset,
                        **ALICE,
                    )
                    keys = [(item.namespace, item.key) for item in found]
                    assert keys == expected[offset : offset + limit]
                    assert len({item.score for item in found}) <= 3
        if turn == 0 and place is not None:
            # Another service loads the vectors at once, in the storage's own order.
            items = open_service(place).items.sync


def test_a_later_write_of_an_equal_vector_comes_first_at_once(open_service):
    items = open_service().items.sync
    puts = [Put(("n",), f"k{n}", n, [1.0, 2.0]) for n in range(40)]
    items.write(puts, **ALICE)
    for n in (3, 17, 5):
        items.write([puts[n]], **ALICE)
        (first,) = items.find(vector=[2.0, 4.0], limit=1, **ALICE)
        assert first.key == f"k{n}"


def test_documents_behind_the_last_page_have_the_order_of_a_page(
    open_service, monkeypatch
):
    documents = ItemCollection(open_service(), "app", "alice", ("d",))
    documents.write([documents.write_of(f"k{n}", {}, [1, 0, 0]) for n in range(60)])

    def even(item: Any) -> bool:
        return int(item.key[1:]) % 2 == 0

    pages = documents.nearest_documents([1, 0, 0], 30, None, even)
    assert [item.key for item, _ in pages] == [f"k{n}" for n in range(58, -1, -2)]
    monkeypatch.setattr(item_collections, "_PAGE", 20)
    behind = documents.nearest_documents([1, 0, 0], 30, None, even)
    assert [item.key for item, _ in behind] == [item.key for item, _ in pages]
