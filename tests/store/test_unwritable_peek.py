"""One statement over a file that cannot be written, while another one changes it."""

from __future__ import annotations

import os

import pytest
from vecall import CorruptFileError, MemoryService
from vecall.store.file.database import UnwritableDatabase


@pytest.fixture
def database(tmp_path):
    with MemoryService(tmp_path / "m.db", embedder=None) as service:
        service.sync.add_memory(app_name="a", user_id="u", memories=["okapi"])
    opened = UnwritableDatabase(tmp_path / "m.db", "full")
    yield opened
    opened.close()


def test_pages_of_two_states_are_read_again(database):
    calls: list[str] = []

    def read(connection, user):
        calls.append(user)
        if len(calls) < 3:
            later = database.path.stat().st_mtime_ns + 10_000_000 * len(calls)
            os.utime(database.path, ns=(later, later))
            raise CorruptFileError
        return connection.execute("SELECT app, user FROM part").fetchone()

    assert database.peek_at_file(read, "u") == ("a", "u")
    assert calls == ["u"] * 3


def test_damage_of_a_file_that_does_not_change_is_an_error(database):
    calls: list[str] = []

    def read(_, user):
        calls.append(user)
        raise CorruptFileError

    with pytest.raises(CorruptFileError):
        database.peek_at_file(read, "u")
    assert calls == ["u"]
