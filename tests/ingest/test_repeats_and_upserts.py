"""Ids and upserts: the same turn is the same memory, told again or changed."""

from __future__ import annotations

import sqlite3

import pytest
from helpers.memories import ALICE
from helpers.sessions import remembered, session, turn, turns
from vecall import MemoryEntry


def test_an_id_is_the_same_in_every_version(open_service):
    """S2.6: ids are written in files and kept by callers; they never change."""
    service = open_service()
    with_id = service.sync.add_session_to_memory(session(turn(1)))
    bare = {"author": "user", "timestamp": 12.5, "text": "zebra"}
    without = service.sync.add_session_to_memory(session(bare))
    nothing = service.sync.add_memory(**ALICE, memories=["zebra"])
    assert with_id == ["5dce27c9318a0776edb219bfc1f66599"]
    assert without == ["3e3a257fdc21ac3285cf4fd05de3ef37"]
    assert nothing == ["4387709c85fb1fa01be01f9e9ce02aff"]


def test_an_id_survives_restart_and_reingest(open_service, tmp_path):
    """S2.6: the same after re-ingest and restart."""
    path = tmp_path / "m.db"
    seen = set()
    for _ in range(3):
        service = open_service(path)
        seen.add(tuple(service.sync.add_session_to_memory(session(*turns(1, 2, 3)))))
        service.close()
    assert len(seen) == 1
    assert len(set(seen.pop())) == 3


def test_no_two_memories_run_into_one_another(open_service):
    """Every part of an identity is kept apart from the next."""
    service = open_service()
    ids = []
    for session_id, event_id in [("a", "bc"), ("ab", "c"), ("abc", "-"), ("-", "abc")]:
        ids += service.sync.add_session_to_memory(
            session({"id": event_id, "text": "same"}, id_=session_id)
        )
    ids += service.sync.add_events_to_memory(
        **ALICE, events=[{"id": "abc", "text": "same"}, {"id": "-abc", "text": "same"}]
    )
    for author, at in [
        ("a", 1.0),
        ("a1", None),
        (None, 1.0),
        (None, None),
        ("1.0", None),
    ]:
        ids += service.sync.add_session_to_memory(
            session({"author": author, "timestamp": at, "text": "same"}, id_="q")
        )
    ids += service.sync.add_memory(**ALICE, memories=["same"])
    assert len(set(ids)) == len(ids) == 12
    assert service.sync.admin.stats()["memories"] == 12


def test_an_explicit_id_is_kept_as_given(open_service):
    service = open_service()
    odd = "My id / with % and \u00e9"
    (id_,) = service.sync.add_memory(**ALICE, memories=[MemoryEntry("zebra", id=odd)])
    assert id_ == odd
    assert service.sync.get_memory(**ALICE, memory_id=odd).text == "zebra"


def test_a_changed_turn_replaces_the_old_one(open_service):
    """Ingest is an upsert by id: the old words are forgotten, also by the search."""
    service = open_service()
    (id_,) = service.sync.add_session_to_memory(session(turn(1, "an old zebra")))
    (again,) = service.sync.add_session_to_memory(session(turn(1, "a new okapi")))
    assert id_ == again
    assert remembered(service, "zebra old") == []
    assert remembered(service, "okapi") == ["a new okapi"]
    assert service.sync.admin.stats()["memories"] == 1
    assert service.sync.admin.stats()["text_bytes"] == len("a new okapi")


@pytest.mark.parametrize(
    "change",
    [
        {"author": "agent"},
        {"timestamp": 99.0},
        {"kind": "fact"},
        {"source": "crm"},
        {"trust": "high"},
        {"importance": 0.75},
        {"custom_metadata": {"a": 1}},
        {"content": {"parts": [{"text": "zebra"}, {"text": "two"}]}},
    ],
)
def test_any_changed_field_is_written(open_service, tmp_path, change):
    path = tmp_path / "m.db"
    service = open_service(path)
    for fields in ({}, change):
        service.sync.add_memory(
            **ALICE, memories=[MemoryEntry(**{"content": "zebra", "id": "x", **fields})]
        )
    name, value = next(iter(change.items()))
    for opened in (service, open_service(path)):
        got = opened.sync.get_memory(**ALICE, memory_id="x")
        (found,) = opened.sync.search_memory(**ALICE, query="zebra").memories
        assert getattr(got, name) == getattr(found, name) == value


def test_of_equal_ids_in_one_call_the_last_wins(open_service):
    service = open_service()
    service.sync.add_session_to_memory(session(turn(1, "zebra"), turn(1, "okapi")))
    assert service.sync.admin.stats()["memories"] == 1
    assert remembered(service, "zebra okapi") == ["okapi"]


def test_a_row_number_is_never_used_again(open_service, tmp_path):
    """contracts.md, identity: rid is never reused, not even the newest one."""
    path = tmp_path / "m.db"
    seen = []
    for round_ in range(3):
        service = open_service(path)
        (id_,) = service.sync.add_memory(**ALICE, memories=[f"zebra {round_}"])
        service.close()
        connection = sqlite3.connect(path)
        seen += connection.execute("SELECT rid FROM mem").fetchall()
        connection.close()
        service = open_service(path)
        service.sync.delete_memory(**ALICE, memory_id=id_)
        service.close()
    assert len(set(seen)) == 3
