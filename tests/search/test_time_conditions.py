"""`$timestamp` and `$updated_at` in the conditions of `filter.metadata`."""

from __future__ import annotations

import random
from datetime import datetime, timedelta, timezone
from fractions import Fraction
from typing import Any

import pytest
from helpers.embedders import Recorder
from helpers.memories import ALICE, SECRET, refuses
from helpers.vector_stores.reference import ReferenceVectorStore
from vecall import (
    InMemoryMemoryService,
    InvalidArgumentError,
    InvalidTypeError,
    MemoryEntry,
    MemoryService,
)
from vecall.other_storage.vector_store import VectorStoreMemoryService

NAMES = {"app_name": ALICE["app_name"], "user_id": ALICE["user_id"]}
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
BEGIN = 1_700_000_000.0
COMPARISONS: dict[str, Any] = {
    "$eq": lambda one, two: one == two,
    "$ne": lambda one, two: one != two,
    "$gt": lambda one, two: one > two,
    "$gte": lambda one, two: one >= two,
    "$lt": lambda one, two: one < two,
    "$lte": lambda one, two: one <= two,
    "$in": lambda one, two: one in two,
    "$nin": lambda one, two: one not in two,
}


def micros(given: Any) -> Any:
    """The reference reads a time as whole microseconds."""
    if isinstance(given, list):
        return [micros(each) for each in given]
    if isinstance(given, str):
        given = datetime.fromisoformat(given)
    if isinstance(given, datetime):
        return (given - EPOCH) // timedelta(microseconds=1)
    return round(Fraction(given) * 1_000_000)


def spelled(rng: random.Random, seconds: float) -> Any:
    moment = datetime.fromtimestamp(seconds, timezone.utc)
    return rng.choice([seconds, moment, moment.isoformat()])


def filled(service: MemoryService) -> None:
    user = service.sync.user(*NAMES.values())
    times = [None, BEGIN, BEGIN + 0.25, BEGIN + 1, BEGIN + 7, None]
    user.add(
        [
            MemoryEntry(
                f"zebra {n}", id=f"m{n}", timestamp=each, custom_metadata={"n": n}
            )
            for n, each in enumerate(times)
        ]
    )
    user.update("m3", kind="fact")


@pytest.mark.parametrize("seed", range(2))
def test_exactly_the_memories_of_these_times_are_found(open_service, tmp_path, seed):
    """In a file, in memory and by the service without an index, in every call."""
    rng = random.Random(seed)
    with (
        open_service(tmp_path / "m.db") as file,
        MemoryService(embedder=None) as memory,
        InMemoryMemoryService("words") as plain,
    ):
        for service in (file, memory, plain):
            filled(service)
            user = service.sync.user(*NAMES.values())
            listed = list(user.list())
            stored = [
                {
                    "$timestamp": each.timestamp or each.created_at,
                    "$updated_at": each.updated_at or each.created_at,
                }
                for each in listed
            ]
            seen = sorted({time for each in stored for time in each.values()})
            for _ in range(25):
                name = rng.choice(["$timestamp", "$updated_at"])
                operator = rng.choice(list(COMPARISONS))
                operand: Any = spelled(rng, rng.choice(seen))
                if operator in ("$in", "$nin"):
                    operand = [operand, spelled(rng, rng.choice(seen))]
                condition: Any = {operator: operand}
                if operator == "$eq" and rng.random() < 0.5:
                    condition = operand
                wanted = {"$or": [{name: condition}, {"n": 5}]}
                right = [
                    each.id
                    for n, each in enumerate(listed)
                    if n == 5
                    or COMPARISONS[operator](micros(stored[n][name]), micros(operand))
                ]
                given = {"metadata": wanted}
                assert [each.id for each in user.list(filter=given)] == right
                assert user.count(filter=given) == len(right)
                found = user.search("zebra", filter=given, top_k=9)
                assert sorted(each.id for each in found) == right


def test_a_deletion_by_time_leaves_the_others(open_service, tmp_path):
    with open_service(tmp_path / "m.db") as service:
        filled(service)
        wanted = {"$timestamp": {"$lte": "2023-11-14T22:13:20.250000+00:00"}}
        assert service.sync.delete_where(**NAMES, filter={"metadata": wanted}) == 2
        user = service.sync.user(*NAMES.values())
        assert [each.id for each in user.list()] == ["m0", "m3", "m4", "m5"]


def test_a_key_of_the_metadata_may_have_the_same_name(open_service):
    """Conditions on it cannot be asked, and it changes no answer."""
    user = open_service().sync.user(*NAMES.values())
    user.add([MemoryEntry("x", timestamp=5, custom_metadata={"$timestamp": 7})])
    for time, count in ((5, 1), (7, 0)):
        assert user.count(filter={"metadata": {"$timestamp": time}}) == count


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        ({"$created_at": 5}, InvalidArgumentError),
        ({"$timestamp.x": 5}, InvalidArgumentError),
        ({"$timestamp": "yesterday"}, InvalidArgumentError),
        ({"$timestamp": "2025-06-18"}, InvalidArgumentError),
        ({"$timestamp": None}, InvalidTypeError),
        ({"$timestamp": True}, InvalidTypeError),
        ({"$timestamp": [5]}, InvalidTypeError),
        ({"$updated_at": {"$contains": 5}}, InvalidArgumentError),
        ({"$updated_at": {"$gte": float("nan")}}, InvalidArgumentError),
        ({"$updated_at": {SECRET: 5}}, InvalidArgumentError),
        ({"$updated_at": {}}, InvalidTypeError),
        ({"$updated_at": {"$in": 5}}, InvalidTypeError),
        ({"k": {"$timestamp": 5}}, InvalidArgumentError),
    ],
)
def test_what_is_no_time_is_refused_with_the_rule(open_service, wrong, kind):
    user = open_service().sync.user(*NAMES.values())
    for call in (
        lambda: user.list(filter={"metadata": wrong}),
        lambda: user.search("x", filter={"metadata": wrong}),
    ):
        refuses(kind, call)
        with pytest.raises(kind, match=r"filter\.metadata"):
            call()


def test_a_vector_store_has_no_such_times_and_says_so():
    with VectorStoreMemoryService(ReferenceVectorStore(), Recorder(16)) as stored:
        wanted = {"metadata": {"$updated_at": {"$gte": 5}}}
        with pytest.raises(InvalidArgumentError, match=r"\$updated_at"):
            stored.sync.search_memory(**ALICE, query="zebra", filter=wanted)


def test_an_item_has_no_such_times_and_says_so(open_service):
    items = open_service().sync.items
    with pytest.raises(InvalidArgumentError, match="operators are"):
        items.find((), where={"$updated_at": {"$gte": 5}}, **NAMES)
