"""A file of any content gives typed errors only, and none of its own code is run."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import time
import tracemalloc
from contextlib import closing

import pytest
from helpers.hostile_files import USERS, calls, make, ones, owner, spoil, sum_up
from vecall import CorruptFileError, MemoryService, StorageOptions, VecallError
from vecall.cli.main import main
from vecall.store import examine, recover_file
from vecall.store.file.filesystem import SnapshotFolder
from vecall.store.file.schema import _hash_of_schema

pytestmark = pytest.mark.filterwarnings("ignore:the file holds vectors")

FILES = int(os.environ.get("VECALL_HOSTILE_FILES", "12"))
"""How many files are made; 2,500 are a campaign of some ten minutes."""
SEED = int(os.environ.get("VECALL_HOSTILE_SEED", "1"))

ENDLESS = (
    "(SELECT count(*) FROM (WITH RECURSIVE c(x) AS "
    "(SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c))"
)
OBJECTS = {
    "trigger that changes rows": [
        "CREATE TRIGGER t AFTER INSERT ON mem BEGIN UPDATE mem SET text = 'x'; END"
    ],
    "trigger without end": [
        f"CREATE TRIGGER t AFTER INSERT ON mem BEGIN SELECT {ENDLESS}; END"
    ],
    "view in place of part": [
        "ALTER TABLE part RENAME TO part_",
        f"CREATE VIEW part AS SELECT * FROM part_ WHERE {ENDLESS}",
    ],
    "view in place of mem": [
        "ALTER TABLE mem RENAME TO mem_",
        f"CREATE VIEW mem AS SELECT * FROM mem_ WHERE {ENDLESS}",
    ],
    "another table": ["CREATE TABLE more (x)"],
    "index on an expression": ["CREATE INDEX e ON mem (abs(length(text)))"],
    "virtual table": ["CREATE VIRTUAL TABLE f USING fts5(x)"],
    "calculated column": ["ALTER TABLE mem ADD COLUMN c AS (length(text))"],
    "index that is gone": ["DROP INDEX mem_session"],
}  # fmt: skip


@pytest.fixture(scope="module")
def origin(tmp_path_factory):
    path = tmp_path_factory.mktemp("origin") / "base.db"
    make(path)
    return path


@pytest.fixture
def file(origin, tmp_path):
    shutil.copy(origin, tmp_path / "h.db")
    return tmp_path / "h.db"


@pytest.mark.parametrize("name", OBJECTS)
def test_a_schema_that_vecall_does_not_make_is_refused_at_once(name, file, capsys):
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        for statement in OBJECTS[name]:
            connection.execute(statement)
        told = (_hash_of_schema(connection),)
        connection.execute("UPDATE meta SET value = ? WHERE key = 'schema_hash'", told)
    begin = time.monotonic()
    with pytest.raises(CorruptFileError):
        MemoryService(file, embedder=None)
    errors = [found for found in examine(file) if found.level == "error"]
    assert len(errors) == 1
    assert main(["doctor", "--path", str(file)]) == 1
    assert time.monotonic() - begin < 10  # an endless view takes for ever
    capsys.readouterr()


def test_what_doctor_passes_can_be_opened(file, capsys):
    """The file's identity is checked by the doctor as opening checks it."""
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("DELETE FROM meta WHERE key = 'uuid'")
    with pytest.raises(CorruptFileError, match="--recover"):
        MemoryService(file, embedder=None)
    assert main(["doctor", "--path", str(file)]) == 1
    assert "--recover" in capsys.readouterr().out
    saved = recover_file(file, file.with_name("saved.db"))
    assert saved == (6, 0, 0, 0)
    assert main(["doctor", "--path", str(file.with_name("saved.db"))]) == 0


def test_recovery_runs_nothing_that_stands_in_a_file(file):
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        for statement in OBJECTS["view in place of mem"]:
            connection.execute(statement)
    with pytest.raises(CorruptFileError, match="view"):
        recover_file(file, file.with_name("saved.db"))


def test_crafted_files_give_typed_errors_only(origin, tmp_path):
    for number in range(FILES):
        chance = random.Random(f"{SEED}/{number}")
        folder = tmp_path / str(number)
        folder.mkdir()
        path = folder / "h.db"
        shutil.copy(origin, path)
        changed = spoil(path, chance)
        for name, call in calls(path, chance):
            begin = time.monotonic()
            try:
                call()
            except VecallError:
                pass
            except Exception as error:
                raise AssertionError((number, name, changed)) from error
            assert time.monotonic() - begin < 30, (number, name, changed)
        shutil.rmtree(folder)


def test_a_row_of_a_wrong_type_is_damage_that_costs_no_other_user(file):
    """Also where its checksum is right."""
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        part = connection.execute("SELECT id FROM part WHERE user = 'ann'").fetchone()
        connection.execute(
            "UPDATE mem SET ts = 9e999 WHERE part = ? AND id = '4'", part
        )
        sum_up(connection)
    with MemoryService(
        file, embedder=None, storage=StorageOptions(maintenance_interval=None)
    ) as m:
        with pytest.raises(CorruptFileError):
            m.sync.search_memory(**owner(USERS[0]), query="zebra")
        assert m.sync.search_memory(**owner(USERS[1]), query="zebra").memories


@pytest.mark.parametrize("given", [ones, None])
@pytest.mark.parametrize(
    "print_", [b"\xff\xfe", b"\0" * 8, b"\0\0\xc0\x7f" * 4, b"x" * 9_999, "x", 5]
)
def test_a_fingerprint_that_is_no_vector_of_the_model_is_damage(file, given, print_):
    """It has another length, or a number that is none."""
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("UPDATE model SET fingerprint = ?", (print_,))
    with pytest.raises(CorruptFileError):
        MemoryService(file, embedder=given)


def test_a_snapshot_is_not_read_beyond_what_its_header_accounts_for(tmp_path):
    """A sparse file of 3 GB costs nothing on the disk, and must cost no memory."""
    folder = SnapshotFolder(tmp_path / "memory.db")
    folder.path.mkdir(mode=0o700)
    for number, head in enumerate((b"", b"vecallS1" + bytes(504), b"\xff" * 512)):
        with (folder.path / f"{number}.vs").open("wb") as file:
            file.write(head)
            file.truncate(3 * 1024**3)
        tracemalloc.start()
        assert folder.read_snapshot(number) is None
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 2**20
