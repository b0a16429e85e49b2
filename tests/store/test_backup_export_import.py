"""Copies of a file in use, and a file told to another as lines of JSON."""

from __future__ import annotations

import json
import operator
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from helpers.embedders import Recorder
from helpers.memories import ALICE, BOB
from helpers.snapshots import until
from vecall import (
    ConfigError,
    EmbeddingMismatchError,
    InvalidArgumentError,
    LeftOut,
    MemoryEntry,
    MemoryService,
)
from vecall.operations.import_export import _LINES_AT_ONCE

EMBEDDER = Recorder(6)
QUERIES = ["zebra", "okapi new", "user: zebra 3", "\u00e9\U0001f99c", "fact7"]


def everything(service: MemoryService, **who: str) -> list[Any]:
    """Answers of several searches, whole entries with their scores."""
    found = []
    for query in QUERIES:
        answer = service.sync.search_memory(**(who or ALICE), query=query, top_k=1000)
        found.append(answer.memories)
    return found


def texts(service: MemoryService, **who: str) -> list[str]:
    found = service.sync.search_memory(
        **(who or ALICE), query="zebra okapi", top_k=1000
    )
    return sorted(memory.text for memory in found.memories)


def furnished(service: MemoryService) -> None:
    """Memories of every kind: sessions, facts, changes, deletions."""
    events = [
        {
            "id": f"e{i}",
            "author": ("user", "agent")[i % 2],
            "timestamp": 1e9 + i,
            "text": f"zebra {i}",
            "custom_metadata": {"n": i, "deep": [{"x": None}, "\u00e9\U0001f99c"]},
        }
        for i in range(12)
    ]
    service.sync.add_session_to_memory({**ALICE, "id": "s/1", "events": events})
    facts: list[Any] = [
        MemoryEntry(f"okapi fact{i}", id=f"f{i}", importance=i / 10, kind="fact")
        for i in range(9)
    ]
    facts.append(
        MemoryEntry(
            {"parts": [{"text": "okapi \u00e9\U0001f99c"}, {"text": "\u2028\x01"}]},
            id="odd \u00e9",
            source="tool",
            trust="low",
        )
    )
    service.sync.add_memory(**ALICE, memories=facts)
    service.sync.add_memory(
        **ALICE, memories=["okapi passing"], custom_metadata={"ttl": 1e6}
    )
    for version in range(3):
        entry = MemoryEntry(f"okapi new{version}", id="f1", importance=0.5)
        service.sync.add_memory(**ALICE, memories=[entry])
    service.sync.delete_memory(**ALICE, memory_id="f2")
    service.sync.add_memory(**BOB, memories=["zebra of bob"])
    service.sync.add_memory(app_name="app/2", user_id="alice", memories=["zebra two"])
    service.sync.delete_user(app_name="app/2", user_id="alice")


@pytest.fixture
def origin(open_service, tmp_path) -> MemoryService:
    service = open_service(tmp_path / "m.db", embedder=EMBEDDER)
    furnished(service)
    return service


@contextmanager
def plain(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path)) as connection:
        yield connection


def uuid_of(path: Path) -> str:
    with plain(path) as connection:
        row = connection.execute("SELECT value FROM meta WHERE key = 'uuid'").fetchone()
        return str(row[0])


def test_a_backup_under_writes_is_one_whole_state(open_service, tmp_path):
    """Guarantee 2: of each batch all or nothing, of each stream all up to some call."""
    service = open_service(tmp_path / "m.db", durability="process")
    over = threading.Event()
    done = [0, 0]

    def write(stream: int) -> None:
        number = 0
        while not over.is_set():
            entries = [
                MemoryEntry(
                    f"zebra {number} {part} " + "x" * 300, id=f"{number}/{part}"
                )
                for part in range(7)
            ]
            who = {"app_name": "app", "user_id": f"user{stream}"}
            service.sync.add_memory(**who, memories=entries)
            number += 1
            done[stream] = number

    def after_another_call_of_each() -> list[int]:
        before = list(done)
        until(lambda: all(map(operator.gt, done, before)))
        return list(done)

    threads = [threading.Thread(target=write, args=(stream,)) for stream in range(2)]
    for thread in threads:
        thread.start()
    states = []
    try:
        for round_ in range(6):
            before = after_another_call_of_each()
            service.sync.admin.backup(tmp_path / f"b{round_}.db")
            states.append((before, list(done)))
    finally:
        over.set()
        for thread in threads:
            thread.join(20)
    uuids = {uuid_of(tmp_path / f"b{round_}.db") for round_ in range(6)}
    for round_, (before, after) in enumerate(states):
        copy = tmp_path / f"b{round_}.db"
        assert copy.stat().st_mode & 0o777 == 0o600
        with plain(copy) as connection:
            check = connection.execute("PRAGMA integrity_check").fetchall()
            rows = connection.execute(
                "SELECT user, mem.id FROM mem JOIN part ON part.id = mem.part"
            ).fetchall()
        assert check == [("ok",)]
        for stream in range(2):
            ids = sorted(id_ for user, id_ in rows if user == f"user{stream}")
            calls = len(ids) // 7
            expected = [
                f"{number}/{part}" for number in range(calls) for part in range(7)
            ]
            assert ids == sorted(expected), "a torn batch"
            assert before[stream] <= calls <= after[stream] + 1
    service.close()
    assert len({*uuids, uuid_of(tmp_path / "m.db")}) == 7, "each has its own identity"
    assert min(done) >= 6
    assert not list(tmp_path.glob("*.part*"))


def test_a_backup_opens_with_everything_in_it(open_service, origin, tmp_path):
    copy = tmp_path / "copy.db"
    origin.sync.admin.backup(copy)
    assert not list(tmp_path.glob("copy.db?*")), "it is one file"
    with open_service(copy, embedder=EMBEDDER) as other:
        assert everything(other) == everything(origin)
        assert everything(other, **BOB) == everything(origin, **BOB)
        other.sync.add_memory(**ALICE, memories=["zebra only in the copy"])
    assert "zebra only in the copy" not in texts(origin)


def test_a_backup_never_overwrites(open_service, origin, tmp_path):
    """And what it refuses it leaves as it is."""
    taken = tmp_path / "taken"
    taken.write_text("precious")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    targets = [taken, tmp_path, tmp_path / "link", tmp_path / "none" / "b.db"]
    for target in [*targets, tmp_path / "m.db", ":memory:"]:
        with pytest.raises(ConfigError):
            origin.sync.admin.backup(target)
    assert taken.read_text() == "precious"
    assert not (tmp_path / "nowhere").exists()
    assert len(texts(origin)) > 10


def test_a_log_that_lies_about_is_not_taken_for_the_backups(
    open_service, origin, tmp_path
):
    """SQLite would replay the log of a file that once had the name."""
    crashed = open_service(tmp_path / "crashed.db")
    crashed.sync.add_memory(**ALICE, memories=[f"gnu {i}" for i in range(50)])
    target = tmp_path / "b.db"
    # A copy of the log through the kernel; this process must not open the original.
    shutil.copyfile(tmp_path / "crashed.db-wal", tmp_path / "b.db-wal")
    try:
        origin.sync.admin.backup(target)
    except ConfigError:
        assert not target.exists()
        return
    with open_service(target, embedder=EMBEDDER) as other:
        assert everything(other) == everything(origin)


def exported(service: MemoryService, path: Path, **options: Any) -> bytes:
    count = service.sync.admin.export_jsonl(path, **options)
    data = path.read_bytes()
    path.unlink()
    assert data.count(b'\n{"mem":') == count
    return data


def test_an_export_of_an_import_is_the_export(open_service, origin, tmp_path):
    """Nothing is lost: vectors, metadata, times, history, tombstones."""
    data = exported(origin, tmp_path / "e")
    (tmp_path / "in").write_bytes(data)
    other = open_service(tmp_path / "other.db", embedder=EMBEDDER)
    EMBEDDER.asked.clear()
    assert other.sync.admin.import_jsonl(tmp_path / "in") == data.count(b'\n{"mem":')
    assert EMBEDDER.asked == [], "the vectors came with it"
    assert exported(other, tmp_path / "e") == data
    assert everything(other) == everything(origin)
    assert everything(other, **BOB) == everything(origin, **BOB)
    kinds = [next(iter(json.loads(line))) for line in data.splitlines()]
    assert kinds.count("tomb") == 2
    assert kinds.count("hist") == 3
    assert other.sync.admin.import_jsonl(tmp_path / "in") == 0, "nothing is new"
    assert exported(other, tmp_path / "e") == data
    again = [{"id": "f2", "content": "okapi fact2"}]
    ids = other.sync.add_memory(**ALICE, memories=again, restore=False)
    assert ids.left_out == (LeftOut(0, "deleted"),)


def test_what_was_read_before_a_source_fails_is_imported(open_service, tmp_path):
    """In whole jobs of 500 lines."""
    origin = open_service(tmp_path / "m.db", embedder=None)
    facts = [f"zebra number {number}" for number in range(620)]
    origin.sync.add_memory(**ALICE, memories=facts)
    lines = iter(exported(origin, tmp_path / "e").splitlines(keepends=True))

    class Pipe:
        """Breaks after the header, the line of the user and 500 memories."""

        left = 502

        def readline(self, size: int) -> bytes:
            self.left -= 1
            if self.left < 0:
                raise BrokenPipeError
            return next(lines)

    other = open_service(tmp_path / "other.db", embedder=None)
    with pytest.raises(BrokenPipeError):
        other.sync.admin.import_jsonl(Pipe())
    until(lambda: other.sync.count_memories(**ALICE) == 500)


def test_an_export_is_for_its_owner_and_never_overwrites(origin, tmp_path):
    target = tmp_path / "e.jsonl"
    origin.sync.admin.export_jsonl(target)
    assert target.stat().st_mode & 0o777 == 0o600
    before = target.read_bytes()
    for taken in (target, tmp_path / "m.db"):
        with pytest.raises(ConfigError):
            origin.sync.admin.export_jsonl(taken)
    assert target.read_bytes() == before


def test_an_export_may_be_of_one_app_or_user(open_service, origin, tmp_path):
    origin.sync.add_memory(
        app_name="concierge/", user_id="alice", memories=["zebra elsewhere"]
    )
    of_alice = exported(origin, tmp_path / "e", **ALICE)
    assert b"of bob" not in of_alice
    assert b"elsewhere" not in of_alice
    app = exported(origin, tmp_path / "e", app_name=ALICE["app_name"])
    assert b"of bob" in app
    assert b"elsewhere" not in app
    with pytest.raises(InvalidArgumentError, match="app_name"):
        origin.sync.admin.export_jsonl(tmp_path / "e", user_id="alice")
    (tmp_path / "in").write_bytes(of_alice)
    other = open_service(tmp_path / "other.db", embedder=EMBEDDER)
    other.sync.admin.import_jsonl(tmp_path / "in")
    assert everything(other) == everything(origin)
    assert everything(other, **BOB) == [[]] * len(QUERIES)


def test_the_newer_version_wins_and_what_was_deleted_stays_so(
    open_service, origin, tmp_path
):
    file = tmp_path / "in"
    origin.sync.admin.export_jsonl(file, **ALICE)
    other = open_service(tmp_path / "other.db", embedder=EMBEDDER)
    other.sync.admin.import_jsonl(file)
    newer = MemoryEntry("okapi newer here", id="f3")
    other.sync.add_memory(**ALICE, memories=[newer])
    other.sync.delete_memory(**ALICE, memory_id="f4")
    other.sync.add_memory(
        **ALICE, memories=[MemoryEntry("okapi back", id="f2")], restore=True
    )
    assert other.sync.admin.import_jsonl(file) == 0
    assert {"okapi newer here", "okapi back"} <= set(texts(other))
    assert "okapi fact4" not in texts(other)
    assert other.sync.admin.import_jsonl(file, restore=True) == 1
    assert "okapi fact4" in texts(other)
    assert "okapi newer here" in texts(other)
    # What was deleted there, later than it was told here, is deleted here.
    origin.sync.delete_memory(**ALICE, memory_id="f5")
    origin.sync.add_memory(**ALICE, memories=[MemoryEntry("okapi now", id="f6")])
    file.unlink()
    origin.sync.admin.export_jsonl(file, **ALICE)
    assert other.sync.admin.import_jsonl(file) == 1
    found = texts(other)
    assert "okapi now" in found
    assert not {"okapi fact5", "okapi fact6"} & set(found)
    assert other.sync.admin.stats()["memories"] == len(found)


def test_vectors_of_another_model_are_refused(open_service, origin, tmp_path):
    """Bug class 12; without vectors the memories are embedded anew."""
    file = tmp_path / "in"
    origin.sync.admin.export_jsonl(file)
    for wrong in (Recorder(6, "other"), Recorder(5)):
        path = tmp_path / f"{wrong.model_id}{wrong.dimensions}.db"
        other = open_service(path, embedder=wrong)
        with pytest.raises(EmbeddingMismatchError, match="recorder"):
            other.sync.admin.import_jsonl(file)
        assert other.sync.admin.stats()["memories"] == 0
        count = other.sync.admin.import_jsonl(file, vectors=False)
        assert count == origin.sync.admin.stats()["memories"]
        other.close()
        with open_service(path, embedder=wrong) as service:
            wait_until_embedded(service, count)
            best = service.sync.search_memory(**ALICE, query="okapi now", top_k=1)
            assert best.memories
            assert best.memories[0].similarity is not None
    with open_service(tmp_path / "words.db") as words:
        file.unlink()
        origin.sync.admin.export_jsonl(file, vectors=False)
        assert b'"vec"' not in file.read_bytes()
        words.sync.admin.import_jsonl(file)
        assert texts(words) == texts(origin)
        assert words.sync.admin.stats()["model"] is None


def wait_until_embedded(service: MemoryService, count: int) -> None:
    end = time.monotonic() + 20
    while service.sync.admin.stats()["embedded"] < count:
        assert time.monotonic() < end, "the rows get no vectors"
        time.sleep(0.01)


def test_a_history_that_is_imported_apart_from_its_memory_can_go_on(
    open_service, tmp_path
):
    """The revisions of a memory may be all that a batch of an import holds."""
    service = open_service(tmp_path / "a.db")
    (id_,) = service.sync.add_memory(**ALICE, memories=["zebra 0"])
    for number in range(1, 4):
        service.sync.update_memory(**ALICE, memory_id=id_, content=f"zebra {number}")
    others = [f"tea {number}" for number in range(_LINES_AT_ONCE - 1)]
    service.sync.add_memory(**ALICE, memories=others)
    service.sync.admin.export_jsonl(tmp_path / "export")
    copy = open_service(tmp_path / "b.db")
    copy.sync.admin.import_jsonl(tmp_path / "export")
    for number in range(4, 7):
        copy.sync.update_memory(**ALICE, memory_id=id_, content=f"zebra {number}")
    told = copy.sync.memory_history(**ALICE, memory_id=id_)
    assert [each.memory.text for each in told] == [f"zebra {n}" for n in range(7)]
    assert "zebra 6" in texts(copy)
