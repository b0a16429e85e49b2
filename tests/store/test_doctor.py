"""What is damaged is found, set aside or saved; nothing is ever made up or deleted."""

from __future__ import annotations

import gc
import hashlib
import json
import random
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from helpers.campaigns import SCALE
from helpers.embedders import Recorder
from helpers.processes import child, said
from vecall import (
    ConfigError,
    CorruptFileError,
    MemoryEntry,
    MemoryService,
    VecallError,
)
from vecall.cli.main import main
from vecall.store import examine, recover_file, repair_file

PAGE = 4096
USERS = ["alice", "bob", "carol"]
EMBEDDER = Recorder(4)


def scope(user: str) -> dict[str, str]:
    return {"app_name": "app", "user_id": user}


def told(count: int) -> dict[str, dict[str, str]]:
    """Texts by user and id; each says whose it is."""
    rng = random.Random(17)
    return {
        user: {
            f"m{i}": f"zebra {user} {i} {rng.randbytes(rng.randint(10, 250)).hex()}"
            for i in range(count)
        }
        for user in USERS
    }


def made(open_service: Callable[..., MemoryService], path: Path, count: int) -> Any:
    """A closed file, and what it holds."""
    texts = told(count)
    with open_service(path, embedder=EMBEDDER, durability="process") as service:
        for user, mine in texts.items():
            entries = [
                MemoryEntry(text, id=id_, session_id=f"s{len(text) % 5}")
                for id_, text in mine.items()
            ]
            service.sync.add_memory(**scope(user), memories=entries)
            service.sync.delete_memory(**scope(user), memory_id="m0")
            del mine["m0"]
    return texts


def levels(path: Path) -> dict[str, str]:
    return {finding.about: finding.level for finding in examine(path)}


def changed(path: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement, values)
        connection.commit()


def state_of(folder: Path) -> dict[str, str]:
    """The contents of all files of a folder; none of them is open."""
    return {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in folder.rglob("*")
        if file.is_file()
    }


def found(service: MemoryService, user: str) -> list[str]:
    answer = service.sync.search_memory(**scope(user), query="zebra", top_k=1000)
    return sorted(memory.text for memory in answer.memories)


@pytest.fixture
def path(tmp_path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    return folder / "m.db"


def test_a_healthy_file_is_well_and_stays_as_it_is(open_service, path, capsys):
    texts = made(open_service, path, 20)
    before = state_of(path.parent)
    assert set(levels(path).values()) <= {"ok", "note"}
    assert {"pages", "memories", "counts", "snapshots"} <= set(levels(path))
    assert main(["doctor", "--path", str(path)]) == 0
    assert "57 pass their checksum" in capsys.readouterr().out
    assert state_of(path.parent) == before
    assert repair_file(path) == []
    service = open_service(path, embedder=EMBEDDER)
    assert found(service, "bob") == sorted(texts["bob"].values())


CRASHER = """
import sys, vecall
service = vecall.MemoryService(sys.argv[1], embedder=None)
service.sync.add_memory(app_name="app", user_id="alice", memories=["zebra in the log"])
print("ready", flush=True)
sys.stdin.read()
"""


def test_a_file_left_by_a_crash_is_well_and_loses_nothing(open_service, path):
    """Examining changes nothing: not even the log is taken into the file."""
    with child(CRASHER, path) as process:
        assert said(process) == "ready"
        process.send_signal(signal.SIGKILL)
        process.wait()
    kept = {n: h for n, h in state_of(path.parent).items() if not n.endswith("-shm")}
    assert "m.db-wal" in kept
    assert set(levels(path).values()) <= {"ok", "note"}
    after = {n: h for n, h in state_of(path.parent).items() if not n.endswith("-shm")}
    assert after == kept
    assert found(open_service(path), "alice") == ["zebra in the log"]


def test_a_file_in_use_may_be_examined(open_service, path):
    """With a transaction open, and without dropping its locks."""
    service = open_service(path)
    service.sync.add_memory(**scope("alice"), memories=["zebra"])
    assert set(levels(path).values()) <= {"ok", "note"}
    service.sync.add_memory(**scope("alice"), memories=["zebra 2"])
    assert found(service, "alice") == ["zebra", "zebra 2"]


def test_a_damaged_memory_is_set_aside_and_the_others_come_back(
    open_service, path, capsys
):
    texts = made(open_service, path, 30)
    spoiled = "SUBSTR(text, 1, 5) || 'X' || SUBSTR(text, 7)"
    changed(path, f"UPDATE mem SET text = {spoiled} WHERE part = 2 AND id = 'm7'")
    changed(path, "UPDATE mem SET vec = zeroblob(16) WHERE part = 3 AND id = 'm9'")
    with open_service(path, embedder=EMBEDDER) as service:
        for user in ("bob", "carol"):
            with pytest.raises(CorruptFileError, match="--repair"):
                found(service, user)
        assert found(service, "alice") == sorted(texts["alice"].values())
    gc.collect()  # the errors keep cursors
    before = state_of(path.parent)
    assert levels(path)["memories"] == "error"
    assert main(["doctor", "--path", str(path), "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["damaged"] is True
    assert report["done"] == []
    (told_,) = [f for f in report["findings"] if f["about"] == "memories"]
    assert told_["level"] == "error"
    assert "2 of 87" in told_["message"]
    assert state_of(path.parent) == before
    assert main(["doctor", "--path", str(path), "--json", "--repair"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert "2 damaged" in report["done"][0]
    assert report["damaged"] is False
    with closing(sqlite3.connect(path)) as connection:
        aside = connection.execute(
            "SELECT part, id, text LIKE 'zebraX%' FROM mem WHERE state = 'quarantined'"
        )
        assert sorted(aside.fetchall()) == [(2, "m7", 1), (3, "m9", 0)]
    service = open_service(path, embedder=EMBEDDER)
    del texts["bob"]["m7"], texts["carol"]["m9"]
    for user in USERS:
        assert found(service, user) == sorted(texts[user].values())
    assert service.sync.admin.stats()["memories"] == 85
    entry = MemoryEntry("zebra told again", id="m7")
    assert service.sync.add_memory(**scope("bob"), memories=[entry]) == ["m7"]
    service.close()
    service = open_service(path, embedder=EMBEDDER)
    assert "zebra told again" in found(service, "bob"), "it was acknowledged"
    assert levels(path)["counts"] == "ok"


def test_a_service_that_had_the_user_loaded_sees_the_repair(open_service, path):
    texts = made(open_service, path, 10)
    service = open_service(path, embedder=EMBEDDER)
    assert len(found(service, "alice")) == 9
    changed(path, "UPDATE mem SET text = 'zebra lie' WHERE part = 1 AND id = 'm3'")
    assert repair_file(path) != []
    del texts["alice"]["m3"]
    assert found(service, "alice") == sorted(texts["alice"].values())


@pytest.mark.parametrize("wrong", ["live = 77", "bytes = -1", "live = 77, bytes = -1"])
def test_wrong_counts_are_noticed_and_counted_again(open_service, path, wrong):
    made(open_service, path, 10)
    changed(path, f"UPDATE part SET {wrong} WHERE id = 2")
    assert levels(path)["counts"] == "warning"
    assert repair_file(path) == ["1 users, 1 apps were counted again"]
    assert levels(path)["counts"] == "ok"
    service = open_service(path, embedder=EMBEDDER)
    assert service.sync.admin.stats()["memories"] == 27


@pytest.mark.parametrize(
    ("statement", "wrong"),
    [
        ("UPDATE part SET n = n + 1 WHERE id = 2", "1 users, 1 apps"),
        ("UPDATE part SET lo = lo + 1 WHERE id = 2", "1 users"),
        ("UPDATE part SET hi = hi - 1, hi_x = hi WHERE id = 2", "1 users"),
        ("UPDATE fig SET live = 9 WHERE name = 'of dora'", "1 sessions"),
        ("DELETE FROM fig WHERE name = 'of dora'", "1 sessions"),
        ("INSERT INTO fig (part, name, n) VALUES (2, 'gone', 1)", "1 ended sessions"),
        ("UPDATE fig SET users = 9 WHERE part = 0", "1 apps"),
        ("DELETE FROM fig WHERE part = 0", "1 missing apps"),
    ],
)
def test_each_wrong_counter_is_noticed_and_counted_again(
    open_service, path, statement, wrong
):
    made(open_service, path, 3)
    with open_service(path, embedder=EMBEDDER) as service:
        fact = {"content": "zebra", "session_id": "of dora"}
        service.sync.add_memory(app_name="app", user_id="dora", memories=[fact])
        before = service.sync.admin.list_apps(), service.sync.admin.stats()["sessions"]
    assert levels(path)["counts"] == "ok"
    changed(path, statement)
    assert levels(path)["counts"] == "warning"
    assert repair_file(path) == [f"{wrong} were counted again"]
    assert levels(path)["counts"] == "ok"
    service = open_service(path, embedder=EMBEDDER)
    after = service.sync.admin.list_apps(), service.sync.admin.stats()["sessions"]
    assert after == before


@pytest.mark.parametrize("mode", [0o640, 0o620, 0o610, 0o604, 0o602, 0o601])
def test_each_permission_of_others_is_reported_and_removed(open_service, path, mode):
    made(open_service, path, 1)
    assert levels(path)["permissions"] == "ok"
    path.chmod(mode)
    assert levels(path)["permissions"] == "warning"
    assert repair_file(path) == ["the file is now for its owner alone"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_open_permissions_and_leftovers_are_told_and_tidied(open_service, path):
    made(open_service, path, 3)
    folder = path.with_name("m.db.snap")
    folder.mkdir(mode=0o700)
    (folder / "1.123.tmp").write_bytes(b"half a snapshot")
    path.chmod(0o644)
    assert levels(path)["permissions"] == "warning"
    assert levels(path)["snapshots"] == "note"
    assert len(repair_file(path)) == 2
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(folder.iterdir()) == []
    assert levels(path)["permissions"] == levels(path)["snapshots"] == "ok"


def test_links_and_what_is_no_file_of_vecall_are_refused(open_service, path, capsys):
    made(open_service, path, 3)
    link = path.with_name("link.db")
    link.symlink_to(path)
    assert levels(link)["path"] == "error"
    with pytest.raises(ConfigError):
        repair_file(link)
    with pytest.raises(ConfigError):
        examine(path.with_name("nothing.db"))
    assert not path.with_name("nothing.db").exists()
    text = path.with_name("notes.txt")
    text.write_text("zebra " * 2000)
    assert levels(text)["file"] == "error"
    assert text.read_text() == "zebra " * 2000
    assert main(["doctor", "--path", str(path.with_name("nothing.db"))]) == 1
    assert "nothing.db" in capsys.readouterr().err


def test_nothing_is_recovered_over_a_file(open_service, path):
    made(open_service, path, 3)
    taken = path.with_name("taken")
    taken.write_text("precious")
    for target in (taken, path):
        with pytest.raises(ConfigError):
            recover_file(path, target)
    assert taken.read_text() == "precious"


def test_a_whole_file_is_recovered_whole(open_service, path, capsys):
    texts = made(open_service, path, 40)
    before = state_of(path.parent)
    target = path.parents[1] / "new.db"
    arguments = ["doctor", "--path", str(path), "--recover", str(target), "--json"]
    assert main(arguments) == 0
    assert "117 memories saved" in json.loads(capsys.readouterr().out)["done"][0]
    assert state_of(path.parent) == before
    assert target.stat().st_mode & 0o777 == 0o600
    EMBEDDER.asked.clear()
    service = open_service(target, embedder=EMBEDDER)
    for user in USERS:
        assert found(service, user) == sorted(texts[user].values())
        again = MemoryEntry("zebra back", id="m0")
        told = service.sync.add_memory(**scope(user), memories=[again], restore=False)
        assert told == [None]
    assert set(EMBEDDER.asked) == {"zebra"}, "the vectors were saved as well"


def test_a_memory_is_never_recovered_for_another_user(open_service, path):
    """A user whose row has a damaged name has the number of the row as the name."""
    made(open_service, path, 2)
    changed(path, "UPDATE part SET user = ? WHERE user = ?", "mallory", USERS[0])
    target = path.with_name("new.db")
    recover_file(path, target)
    assert found(open_service(target, embedder=EMBEDDER), "mallory") == []


def test_odd_values_beside_the_checksum_do_not_end_a_recovery(open_service, path):
    """A column that no checksum covers costs at most its own row."""
    texts = made(open_service, path, 12)
    for id_, column, value in (
        ("m1", "updated_at", "x"),
        ("m2", "uses", "many"),
        ("m3", "last_used", b"\xff"),
        ("m4", "supersedes", b"\xff\xfe"),
    ):
        changed(path, f"UPDATE mem SET {column} = ? WHERE id = ?", value, id_)
    target = path.with_name("new.db")
    saved, lost, *_ = recover_file(path, target)
    assert saved + lost == 33
    service = open_service(target, embedder=EMBEDDER)
    for user in USERS:
        rest = {text for id_, text in texts[user].items() if id_ > "m4" or len(id_) > 2}
        assert rest <= set(found(service, user)) <= set(texts[user].values())


@pytest.mark.campaign
def test_damaged_pages_cost_what_is_on_them_and_nothing_else(open_service, path):
    """Guarantee 6: what is saved is true, and what is not is counted as lost."""
    texts = made(open_service, path, 120)
    whole = path.read_bytes()
    total = sum(map(len, texts.values()))
    with closing(sqlite3.connect(path)) as connection:
        root = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'mem'"
        ).fetchone()[0]
    # Two pages lead to all others: the schema's, and the root of the memories' tree.
    pages = [page for page in range(1, len(whole) // PAGE) if page != root - 1]
    rng = random.Random(21)
    noticed = most_lost = 0
    rounds = 30 if SCALE >= 1 else 15 if SCALE >= 0.5 else 6
    for round_ in range(rounds):
        page = rng.choice(pages)
        data = bytearray(whole)
        if round_ % 3 == 0:  # all of it
            data[page * PAGE : (page + 1) * PAGE] = rng.randbytes(PAGE)
        elif round_ % 3 == 1:  # as if it had never been written
            data[page * PAGE : (page + 1) * PAGE] = bytes(PAGE)
        else:
            at = page * PAGE + rng.randrange(PAGE - 200)
            data[at : at + 200] = rng.randbytes(200)
        path.write_bytes(data)
        noticed += "error" in levels(path).values()
        target = path.parents[1] / f"new{round_}.db"
        try:
            saved, lost, *_ = recover_file(path, target)
        except VecallError as error:
            pytest.fail(f"page {page}: {error}")
        assert path.read_bytes() == data, "the damaged file was changed"
        with closing(sqlite3.connect(target)) as connection:
            rows = connection.execute(
                "SELECT app, user, mem.id, text FROM mem JOIN part ON part = part.id"
            ).fetchall()
            check = connection.execute("PRAGMA integrity_check").fetchall()
        assert check == [("ok",)]
        assert len(rows) == saved
        for app, user, id_, text in rows:
            owner = USERS[int(user) - 1] if app == "vecall-recovered" else user
            assert texts[owner][id_] == text
        # A page of 4 KiB holds some ten rows here; an inner page is looked round.
        most_lost = max(most_lost, total - saved)
        assert saved >= total - 60, f"page {page}"
        # A page of garbage may name some rows that never were.
        assert total - 60 <= saved + lost <= total + 5, f"page {page}"
        if round_ % 5 == 0:
            service = open_service(target, embedder=EMBEDDER)
            for user in USERS:
                assert set(found(service, user)) <= set(texts[user].values())
            service.close()
    assert noticed > rounds // 2
    assert most_lost > 0
