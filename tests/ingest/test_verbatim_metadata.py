"""With verbatim=True metadata come back as they went in: every key, in its order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.campaigns import examples
from helpers.clocks import SettableClock
from helpers.embedders import Recorder
from helpers.memories import ALICE
from helpers.postgres_server import MISSING, Schema, is_available
from hypothesis import given, settings
from hypothesis import strategies as st
from vecall import (
    InvalidArgumentError,
    InvalidTypeError,
    MemoryEntry,
    MemoryService,
)
from vecall.other_storage.vector_store import VectorStoreMemoryService
from vecall.vector_store import InMemoryVectorStore

GIVEN = {
    "ttl": 50,
    "metadata": {"q": 1, "a": {"z": None, "b": [True, {"y": 1, "x": 2}]}},
    "wait_for_completion": 3,
    "z": 1,
    "history_ttl": "no time",
    "revision_ttl": [],
    "a": 1.5,
}
TEXT = json.dumps(GIVEN)

KEYS = st.sampled_from([*GIVEN, "custom_metadata", "", "\u00e9.\U0001f600", "$ne"])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=5)
    | st.floats(allow_nan=False, allow_infinity=False)
)
VALUES = SCALARS | st.dictionaries(KEYS, SCALARS, max_size=3)
OBJECTS = st.dictionaries(KEYS, VALUES | st.lists(VALUES, max_size=2), max_size=5)


def as_text(*entries: MemoryEntry | None) -> list[str]:
    """The metadata as JSON, where order and types show."""
    return [json.dumps(entry.custom_metadata) for entry in entries if entry is not None]


def everywhere(memory: MemoryService, id_: str) -> list[str]:
    """The metadata of a memory, as each way of reading returns them."""
    sync = memory.sync
    named = {**ALICE, "memory_id": id_}
    return as_text(
        sync.get_memory(**named),
        *sync.get_memories(**ALICE, memory_ids=[id_]),
        *sync.search_memory(**ALICE, query="zebra"),
        *sync.list_memories(**ALICE),
        *(each.memory for each in sync.memory_history(**named)),
    )


def test_every_way_of_writing_and_reading_keeps_them(tmp_path: Path):
    """Of a call, an entry and a turn; moved by an export; corrected in other fields."""
    path = tmp_path / "m.db"
    adds: list[Any] = [
        lambda sync: sync.add_memory(
            **ALICE, memories=["a zebra"], custom_metadata=GIVEN, verbatim=True
        ),
        lambda sync: sync.add_memory(
            **ALICE,
            memories=[{"text": "a zebra", "metadata": GIVEN}],
            verbatim=True,
        ),
        lambda sync: sync.add_events_to_memory(
            **ALICE, events=[{"text": "a zebra"}], custom_metadata=GIVEN, verbatim=True
        ),
        lambda sync: sync.add_events_to_memory(
            **ALICE,
            events=[{"text": "a zebra", "custom_metadata": GIVEN}],
            verbatim=True,
        ),
    ]
    for number, add in enumerate(adds):
        with MemoryService(path, embedder=None) as memory:
            (id_,) = add(memory.sync)
        with MemoryService(path, embedder=None) as memory:
            assert everywhere(memory, id_) == [TEXT] * 5
            changed = memory.sync.update_memory(**ALICE, memory_id=id_, kind="fact")
            assert as_text(changed) == [TEXT]
            assert everywhere(memory, id_) == [TEXT] * 6  # with the former revision
            file = tmp_path / f"{number}.jsonl"
            memory.sync.admin.export_jsonl(file)
            with MemoryService(embedder=None) as other:
                other.sync.admin.import_jsonl(file)
                assert everywhere(other, id_) == [TEXT] * 6
            memory.sync.delete_user(**ALICE, forget=True)


@pytest.mark.campaign
@settings(max_examples=examples(60))
@given(call=OBJECTS, own=OBJECTS)
def test_any_json_object_comes_back(call: dict[str, Any], own: dict[str, Any]):
    """An entry's values replace those of its call; none of them is a TTL."""
    with MemoryService(embedder=None) as memory:
        (id_,) = memory.sync.add_memory(
            **ALICE,
            memories=[MemoryEntry("a zebra", custom_metadata=own)],
            custom_metadata=call,
            verbatim=True,
        )
        assert everywhere(memory, id_) == [json.dumps({**call, **own})] * 5
        assert memory.sync.update_memory(
            **ALICE, memory_id=id_, custom_metadata=own, verbatim=True
        )
        entry = memory.sync.get_memory(**ALICE, memory_id=id_)
        assert as_text(entry) == [json.dumps(own)]
        assert entry.valid_until is None


def test_without_it_the_keys_of_google_adk_have_their_meaning(open_service):
    """As before: a TTL, merged metadata, sorted keys."""
    sync = open_service().sync
    given = {"ttl": 50, "metadata": {"q": 1}, "wait_for_completion": 3, "z": 1, "a": 2}
    (id_,) = sync.add_memory(**ALICE, memories=["a zebra"], custom_metadata=given)
    entry = sync.get_memory(**ALICE, memory_id=id_)
    assert as_text(entry) == ['{"a": 2, "q": 1, "z": 1}']


def test_turns_of_a_whole_session_have_the_keys_of_google_adk(open_service):
    """Also if they were stored as they are before."""
    service = open_service().sync
    turn = {"id": "e1", "text": "Quiet, please.", "custom_metadata": {"z": 1, "ttl": 9}}
    whose = {**ALICE, "session_id": "s"}
    service.add_events_to_memory(**whose, events=[turn], verbatim=True)
    assert as_text(*service.list_memories(**ALICE)) == ['{"z": 1, "ttl": 9}']
    service.add_session_to_memory({**ALICE, "id": "s", "events": [turn]})
    assert as_text(*service.list_memories(**ALICE)) == ['{"z": 1}']


def test_the_ttl_of_a_call_is_an_argument(open_service):
    """It counts with both readings; an entry's own one wins; two are refused."""
    clock = SettableClock()
    sync = open_service(clock=clock, maintenance_interval=None).sync
    sync.add_memory(
        **ALICE, memories=["a"], custom_metadata={"ttl": 9}, verbatim=True, ttl="50s"
    )
    sync.add_memory(**ALICE, memories=["b"], ttl=50)
    own = MemoryEntry("c", custom_metadata={"ttl": 200})
    sync.add_memory(**ALICE, memories=[own], ttl=50)
    sync.add_events_to_memory(**ALICE, events=[{"text": "d"}], ttl=50.0)
    texts = lambda: {entry.text for entry in sync.list_memories(**ALICE)}  # noqa: E731
    clock.let_pass(49)
    assert texts() == {"a", "b", "c", "d"}
    clock.let_pass(2)
    assert texts() == {"c"}
    with pytest.raises(InvalidArgumentError, match="ttl: expected either"):
        sync.add_memory(**ALICE, memories=["e"], custom_metadata={"ttl": 1}, ttl=1)
    with pytest.raises(InvalidArgumentError):
        sync.add_memory(**ALICE, memories=["e"], ttl=-1)
    assert texts() == {"c"}


@pytest.mark.parametrize("verbatim", [None, 1, "yes"])
def test_verbatim_is_true_or_false(open_service, verbatim):
    sync = open_service().sync
    (id_,) = sync.add_memory(**ALICE, memories=["a zebra"])
    more: Any = {**ALICE, "verbatim": verbatim}
    for call in (
        lambda: sync.add_memory(memories=["b"], **more),
        lambda: sync.add_events_to_memory(events=[{"text": "b"}], **more),
        lambda: sync.update_memory(memory_id=id_, content="b", **more),
    ):
        with pytest.raises(InvalidTypeError, match="verbatim: expected True or False"):
            call()
    assert [entry.text for entry in sync.list_memories(**ALICE)] == ["a zebra"]


def test_another_order_is_a_new_version(open_service):
    """The order that was given last comes back, and the former one is a revision."""
    sync = open_service().sync
    for meta in ({"b": 1, "a": 2}, {"b": 1, "a": 2}, {"a": 2, "b": 1}):
        entry = MemoryEntry("a zebra", id="m", custom_metadata=meta)
        sync.add_memory(**ALICE, memories=[entry], verbatim=True)
    past = sync.memory_history(**ALICE, memory_id="m")
    orders = ['{"b": 1, "a": 2}', '{"a": 2, "b": 1}']
    assert as_text(*(each.memory for each in past)) == orders


def test_a_filter_finds_the_keys_that_otherwise_have_a_meaning(open_service):
    sync = open_service().sync
    sync.add_memory(**ALICE, memories=["a zebra"], custom_metadata=GIVEN, verbatim=True)
    sync.add_memory(**ALICE, memories=["a gnu"], custom_metadata={"ttl": 50})
    where = {"metadata": {"ttl": 50, "metadata.q": {"$gte": 1}}}
    found = sync.list_memories(**ALICE, filter=where)
    assert [entry.text for entry in found] == ["a zebra"]


def test_a_service_over_a_vector_store_keeps_them():
    with VectorStoreMemoryService(InMemoryVectorStore(), Recorder()) as service:
        sync = service.sync
        sync.add_memory(**ALICE, memories=["a"], custom_metadata=GIVEN, verbatim=True)
        turn = {"text": "b", "custom_metadata": GIVEN}
        sync.add_events_to_memory(**ALICE, events=[turn], verbatim=True)
        found = sync.search_memory(**ALICE, query="a", min_similarity=-1.0)
    assert as_text(*found) == [TEXT] * 2


@pytest.mark.skipif(not is_available(), reason=MISSING)
def test_a_database_keeps_them():
    schema = Schema()
    try:
        with MemoryService(schema.url, embedder=None) as memory:
            (id_,) = memory.sync.add_memory(
                **ALICE, memories=["a zebra"], custom_metadata=GIVEN, verbatim=True
            )
            assert everywhere(memory, id_) == [TEXT] * 5
    finally:
        schema.drop()


def test_they_pass_the_http_door(open_service):
    """With add, events, update, get, list and search."""
    http = pytest.importorskip("helpers.http", reason="needs uvicorn and httpx")
    door = http.door_to(open_service())
    base = f"{http.ALICE}/memories"
    body = {"memories": ["a zebra"], "custom_metadata": GIVEN, "verbatim": True}
    (id_,) = door.ask("POST", base, json={**body, "ttl": 60}).json()["ids"]
    (turn,) = door.ask(
        "POST",
        f"{http.ALICE}/events",
        json={"events": [{"content": "a gnu", "metadata": GIVEN}], "verbatim": True},
    ).json()["ids"]
    answers = [door.ask("GET", f"{base}/{each}").json() for each in (id_, turn)]
    answers += door.ask("GET", base).json()["memories"]
    found = door.ask("POST", f"{base}/search", json={"query": "zebra"})
    answers += found.json()["memories"]
    change = {"custom_metadata": {"z": 1, "ttl": 5}, "verbatim": True}
    assert len(answers) == 5
    assert {json.dumps(each["custom_metadata"]) for each in answers} == {TEXT}
    changed = door.ask("PATCH", f"{base}/{id_}", json=change).json()
    assert json.dumps(changed["custom_metadata"]) == '{"z": 1, "ttl": 5}'
