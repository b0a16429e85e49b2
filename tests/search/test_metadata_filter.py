"""A search among the memories whose custom_metadata has certain values."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from fractions import Fraction
from typing import Any

import pytest
from helpers.campaigns import examples
from helpers.clocks import SettableClock
from helpers.embedders import Recorder
from helpers.memories import ALICE, BOB, SECRET, refuses
from helpers.vector_stores.reference import ReferenceVectorStore
from hypothesis import given, settings
from hypothesis import strategies as st
from vecall import (
    CorruptFileError,
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

KEYS = [
    "a", "a.b", "$", "$.a", '"', "'", "\\", "", "key with space", "a\0b", "ключ",
    "\U0001f600", "\ud800", "a*", "%", "null", "[0]", "/", "\\u0061",
]  # fmt: skip
SCALARS: list[Any] = [
    None, True, False, 0, 1, 1.0, -0.0, 0.1, 2**53, 2**53 + 1, float(2**53),
    2**64, 2**64 + 1, float(2**64), 10**400, 10**16, 1e16, 1e-7, 1e308,
    "", "1", "1.0", "true", "null", "a", "a\0b", "a\0c", "\ud800", "\udfff",
    "\u00e9", "e\u0301", 'say "a"', "back\\slash", "/", "\\u0061", "A",
]  # fmt: skip
STORED = st.sampled_from([*SCALARS, [], [1], ["a"], {}, {"a": 1}, {"a": None}])
METADATA = st.dictionaries(st.sampled_from(KEYS), STORED, max_size=5)
WANTED = st.dictionaries(
    st.sampled_from(KEYS), st.sampled_from(SCALARS), min_size=1, max_size=2
)
SOME = st.sampled_from([None, "s1", "s2"])


def is_json_equal(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return repr(one) == repr(other)
    if isinstance(one, int | float) and isinstance(other, int | float):
        return Fraction(one) == Fraction(other)
    return type(one) is type(other) and one == other


def passes(memory: MemoryEntry, asked: Filter) -> bool:
    """The reference: what a filter says, of one memory as it is listed."""
    return (
        all(
            key in memory.custom_metadata
            and is_json_equal(memory.custom_metadata[key], value)
            for key, value in (asked.metadata or {}).items()
        )
        and asked.session_id in (None, memory.session_id)
        and asked.author in (None, memory.author)
        and asked.kind in (None, memory.kind)
    )


def expected(service: MemoryService, asked: Filter, **who: str) -> list[str]:
    listed = service.sync.list_memories(**(who or ALICE), limit=1000)
    return sorted(memory.text for memory in listed if passes(memory, asked))


def found(
    service: MemoryService, asked: Filter | dict[str, Any], **options: Any
) -> list[str]:
    if isinstance(asked, dict):
        asked = Filter(metadata=asked)
    call = {**ALICE, "query": "zebra", "top_k": 1000, **options}
    answer = service.sync.search_memory(**call, filter=asked)
    return sorted(memory.text for memory in answer.memories)


def tell(service: MemoryService, *metadata: dict[str, Any], **who: str) -> None:
    """Remember "zebra 0", "zebra 1" and so on, one with each metadata."""
    entries = [
        MemoryEntry(f"zebra {n}", id=f"m{n}", custom_metadata=each)
        for n, each in enumerate(metadata)
    ]
    service.sync.add_memory(**(who or ALICE), memories=entries)


@pytest.mark.campaign
@settings(max_examples=examples(150), deadline=None)
@given(
    told=st.lists(st.tuples(METADATA, SOME, SOME, SOME), min_size=1, max_size=12),
    asked=st.lists(st.tuples(WANTED, SOME, SOME, SOME), min_size=1, max_size=6),
    hybrid=st.booleans(),
    top_k=st.integers(1, 12),
    data=st.data(),
)
def test_exactly_the_memories_that_are_listed_with_these_values_are_found(
    told, asked, hybrid, top_k, data
):
    """S1.22, S0.16: any keys and values, with other conditions, words and vectors."""
    entries = [
        MemoryEntry(f"zebra {n}", custom_metadata=m, session_id=s, author=a, kind=k)
        for n, (m, s, a, k) in enumerate(told)
    ]
    # What is asked is often there.
    present = [
        {key: value}
        for metadata, *_ in told
        for key, value in metadata.items()
        if not isinstance(value, list | dict)
    ]
    if present:
        asked.append((data.draw(st.sampled_from(present)), None, None, None))
    embedder = Recorder() if hybrid else None
    with MemoryService(embedder=embedder) as service:
        service.sync.add_memory(**ALICE, memories=entries)
        for wanted, session, author, kind in asked:
            condition = Filter(
                metadata=wanted, session_id=session, author=author, kind=kind
            )
            right = expected(service, condition)
            assert found(service, condition) == right
            some = found(service, condition, top_k=top_k)
            assert len(some) == min(top_k, len(right))
            assert set(some) <= set(right)


@pytest.mark.parametrize(
    ("stored", "asked", "equal"),
    [
        (1, 1.0, True),
        (1, True, False),
        (0, False, False),
        (True, True, True),
        (True, 1, False),
        (False, 0.0, False),
        (None, None, True),
        ("1", 1, False),
        ("true", True, False),
        (2**64, 2**64 + 1, False),
        (2**53 + 1, float(2**53), False),
        ("a\0b", "a", False),
        ("a\0b", "a\0b", True),
        ("\ud800", "\ud800", True),
        ("\ud800", "?", False),
        ([1], 1, False),
    ],
)
def test_values_are_compared_as_json_compares_them(open_service, stored, asked, equal):
    """S1.22: numbers by value, booleans and texts as no numbers."""
    service = open_service()
    tell(service, {"k": stored}, {"other": asked}, {"deep": {"k": asked}}, {})
    assert found(service, {"k": asked}) == ["zebra 0"] * equal


def test_k_memories_come_back_whenever_k_pass(open_service):
    """S1.22, S0.16: better memories that do not pass take nobody's place."""
    service = open_service(embedder=Recorder())
    better = [
        MemoryEntry("zebra okapi", id=f"b{n}", custom_metadata={"p": "x"})
        for n in range(300)
    ]
    filler = "of many other words " * 20
    worse = [
        MemoryEntry(f"zebra {filler} {n}", id=f"w{n}", custom_metadata={"p": "y"})
        for n in range(7)
    ]
    service.sync.add_memory(**ALICE, memories=better + worse)
    wanted = {"p": "y"}
    options = {"query": "zebra okapi"}
    assert len(found(service, wanted, top_k=5, **options)) == 5
    assert found(service, wanted, top_k=9, **options) == sorted(w.text for w in worse)


@pytest.mark.parametrize("embedder", [None, Recorder()])
def test_a_neighbour_of_a_hit_passes_the_filter_too(open_service, embedder):
    """S1.22, S0.16: by metadata as by author."""
    service = open_service(embedder=embedder)
    events = [
        {"id": f"e{n}", "text": text, "author": who, "custom_metadata": {"w": who}}
        for n, (text, who) in enumerate([("okapi", "x"), ("zebra", "x"), ("gnu", "y")])
    ]
    service.sync.add_session_to_memory({**ALICE, "id": "s", "events": events})
    by_author = found(service, Filter(author="x"))
    assert by_author == ["okapi", "zebra"]
    assert found(service, {"w": "x"}) == by_author
    assert "gnu" in found(service, Filter())


def test_an_update_a_restart_and_another_service_change_what_passes(
    open_service, tmp_path
):
    """S1.22: the newest metadata count, whoever wrote them."""
    path = tmp_path / "m.db"
    one, other = open_service(path), open_service(path)
    tell(one, {"p": 1}, {"p": 2}, {"p": 1})
    assert found(one, {"p": 1}) == found(other, {"p": 1}) == ["zebra 0", "zebra 2"]
    one.sync.update_memory(**ALICE, memory_id="m0", custom_metadata={"p": 2})
    other.sync.update_memory(**ALICE, memory_id="m1", custom_metadata={"p": 1})
    other.sync.delete_memory(**ALICE, memory_id="m2")
    for service in (one, other):
        assert found(service, {"p": 1}) == ["zebra 1"]
        assert found(service, {"p": 2}) == ["zebra 0"]
    one.close()
    other.close()
    again = open_service(path)
    assert found(again, {"p": 1}) == ["zebra 1"]
    assert asyncio.run(
        again.search_memory(**ALICE, query="zebra", filter=Filter(metadata={"p": 2}))
    ).memories[0].custom_metadata == {"p": 2}


def test_what_was_changed_while_a_search_ran_is_found_only_if_it_passes(
    open_service, tmp_path
):
    """S1.22: no answer holds a memory that does not pass."""

    class Meddling(Recorder):
        def embed(self, texts):
            if "zebra" in texts:  # the query, after the metadata were read
                other.sync.update_memory(
                    **ALICE, memory_id="m0", custom_metadata={"p": 2}
                )
            return super().embed(texts)

    path = tmp_path / "m.db"
    one, other = open_service(path, embedder=Meddling()), None
    other = open_service(path, embedder=Recorder())
    tell(one, {"p": 1}, {"p": 1})
    assert found(one, {"p": 1}) == ["zebra 1"]


def test_another_users_metadata_are_never_found(open_service, tmp_path):
    """S1.22: the same metadata under other users, apps and places."""
    both = Scopes(read={"shared", "app"}, write={"shared", "app"})
    service = open_service(tmp_path / "m.db", scopes=both)
    others = [BOB, {"app_name": "other", "user_id": "alice"}]
    for who in others:
        tell(service, {"p": 1}, **who)
    wanted = {"p": 1}
    assert found(service, wanted) == []
    tell(service, {"p": 2}, {"p": 1})
    assert found(service, wanted, scopes=[]) == ["zebra 1"]
    for scope, metadata in (("shared", {"p": 1}), ("app", {"p": 2})):
        entry = MemoryEntry(f"zebra {scope}", custom_metadata=metadata)
        service.sync.add_memory(**ALICE, memories=[entry], scope=scope)
    assert found(service, wanted) == ["zebra 1", "zebra shared"]
    assert found(service, {"p": 2}) == ["zebra 0", "zebra app"]
    service.sync.delete_user(**ALICE, forget=True)
    assert found(service, wanted, scopes=[]) == []
    assert found(service, wanted, **BOB, scopes=[]) == ["zebra 0"]


def test_what_expired_or_was_archived_is_not_found_by_its_metadata(open_service):
    """S1.22: an end is an end whatever the metadata say."""
    clock = SettableClock()
    service = open_service(clock=clock)
    tell(service, {"p": 1, "ttl": 60}, {"p": 1}, {"p": 1})
    ending = MemoryEntry(
        "zebra ending", valid_until=clock.wall() + 60, custom_metadata={"p": 1}
    )
    service.sync.add_memory(**ALICE, memories=[ending])
    assert len(found(service, {"p": 1})) == 4
    clock.let_pass(61)
    service.sync.archive_memory(**ALICE, memory_id="m1")
    assert found(service, {"p": 1}) == ["zebra 2"]


def test_metadata_from_elsewhere_may_be_written_in_any_way(open_service, tmp_path):
    """S1.22: spaces, escapes and doubled keys are JSON as well."""
    origin = open_service()
    tell(origin, *[{"clé": "é"}] * 5)
    origin.sync.admin.export_jsonl(tmp_path / "out")
    ways = [
        '{"clé":"é"}',
        ' { "clé" :\n"\\u00e9"}',
        '{"cl\\u00e9":"é"}',
        '{"clé":1,"clé":"é"}',
        '{"clé":"é","clé":1}',
    ]
    lines = []
    for line in (tmp_path / "out").read_text().splitlines():
        values = json.loads(line)
        if "mem" in values:
            values["mem"]["meta"] = ways.pop(0)
        lines.append(json.dumps(values))
    assert not ways
    (tmp_path / "in").write_text("\n".join(lines) + "\n")
    service = open_service(tmp_path / "m.db")
    service.sync.admin.import_jsonl(tmp_path / "in")
    asked = Filter(metadata={"clé": "é"})
    assert expected(service, asked) == [f"zebra {n}" for n in range(4)]
    assert found(service, asked) == expected(service, asked)


@pytest.mark.parametrize(
    "make",
    [
        lambda: VectorMemoryService(Recorder()),
        lambda: InMemoryMemoryService("substring"),
        lambda: InMemoryMemoryService("words"),
    ],
)
def test_services_with_one_way_of_searching_filter_by_metadata(make):
    """S1.22: by vectors alone, by matching texts."""
    with make() as service:
        tell(service, {"p": 1}, {"p": 2}, {"p": None}, {})
        assert found(service, {"p": 2}) == ["zebra 1"]
        assert found(service, {"p": None}) == ["zebra 2"]
        assert found(service, {"p": None}, top_k=1) == ["zebra 2"]


def test_a_vector_store_that_cannot_filter_by_metadata_refuses_it():
    """S1.22: with or without operators."""
    with VectorStoreMemoryService(ReferenceVectorStore(), Recorder(16)) as stored:
        for wanted in ({"p": SECRET}, {"$not": {"p": SECRET}}):
            refuses(
                InvalidArgumentError,
                lambda wanted=wanted: asyncio.run(
                    stored.search_memory(
                        **ALICE, query="zebra", filter=Filter(metadata=wanted)
                    )
                ),
            )


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        (SECRET, InvalidTypeError),
        ([(SECRET, 1)], InvalidTypeError),
        ({1: SECRET}, InvalidTypeError),
        ({SECRET: [[1]]}, InvalidTypeError),
        ({SECRET: {}}, InvalidTypeError),
        ({"k": SECRET.encode()}, InvalidTypeError),
        ({}, InvalidArgumentError),
        ({f"{SECRET}{n}": n for n in range(17)}, InvalidArgumentError),
        ({SECRET: float("nan")}, InvalidArgumentError),
        ({SECRET: float("-inf")}, InvalidArgumentError),
        ({SECRET: 10**5000}, InvalidArgumentError),
        ({SECRET: SECRET * 2000}, LimitExceededError),
    ],
)
def test_metadata_that_cannot_be_asked_are_refused(open_service, wrong, kind):
    """S1.22: with a class of its own, and without what was given."""
    service = open_service()
    tell(service, {})
    refuses(kind, lambda: found(service, Filter(metadata=wrong)))
    sixteen = {f"k{n}": n for n in range(16)}
    tell(service, sixteen)
    assert found(service, sixteen) == ["zebra 0"]


@pytest.mark.parametrize("meta", ['{"p": 1', '"p"', '["p"]', b'{"p": "\xff"}', None])
def test_metadata_that_are_damaged_are_named_as_such(open_service, tmp_path, meta):
    """S1.22: a file that says something else than JSON is a damaged one."""
    path = tmp_path / "m.db"
    with open_service(path) as service:
        tell(service, {"p": 1}, {"p": 1})
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("UPDATE mem SET meta = ? WHERE id = 'm0'", (meta,))
    service = open_service(path)
    refuses(CorruptFileError, lambda: found(service, {"p": 1}))


def test_a_filter_with_metadata_is_still_a_value():
    """S1.22: filters are compared and hashed as before."""
    one, same = Filter(metadata={"p": 1}), Filter(metadata={"p": 1})
    assert one == same
    assert hash(one) == hash(same)
    assert one != Filter(metadata={"p": 2})
    assert Filter(metadata=None) == Filter()
