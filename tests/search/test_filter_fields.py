"""Filters by sets of labels, without a kind, and by operators on custom_metadata.

A model in plain Python says which of the memories that are listed pass.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from helpers.embedders import Recorder
from helpers.memories import ALICE, SECRET, refuses
from helpers.vector_stores.reference import ReferenceVectorStore
from hypothesis import given, settings
from hypothesis import strategies as st
from vecall import (
    Filter,
    InMemoryMemoryService,
    InvalidArgumentError,
    InvalidTypeError,
    LimitExceededError,
    MemoryEntry,
    MemoryService,
    Scopes,
)
from vecall.services.vector import VectorMemoryService
from vecall.services.vector_store import VectorStoreMemoryService

LABELS = ("author", "kind", "source", "trust")
WORDS = ("user", "guide", "a,b", "O'Neil", "Ünï")
LABEL = st.sampled_from([None, *WORDS])
IDS = st.sampled_from([f"m{n}" for n in range(8)])
NAMES = st.one_of(
    st.none(),
    st.sampled_from([*WORDS, "absent"]),
    st.lists(st.sampled_from([*WORDS, "absent"]), min_size=1, max_size=3),
    st.sets(st.sampled_from(WORDS), min_size=1).map(frozenset),
)
VALUES: list[Any] = [None, True, False, 0, 1, 1.0, 2**53 + 1, -3.5, "", "1", "b", "ä"]
VALUE = st.sampled_from(VALUES)
ORDERED = st.sampled_from([v for v in VALUES if v is not None and v is not True])
ORDERED = ORDERED.filter(lambda value: not isinstance(value, bool))
OPERATORS = st.fixed_dictionaries(
    {},
    optional={
        "$eq": VALUE,
        "$ne": VALUE,
        "$gt": ORDERED,
        "$gte": ORDERED,
        "$lt": ORDERED,
        "$lte": ORDERED,
        "$in": st.lists(VALUE, min_size=1, max_size=3),
    },
).filter(bool)
CONDITION = st.one_of(VALUE, OPERATORS)
WANTED = st.one_of(
    st.none(),
    st.dictionaries(st.sampled_from("pq"), CONDITION, min_size=1, max_size=2),
)
ENTRY = st.fixed_dictionaries(
    {
        **dict.fromkeys((*LABELS, "session_id"), LABEL),
        "custom_metadata": st.dictionaries(
            st.sampled_from("pqr"), st.one_of(VALUE, st.just([1])), max_size=2
        ),
    }
)
ASKED = st.fixed_dictionaries(
    {
        **dict.fromkeys((*LABELS, "not_kind", "not_session_id"), NAMES),
        "not_id": st.one_of(
            st.none(), st.sampled_from(["m0", "absent"]), st.sets(IDS, min_size=1)
        ),
        "metadata": WANTED,
    }
)


def listed(names: Any) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def is_same(one: Any, other: Any) -> bool:
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def holds(there: bool, value: Any, operator: str, operand: Any) -> bool:
    """The reference: one comparison."""
    if operator == "$ne":
        return not there or not is_same(value, operand)
    if not there:
        return False
    if operator == "$eq":
        return is_same(value, operand)
    if operator == "$in":
        return any(is_same(value, each) for each in operand)
    comparable = (isinstance(value, str) and isinstance(operand, str)) or (
        is_number(value) and is_number(operand)
    )
    if not comparable:
        return False
    return {
        "$gt": value > operand,
        "$gte": value >= operand,
        "$lt": value < operand,
        "$lte": value <= operand,
    }[operator]


def passes(memory: MemoryEntry, asked: dict[str, Any]) -> bool:
    """The reference: what a filter says, of one memory as it is listed."""
    for name in LABELS:
        if asked.get(name) is not None and getattr(memory, name) not in listed(
            asked[name]
        ):
            return False
    if asked.get("not_kind") is not None and memory.kind in listed(asked["not_kind"]):
        return False
    for name in ("id", "session_id"):
        hidden = asked.get(f"not_{name}")
        if hidden is not None and getattr(memory, name) in listed(hidden):
            return False
    for key, condition in (asked.get("metadata") or {}).items():
        wanted = condition if isinstance(condition, dict) else {"$eq": condition}
        there = key in memory.custom_metadata
        value = memory.custom_metadata.get(key)
        if not all(holds(there, value, *each) for each in wanted.items()):
            return False
    return True


def expected(service: MemoryService, asked: dict[str, Any]) -> list[str]:
    entries = service.sync.list_memories(**ALICE, limit=1000)
    return sorted(each.text for each in entries if passes(each, asked))


def found(service: MemoryService, asked: Any, **options: Any) -> list[str]:
    call = {**ALICE, "query": "zebra", "top_k": 1000, **options}
    answer = service.sync.search_memory(**call, filter=asked)
    return sorted(memory.text for memory in answer.memories)


def tell(service: MemoryService, entries: list[dict[str, Any]]) -> None:
    memories = [
        MemoryEntry(f"zebra {n}", id=f"m{n}", **each) for n, each in enumerate(entries)
    ]
    service.sync.add_memory(**ALICE, memories=memories)


MAKERS: list[Callable[[], MemoryService]] = [
    lambda: MemoryService(embedder=None),
    lambda: MemoryService(embedder=Recorder()),
    lambda: VectorMemoryService(Recorder()),
    lambda: InMemoryMemoryService("substring"),
    lambda: InMemoryMemoryService("words"),
]


@settings(max_examples=20, deadline=None)
@given(
    told=st.lists(ENTRY, min_size=1, max_size=8),
    filters=st.lists(ASKED, min_size=1, max_size=6),
    make=st.sampled_from(MAKERS),
    top_k=st.integers(1, 8),
)
def test_exactly_the_memories_that_pass_are_found(told, filters, make, top_k):
    """Every field with every other, in every service, as a filter and as a mapping."""
    with make() as service:
        tell(service, told)
        for asked in filters:
            right = expected(service, asked)
            assert found(service, Filter(**asked)) == right
            some = found(service, asked, top_k=top_k)
            assert len(some) == min(top_k, len(right))
            assert set(some) <= set(right)


@settings(max_examples=15, deadline=None)
@given(told=st.lists(ENTRY, min_size=1, max_size=8), asked=ASKED)
def test_exactly_the_memories_that_pass_are_deleted(told, asked):
    """By labels; a condition on metadata is refused, and nothing is deleted."""
    with MemoryService(embedder=None) as service:
        tell(service, told)
        before = expected(service, {})
        if asked["metadata"] is not None:
            with pytest.raises(InvalidArgumentError, match=r"filter\.metadata"):
                service.sync.delete_where(**ALICE, filter=asked)
            assert expected(service, {}) == before
        labels = {**asked, "metadata": None}
        if all(value is None for value in labels.values()):
            with pytest.raises(InvalidArgumentError, match="at least one condition"):
                service.sync.delete_where(**ALICE, filter=labels)
            return
        gone = expected(service, labels)
        assert service.sync.delete_where(**ALICE, filter=labels) == len(gone)
        assert expected(service, {}) == sorted(set(before) - set(gone))
        assert found(service, None) == sorted(set(before) - set(gone))


FIELDS: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ({"author": ("a", "b")}, {"author": "b"}, {"author": "c"}),
    ({"kind": ["a", "b"]}, {"kind": "b"}, {"kind": "c"}),
    ({"not_kind": "c"}, {"kind": "b"}, {"kind": "c"}),
    ({"not_kind": ("c", "d")}, {}, {"kind": "d"}),
    ({"trust": "first-party"}, {"trust": "first-party"}, {"trust": "unknown"}),
    ({"source": {"web", "crm"}}, {"source": "crm"}, {}),
    (
        {"metadata": {"year": {"$gte": 2025}}},
        {"custom_metadata": {"year": 2025}},
        {"custom_metadata": {"year": 2024}},
    ),
    (
        {"metadata": {"draft": {"$ne": True}}},
        {},
        {"custom_metadata": {"draft": True}},
    ),
]


@pytest.mark.parametrize(("asked", "right", "wrong"), FIELDS)
def test_each_field_works_with_the_other_options_of_a_search(
    open_service, tmp_path, asked, right, wrong
):
    """Scopes, a floor on the confidence, read_only, a later start, the event loop."""
    path = tmp_path / "m.db"
    both = Scopes(read={"shared", "app"}, write={"shared", "app"})
    told = [
        MemoryEntry("zebra right", **right),
        *[MemoryEntry(f"zebra wrong {n}", **wrong) for n in range(6)],
    ]
    with open_service(path, scopes=both) as service:
        for scope in ("user", "shared", "app"):
            service.sync.add_memory(**ALICE, memories=told, scope=scope)
        assert found(service, asked) == ["zebra right"] * 3
        assert found(service, asked, scopes=[]) == ["zebra right"]
    options = {"scopes": both, "read_only": True, "min_confidence": 1e-6}
    service = open_service(path, **options)
    assert found(service, asked, top_k=1, scopes=["app"]) == ["zebra right"]
    assert found(service, asked, min_confidence=1.0) == []
    answer = asyncio.run(service.search_memory(**ALICE, query="zebra", filter=asked))
    assert {memory.text for memory in answer.memories} == {"zebra right"}
    assert {memory.scope for memory in answer.memories} == {"user", "shared", "app"}


@pytest.mark.parametrize(
    ("asked", "right", "wrong"),
    [each for each in FIELDS if "trust" not in each[0]],  # an update cannot lower it
)
def test_an_update_between_the_two_looks_cannot_bring_in_what_does_not_pass(
    open_service, tmp_path, asked, right, wrong
):
    """The answer holds what passes, whatever another service changes meanwhile."""
    changes = dict.fromkeys(["author", "kind", "source"], None) | wrong

    class Meddling(Recorder):
        def embed(self, texts):
            if "zebra" in texts:  # the query, after the rows were looked at
                other.sync.update_memory(**ALICE, memory_id="m0", **changes)
            return super().embed(texts)

    path = tmp_path / "m.db"
    one = open_service(path, embedder=Meddling())
    other = open_service(path, embedder=Recorder())
    tell(one, [right, right])
    assert found(one, asked) == ["zebra 1"]


@pytest.mark.parametrize("name", ["author", "kind", "not_kind", "trust", "source"])
def test_names_that_cannot_be_are_refused_with_the_name_of_the_field(
    open_service, name
):
    """In searches and deletions; nothing is deleted."""
    service = open_service()
    tell(service, [{}])
    for wrong, kind in (
        ("", InvalidArgumentError),
        ([], InvalidArgumentError),
        ([SECRET, ""], InvalidArgumentError),
        ([f"{SECRET}{n}" for n in range(65)], InvalidArgumentError),
        ("\0", InvalidArgumentError),
        (7, InvalidTypeError),
        ({SECRET: 1}, InvalidTypeError),
        (SECRET.encode(), InvalidTypeError),
        ([SECRET, 7], InvalidTypeError),
        ([SECRET * 100], LimitExceededError),
    ):
        for work in (
            lambda wrong=wrong: found(service, Filter(**{name: wrong})),
            lambda wrong=wrong: found(service, {name: wrong}),
            lambda wrong=wrong: service.sync.delete_where(
                **ALICE, filter={name: wrong}
            ),
        ):
            refuses(kind, work)
            with pytest.raises(kind, match=rf"filter\.{name}"):
                work()
    assert found(service, {}) == ["zebra 0"]


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        ({"k": {"$near": SECRET}}, InvalidArgumentError),
        ({"k": {SECRET: 1}}, InvalidArgumentError),
        ({"k": {"$gt": 1, SECRET: 1}}, InvalidArgumentError),
        ({"k": {}}, InvalidTypeError),
        ({"k": {"$in": []}}, InvalidArgumentError),
        ({"k": {"$in": list(range(65))}}, InvalidArgumentError),
        ({"k": {"$in": SECRET}}, InvalidTypeError),
        ({"k": {"$in": [[SECRET]]}}, InvalidTypeError),
        ({"k": {"$eq": [SECRET]}}, InvalidTypeError),
        ({"k": {"$gt": None}}, InvalidTypeError),
        ({"k": {"$lte": True}}, InvalidTypeError),
        ({"k": {"$gte": float("nan")}}, InvalidArgumentError),
        ({"k": {"$eq": {"$eq": 1}}}, InvalidTypeError),
        ({"k": {1: 1}}, InvalidArgumentError),
    ],
)
def test_operators_that_cannot_be_used_are_refused(open_service, wrong, kind):
    """With a class of its own, and without what was given."""
    service = open_service()
    tell(service, [{}])
    refuses(kind, lambda: found(service, Filter(metadata=wrong)))
    with pytest.raises(kind, match=r"filter\.metadata"):
        found(service, {"metadata": wrong})


def test_a_mapping_has_the_fields_of_a_filter_and_no_other(open_service):
    """A misspelt condition is not a search without it."""
    service = open_service()
    tell(service, [{}])
    for wrong in ({SECRET: 1}, {"Author": "x"}, {"auhtor": "x"}, {1: 2}):
        refuses(InvalidArgumentError, lambda wrong=wrong: found(service, wrong))
        with pytest.raises(InvalidArgumentError, match="not_kind"):
            service.sync.delete_where(**ALICE, filter=wrong)
    for wrong in ("author", ["author"], 7):
        refuses(InvalidTypeError, lambda wrong=wrong: found(service, wrong))
    assert found(service, {}) == ["zebra 0"]


@pytest.mark.parametrize("asked", [asked for asked, *_ in FIELDS])
def test_a_vector_store_refuses_by_name_what_it_does_not_have(asked):
    """It does not search without the condition."""
    with VectorStoreMemoryService(ReferenceVectorStore(), Recorder(16)) as stored:
        for given_ in (asked, Filter(**asked)):
            with pytest.raises(InvalidArgumentError, match=next(iter(asked))):
                asyncio.run(stored.search_memory(**ALICE, query="zebra", filter=given_))


@pytest.mark.parametrize("field", ["author", "kind", "not_kind", "trust", "source"])
def test_deleting_by_a_field_leaves_what_waits_for_a_trigger(open_service, field):
    """Only a whole session, or a whole user, takes along what is not stored yet."""
    service = open_service(trigger="session_end")
    tell(service, [{**dict.fromkeys(LABELS, "x")}])
    names = {"app_name": ALICE["app_name"], "user_id": ALICE["user_id"]}
    event = {"id": "e", "author": "user", "text": "zebra waiting"}
    service.sync.observe_session({**names, "id": "s", "events": [event]})
    asked = {field: "other" if field == "not_kind" else "x"}
    assert service.sync.delete_where(**ALICE, filter=asked) == 1
    service.sync.admin.purge()
    service.sync.end_session({**names, "id": "s", "events": []})
    assert found(service, None) == ["zebra waiting"]
