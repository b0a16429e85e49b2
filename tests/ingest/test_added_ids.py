"""What a call that adds memories says of each item that it was given."""

from __future__ import annotations

import pytest
from helpers.campaigns import examples
from helpers.embedders import Recorder
from helpers.memories import ALICE
from helpers.sessions import session, turn, turns
from hypothesis import given, settings
from hypothesis import strategies as st
from vecall import LeftOut, MemoryEntry, MemoryService, Quota, StorageOptions


@pytest.mark.parametrize("embedder", [None, Recorder])
def test_a_deleted_fact_that_is_given_again_is_stored(open_service, embedder):
    """Somebody says it again; it is found, also by its vector."""
    service = open_service(embedder=None if embedder is None else embedder())
    (first,) = service.sync.add_memory(**ALICE, memories=["Bob has a cat."])
    service.sync.delete_memory(**ALICE, memory_id=first)
    ids = service.sync.add_memory(**ALICE, memories=["Bob has a cat.", "A dog."])
    assert len(ids) == 2
    assert ids.left_out == ()
    (found,) = service.sync.search_memory(
        **ALICE, query="Bob has a cat.", top_k=1
    ).memories
    assert found.id == ids[0]
    assert (found.similarity is None) == (embedder is None)


def test_a_deleted_fact_stays_deleted_on_request(open_service):
    service = open_service()
    (first,) = service.sync.add_memory(**ALICE, memories=["Bob has a cat."])
    service.sync.delete_memory(**ALICE, memory_id=first)
    ids = service.sync.add_memory(
        **ALICE, memories=["A dog.", "Bob has a cat."], restore=False
    )
    assert ids[1] is None
    assert ids.left_out == (LeftOut(1, "deleted"),)
    assert [entry.text for entry in service.sync.list_memories(**ALICE)] == ["A dog."]


def test_a_deleted_turn_stays_deleted_and_says_so(open_service):
    service = open_service()
    ids = service.sync.add_session_to_memory(session(*turns(1, 2, 3)))
    service.sync.delete_memory(**ALICE, memory_id=ids[1])
    again = service.sync.add_session_to_memory(session(*turns(1, 2, 3)))
    assert again == [ids[0], None, ids[2]]
    assert again.left_out == (LeftOut(1, "deleted"),)
    assert again.stored == [ids[0], ids[2]]


def test_each_reason_is_given(open_service):
    service = open_service()
    pieces = [{"text": "zebra", "partial": True}, {"text": " "}, turn(1)]
    ids = service.sync.add_events_to_memory(**ALICE, session_id="s", events=pieces)
    assert ids[:2] == [None, None]
    assert ids.left_out == (LeftOut(0, "partial"), LeftOut(1, "no_text"))


def test_an_evicted_turn_says_so(open_service):
    quota = Quota(memories=1, eviction="oldest")
    service = open_service(quota=quota)
    service.sync.add_session_to_memory(session(*turns(1, 2)))
    again = service.sync.add_session_to_memory(session(*turns(1, 2)))
    assert again.left_out == (LeftOut(0, "evicted"),)


def test_a_call_that_is_sent_again_answers_the_same(open_service):
    """With an idempotency key the reasons come again too."""
    service = open_service()
    (first,) = service.sync.add_memory(**ALICE, memories=["zebra"])
    service.sync.delete_memory(**ALICE, memory_id=first)
    answers = [
        service.sync.add_memory(
            **ALICE, memories=["zebra", "okapi"], restore=False, idempotency_key="k"
        )
        for _ in range(2)
    ]
    assert answers[0] == answers[1]
    assert answers[0].left_out == answers[1].left_out == (LeftOut(0, "deleted"),)


OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["add", "keep", "delete"]), st.integers(0, 3)),
    max_size=12,
)


@pytest.mark.campaign
@settings(max_examples=examples(60), deadline=None, derandomize=True)
@given(OPERATIONS)
def test_ids_and_reasons_follow_a_model(operations):
    """Facts told in any order: a set of those stored, and of those deleted."""
    there: set[str] = set()
    deleted: set[str] = set()
    with MemoryService(
        storage=StorageOptions(maintenance_interval=None), embedder=None
    ) as service:
        for name, number in operations:
            id_ = f"m{number}"
            if name == "delete":
                service.sync.delete_memory(**ALICE, memory_id=id_)
                if id_ in there:
                    deleted.add(id_)
                    there.discard(id_)
                continue
            entry = MemoryEntry(f"text {number}", id=id_)
            restore = None if name == "add" else False
            ids = service.sync.add_memory(**ALICE, memories=[entry], restore=restore)
            if name == "keep" and id_ in deleted:
                assert ids == [None]
                assert ids.left_out == (LeftOut(0, "deleted"),)
                continue
            assert ids == [id_]
            assert ids.left_out == ()
            there.add(id_)
            deleted.discard(id_)
        found = service.sync.list_memories(**ALICE)
        assert {entry.id for entry in found} == there
