"""A file of an old schema is brought to the newest with everything in it."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from helpers.clocks import SettableClock
from helpers.old_files import (
    MADE_AT,
    NEWEST,
    OLD,
    USERS,
    ZEBRAS,
    Hashed,
    contents,
    copied,
    opener_of,
    shape,
    texts,
    version,
)
from vecall import EmbeddingMismatchError, NotFoundError
from vecall.store import examine
from vecall.store.rows import names_checksum


@pytest.fixture(params=OLD, ids=lambda schema: f"schema {schema}")
def schema(request) -> int:
    return int(request.param)


@pytest.fixture
def old(tmp_path, schema) -> Path:
    return copied(schema, tmp_path / "m.db")


@pytest.fixture
def open_old(open_service, old):
    return opener_of(old, open_service)


def facts(path: Path) -> dict[str, str]:
    with closing(sqlite3.connect(path)) as connection:
        return dict(connection.execute("SELECT key, value FROM meta").fetchall())


def test_an_old_file_is_migrated_with_everything_in_it(open_old, old, schema):
    """Guarantee 2: every row as it was, and every fact but the schema and counts."""
    before, known = contents(old), facts(old)
    open_old().close()
    after, now = contents(old), facts(old)
    assert version(old) == NEWEST
    assert len(now.pop("schema_hash")) == 32
    known.pop("schema_hash", None)
    for of_clock in (known, now):
        of_clock.pop("clock", None)
    assert now == {**known, "schema": str(NEWEST), "counts": "1"}
    # carol's only memory is embedded in the background, if that comes so far.
    for tables in (before, after):
        tables["mem"] = [row for row in tables["mem"] if row[1] != 3]
        for name in ("part", "chg"):
            tables[name] = [row for row in tables[name] if row[0] != 3]
    assert after == before
    levels = {finding.about: finding.level for finding in examine(old)}
    assert "error" not in levels.values()
    assert levels["counts"] == "ok"
    with closing(sqlite3.connect(old)) as connection:
        users = connection.execute("SELECT id, app, user, crc FROM part").fetchall()
    assert all(names_checksum(*names) == crc for *names, crc in users)


def test_a_migrated_file_is_like_one_that_was_made_today(open_old, old, tmp_path):
    """No column, table or index is missing that a new file has."""
    open_old().close()
    new = tmp_path / "new.db"
    open_old(new).close()
    assert shape(old) == shape(new)


def until_filled(service) -> None:
    """Wait until no more vectors are made in the background."""
    before = -1
    while (now := service.sync.admin.stats()["embedded"]) != before:
        before = now
        time.sleep(0.2)


def test_a_file_of_the_newest_schema_is_left_as_it_is(open_old, old):
    """Opened again, nothing is migrated again."""
    with open_old() as service:
        until_filled(service)
    before, known = contents(old), facts(old)
    open_old().close()
    assert (contents(old), facts(old)) == (before, known)


def test_what_was_remembered_is_found_again(open_old, schema):
    """Guarantee 1: what was acknowledged then is there now."""
    service = open_old()
    assert set(ZEBRAS[schema]) <= set(texts(service, "alice", "zebra"))
    stats = service.sync.admin.stats()
    assert stats["memories"] == sum(USERS[schema].values())
    assert stats["deleted_ids"] == 1


@pytest.mark.parametrize("schema", [1], indirect=True)
def test_entries_of_schema_1_have_all_their_fields(open_old):
    """Guarantee 1: text, parts, importance, source and trust."""
    service = open_old()
    assert texts(service, "carol", "vector") == ["no vector here"]
    alice = {"app_name": "app", "user_id": "alice"}
    fact = service.sync.get_memory(**alice, memory_id="fact-1")
    assert (fact.text, fact.importance) == ("alice likes okapi a lot", 0.9)
    parts = service.sync.get_memory(**alice, memory_id="fact-2")
    assert parts.text == "two\nparts \u00e9"
    assert parts.content == {"parts": [{"text": "two"}, {"text": "parts \u00e9"}]}
    assert (parts.source, parts.trust) == ("tool", "low")


@pytest.mark.parametrize("schema", [2], indirect=True)
def test_a_file_of_schema_2_keeps_lives_uses_keys_and_history(open_old, old):
    """S4.58: what was to expire does; a call that was made once is not made again."""
    clock = SettableClock(MADE_AT)
    service = open_old(clock=clock)
    alice = {"app_name": "app", "user_id": "alice"}
    (turn,) = service.sync.list_memories(**alice, limit=1)
    past = service.sync.memory_history(**alice, memory_id=turn.id)
    assert [each.memory.text for each in past] == ["zebra number 0", turn.text]
    told = ["okapi one", {"content": "okapi two", "custom_metadata": {"a": 1}}]
    before = service.sync.list_memories(**alice)
    service.sync.add_memory(**alice, memories=told, idempotency_key="k1")
    assert service.sync.list_memories(**alice) == before
    assert "gone soon" in texts(service, "alice", "gone soon")
    clock.let_pass(3_600.0)
    assert "gone soon" not in texts(service, "alice", "gone soon")
    assert service.sync.admin.run_due() == 1
    with closing(sqlite3.connect(old)) as connection:
        used = connection.execute("SELECT text FROM mem WHERE uses = 1 ORDER BY 1")
        assert used.fetchall() == [("okapi one",), ("okapi two",)]
        gone = connection.execute("SELECT why FROM tomb ORDER BY at").fetchall()
        assert gone == [(None,), ("expired",)]


@pytest.mark.parametrize("schema", [3], indirect=True)
def test_a_file_of_schema_3_keeps_what_was_corrected_and_what_ends(open_old, old):
    """The indexes of schema 4 find what schema 3 had: ends, lives and keys."""
    clock = SettableClock(MADE_AT)
    service = open_old(clock=clock)
    alice = {"app_name": "app", "user_id": "alice"}
    told = ["the dog is called Rex"]
    before = service.sync.list_memories(**alice)
    again = service.sync.add_memory(
        **alice,
        memories=[{"id": "dog-1", "content": told[0]}],
        idempotency_key="k1",
    )
    assert again == ["dog-1"]
    assert service.sync.list_memories(**alice) == before
    assert "the dog is called Rex" not in texts(service, "alice", "dog")
    for query in ("gone soon", "pass"):
        assert texts(service, "alice", query)
    clock.let_pass(3_700.0)
    assert service.sync.admin.run_due() == 2
    with closing(sqlite3.connect(old)) as connection:
        archived = "SELECT id FROM mem WHERE state = 'archived' ORDER BY id"
        assert connection.execute(archived).fetchall() == [("dog-1",), ("pass",)]
        gone = "SELECT id FROM tomb WHERE why = 'expired'"
        assert connection.execute(gone).fetchall() == [("brief",)]


@pytest.mark.parametrize(
    ("schema", "query"),
    [
        (1, "user: bob says zebra number 4"),
        (2, "bob's zebra"),
        (3, "bob's zebra"),
        (4, "bob's zebra"),
    ],
    indirect=["schema"],
)
def test_the_vectors_of_an_old_file_are_used(open_old, query):
    """Cosines as numpy has them, without embedding anything but the query."""
    asked: list[str] = []

    class Recording(Hashed):
        def embed(self, texts: Sequence[str]) -> list[list[float]]:
            asked.extend(texts)
            return super().embed(texts)

    service = open_old(embedder=Recording())
    found = service.sync.search_memory(
        app_name="app", user_id="bob", query=query, top_k=1
    )
    (memory,) = found.memories
    assert memory.text == query.removeprefix("user: ")
    assert memory.similarity == pytest.approx(1.0, abs=1e-6)
    assert set(asked) <= {query, "no vector here"}


def test_another_model_is_refused_for_an_old_file(open_old, schema):
    """The file's vectors stay comparable."""

    class Other(Hashed):
        model_id = "other"

    with pytest.raises(EmbeddingMismatchError, match=r"hashed.*other"):
        open_old(embedder=Other())
    service = open_old()
    assert len(texts(service, "alice", "zebra")) >= len(ZEBRAS[schema])


def test_what_was_deleted_before_the_migration_stays_deleted(open_old, old):
    """Guarantee 3: it was deleted, and neither expired nor was evicted."""
    ((gone,),) = [row[1:2] for row in contents(old)["tomb"]]
    service = open_old()
    alice = {"app_name": "app", "user_id": "alice"}
    again = {"id": gone, "content": "zebra back from the dead"}
    told = service.sync.add_memory(**alice, memories=[again], restore=False)
    assert told == [None]
    with pytest.raises(NotFoundError):
        service.sync.get_memory(**alice, memory_id=gone)
    assert service.sync.add_memory(**alice, memories=[again], restore=True) == [gone]


@pytest.mark.parametrize(
    ("schema", "user", "authors", "known"),
    [
        (1, "bob", ("user", "agent"), [f"bob says zebra number {n}" for n in range(6)]),
        (2, "alice", ("user", "model"), ZEBRAS[2]),
        (3, "alice", ("user", "model"), ZEBRAS[3]),
        (4, "alice", ("user", "model"), ZEBRAS[4]),
    ],
    indirect=["schema"],
)
def test_a_session_of_an_old_file_goes_on(open_old, old, user, authors, known):
    """An upsert by the ids of then: nothing comes twice, nothing is rewritten."""
    before = contents(old)["hist"]
    service = open_old()
    events = [
        {
            "id": f"e{number}",
            "author": authors[number % 2],
            "timestamp": 1_700_000_000.0 + number,
            "text": text,
        }
        for number, text in enumerate([*known, "a zebra more", "and zebra again"])
    ]
    told = {"app_name": "app", "user_id": user, "id": "s1", "events": events}
    assert len(service.sync.add_session_to_memory(told)) == len(events)
    found = service.sync.search_memory(
        app_name="app", user_id=user, query="zebra", top_k=100
    )
    zebras = [memory.text for memory in found.memories if "zebra" in memory.text]
    assert sorted(zebras) == sorted([*known, "a zebra more", "and zebra again"])
    service.close()
    assert contents(old)["hist"] == before
