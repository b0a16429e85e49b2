"""Filters by sets of labels, without a kind, and by operators on custom_metadata.

A model in plain Python says which of the memories that are listed pass.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from helpers.embedders import Recorder
from helpers.filter_model import ASKED, ENTRY, LABELS, passes
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
from vecall.other_storage.in_memory import VectorMemoryService
from vecall.other_storage.vector_store import VectorStoreMemoryService


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
            user = service.sync.user(*ALICE.values())
            assert user.count(filter=asked) == len(right)
            pages = list(paged(service, asked, top_k))
            assert sorted(pages) == right
            order = {text: n for n, text in enumerate(all_texts(service))}
            assert pages == sorted(pages, key=order.__getitem__)


def all_texts(service: MemoryService) -> list[str]:
    return [each.text for each in service.sync.list_memories(**ALICE, limit=1000)]


def paged(service: MemoryService, asked: Any, limit: int) -> Iterator[str]:
    """The texts of all pages of a list."""
    cursor = None
    while page := service.sync.list_memories(
        **ALICE, filter=asked, limit=limit, cursor=cursor
    ):
        yield from (memory.text for memory in page)
        cursor = page[-1].id


@settings(max_examples=25, deadline=None)
@given(told=st.lists(ENTRY, min_size=1, max_size=8), asked=ASKED)
def test_exactly_the_memories_that_pass_are_deleted(told, asked):
    """By labels and metadata."""
    with MemoryService(embedder=None) as service:
        tell(service, told)
        before = expected(service, {})
        if all(value is None for value in asked.values()):
            with pytest.raises(InvalidArgumentError, match="at least one condition"):
                service.sync.delete_where(**ALICE, filter=asked)
            return
        gone = expected(service, asked)
        assert service.sync.delete_where(**ALICE, filter=asked) == len(gone)
        assert expected(service, {}) == sorted(set(before) - set(gone))
        assert found(service, None) == sorted(set(before) - set(gone))


FIELDS: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ({"author": ("a", "b")}, {"author": "b"}, {"author": "c"}),
    ({"kind": ["a", "b"]}, {"kind": "b"}, {"kind": "c"}),
    ({"not_kind": "c"}, {"kind": "b"}, {"kind": "c"}),
    ({"not_kind": ("c", "d")}, {}, {"kind": "d"}),
    ({"kind_prefix": "project-7/"}, {"kind": "project-7/plan"}, {"kind": "project-77"}),
    ({"kind_prefix": ("%", "x_")}, {"kind": "%a"}, {"kind": "xa"}),
    ({"session_prefix": "Chat"}, {"session_id": "Chat 1"}, {"session_id": "chat 1"}),
    ({"session_prefix": "a"}, {"session_id": "a"}, {}),
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
    # An update cannot lower the trust or move a memory to another session.
    [each for each in FIELDS if not each[0].keys() & {"trust", "session_prefix"}],
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


@pytest.mark.parametrize(
    "name", ["author", "kind", "not_kind", "trust", "source", "kind_prefix"]
)
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


def nested(depth: int) -> dict[str, Any]:
    return {"$not": nested(depth - 1)} if depth else {"k": 1}


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
        ({"k": {"$in": [[[SECRET]]]}}, InvalidTypeError),
        ({"k": {"$eq": [[SECRET]]}}, InvalidTypeError),
        ({"k": [{SECRET: 1}]}, InvalidTypeError),
        ({"k": {"$eq": [SECRET] * 65}}, LimitExceededError),
        ({"k": {"$contains": [SECRET]}}, InvalidTypeError),
        ({"k": {"$contains": {SECRET: 1}}}, InvalidTypeError),
        ({"k": {"$contains": float("nan")}}, InvalidArgumentError),
        ({"k": {"$all": SECRET}}, InvalidTypeError),
        ({"k": {"$all": []}}, InvalidArgumentError),
        ({"k": {"$all": [[SECRET]]}}, InvalidTypeError),
        ({"k": {"$any": list(range(65))}}, InvalidArgumentError),
        ({"k": {"$any": [SECRET, {SECRET: 1}]}}, InvalidTypeError),
        ({"k": {"$gt": None}}, InvalidTypeError),
        ({"k": {"$lte": True}}, InvalidTypeError),
        ({"k": {"$gte": float("nan")}}, InvalidArgumentError),
        ({"k": {"$eq": {"$eq": 1}}}, InvalidTypeError),
        ({"k": {1: 1}}, InvalidArgumentError),
        ({"$and": []}, InvalidArgumentError),
        ({"$or": {"k": 1}}, InvalidTypeError),
        ({"$or": [SECRET]}, InvalidTypeError),
        ({"$nor": [{"k": 1}]}, InvalidArgumentError),
        ({"$not": SECRET}, InvalidTypeError),
        ({"$not": {}}, InvalidArgumentError),
        ({"k": {"$not": [[SECRET]]}}, InvalidTypeError),
        ({"k": {"$exists": 1}}, InvalidTypeError),
        ({"k": {"$nin": []}}, InvalidArgumentError),
        ({"$and": [{f"k{n}": 1 for n in range(17)}]}, InvalidArgumentError),
        (nested(40), LimitExceededError),
    ],
)
def test_operators_that_cannot_be_used_are_refused(open_service, wrong, kind):
    """With a class of its own, and without what was given."""
    service = open_service()
    tell(service, [{}])
    refuses(kind, lambda: found(service, Filter(metadata=wrong)))
    with pytest.raises(kind, match=r"filter\.metadata"):
        found(service, {"metadata": wrong})
    sync = service.sync
    for call in (sync.list_memories, sync.count_memories, sync.delete_where):
        with pytest.raises(kind, match=r"filter\.metadata"):
            call(**ALICE, filter={"metadata": wrong})
    assert found(service, {}) == ["zebra 0"]


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
