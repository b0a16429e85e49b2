"""Over a vector store: a text that is too long is stored as passages of its turn."""

from __future__ import annotations

import pytest
from helpers.embedders import Recorder
from helpers.memories import ALICE
from helpers.sessions import session
from helpers.vector_stores.reference import ReferenceVectorStore
from vecall import VectorStoreMemoryService
from vecall.store import passage_id

LONG = "\n".join(f"zebra {number} of a long text" for number in range(12_000))
SAID = {"id": "t", "author": "user", "text": LONG, "invocation_id": "i"}
BACK = {"actions": {"rewind_before_invocation_id": "i"}}


@pytest.fixture
def store():
    return ReferenceVectorStore()


@pytest.fixture
def sync(store):
    with VectorStoreMemoryService(store, Recorder()) as service:
        yield service.sync


def texts(store):
    return [metadata["text"] for _, _, metadata, _ in store.rows]


def test_the_passages_of_a_turn_are_stored_and_deleted_together(store, sync):
    before = {"id": "b", "text": "before"}
    ids = sync.add_session_to_memory(session(before, SAID))
    assert len(ids) == 2
    assert "".join(texts(store)) == f"before{LONG}"
    sync.delete_memory(**ALICE, memory_id=ids[1])
    assert texts(store) == ["before"]


def test_a_rewind_takes_back_every_passage(store, sync):
    sync.add_session_to_memory(session(SAID))
    sync.add_session_to_memory(session(SAID, BACK, {"text": "after"}))
    assert texts(store) == ["after"]


def test_passages_that_wait_go_with_their_turn(store, sync):
    sync.observe_session(session(SAID, {"text": "after"}))
    sync.observe_session(session(SAID, BACK, {"text": "after", "id": "a"}))
    sync.end_session(**ALICE, session_id="s")
    assert set(texts(store)) == {"after"}


def test_a_turn_that_cannot_be_read_costs_no_other(store, sync):
    added = sync.add_events_to_memory(
        **ALICE, events=[{"text": "a"}, {"text": 7}, {"role": "system", "content": "b"}]
    )
    assert [each.reason for each in added.left_out] == ["invalid", "role"]
    assert texts(store) == ["a"]


@pytest.mark.parametrize("alone", [[2], [3, 4], [2, 3, 4, 5]])
def test_a_turn_is_deleted_whole_after_passages_of_it_were_deleted_alone(
    store, sync, alone
):
    (id_,) = sync.add_session_to_memory(session(SAID))
    count = len(store.rows)
    for number in alone:
        sync.delete_memory(**ALICE, memory_id=passage_id(id_, number))
    assert len(store.rows) == count - len(alone)
    sync.delete_memory(**ALICE, memory_id=id_)
    assert store.rows == []
