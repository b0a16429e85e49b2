"""Replacing a session, and memories that are deleted and stay so."""

from __future__ import annotations

import pytest
from helpers.memories import ALICE, BOB
from helpers.sessions import remembered, session, stored_order, turn, turns
from vecall import MemoryEntry, NotFoundError


def test_replace_removes_the_turns_that_are_absent(open_service):
    """S3.12: replace=True is replacement; other sessions and users stay."""
    service = open_service()
    service.sync.add_session_to_memory(session(*turns(1, 2, 3)))
    service.sync.add_session_to_memory(session(turn(8), id_="other"))
    service.sync.add_session_to_memory(session(turn(9), **BOB))
    service.sync.add_session_to_memory(session(*turns(2, 4)), replace=True)
    assert remembered(service) == ["turn word2", "turn word4", "turn word8"]
    found = service.sync.search_memory(**BOB, query="turn").memories
    assert [memory.text for memory in found] == ["turn word9"]


def test_replace_by_an_empty_session_removes_all_its_turns(open_service):
    """S3.12: nothing absent is kept, not even all."""
    service = open_service()
    service.sync.add_session_to_memory(session(*turns(1, 2)))
    service.sync.add_session_to_memory(session(turn(8), id_="other"))
    assert service.sync.add_session_to_memory(session(), replace=True) == []
    assert remembered(service) == ["turn word8"]


def test_what_replace_removed_can_be_told_again(open_service):
    """Only deletion leaves a tombstone."""
    service = open_service()
    service.sync.add_session_to_memory(session(*turns(1, 2)))
    service.sync.add_session_to_memory(session(turn(2)), replace=True)
    service.sync.add_session_to_memory(session(*turns(1, 2)))
    assert remembered(service) == ["turn word1", "turn word2"]


def test_replace_leaves_the_order_of_the_new_copy(open_service, tmp_path):
    path = tmp_path / "m.db"
    service = open_service(path)
    service.sync.add_session_to_memory(session(*turns(3, 1, 2)))
    service.sync.add_session_to_memory(session(*turns(1, 2, 3)), replace=True)
    service.close()
    assert stored_order(path) == ["e1", "e2", "e3"]


def test_replace_removes_turns_and_not_facts(open_service):
    """`replace` is about turns; an explicit memory of that session is none."""
    service = open_service()
    fact = MemoryEntry("turn fact", session_id="s", kind="fact")
    service.sync.add_memory(**ALICE, memories=[fact])
    service.sync.add_session_to_memory(session(*turns(1, 2)))
    service.sync.add_session_to_memory(session(turn(2)), replace=True)
    assert remembered(service) == ["turn fact", "turn word2"]


def test_a_deleted_memory_stays_deleted_whatever_is_told(open_service, tmp_path):
    """A tombstone wins over any ingest of a session, also after a restart."""
    path = tmp_path / "m.db"
    service = open_service(path)
    ids = service.sync.add_session_to_memory(session(*turns(1, 2, 3)))
    service.sync.delete_memory(**ALICE, memory_id=ids[1])
    for opened in (service, open_service(path)):
        opened.sync.add_session_to_memory(session(*turns(1, 2, 3)))
        opened.sync.add_session_to_memory(session(turn(2, "turn changed")))
        opened.sync.add_session_to_memory(session(*turns(1, 2, 3)), replace=True)
        entry = MemoryEntry("turn x", id=ids[1])
        opened.sync.add_memory(**ALICE, memories=[entry], restore=False)
        assert remembered(opened) == ["turn word1", "turn word3"]
        with pytest.raises(NotFoundError):
            opened.sync.get_memory(**ALICE, memory_id=ids[1])


def test_restore_brings_a_deleted_memory_back(open_service):
    """restore=True lifts the tombstone, for good and for that memory only."""
    service = open_service()
    ids = service.sync.add_session_to_memory(session(*turns(1, 2, 3)))
    for id_ in ids:
        service.sync.delete_memory(**ALICE, memory_id=id_)
    assert remembered(service) == []
    assert (
        service.sync.add_session_to_memory(session(turn(2)), restore=True) == ids[1:2]
    )
    service.sync.add_session_to_memory(session(*turns(1, 2, 3)))
    assert remembered(service) == ["turn word2"]
    service.sync.add_session_to_memory(session(turn(2, "turn later")))
    assert remembered(service) == ["turn later"]


def test_deleting_an_unknown_id_leaves_no_tombstone(open_service):
    """contracts.md, errors: deleting an unknown id is a no-op."""
    service = open_service()
    (id_,) = service.sync.add_session_to_memory(session(turn(1), **BOB))
    service.sync.delete_memory(**ALICE, memory_id=id_)
    assert service.sync.add_session_to_memory(session(turn(1))) == [id_]
    assert remembered(service) == ["turn word1"]


def test_a_tombstone_is_of_one_user(open_service):
    service = open_service()
    (id_,) = service.sync.add_session_to_memory(session(turn(1)))
    service.sync.add_session_to_memory(session(turn(1), **BOB))
    service.sync.delete_memory(**ALICE, memory_id=id_)
    assert service.sync.get_memory(**BOB, memory_id=id_).text == "turn word1"
