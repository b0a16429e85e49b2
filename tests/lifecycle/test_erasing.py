"""What is erased or purged leaves nothing in the file that proves it was there."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from hashlib import blake2b

import pytest
from helpers.clocks import SettableClock
from helpers.options import grouped
from vecall import ConfigError, ConflictError, MemoryService, Scopes, WritePolicy
from vecall.cli.main import main
from vecall.store.rows import hash_of_text

NAME = "alice@example.com"
ALICE = {"app_name": "shop", "user_id": NAME}
BOB = {"app_name": "shop", "user_id": "bob"}
SECRET = "my PIN is 493817"


def _bytes_of(path):
    files = [path, *path.parent.glob(path.name + "-*")]
    files += path.parent.glob(path.name + ".snap/*")
    return b"".join(each.read_bytes() for each in files)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "memory.db"
    with MemoryService(path, embedder=None) as memory:
        for app in ("shop", "desk"):
            names = {"app_name": app, "user_id": NAME}
            memory.sync.add_memory(**names, memories=["one", "two"])
            memory.sync.observe_session(
                {**names, "id": f"s {NAME}", "events": [{"text": "waits", "id": "e"}]}
            )
            memory.sync.delete_memory(
                **names, memory_id=memory.sync.list_memories(**names)[0].id
            )
        memory.sync.add_memory(**BOB, memories=["Bob's own."])
    return path


def _run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    return code, printed.out + printed.err


def test_a_person_is_erased_from_all_apps_with_the_name(file, capsys):
    assert NAME.encode() in _bytes_of(file)
    code, said = _run(capsys, "erase", "--user", NAME, "--yes", "--path", file)
    assert code == 0
    assert said == (
        f"erased 2 memories of {NAME} in 2 apps\nthe file no longer has the name\n"
    )
    assert NAME.encode() not in _bytes_of(file)
    with MemoryService(file, embedder=None) as memory:
        facts = memory.sync.admin.stats()
        assert (facts["users"], facts["memories"], facts["deleted_ids"]) == (1, 1, 0)
        assert memory.sync.search_memory(**BOB, query="Bob").memories


def test_what_all_apps_share_of_a_person_is_erased_too(file, capsys):
    scopes = Scopes(read=("shared",), write=("shared",))
    with MemoryService(
        file, embedder=None, writes=WritePolicy(scopes=scopes)
    ) as memory:
        for names in (ALICE, BOB):
            memory.sync.add_memory(**names, memories=["a secret"], scope="shared")
    code, said = _run(capsys, "erase", "--user", NAME, "--yes", "--path", file)
    assert (code, said) == (
        0,
        f"erased 3 memories of {NAME} in 2 apps and the shared scope\n"
        "the file no longer has the name\n",
    )
    assert NAME.encode() not in _bytes_of(file)
    with MemoryService(
        file, embedder=None, writes=WritePolicy(scopes=scopes)
    ).sync as memory:
        found = memory.search_memory(**BOB, query="a secret")
        assert [m.text for m in found] == ["a secret"]


def test_one_app_can_be_erased_alone_and_the_command_says_what_is_left(file, capsys):
    arguments = ("erase", "--user", NAME, "--app", "desk", "--path", file, "--json")
    code, said = _run(capsys, *arguments, "--yes")
    assert code == 0
    facts = json.loads(said)
    assert (facts["memories"], facts["apps"]) == (1, ["desk"])
    assert facts["name_is_in"] == [str(file)]
    with MemoryService(file, embedder=None) as memory:
        assert memory.sync.admin.stats()["users"] == 2


def test_a_name_that_somebody_else_quotes_is_reported(file, capsys):
    with MemoryService(file, embedder=None) as memory:
        memory.sync.add_memory(**BOB, memories=[f"Write to {NAME} tomorrow."])
    code, said = _run(capsys, "erase", "--user", NAME, "--yes", "--path", file)
    assert code == 1
    assert "a text of another user" in said


def test_nothing_is_erased_without_being_asked_for(file, capsys):
    before = file.read_bytes()
    code, said = _run(capsys, "erase", "--user", NAME, "--path", file)
    assert code == 1
    assert "--yes" in said
    code, said = _run(capsys, "erase", "--user", "nobody", "--yes", "--path", file)
    assert code == 1
    assert "no such user" in said
    assert file.read_bytes() == before


def test_a_session_of_an_erased_user_is_remembered_again(file, capsys):
    _run(capsys, "erase", "--user", NAME, "--yes", "--path", file)
    with MemoryService(file, embedder=None) as memory:
        memory.sync.add_memory(**ALICE, memories=["one", "two"])
        assert memory.sync.admin.stats()["memories"] == 3


def test_a_user_whose_names_a_purge_hid_is_erased_alone(tmp_path, capsys):
    file, turn = tmp_path / "memory.db", {"id": "e", "text": "one"}
    with MemoryService(file, embedder=None).sync as memory:
        for names in (ALICE, BOB):
            memory.add_events_to_memory(**names, events=[turn])
            memory.delete_user(**names)
        memory.admin.purge()
    assert _run(capsys, "erase", "--user", NAME, "--yes", "--path", file)[0] == 0
    with MemoryService(file, embedder=None).sync as memory:
        told = [
            memory.add_events_to_memory(**who, events=[turn]) for who in (ALICE, BOB)
        ]
        assert [len(ids) - len(ids.left_out) for ids in told] == [1, 0]


def test_a_purge_leaves_no_snapshot(tmp_path):
    """One has the vectors of what is deleted."""
    snapshot = tmp_path / "memory.db.snap" / "1.vs"
    with MemoryService(tmp_path / "memory.db", embedder=None) as memory:
        snapshot.parent.mkdir(exist_ok=True)
        snapshot.write_bytes(b"vecallS1")
        memory.sync.admin.purge()
    assert not snapshot.exists()


def test_a_purge_keeps_no_digest_of_proposals_and_keys(tmp_path):
    path = tmp_path / "memory.db"
    with MemoryService(path, embedder=None) as memory:
        entries = [{"content": SECRET, "id": "pin"}]
        memory.sync.add_memory(**ALICE, memories=entries, idempotency_key="k")
        memory.sync.propose_forget(**ALICE, query="PIN")
        memory.sync.delete_memory(**ALICE, memory_id="pin")
        plain = hash_of_text(SECRET)
        assert plain.hex().encode() in _bytes_of(path)
        memory.sync.admin.purge()
        assert plain.hex().encode() not in _bytes_of(path)
        assert plain not in _bytes_of(path)
        with closing(sqlite3.connect(path)) as connection:
            (kept,) = connection.execute("SELECT key, hash, ids FROM idem").fetchall()
        assert kept[1] == b""
        assert "pin" not in kept[2]  # nor is the id, of which the memory is gone
        # The call is still carried out once.
        ids = memory.sync.add_memory(**ALICE, memories=entries, idempotency_key="k")
        assert list(ids) == ["pin"]
        assert memory.sync.admin.stats()["memories"] == 0
        memory.sync.add_memory(**ALICE, memories=["x"], idempotency_key="new")
        with pytest.raises(ConflictError):
            memory.sync.add_memory(**ALICE, memories=["y"], idempotency_key="new")


def test_a_purge_shortens_the_digest_of_a_correction_that_still_holds(tmp_path):
    path, clock = tmp_path / "memory.db", SettableClock()
    turn = {"text": SECRET, "id": "e1", "author": "user"}
    how = {
        "embedder": None,
        "history_ttl": 60,
        "clock": clock,
        "maintenance_interval": None,
    }
    with MemoryService(path, **grouped(**{"embedder": None, **how})) as memory:
        told = {"app_name": "shop", "user_id": NAME, "id": "s", "events": [turn]}
        memory.sync.add_session_to_memory(told)
        (stored,) = memory.sync.list_memories(**ALICE)
        memory.sync.update_memory(**ALICE, memory_id=stored.id, content="hidden")
        clock.let_pass(3_600)
        memory.sync.admin.run_due()
        memory.sync.admin.purge()
        with closing(sqlite3.connect(path)) as connection:
            (old,) = connection.execute("SELECT old FROM hist").fetchone()
        assert len(json.loads(old)["digest"]) == 4
        assert SECRET.encode() not in _bytes_of(path)
        memory.sync.add_session_to_memory(told)
        assert [each.text for each in memory.sync.list_memories(**ALICE)] == ["hidden"]
        turn["text"] = "said in another way"
        memory.sync.add_session_to_memory(told)
        (now,) = memory.sync.list_memories(**ALICE)
        assert now.text == "said in another way"


@pytest.mark.parametrize("suffix", ["", "-wal", ".lock", ".reserve"])
def test_a_pipe_in_place_of_a_file_is_refused_and_not_waited_for(tmp_path, suffix):
    path = tmp_path / "memory.db"
    if suffix:
        with MemoryService(path, embedder=None) as memory:
            memory.sync.add_memory(**BOB, memories=["kept"])
    other = tmp_path / f"memory.db{suffix}"
    other.unlink(missing_ok=True)
    os.mkfifo(other)
    with pytest.raises(ConfigError, match="no plain file"):
        MemoryService(path, embedder=None)


def test_a_second_name_of_a_file_is_refused(tmp_path):
    path = tmp_path / "memory.db"
    with MemoryService(path, embedder=None) as memory:
        memory.sync.add_memory(**BOB, memories=["kept"])
    os.link(path, tmp_path / "other.db")
    with pytest.raises(ConfigError, match="hard link"):
        MemoryService(path, embedder=None)
    (tmp_path / "other.db").unlink()
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (tmp_path / "memory.db.reserve").unlink()
    os.link(victim, tmp_path / "memory.db.reserve")
    with pytest.raises(ConfigError, match="hard link"):
        MemoryService(path, embedder=None)
    assert victim.read_bytes() == b"precious"


def test_a_relative_name_is_never_a_uri(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VECALL_PATH", "memory.db")
    with MemoryService("file:x.db?mode=memory", embedder=None) as memory:
        memory.sync.add_memory(**BOB, memories=["kept"])
    made = tmp_path / "file:x.db?mode=memory"
    assert made.stat().st_mode & 0o777 == 0o600
    assert not (tmp_path / "x.db").exists()
    with MemoryService(made, embedder=None) as memory:
        assert memory.sync.admin.stats()["memories"] == 1


def test_hashes_here_are_those_of_the_store():
    """The reference of these tests."""
    assert hash_of_text("a") == blake2b(b"a", digest_size=16).digest()
