"""A file of schema 1 is brought to schema 2, whole or not at all, once."""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from helpers.processes import child, said, tell
from vecall import EmbeddingMismatchError, MemoryService, NotFoundError

OLD = Path(__file__).parent / "fixtures" / "schema-1.db"
USERS = {"alice": 8, "bob": 6, "carol": 1}
# What schema 1 knew; idem and vec_next of the old file are empty.
TABLES = {
    "model": "id, name, dim, fingerprint, state",
    "part": "id, app, user, seq, live, bytes, created_at",
    "mem": "rid, part, id, seq, session, event, pos, ts, created_at, updated_at, "
    "expires_at, valid_until, author, kind, source, trust, text, content, meta, "
    "importance_prior, last_used, uses, state, supersedes, hash, vec, model, crc",
    "chg": "part, seq, rid, op",
    "tomb": "part, id, at",
    "hist": "part, id, seq, at, op, old",
}


class Hashed:
    """The embedder that the old file was made with."""

    model_id = "hashed"
    dimensions = 8

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [self.vector(text) for text in texts]

    def vector(self, text: str) -> list[float]:
        return [byte - 127.5 for byte in hashlib.sha256(text.encode()).digest()[:8]]


@pytest.fixture
def old(tmp_path) -> Path:
    path = tmp_path / "m.db"
    shutil.copyfile(OLD, path)
    return path


def contents(path: Path) -> dict[str, list[Any]]:
    """What schema 1 knew of a closed file."""
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return {
            table: connection.execute(
                f"SELECT {columns} FROM {table} ORDER BY 1, 2, 3"
            ).fetchall()
            for table, columns in TABLES.items()
        }


def version(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


def shape(path: Path) -> list[tuple[str, ...]]:
    """Tables and indexes, and the columns of each in any order."""
    with closing(sqlite3.connect(path)) as connection:
        names = connection.execute(
            "SELECT type, name FROM sqlite_master ORDER BY 1, 2"
        ).fetchall()
        return [
            (kind, name, *sorted(_columns(connection, name))) for kind, name in names
        ]


def _columns(connection: sqlite3.Connection, name: str) -> Iterator[str]:
    for table in ("pragma_table_info", "pragma_index_info"):
        found = connection.execute(f"SELECT name FROM {table}(?)", (name,))
        yield from (str(column) for (column,) in found)


def texts(service: MemoryService, user: str, query: str) -> list[str]:
    found = service.sync.search_memory(
        app_name="app", user_id=user, query=query, top_k=100
    )
    return sorted(memory.text for memory in found.memories)


def test_an_old_file_is_migrated_with_everything_in_it(open_service, old):
    before = contents(old)
    open_service(old, embedder=Hashed()).close()
    after = contents(old)
    assert version(old) == 2
    with closing(sqlite3.connect(old)) as connection:
        rows = connection.execute("SELECT * FROM meta").fetchall()
    with closing(sqlite3.connect(OLD.as_uri() + "?immutable=1", uri=True)) as same:
        facts = dict(same.execute("SELECT * FROM meta").fetchall())
    told = dict(rows)
    assert len(told.pop("schema_hash")) == 32
    assert told == {**facts, "schema": "2"}
    # carol's only memory is embedded in the background, if that comes so far.
    for tables in (before, after):
        tables["mem"] = [row for row in tables["mem"] if row[1] != 3]
        for name in ("part", "chg"):
            tables[name] = [row for row in tables[name] if row[0] != 3]
    assert after == before


def test_a_migrated_file_is_like_one_that_was_made_today(open_service, old, tmp_path):
    """No column, table or index is missing that a new file has."""
    open_service(old, embedder=Hashed()).close()
    new = tmp_path / "new.db"
    open_service(new, embedder=Hashed()).close()
    assert shape(old) == shape(new)


def test_what_was_remembered_is_found_again(open_service, old):
    service = open_service(old, embedder=Hashed())
    for user in ("alice", "bob"):
        says = [f"{user} says zebra number {i}" for i in range(6)]
        assert set(says) <= set(texts(service, user, "zebra"))
    assert texts(service, "carol", "vector") == ["no vector here"]
    stats = service.sync.stats()
    assert stats["memories"] == sum(USERS.values())
    assert stats["deleted_ids"] == 1
    alice = {"app_name": "app", "user_id": "alice"}
    fact = service.sync.get_memory(**alice, memory_id="fact-1")
    assert (fact.text, fact.importance) == ("alice likes okapi a lot", 0.9)
    parts = service.sync.get_memory(**alice, memory_id="fact-2")
    assert parts.text == "two\nparts \u00e9"
    assert parts.content == {"parts": [{"text": "two"}, {"text": "parts \u00e9"}]}
    assert (parts.source, parts.trust) == ("tool", "low")


def test_the_vectors_of_an_old_file_are_used(open_service, old):
    """Cosines as numpy has them, without embedding anything but the query."""
    asked: list[str] = []

    class Recording(Hashed):
        def embed(self, texts: Sequence[str]) -> list[list[float]]:
            asked.extend(texts)
            return super().embed(texts)

    service = open_service(old, embedder=Recording())
    query = "user: bob says zebra number 4"
    found = service.sync.search_memory(
        app_name="app", user_id="bob", query=query, top_k=1
    )
    (memory,) = found.memories
    assert memory.text == "bob says zebra number 4"
    assert memory.similarity == pytest.approx(1.0, abs=1e-6)
    assert set(asked) <= {query, "no vector here"}


def test_another_model_is_refused_for_an_old_file(open_service, old):
    class Other(Hashed):
        model_id = "other"

    with pytest.raises(EmbeddingMismatchError, match=r"hashed.*other"):
        open_service(old, embedder=Other())
    service = open_service(old, embedder=Hashed())
    assert len(texts(service, "bob", "zebra")) == 6


def test_what_was_deleted_before_the_migration_stays_deleted(open_service, old):
    service = open_service(old, embedder=Hashed())
    alice = {"app_name": "app", "user_id": "alice"}
    again = {"id": "gone", "content": "zebra back from the dead"}
    assert service.sync.add_memory(**alice, memories=[again]) == []
    with pytest.raises(NotFoundError):
        service.sync.get_memory(**alice, memory_id="gone")
    assert service.sync.add_memory(**alice, memories=[again], restore=True) == ["gone"]


def test_a_session_of_an_old_file_goes_on(open_service, old):
    """An upsert by the ids of then: nothing comes twice."""
    service = open_service(old, embedder=Hashed())
    events = [
        {
            "id": f"e{i}",
            "author": ("user", "agent")[i % 2],
            "timestamp": 1_700_000_000.0 + i,
            "text": f"bob says zebra number {i}",
        }
        for i in range(8)
    ]
    session = {"app_name": "app", "user_id": "bob", "id": "s1", "events": events}
    assert len(service.sync.add_session_to_memory(session)) == 8
    assert texts(service, "bob", "zebra") == [
        f"bob says zebra number {i}" for i in range(8)
    ]
    service.close()
    with closing(sqlite3.connect(old)) as connection:
        updates = connection.execute("SELECT count(*) FROM hist WHERE part = 2")
        assert updates.fetchone() == (0,)


# Opens the file, and dies by SIGKILL at the n-th statement from the first ALTER on.
KILLED = """
import os, signal, sqlite3, sys
path, last = sys.argv[1], int(sys.argv[2])
plain, seen = sqlite3.connect, 0

def watch(statement):
    global seen
    if seen or statement.startswith("ALTER"):
        seen += 1
        if seen > last:
            os.kill(os.getpid(), signal.SIGKILL)

def connect(*args, **kwargs):
    made = plain(*args, **kwargs)
    made.set_trace_callback(watch)
    return made

sqlite3.connect = connect
import warnings, vecall
warnings.simplefilter("ignore")
vecall.MemoryService(path).close()
"""


def test_a_kill_at_any_statement_leaves_the_old_schema_or_the_new(open_service, old):
    """Guarantee 2: the file is of schema 1 as it was, and opens the next time."""
    before = contents(old)
    versions = []
    for statement in (0, 1, 3, 5, 8):
        path = old.with_name(f"{statement}.db")
        shutil.copyfile(OLD, path)
        done = subprocess.run(
            [sys.executable, "-c", KILLED, str(path), str(statement)],
            timeout=30,
            check=False,
        )
        assert done.returncode == -9
        versions.append(version(path))
        assert contents(path) == before
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            service = open_service(path)
        assert len(texts(service, "bob", "zebra")) == 6
        service.close()
        assert version(path) == 2
    assert versions[0] == 1
    assert versions == sorted(versions)


def test_a_migration_that_fails_is_taken_back(open_service, old):
    """A full disk, a bad sector: schema 1 as before, and schema 2 the next time."""
    with closing(sqlite3.connect(old)) as connection:
        # The last statement but one finds its name taken.
        connection.execute("CREATE TABLE mem_bare (x)")
        connection.commit()
    before = contents(old)
    with pytest.raises(OSError, match="mem_bare"):
        open_service(old, embedder=Hashed())
    assert version(old) == 1
    assert contents(old) == before
    with closing(sqlite3.connect(old)) as connection:
        columns = connection.execute("SELECT name FROM pragma_table_info('part')")
        assert ("snap",) not in columns.fetchall()
        connection.execute("DROP TABLE mem_bare")
        connection.commit()
    service = open_service(old, embedder=Hashed())
    assert len(texts(service, "bob", "zebra")) == 6


OPENER = """
import sys, warnings
import vecall
warnings.simplefilter("ignore")
print("ready", flush=True)
for line in sys.stdin:
    path = line.strip()
    with vecall.MemoryService(path) as service:
        for user, count in (("alice", 6), ("bob", 6)):
            scope = dict(app_name="app", user_id=user)
            found = service.sync.search_memory(**scope, query="zebra", top_k=100)
            assert len(found.memories) >= count, found
        service.sync.add_memory(**scope, memories=["okapi " + sys.argv[1]])
    print("done", flush=True)
"""


def test_processes_that_open_an_old_file_together_migrate_it_once(open_service, old):
    """The number is read again inside of the transaction."""
    with ExitStack() as stack:
        running = [stack.enter_context(child(OPENER, number)) for number in range(4)]
        for process in running:
            assert said(process) == "ready"
        for round_ in range(3):
            path = old.with_name(f"together{round_}.db")
            shutil.copyfile(OLD, path)
            for process in running:
                tell(process, str(path))
            assert [said(process) for process in running] == ["done"] * 4
            assert version(path) == 2
            service = open_service(path, embedder=Hashed())
            okapis = [f"okapi {number}" for number in range(4)]
            assert set(okapis) <= set(texts(service, "bob", "okapi"))
            service.close()
