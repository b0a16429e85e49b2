"""A page of items knows whether there are further ones, and where they begin."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from helpers.campaigns import scaled
from helpers.clocks import SettableClock
from helpers.memories import ALICE
from vecall import Drop, InvalidArgumentError, InvalidTypeError, Page, Put

SPACES = [("n",), ("n", "a"), ("n", "b", "c"), ("other",)]
QUERY = np.array([3.1, 1.7, 0.6])  # different vectors have different cosines
KINDS: dict[str, dict[str, Any]] = {
    "newest": {},
    "that match": {"where": {"even": True}},
    "nearest": {"vector": QUERY},
    "nearest that match": {"vector": QUERY, "where": {"even": True}},
    "with a vector": {"vector": QUERY, "only_with_vector": True},
}


class Written:
    """Items, and this test's own list of them."""

    def __init__(self, items: Any, seed: int) -> None:
        self.items = items
        self.random = random.Random(seed)
        self.live: dict[Any, tuple[int, Any, bool]] = {}  # version, vector, even

    def write(self, count: int) -> None:
        """Write items, old ones among them; every third has no vector."""
        puts = []
        for _ in range(count):
            number = self.random.randrange(200)
            # Of few directions, so that many cosines are equal.
            vector = None if number % 3 == 0 else [1.0, number % 5, number % 2]
            value = {"even": number % 2 == 0}
            puts.append(Put(SPACES[number % 4], f"k{number}", value, vector))
        for put, version in zip(puts, self.items.write(puts, **ALICE), strict=True):
            key = (put.namespace, put.key)
            self.live[key] = (version, put.vectors, put.value["even"])

    def drop(self, *keys: Any) -> None:
        self.items.write([Drop(*key) for key in keys], **ALICE)
        for key in keys:
            del self.live[key]

    def place(self, key: Any, kind: dict[str, Any]) -> tuple[float, int]:
        """Where an item stands in a list of a kind, by this test's arithmetic."""
        version, vector, _ = self.live[key]
        if vector is None or "vector" not in kind:
            return (2.0, -version)
        cosine = QUERY @ vector / np.linalg.norm(vector) / np.linalg.norm(QUERY)
        return (-round(float(cosine), 9), -version)

    def expected(self, kind: dict[str, Any]) -> list[Any]:
        keys = [
            key
            for key, (_, vector, even) in self.live.items()
            if key[0][0] == "n"
            and (even or "where" not in kind)
            and (vector is not None or "only_with_vector" not in kind)
        ]
        return sorted(keys, key=lambda key: self.place(key, kind))


def keys_of(page: Any) -> list[Any]:
    return [(item.namespace, item.key) for item in page]


@pytest.mark.parametrize("kind", KINDS)
def test_the_pages_of_a_list_are_the_list(open_service, place, kind):
    written = Written(open_service(place).items.sync, seed=1)
    written.write(120)
    expected = written.expected(KINDS[kind])
    assert len(expected) > 20
    scored = sum(written.live[key][1] is not None for key in expected)
    for limit in (7, scored, len(expected) - 1, len(expected), 1_000):
        found, cursor = [], None
        pages = -(-len(expected) // limit)
        for number in range(pages):
            page = written.items.find(
                ("n",), limit=limit, cursor=cursor, **KINDS[kind], **ALICE
            )
            assert 1 <= len(page) <= limit
            found += keys_of(page)
            cursor = page.next
            assert (cursor is None) == (number == pages - 1)
        assert found == expected


@pytest.mark.campaign
@pytest.mark.parametrize("kind", KINDS)
def test_a_page_begins_where_the_one_before_ended_whatever_is_written(
    open_service, kind
):
    written = Written(open_service().items.sync, seed=2)
    for _ in range(scaled(20, 2)):
        written.write(80)
        cursor = None
        for _ in range(40):
            page = written.items.find(
                ("n",), limit=9, cursor=cursor, **KINDS[kind], **ALICE
            )
            if page.next is None:
                break
            last = written.place(keys_of(page)[-1], KINDS[kind])
            some = written.random.sample(sorted(written.live), 3)
            written.drop(*{*some, keys_of(page)[-1]})  # the item of the cursor, too
            written.write(3)
            cursor = page.next
            expected = [
                key
                for key in written.expected(KINDS[kind])
                if written.place(key, KINDS[kind]) > last
            ]
            following = written.items.find(
                ("n",), limit=9, offset=2, cursor=cursor, **KINDS[kind], **ALICE
            )
            assert keys_of(following) == expected[2:11]
            assert (following.next is None) == (len(expected) <= 11)


def test_a_page_is_a_list(open_service):
    items = open_service().items.sync
    assert items.find(**ALICE) == []
    assert items.find(**ALICE).next is None
    items.write([Put(("n",), f"k{n}", n) for n in range(12)], **ALICE)
    page = items.find(**ALICE)
    assert isinstance(page, list)
    assert isinstance(page, Page)
    assert (len(page), page[0].value, page[-1].value) == (10, 11, 2)
    assert [item.value for item in page[:2]] == [11, 10]
    rest = items.find(cursor=page.next, **ALICE)
    assert [item.value for item in rest] == [1, 0]
    assert rest.next is None


def test_an_item_that_has_expired_is_no_further_one(open_service):
    clock = SettableClock()
    items = open_service(clock=clock, maintenance_interval=None).items.sync
    items.write([Put(("n",), "short", 1, ttl=5), Put(("n",), "k", 2)], **ALICE)
    assert items.find(limit=1, **ALICE).next is not None
    clock.let_pass(10)
    assert items.find(limit=1, **ALICE).next is None


def test_only_the_items_of_a_page_are_refreshed(open_service):
    clock = SettableClock()
    items = open_service(clock=clock, maintenance_interval=None).items.sync
    items.write([Put(("n",), f"k{n}", n, ttl=60) for n in range(3)], **ALICE)
    clock.let_pass(30)
    assert items.find(limit=2, refresh=True, **ALICE).next is not None
    now = items.get([(("n",), f"k{n}") for n in range(3)], **ALICE)
    assert [item.expires_in for item in now] == pytest.approx([30, 60, 60], abs=0.1)


@pytest.mark.parametrize(
    "cursor", ["", "k1", "-1", "1:2", " 7", "7 ", "٣", "nan:1", "0.5:", "9" * 30, "\n7"]
)
def test_what_is_no_cursor_is_refused_by_name(open_service, cursor):
    items = open_service().items.sync
    with pytest.raises(InvalidArgumentError, match=r"^cursor: ") as raised:
        items.find(cursor=cursor, **ALICE)
    assert not cursor.strip() or cursor not in str(raised.value)
    for other in (7, b"7", True):
        with pytest.raises(InvalidTypeError, match=r"^cursor: "):
            items.find(cursor=other, **ALICE)
