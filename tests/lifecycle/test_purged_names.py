"""After `delete_user` and `purge` no file has the name, and turns stay deleted."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from helpers.embedders import Recorder
from helpers.lifecycle import bytes_with, kept
from helpers.processes import child, run, said, tell
from vecall import CorruptFileError, MemoryService, Quota
from vecall.cli.main import main
from vecall.store.names import partition_state
from vecall.summaries import SessionSummary

NAME = "alice0001x@example.com"
ALICE = {"app_name": "shop0001x", "user_id": NAME}
BOB = {"app_name": "shop0001x", "user_id": "bob"}
SESSION = f"visit of {NAME}"
EVENTS = [
    {"text": "zebra one", "author": NAME, "timestamp": 5.0},  # no id: known by the text
    {"text": "zebra two", "author": "user", "id": f"event of {NAME}"},
]
TOLD = {**ALICE, "id": SESSION, "events": EVENTS}
WAITING = {**ALICE, "id": f"later {NAME}", "events": [{"text": "okapi", "id": "w"}]}
KEY = f"key of {NAME}"
FACT = {"content": "likes gnus", "id": f"fact of {NAME}"}


def fill(service: MemoryService) -> None:
    """Everything that can have a name in it, for Alice; and something of Bob's."""
    service.sync.add_session_to_memory(TOLD)
    service.sync.observe_session(WAITING)
    service.sync.add_memory(**ALICE, memories=[FACT], idempotency_key=KEY)
    service.sync.update_memory(
        **ALICE, memory_id=FACT["id"], content=f"{NAME} likes okapis"
    )
    service.sync.add_memory(**BOB, memories=["Bob's own."])


class Summarizer:
    """Says how many turns it has seen."""

    def get_summaries(self, session: dict[str, Any]) -> list[SessionSummary]:
        return [SessionSummary(f"a summary of {len(session['events'])}")]


def delete_and_purge(service: MemoryService) -> None:
    service.sync.delete_user(**ALICE)
    service.sync.admin.purge()


def part_rows(path: Path) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT id, app, user, live FROM part ORDER BY id")
        return rows.fetchall()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    return folder / "m.db"


@pytest.fixture
def opened(open_service, path) -> Callable[..., MemoryService]:
    how = {"maintenance_interval": None, "trigger": "session_end"}
    return partial(open_service, path, **how)


def assert_stays_deleted(service: MemoryService) -> None:
    """Every way in which a running session tells its turns again."""
    service.sync.observe_session(WAITING)
    service.sync.end_session(WAITING)
    assert service.sync.add_session_to_memory(TOLD).stored == []
    told = service.sync.add_events_to_memory(**ALICE, events=EVENTS, session_id=SESSION)
    assert told.stored == []
    again = service.sync.add_memory(**ALICE, memories=[FACT], idempotency_key=KEY)
    assert list(again) == [FACT["id"]]  # the same call is carried out once
    again = service.sync.add_memory(**ALICE, memories=[FACT], restore=False)
    assert again.stored == []
    assert kept(service, **ALICE) == {}


def test_no_file_has_the_name_of_a_deleted_user_after_a_purge(opened, path):
    words = [NAME, "alice0001x", SESSION, KEY, FACT["id"], "zebra", "okapi"]
    first, second = opened(), opened(embedder=Recorder())
    fill(first)
    assert second.sync.search_memory(**ALICE, query="zebra").memories
    assert bytes_with(path.parent, words) == set(words)
    delete_and_purge(first)
    assert bytes_with(path.parent, [*words, "shop0001x"]) == {"shop0001x"}  # Bob's
    assert first.sync.search_memory(**BOB, query="Bob").memories


def test_a_quota_keeps_no_name(opened, path):
    """What a user may have is counted, also where nothing is left to be counted."""
    service = opened(quota=Quota(memories=9, bytes=9_999))
    fill(service)
    service.sync.delete_user(**ALICE)
    assert_stays_deleted(service)
    service.sync.admin.purge()
    assert bytes_with(path.parent, [NAME, SESSION, KEY]) == set()
    assert_stays_deleted(service)
    service.sync.admin.purge()
    assert bytes_with(path.parent, [NAME, SESSION, KEY]) == set()
    service.sync.observe_session({**WAITING, "id": "new"})
    assert service.sync.admin.stats()["waiting_turns"] == 1


def test_the_name_of_an_app_without_users_goes_too(opened, path):
    service = opened()
    fill(service)
    service.sync.admin.delete_app(app_name="shop0001x", confirm=True)
    service.sync.admin.purge()
    assert bytes_with(path.parent, ["shop0001x", NAME]) == set()


def test_what_was_deleted_stays_deleted_after_a_purge(opened, path):
    service = opened()
    fill(service)
    delete_and_purge(service)
    assert_stays_deleted(service)
    # Nothing was written, so the name is still away.
    assert bytes_with(path.parent, [NAME]) == set()
    service.close()
    service = opened(embedder=(embedder := Recorder()))
    assert_stays_deleted(service)
    service.sync.admin.purge()
    assert_stays_deleted(service)
    assert not any("zebra" in text for text in embedder.asked)
    assert bytes_with(path.parent, [NAME]) == set()


def test_turns_that_a_summary_took_in_stay_deleted_after_a_purge(opened):
    service = opened(trigger="session_end", summarizer=Summarizer())
    service.sync.end_session(TOLD)
    assert list(kept(service, **ALICE).values()) == ["a summary of 2"]
    delete_and_purge(service)
    service.sync.end_session(TOLD)
    assert kept(service, **ALICE) == {}
    later = {**TOLD, "events": [*EVENTS, {"text": "new", "id": "n"}]}
    service.sync.end_session(later)
    assert list(kept(service, **ALICE).values()) == ["a summary of 1"]


def test_a_user_who_writes_again_has_a_name_and_old_turns_stay_deleted(opened, path):
    first, second = opened(), opened()
    fill(first)
    assert second.sync.search_memory(**ALICE, query="zebra").memories
    number = part_rows(path)[0][0]
    delete_and_purge(first)
    assert second.sync.search_memory(**ALICE, query="zebra").memories == []
    new = {"text": "zebra three", "id": "e3"}
    second.sync.add_session_to_memory({**TOLD, "events": [*EVENTS, new]})
    for service in (first, second):
        found = service.sync.search_memory(**ALICE, query="zebra").memories
        assert [memory.text for memory in found] == ["zebra three"]
        assert service.sync.admin.stats()["users"] == 2
    assert part_rows(path)[0] == (number, *ALICE.values(), 1)
    restored = first.sync.add_session_to_memory(TOLD, restore=True)
    assert len(restored.stored) == 2
    first.sync.add_memory(**ALICE, memories=[FACT])  # a person says it again
    assert len(kept(second, **ALICE)) == 4


SECOND = """
import sys, vecall
service = vecall.MemoryService(sys.argv[1], embedder=None)
who = dict(app_name=sys.argv[2], user_id=sys.argv[3])
event = dict(text="zebra two", author="user", id="event of " + sys.argv[3])
session = dict(**who, id="visit of " + sys.argv[3], events=[event])
for line in iter(sys.stdin.readline, ""):
    if line.strip() == "add":
        service.sync.add_session_to_memory(session)
    print(len(service.sync.search_memory(**who, query="zebra").memories), flush=True)
"""


def test_another_process_notices_and_cannot_bring_turns_back(opened, path):
    service = opened()
    fill(service)
    with child(SECOND, path, *ALICE.values()) as other:
        tell(other, "search")
        assert said(other) == "2"
        delete_and_purge(service)
        tell(other, "search")
        assert said(other) == "0"
        tell(other, "add")
        assert said(other) == "0"
        service.sync.add_memory(**ALICE, memories=["zebra told anew"])
        tell(other, "add")
        assert said(other) == "1"


def test_counts_fall_with_a_purge(opened):
    service = opened()
    fill(service)
    before = service.sync.admin.stats()
    assert (before["users"], before["memories"], before["sessions"]) == (2, 4, 1)
    delete_and_purge(service)
    after = service.sync.admin.stats()
    assert (after["users"], after["memories"], after["deleted_ids"]) == (1, 1, 0)
    assert (after["sessions"], after["waiting_turns"]) == (0, 0)


def test_a_second_purge_changes_nothing(opened, path):
    service = opened()
    fill(service)
    service.sync.add_memory(**BOB, memories=[{"content": "gone", "id": "bobs"}])
    service.sync.delete_memory(**BOB, memory_id="bobs")
    delete_and_purge(service)

    def contents() -> list[Any]:
        with closing(sqlite3.connect(path)) as connection:
            return [
                connection.execute(f"SELECT * FROM {table}").fetchall()
                for table in ("part", "tomb", "told", "idem", "chg", "mem")
            ]

    once = contents()
    service.sync.admin.purge()
    assert contents() == once


def test_a_purge_keeps_nothing_of_users_of_whom_nothing_is_to_be_recognised(
    opened, path
):
    service = opened()
    service.sync.add_memory(**BOB, memories=["Bob's own."])
    service.sync.add_memory(**ALICE, memories=["x"], idempotency_key=KEY)
    service.sync.delete_user(**ALICE, forget=True)
    delete_and_purge(service)
    assert len(part_rows(path)) == 1


def test_turns_of_a_user_who_only_has_turns_that_wait_are_not_hidden(opened):
    service = opened()
    service.sync.observe_session(WAITING)
    service.sync.admin.purge()
    assert service.sync.admin.stats()["users"] == 1
    service.sync.end_session(WAITING)
    assert list(kept(service, **ALICE).values()) == ["okapi"]


KILLED = """
import os, sys, vecall
from vecall.store.maintenance import backups as upkeep
def after(work):
    def both(*args):
        work(*args)
        os._exit(7)
    return both
service = vecall.MemoryService(sys.argv[1], embedder=None)
moment = sys.argv[2]
if moment == "before COMMIT":
    upkeep.hide_deleted_names = after(upkeep.hide_deleted_names)
elif moment == "before VACUUM":
    real = upkeep.begun
    class Ended:
        def __init__(self, *args): self.real = real(*args)
        def __enter__(self): return self.real.__enter__()
        def __exit__(self, *error):
            self.real.__exit__(*error)
            os._exit(7)
    upkeep.begun = Ended
else:
    upkeep._empty_change_log = lambda *args: os._exit(7)
service.sync.admin.purge()
"""


@pytest.mark.parametrize("moment", ["before COMMIT", "before VACUUM", "before the end"])
def test_a_purge_that_is_killed_can_be_called_again(opened, path, moment):
    service = opened()
    fill(service)
    service.sync.delete_user(**ALICE)
    service.close()
    assert run(KILLED, path, moment, check=False).returncode == 7
    service = opened()
    assert_stays_deleted(service)
    assert len(kept(service, **BOB)) == 1
    service.sync.admin.purge()
    assert bytes_with(path.parent, [NAME, SESSION, KEY]) == set()
    assert_stays_deleted(service)


@pytest.mark.parametrize("whole_app", [False, True])
def test_forgetting_after_a_purge_takes_the_tombstones_too(opened, path, whole_app):
    service = opened()
    fill(service)
    delete_and_purge(service)
    assert len(part_rows(path)) == 2
    if whole_app:
        service.sync.admin.delete_app(app_name="shop0001x", confirm=True, forget=True)
    else:
        service.sync.delete_user(**ALICE, forget=True)
    assert len(part_rows(path)) == 1 - whole_app
    assert service.sync.add_session_to_memory(TOLD).stored


@pytest.mark.parametrize("app", [(), ("--app", "shop0001x"), ("--app", "another")])
def test_the_command_erases_a_user_whom_a_purge_has_hidden(opened, path, app, capsys):
    service = opened()
    fill(service)
    delete_and_purge(service)
    service.close()
    code = main(["erase", "--user", NAME, "--yes", "--path", str(path), *app])
    known = app != ("--app", "another")
    assert code == (0 if known else 1)
    assert len(part_rows(path)) == (1 if known else 2)
    told = capsys.readouterr()
    assert ("erased 0 memories" in told.out) == known
    assert ("no such user" in told.err) == (not known)


def test_an_export_after_a_purge_has_no_hidden_user(opened, tmp_path):
    service = opened()
    fill(service)
    delete_and_purge(service)
    assert service.sync.admin.export_jsonl(tmp_path / "all.jsonl") == 1
    assert service.sync.admin.export_jsonl(tmp_path / "one.jsonl", **ALICE) == 0
    assert "\\u0000" not in (tmp_path / "all.jsonl").read_text()


def test_an_export_takes_hidden_tombstones_of_a_user_along(
    opened, open_service, tmp_path
):
    service, other = opened(), open_service(tmp_path / "other.db")
    fill(service)
    service.sync.admin.export_jsonl(tmp_path / "before.jsonl")
    service.sync.delete_session(**ALICE, session_id=SESSION)
    service.sync.admin.purge()
    service.sync.admin.export_jsonl(tmp_path / "after.jsonl")
    other.sync.admin.import_jsonl(tmp_path / "before.jsonl")
    assert "zebra one" in kept(other, **ALICE).values()
    other.sync.delete_memory(**ALICE, memory_id=FACT["id"])
    other.sync.admin.purge()  # has a key of its own
    other.sync.admin.import_jsonl(tmp_path / "after.jsonl")  # deletes what it deleted
    assert kept(other, **ALICE) == {}
    assert other.sync.add_session_to_memory(TOLD).stored == []
    for _ in range(2):
        other.sync.admin.import_jsonl(tmp_path / "before.jsonl")
        assert kept(other, **ALICE) == {}
        other.sync.admin.purge()
    other.sync.admin.import_jsonl(tmp_path / "before.jsonl", restore=True)
    assert len(kept(other, **ALICE)) == 3


def test_an_older_export_does_not_bring_back_turns_that_wait_no_more(opened, tmp_path):
    """They were summed up here before the purge, and are known by hidden ids."""
    service = opened(summarizer=Summarizer())
    service.sync.observe_session(TOLD)
    service.sync.admin.export_jsonl(tmp_path / "before.jsonl")
    service.sync.end_session(TOLD)
    service.sync.admin.purge()
    service.sync.admin.import_jsonl(tmp_path / "before.jsonl")
    assert service.sync.admin.stats()["waiting_turns"] == 0
    service.sync.end_session(TOLD)
    assert list(kept(service, **ALICE).values()) == ["a summary of 2"]


def test_a_backup_and_what_is_saved_of_a_damaged_file_know_hidden_users(
    opened, open_service, path, tmp_path
):
    service = opened()
    fill(service)
    delete_and_purge(service)
    service.sync.admin.backup(tmp_path / "copy.db")
    copy = open_service(tmp_path / "copy.db", trigger="session_end")
    assert_stays_deleted(copy)
    service.close()
    new = tmp_path / "new.db"
    assert main(["doctor", "--path", str(path), "--recover", str(new)]) == 0
    saved = open_service(new)
    assert saved.sync.admin.stats()["users"] == 1
    assert saved.sync.add_session_to_memory(TOLD).stored == []


def test_a_hidden_row_of_somebody_else_is_damage_and_not_an_absent_user(opened, path):
    service = opened()
    fill(service)
    delete_and_purge(service)
    service.close()
    with closing(sqlite3.connect(path)) as connection:
        assert partition_state(connection, 1, *ALICE.values()) is None
        with pytest.raises(CorruptFileError):
            partition_state(connection, 1, *BOB.values())
