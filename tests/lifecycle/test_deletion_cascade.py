"""Forgetting: with all that a memory replaced, and nobody else's."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.embedders import Recorder, session
from helpers.lifecycle import add, bytes_with, everything, found, kept
from helpers.memories import ALICE, BOB
from vecall import (
    MemoryEntry,
    MemoryService,
    MessageCount,
)
from vecall.store import make_memory_id


def propose(service: MemoryService, query: str) -> Any:
    return service.sync.propose_forget(**ALICE, query=query)


def confirm(service: MemoryService, token: str) -> int:
    return service.sync.confirm_forget(**ALICE, token=token)


def turns() -> dict[str, Any]:
    return session("hello", "a gnu", "ok", "the gnu was grey", "bye")


def exported(service: MemoryService, path: Path) -> dict[str, list[str]]:
    """The lines of an export, by user."""
    service.sync.admin.export_jsonl(path)
    lines: dict[str, list[str]] = {}
    user = ""
    for line in path.read_text().splitlines()[1:]:
        part = json.loads(line).get("part")
        user = part["user"] if part else user
        lines.setdefault(user, []).append(line)
    return lines


Delete = Callable[[MemoryService], object]
DELETIONS: dict[str, Delete] = {
    "memory": lambda s: s.sync.delete_memory(**ALICE, memory_id="c"),
    "confirmed": lambda s: confirm(s, propose(s, "gnuthree").token),
    "user": lambda s: s.sync.delete_user(**ALICE),
    "forgotten user": lambda s: s.sync.delete_user(**ALICE, forget=True),
}


@pytest.mark.parametrize("name", DELETIONS)
def test_a_deletion_takes_what_was_replaced_with_it(open_service, tmp_path, name):
    """S4.60: archived predecessors too; none of their texts is left in any file."""
    service = open_service(tmp_path / "m.db")
    add(service, "gnuone", "a")
    add(service, "gnutwo", "b", supersedes="a")
    add(service, "gnuthree", "c", supersedes="b")
    add(service, "GNUthree!", "d", timestamp=1.0)
    service.sync.consolidate(**ALICE)
    assert set(kept(service, "archived")) == {"a", "b", "d"}
    DELETIONS[name](service)
    assert everything(service) == [[], [], []]
    service.sync.admin.purge()
    words = ["gnuone", "gnutwo", "gnuthree", "GNUthree"]
    assert bytes_with(tmp_path, words) == set()
    if name != "forgotten user":
        told = [MemoryEntry(f"gnu {id_}", id=id_) for id_ in "abcd"]
        ids = service.sync.add_memory(**ALICE, memories=told, restore=False)
        assert ids.stored == []
        assert everything(service) == [[], [], []]


def test_an_archived_memory_can_be_deleted_alone(open_service):
    """S4.60: what took its place stays."""
    service = open_service()
    add(service, "one", "a")
    add(service, "two", "b", supersedes="a")
    service.sync.delete_memory(**ALICE, memory_id="a")
    assert everything(service)[1:] == [[], []]
    assert kept(service) == {"b": "two"}


@pytest.mark.parametrize("whole_user", [False, True])
def test_a_deletion_drops_turns_that_wait(open_service, tmp_path, whole_user):
    """S4.60: turns that wait for a trigger are no memories yet, and go all the same."""
    path = tmp_path / "m.db"
    options = {"trigger": MessageCount(99), "maintenance_interval": None}
    service = open_service(path, **options)
    waiting, other = session("wordone", "wordtwo"), session("wordthree", id_="other")
    bobs = {**session("wordfour"), **BOB}
    for each in (waiting, other, bobs):
        service.sync.observe_session(each)
    assert service.sync.admin.stats()["waiting_turns"] == 4
    if whole_user:
        service.sync.delete_user(**ALICE)
    else:
        service.sync.delete_session(**ALICE, session_id="s")
    assert service.sync.admin.stats()["waiting_turns"] == (1 if whole_user else 2)
    service.sync.admin.purge()
    gone = {"wordone", "wordtwo"} | ({"wordthree"} if whole_user else set())
    words = {"wordone", "wordtwo", "wordthree", "wordfour"}
    assert bytes_with(tmp_path, words) == words - gone
    service.close()
    service = open_service(path, **options)
    service.sync.observe_session(waiting)  # the callback's next turn
    service.sync.end_session(**ALICE, session_id="s")
    assert kept(service) == {}
    service.sync.end_session(bobs)
    assert list(kept(service, **BOB).values()) == ["wordfour"]


def test_a_turn_that_is_deleted_while_it_waits_is_never_remembered(open_service):
    """S4.60: by its id, before a trigger has made a memory of it."""
    service = open_service(trigger="session_end", maintenance_interval=None)
    told = session("zebra one", "zebra two")
    service.sync.observe_session(told)
    service.sync.delete_memory(**ALICE, memory_id=make_memory_id("s", "e0"))
    service.sync.end_session(told)
    service.sync.add_session_to_memory(told)
    assert found(service, "zebra") == {"zebra two"}


def test_one_of_a_hundred_users_goes_and_the_others_stay(open_service, tmp_path):
    """S4.65, pain 1: all others export the same byte for byte, also reopened."""
    path = tmp_path / "m.db"
    service = open_service(path, durability="process", embedder=Recorder())
    users = [{"app_name": "app", "user_id": f"user {n}"} for n in range(100)]
    for n, user in enumerate(users):
        service.sync.add_session_to_memory({**session(f"gnu {n}", "ok"), **user})
        service.sync.update_memory(
            **user, memory_id=next(iter(kept(service, **user))), content=f"okapi {n}"
        )
    before = exported(service, tmp_path / "before.jsonl")
    assert len(before) == 100
    service.sync.delete_user(**users[41], forget=True)
    del before["user 41"]
    assert exported(service, tmp_path / "after.jsonl") == before
    service.close()
    service = open_service(path, embedder=Recorder())
    assert exported(service, tmp_path / "reopened.jsonl") == before
