"""Which files and folders a memory service opens, and which it refuses."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from helpers.memories import ALICE, texts
from helpers.old_files import OLD, copied, opener_of
from vecall import ConfigError, IncompatibleFileError


def test_an_empty_file_is_migrated_to_the_newest_schema(open_service, tmp_path):
    path = tmp_path / "m.db"
    path.touch()
    service = open_service(path)
    service.sync.add_memory(**ALICE, memories=["zebra"])
    service.close()
    connection = sqlite3.connect(path)
    tables = {
        name
        for (name,) in connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table'"
        )
    }
    assert connection.execute("PRAGMA user_version").fetchone() == (7,)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()
    assert tables >= set("meta model part mem vec_next chg tomb hist idem trig".split())
    assert texts(open_service(path), "zebra") == ["zebra"]


def test_the_schema_fits_on_the_first_page(open_service, tmp_path):
    """A second page with a part of it would be one more that nothing survives."""
    path = tmp_path / "m.db"
    leaf_of_a_table = 13
    open_service(path).close()
    assert path.read_bytes()[100] == leaf_of_a_table
    for schema in OLD:
        old = copied(schema, tmp_path / f"{schema}.db")
        opener_of(old, open_service)().close()
        assert old.read_bytes()[100] == leaf_of_a_table


def test_only_the_owner_may_read_a_new_file(open_service, tmp_path):
    path = tmp_path / "m.db"
    service = open_service(path)
    service.sync.add_memory(**ALICE, memories=["zebra"])
    for part in tmp_path.iterdir():
        assert part.stat().st_mode & 0o777 == 0o600, part.name


def test_a_file_of_a_newer_version_is_refused_with_both_numbers(open_service, tmp_path):
    """contracts.md, schema: refused before anything is changed."""
    path = tmp_path / "m.db"
    service = open_service(path)
    service.close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    with pytest.raises(IncompatibleFileError, match=r"99.*\b7\b"):
        open_service(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("version", [0, 1, 7])
def test_the_file_of_another_program_is_refused_and_unchanged(
    open_service, tmp_path, version
):
    path = tmp_path / "other.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE mem (text TEXT)")
    connection.execute(f"PRAGMA user_version = {version}")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    with pytest.raises(IncompatibleFileError, match="another program"):
        open_service(path)
    assert path.read_bytes() == before
    assert [part.name for part in tmp_path.iterdir()] == ["other.db"]


@pytest.mark.parametrize("size", [1, 99, 100, 4096, 10_007])
def test_a_text_file_is_refused_and_unchanged(open_service, tmp_path, size):
    path = tmp_path / "notes.txt"
    path.write_bytes(b"zebra text " * (size // 11 + 1))
    before = path.read_bytes()
    with pytest.raises(IncompatibleFileError):
        open_service(path)
    assert path.read_bytes() == before


def test_a_folder_is_refused(open_service, tmp_path):
    with pytest.raises(ConfigError, match="folder"):
        open_service(tmp_path)


def test_a_missing_folder_is_refused_and_not_made(open_service, tmp_path):
    with pytest.raises(ConfigError, match="folder"):
        open_service(tmp_path / "missing" / "m.db")
    assert list(tmp_path.iterdir()) == []


def test_a_path_object_named_memory_is_memory(open_service, tmp_path, monkeypatch):
    """No file of that name appears, and the service works."""
    monkeypatch.chdir(tmp_path)
    service = open_service(Path(":memory:"))
    service.sync.add_memory(**ALICE, memories=["zebra"])
    assert texts(service, "zebra") == ["zebra"]
    assert list(tmp_path.iterdir()) == []
