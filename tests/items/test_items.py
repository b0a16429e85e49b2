"""Items over the public service, against a dictionary and float64."""

from __future__ import annotations

import json
import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.campaigns import campaign
from helpers.clocks import SettableClock
from helpers.folders import fastest
from hypothesis import assume
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from vecall import (
    ConflictError,
    DimensionError,
    Drop,
    EmbeddingMismatchError,
    InvalidArgumentError,
    InvalidTypeError,
    LimitExceededError,
    Limits,
    MemoryService,
    Put,
    StorageOptions,
)
from vecall.filters.metadata import compile_conditions
from vecall.store.values import encode_namespace
from vecall.store.writes.items import TouchItems

ALICE = {"app_name": "app", "user_id": "alice"}
BOB = {"app_name": "app", "user_id": "bob"}
DIM = 5
NOTES = ("notes",)

labels = st.sampled_from(["a", "b", "a\x1f", "\x1e0", "é", "a.b", "%"])
spaces = st.lists(labels, min_size=0, max_size=3).map(tuple)
keys = st.sampled_from(["k", "k2", "\x01", "K", "long " * 40])
vectors = st.lists(
    st.lists(st.integers(-9, 9), min_size=DIM, max_size=DIM).filter(any), max_size=3
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(-9, 9) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2)
    | st.dictionaries(st.sampled_from("nmxy"), inner, max_size=3),
    max_leaves=5,
)
puts = st.builds(
    Put,
    spaces,
    keys,
    st.fixed_dictionaries({"n": st.integers(0, 5), "x": json_values}),
    vectors,
    st.none() | st.integers(2, 30),
)
drops = st.builds(Drop, spaces, keys)
users = st.sampled_from([ALICE, BOB])


def below(namespace: tuple[str, ...], prefix: tuple[str, ...]) -> bool:
    return namespace[: len(prefix)] == prefix


class ItemsMachine(RuleBasedStateMachine):
    """Two services on one file do the same as a dictionary."""

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory(dir=fastest())
        self.path = Path(self.folder.name) / "m.db"
        self.clock = SettableClock()
        self.services = [self.opened(), self.opened()]
        self.turn = 0
        # By user, then (namespace, key): the put, when it expires, its version.
        self.model: dict[str, dict[Any, tuple[Put, float | None, int]]] = {
            "alice": {},
            "bob": {},
        }
        self.versions = {"alice": 0, "bob": 0}

    def opened(self) -> MemoryService:
        return MemoryService(
            self.path,
            embedder=None,
            storage=StorageOptions(
                durability="process",
                clock=self.clock,
                maintenance_interval=None,
                min_free_bytes=0,
                cache_bytes=600,
            ),
        )

    def items(self) -> Any:
        self.turn += 1
        return self.services[self.turn % 2].items.sync

    def live(self, user: dict[str, str]) -> dict[Any, tuple[Put, float | None, int]]:
        now = self.clock.monotonic()
        found = self.model[user["user_id"]]
        return {
            place: entry
            for place, entry in found.items()
            if entry[1] is None or entry[1] > now
        }

    @rule(user=users, batch=st.lists(puts | drops, min_size=1, max_size=6))
    def write(self, user: dict[str, str], batch: list[Put | Drop]) -> None:
        versions = self.items().write(batch, **user)
        model = self.live(user)
        for operation, version in zip(batch, versions, strict=True):
            place = (tuple(operation.namespace), operation.key)
            if isinstance(operation, Drop):
                assert version == model.pop(place, (None, None, 0))[2]
                continue
            self.versions[user["user_id"]] += 1
            assert version == self.versions[user["user_id"]]
            ttl = operation.ttl
            end = None if ttl is None else self.clock.monotonic() + float(ttl)  # type: ignore[arg-type]
            model[place] = (operation, end, version)
        self.model[user["user_id"]] = model

    @rule(user=users, put=puts, drop=drops, version=st.integers(0, 3))
    def a_conflict_changes_nothing(
        self, user: dict[str, str], put: Put, drop: Drop, version: int
    ) -> None:
        place = (tuple(drop.namespace), drop.key)
        # A put of the same place would be the version that the deletion sees.
        assume(place != (tuple(put.namespace), put.key))
        there = self.live(user).get(place, (None, None, 0))[2]
        wrong = there + 1 + version
        with pytest.raises(ConflictError):
            self.items().write([put, Drop(*place, if_version=wrong)], **user)

    @rule(user=users, prefix=spaces, n=st.integers(0, 5))
    def delete(self, user: dict[str, str], prefix: tuple[str, ...], n: int) -> None:
        gone = self.items().delete(prefix, where={"n": {"$lt": n}}, **user)
        live = self.live(user)
        left = {
            place: entry
            for place, entry in live.items()
            if not (below(place[0], prefix) and entry[0].value["n"] < n)
        }
        assert gone == len(live) - len(left)
        self.model[user["user_id"]] = left

    @rule(seconds=st.integers(1, 12))
    def wait(self, seconds: int) -> None:
        self.clock.let_pass(seconds)

    @rule(user=users)
    def sweep(self, user: dict[str, str]) -> None:
        self.items().sweep(**user)

    @rule()
    def reopen(self) -> None:
        self.services[0].close()
        self.services[0] = self.opened()

    @rule(user=users, prefix=spaces, limit=st.integers(1, 6), offset=st.integers(0, 3))
    def newest(
        self, user: dict[str, str], prefix: tuple[str, ...], limit: int, offset: int
    ) -> None:
        found = self.items().find(prefix, limit=limit, offset=offset, **user)
        expected = sorted(
            (-entry[2], place)
            for place, entry in self.live(user).items()
            if below(place[0], prefix)
        )
        some = expected[offset : offset + limit]
        assert [(i.namespace, i.key) for i in found] == [place for _, place in some]

    @rule(user=users, prefix=spaces, n=st.integers(0, 5))
    def all_that_match(self, user: Any, prefix: tuple[str, ...], n: int) -> None:
        found = self.items().find_all(prefix, where={"n": {"$gte": n}}, **user)
        places = [(item.namespace, item.key) for item in found]
        expected = sorted(
            (-version, place)
            for place, (put, _, version) in self.live(user).items()
            if below(place[0], prefix) and put.value["n"] >= n
        )
        assert places == [place for _, place in expected]

    @rule(
        user=users,
        prefix=spaces,
        query=st.lists(st.integers(-9, 9), min_size=DIM, max_size=DIM).filter(any),
        limit=st.integers(1, 9),
        n=st.integers(0, 5),
        only=st.booleans(),
    )
    def nearest(
        self,
        user: dict[str, str],
        prefix: tuple[str, ...],
        query: list[int],
        limit: int,
        n: int,
        only: bool,
    ) -> None:
        found = self.items().find(
            prefix,
            vector=query,
            where={"n": {"$gte": n}},
            limit=limit,
            only_with_vector=only,
            **user,
        )
        scores: dict[Any, float] = {}
        bare = []
        for place, (put, _, version) in self.live(user).items():
            if not below(place[0], prefix) or put.value["n"] < n:
                continue
            if not put.vectors:
                bare.append((-version, place))
                continue
            matrix = np.array(put.vectors, np.float64)
            q = np.array(query, np.float64)
            cosines = matrix @ q / np.linalg.norm(matrix, axis=1) / np.linalg.norm(q)
            scores[place] = float(cosines.max())
        near = [i for i in found if i.score is not None]
        best = sorted(scores.values(), reverse=True)[:limit]
        assert [i.score for i in near] == pytest.approx(best, abs=1e-6)
        for i in near:
            assert i.score == pytest.approx(scores[i.namespace, i.key], abs=1e-6)
        rest = [(i.namespace, i.key) for i in found if i.score is None]
        left = 0 if only else limit - len(near)
        assert rest == [place for _, place in sorted(bare)[:left]]

    @invariant()
    def all_is_as_written(self) -> None:
        if not hasattr(self, "services"):
            return
        for user in (ALICE, BOB):
            live = self.live(user)
            places = list(live)
            items = self.items().get(places, **user)
            for place, item in zip(places, items, strict=True):
                put, end, version = live[place]
                assert (item.namespace, item.key) == place
                assert item.value == put.value
                assert list(item.value) == list(put.value)
                assert item.version == version
                if end is not None:
                    left = end - self.clock.monotonic()
                    assert item.expires_in == pytest.approx(left, abs=1e-3)
            spaces_ = {place[0] for place in live}
            assert set(self.items().namespaces(**user)) == spaces_
            assert self.items().count(**user) == len(live)

    def teardown(self) -> None:
        if hasattr(self, "services"):
            for service in self.services:
                service.close()
            self.folder.cleanup()


TestItems = ItemsMachine.TestCase
TestItems.settings = campaign(examples=40, steps=25)
TestItems.pytestmark = [pytest.mark.campaign]


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("many", [1, 300])
def test_an_item_of_many_vectors_does_not_crowd_out_others(open_service, many, depth):
    items = open_service().items.sync
    rng = np.random.default_rng(3)
    close = rng.normal(size=(many, DIM)) * 0.01 + np.eye(DIM)[0]
    far = rng.normal(size=(20, DIM))
    batch = [Put(NOTES, "crowd", 0, close)]
    batch += [
        Put((*NOTES, "x" * (n % depth + 1)), f"k{n}", n, far[n]) for n in range(20)
    ]
    items.write(batch, **ALICE)
    found = items.find(NOTES, vector=np.eye(DIM)[0], limit=12, **ALICE)
    cosines = sorted(-(far @ np.eye(DIM)[0]) / np.linalg.norm(far, axis=1))
    assert found[0].key == "crowd"
    assert [item.score for item in found[1:]] == pytest.approx(
        [-c for c in cosines[:11]], abs=1e-6
    )


REFUSED: list[tuple[Any, type[Exception]]] = [
    ([Put(NOTES, "k", float("nan"))], InvalidTypeError),
    ([Put(NOTES, "k", {1: 2})], InvalidTypeError),
    ([Put(NOTES, "k", object())], InvalidTypeError),
    ([Put(NOTES, "k", "x" * 40_000_000)], LimitExceededError),
    ([Put(NOTES, "", 1)], InvalidArgumentError),
    ([Put(NOTES, "a\0", 1)], InvalidArgumentError),
    ([Put(("",), "k", 1)], InvalidArgumentError),
    ([Put("notes", "k", 1)], InvalidTypeError),
    ([Put(("x" * 5000,), "k", 1)], LimitExceededError),
    ([Put(NOTES, "k", 1, [0.0, 0.0])], InvalidArgumentError),
    ([Put(NOTES, "k", 1, [1.0, float("inf")])], InvalidArgumentError),
    ([Put(NOTES, "k", 1, ["a"])], InvalidTypeError),
    ([Put(NOTES, "k", 1, [1.0]), Put(NOTES, "l", 1, [1.0, 2.0])], DimensionError),
    ([Put(NOTES, "k", 1, ttl=-1)], InvalidArgumentError),
    ([Put(NOTES, "k", 1, if_version=-1)], InvalidArgumentError),
    ([("k", 1)], InvalidTypeError),
    ("ops", InvalidTypeError),
]


@pytest.mark.parametrize(("operations", "error"), REFUSED)
def test_what_cannot_be_stored_is_refused_whole(open_service, operations, error):
    items = open_service().items.sync
    rest = operations if isinstance(operations, list) else None
    with pytest.raises(error) as raised:
        items.write([Put(NOTES, "good", 1), *rest] if rest else operations, **ALICE)
    assert items.find(**ALICE) == []
    assert "\ud800" not in str(raised.value)


def test_vectors_of_another_dimension_or_embedder_are_refused(open_service):
    items = open_service().items.sync
    items.write([Put(NOTES, "k", 1, [1.0, 0.0])], embedder="one", **ALICE)
    with pytest.raises(DimensionError):
        items.find(vector=[1.0, 0.0, 0.0], **ALICE)
    with pytest.raises(EmbeddingMismatchError):
        items.find(vector=[1.0, 0.0], embedder="two", **ALICE)
    with pytest.raises(EmbeddingMismatchError):
        items.write([Put(NOTES, "l", 1, [1.0, 0.0])], embedder="two", **ALICE)
    assert items.count(**ALICE) == 1


def test_values_up_to_the_limit_come_back_as_they_were(open_service):
    limits = Limits(max_item_bytes=100_000, max_item_name_bytes=600)
    items = open_service(limits=limits).items.sync
    value = {
        "z": [1, 2.5, None, True, 10**30, "\0\x01\u2028"],
        "a": {"k": "é" * 40_000},
    }
    items.write([Put(("n" * 599,), "k" * 600, value)], **ALICE)
    (item,) = items.get([(("n" * 599,), "k" * 600)], **ALICE)
    assert json.dumps(item.value) == json.dumps(value)


def test_an_item_that_takes_the_place_of_an_expired_one_is_new(open_service):
    clock = SettableClock()
    service = open_service(clock=clock, maintenance_interval=None)
    items = service.items.sync
    items.write([Put(NOTES, "k", 1, ttl=10), Put(NOTES, "same", 1)], **ALICE)
    clock.let_pass(11)
    items.write([Put(NOTES, "k", 2, if_version=0), Put(NOTES, "same", 2)], **ALICE)
    new, same = items.get([(NOTES, "k"), (NOTES, "same")], **ALICE)
    assert new.created_at == same.updated_at == clock.wall()
    assert same.created_at == clock.wall() - 11


def test_an_import_leaves_out_the_items_that_have_expired_or_are_there(tmp_path):
    clock = SettableClock()
    options = StorageOptions(clock=clock, maintenance_interval=None)
    with MemoryService(tmp_path / "m.db", embedder=None, storage=options) as service:
        puts = [Put(NOTES, "short", 1, ttl=10), Put(NOTES, "long", 1, ttl=12)]
        service.items.sync.write(puts, **ALICE)
        service.sync.admin.export_jsonl(tmp_path / "m.jsonl")
    clock.let_pass(11)
    with MemoryService(tmp_path / "n.db", embedder=None, storage=options) as service:
        for _ in range(2):
            service.sync.admin.import_jsonl(tmp_path / "m.jsonl")
        assert service.sync.admin.stats()["items"] == 1
        (item,) = service.items.sync.find(NOTES, **ALICE)
        assert (item.key, item.version) == ("long", 1)


def test_an_item_is_gone_at_the_very_end_of_its_ttl(open_service, tmp_path):
    clock = SettableClock()
    service = open_service(tmp_path / "m.db", clock=clock, maintenance_interval=None)
    items = service.items.sync
    items.write([Put(NOTES, "k", 1, ttl=8)], **ALICE)
    clock.let_pass(8)
    assert items.count(**ALICE) == 0
    assert items.get([(NOTES, "k")], **ALICE) == [None]
    assert items.namespaces(**ALICE) == []


def test_a_read_begins_the_ttl_again_without_a_new_version(open_service, tmp_path):
    clock = SettableClock()
    service = open_service(tmp_path / "m.db", clock=clock, maintenance_interval=None)
    items = service.items.sync
    items.write([Put(NOTES, key, 1, ttl=10) for key in "abc"], **ALICE)
    for _ in range(3):
        clock.let_pass(8)
        assert items.get([(NOTES, "a")], refresh=True, **ALICE)[0].version == 1
        assert [i.key for i in items.find(where=None, limit=1, **ALICE)] == (
            ["c"] if _ == 0 else ["a"]
        )
    assert items.count(**ALICE) in (0, 1)  # the new expiry may still be written
    service.close()
    service = open_service(tmp_path / "m.db", clock=clock, maintenance_interval=None)
    assert service.items.sync.count(**ALICE) == 1
    assert service.admin.sync.run_due() == 0
    assert service.admin.sync.stats()["items"] == 1
    clock.let_pass(11)
    service.admin.sync.run_due()
    assert service.admin.sync.stats()["items"] == 0


def test_an_older_refresh_that_is_written_late_shortens_no_item(open_service):
    """Two processes read the item; the one that read it first writes last."""
    service = open_service(clock=SettableClock(), maintenance_interval=None)
    service.items.sync.write([Put(NOTES, "a", 1, ttl=10)], **ALICE)
    storage = service._memory.storage
    place = (*ALICE.values(), encode_namespace(NOTES), "a")
    row = storage.item_at(*place)
    end = row.expires_at
    for wanted, then in ((end + 5, end + 5), (end + 2, end + 5)):
        storage.submit(TouchItems(*ALICE.values(), {row.rid: wanted})).result()
        assert storage.item_at(*place).expires_at == then


CONDITIONS: list[tuple[Any, bool]] = [
    ({"a": 1}, True),
    ({"a": 1.0}, True),
    ({"a": True}, False),
    ({"b.c": "x"}, True),
    ({"b": {"c": "x"}}, True),
    ({"b": {"c": {"$ne": "x"}}}, False),
    ({"a": {"$gt": 0, "$lt": 2}}, True),
    ({"a": {"$gt": "0"}}, False),
    ({"a": {"$in": [5, 1]}}, True),
    ({"none": {"$nin": [5]}}, True),
    ({"none": None}, False),
    ({"nil": None}, True),
    ({"nil": {"$exists": True}}, True),
    ({"none": {"$exists": False}}, True),
    ({"$or": [{"a": 2}, {"b.c": "x"}]}, True),
    ({"$and": [{"a": 1}, {"b.c": "y"}]}, False),
    ({"$not": {"a": 1}}, False),
    ({"a": {"$not": {"$gt": 5}}}, True),
    ({"list": [1, 2]}, True),
    ({"d.e": 7}, True),
    ({"nan": {"$gte": 1}}, False),
    ({"nan": {"$lte": 1}}, False),
    ({"a": {"$gte": math.nan}}, False),
    ({"nan": {"$in": [math.nan]}}, False),
    ({"yes": {"$gt": 0}}, False),
    ({}, True),
]


@pytest.mark.parametrize(("where", "expected"), CONDITIONS)
def test_conditions_on_values(where, expected):
    value = {"a": 1, "b": {"c": "x"}, "nil": None, "list": [1, 2], "d.e": 7}
    value |= {"nan": math.nan, "yes": True}
    assert compile_conditions(where)(value) is expected


@pytest.mark.parametrize(
    "where",
    [{"a": {"$near": 1}}, {"$nor": []}, {"a": {"$gt": None}}, [1], {"a": {"$in": 3}}],
)
def test_an_unknown_condition_is_refused(where):
    with pytest.raises(InvalidArgumentError):
        compile_conditions(where)
