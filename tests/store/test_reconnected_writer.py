"""The writing connection is replaced after an error of the disk and after a fork."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

import pytest
from vecall import StorageError
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
    with database.exclusive() as connection:
        return {
            name: connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in SETTINGS
        }


def after_an_error_of_the_disk(database: Database) -> None:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = 10
    with pytest.raises(StorageError), database.exclusive():
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


def test_an_error_that_is_not_of_the_disk_leaves_the_connection(tmp_path):
    database = Database(tmp_path / "m.db", "full")
    first = database._writer.connection
    with pytest.raises(StorageError), database.exclusive() as connection:
        connection.execute("SELECT * FROM nothing")
    with database.exclusive() as connection:
        assert connection is first
    database.close()
