"""The writing connection: how it is prepared, also after an error or a fork."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

import pytest
from vecall import MemoryService, StorageError
from vecall.store.file import counters, schema
from vecall.store.file.connections import connect_to_file
from vecall.store.file.database import Database

SETTINGS = (
    "journal_mode",
    "journal_size_limit",
    "synchronous",
    "fullfsync",
    "checkpoint_fullfsync",
    "trusted_schema",
    "cell_size_check",
)


def settings(database: Database) -> dict[str, object]:
    with database.exclusive_connection() as connection:
        return {
            name: connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in SETTINGS
        }


def after_an_error_of_the_disk(database: Database) -> None:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = 10
    with pytest.raises(StorageError), database.exclusive_connection():
        raise error


def after_a_fork(database: Database) -> None:
    assert database.close_for_fork(20.0)
    database.reopen()


@pytest.mark.parametrize("durability", ["full", "process"])
@pytest.mark.parametrize("what", [after_an_error_of_the_disk, after_a_fork])
def test_another_connection_with_the_same_settings_writes(
    tmp_path, durability, what: Callable[[Database], None]
):
    """A commit of one with other settings would survive less than was promised."""
    database = Database(tmp_path / "m.db", durability)
    first, before = database._writer.connection, settings(database)
    what(database)
    assert settings(database) == before
    assert database._writer.connection is not first
    database.close()


def test_a_database_in_memory_outlives_an_error_of_the_disk():
    """Of a temporary file, for example; another connection would be empty."""
    with MemoryService(embedder=None) as service:
        bob = service.sync.user("app", "bob")
        bob.add(["zebra"])
        after_an_error_of_the_disk(service._memory.storage._database)
        bob.add(["okapi"])
        assert bob.count() == 2


def test_an_error_that_is_not_of_the_disk_leaves_the_connection(tmp_path):
    database = Database(tmp_path / "m.db", "full")
    first = database._writer.connection
    with pytest.raises(StorageError), database.exclusive_connection() as connection:
        connection.execute("SELECT * FROM nothing")
    with database.exclusive_connection() as connection:
        assert connection is first
    database.close()


class ThatSqliteOpensReadOnly(Database):
    """As it does without a word where it may not write a file."""

    def _connect_to_file(self) -> sqlite3.Connection:
        return connect_to_file(self.path, self.expiry_clock, "mode=ro")


def test_a_connection_that_cannot_write_is_refused_at_once(tmp_path):
    Database(tmp_path / "m.db", "process").close()
    with pytest.raises(StorageError, match="readonly"):
        ThatSqliteOpensReadOnly(tmp_path / "m.db", "process")
    Database(tmp_path / "m.db", "process").close()


def triggers(database: Database) -> set[str]:
    with database.exclusive_connection() as connection:
        rows = connection.execute("SELECT name FROM sqlite_temp_master").fetchall()
    return {name for (name,) in rows}


@pytest.mark.parametrize("what", [after_an_error_of_the_disk, after_a_fork])
def test_each_writing_connection_counts_what_it_writes(tmp_path, what):
    database = Database(tmp_path / "m.db", "process")
    before = triggers(database)
    assert {"mem_as", "part_as", "item_out"} <= before
    what(database)
    assert triggers(database) == before
    database.close()


def test_a_connection_whose_preparation_was_interrupted_is_prepared_later(
    tmp_path, monkeypatch
):
    database = Database(tmp_path / "m.db", "process")
    whole = counters._counter_statements

    def interrupted():
        yield from list(whole())[:3]
        raise KeyboardInterrupt

    monkeypatch.setattr(counters, "_counter_statements", interrupted)
    with pytest.raises(KeyboardInterrupt), database.write_transaction():
        pass
    monkeypatch.undo()
    assert len(triggers(database)) == len(list(whole()))
    database.close()


def facts(database: Database) -> tuple[list[tuple[object, ...]], dict[str, str]]:
    with database.read_transaction() as connection:
        objects = "SELECT type, name, tbl_name, sql FROM sqlite_master"
        meta = dict(connection.execute("SELECT * FROM meta").fetchall())
        return connection.execute(objects).fetchall(), meta


@pytest.mark.parametrize("copies", [True, False])
def test_a_database_in_memory_has_what_a_file_has(tmp_path, monkeypatch, copies):
    """Also where SQLite is too old to copy the pages of another."""
    monkeypatch.setattr(schema, "_COPIES_PAGES", copies)
    file = Database(tmp_path / "m.db", "process")
    first, second = Database(None, "process"), Database(None, "process")
    objects, of_file = facts(file)
    for database in (first, second):
        found, meta = facts(database)
        assert found == objects
        assert meta.keys() == of_file.keys()
        assert float(meta["created_at"]) >= float(of_file["created_at"])
        assert meta["schema_hash"] == of_file["schema_hash"]
    assert len({each.uuid for each in (file, first, second)}) == 3
    for database in (file, first, second):
        database.close()
