"""A migration is killed, fails, is begun by many: a step is whole or not at all."""

from __future__ import annotations

import sqlite3
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from helpers.campaigns import SCALE
from helpers.old_files import (
    NEWEST,
    OLD,
    ZEBRAS,
    contents,
    copied,
    opener_of,
    texts,
    version,
)
from helpers.processes import child, run, said, tell
from vecall.store.file import schema as store_schema


@pytest.fixture(params=OLD, ids=lambda schema: f"schema {schema}")
def schema(request) -> int:
    return int(request.param)


@pytest.fixture
def old(tmp_path, schema) -> Path:
    return copied(schema, tmp_path / "m.db")


@pytest.fixture
def open_old(open_service, old):
    return opener_of(old, open_service)


# Opens a copy of a file over and over, each time in a child that dies by SIGKILL at a
# later statement from the first ALTER or DROP on, until one lives to the end. In small
# campaigns it dies at some of them.
STEP = max(1, min(10, round(1 / SCALE)))
KILLED = """
import os, shutil, signal, sqlite3, sys
import vecall
path, plain = sys.argv[1], sqlite3.connect
number, status, step = 0, -9, int(sys.argv[2])
while status == -9:
    copy = f"{path}.{number}"
    shutil.copyfile(path, copy)
    process = os.fork()
    if process == 0:
        seen = 0

        def watch(statement):
            global seen
            if seen or statement.lstrip().startswith(("ALTER", "DROP")):
                seen += 1
                if seen > number:
                    os.kill(os.getpid(), signal.SIGKILL)

        def connect(*args, **kwargs):
            made = plain(*args, **kwargs)
            made.set_trace_callback(watch)
            return made

        sqlite3.connect = connect
        import warnings
        warnings.simplefilter("ignore")
        try:
            storage = vecall.StorageOptions(maintenance_interval=None)
            vecall.MemoryService(copy, storage=storage, embedder=None).close()
            os._exit(0)
        finally:
            os._exit(1)
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    number += step
print(number, status)
"""


@pytest.mark.campaign
@pytest.mark.parametrize(
    "schema", OLD if SCALE >= 0.5 else [OLD[0], OLD[-1]], indirect=True
)
def test_a_kill_at_any_statement_leaves_one_schema_or_the_next(open_old, old, schema):
    """Guarantee 2: every row is as it was, and the file opens the next time."""
    before = contents(old)
    runs, status = map(int, run(KILLED, old, STEP, timeout_s=120).stdout.split())
    assert status == 0
    versions = []
    for number in range(0, runs, STEP):
        path = Path(f"{old}.{number}")
        versions.append(version(path))
        assert contents(path) == before
        service = open_old(path)
        assert set(ZEBRAS[schema]) <= set(texts(service, "alice", "zebra"))
        service.close()
        assert version(path) == NEWEST
    assert versions == sorted(versions)
    assert set(versions) == set(range(schema, NEWEST + 1))
    assert runs > 7 * (NEWEST - schema)


@pytest.mark.parametrize(
    ("schema", "stays"),
    [(1, 1), (1, 2), (1, 3), (2, 2), (2, 3), (3, 3)],
    indirect=["schema"],
)
def test_a_migration_that_fails_is_taken_back(
    open_old, old, schema, stays, monkeypatch
):
    """A full disk, a bad sector: no half of a step, and the newest the next time."""
    before = contents(old)
    # The last statement of the step that follows finds its name taken.
    steps, following = store_schema._MIGRATIONS, stays + 1
    fails = f"{steps[following]}CREATE TABLE mem (taken);\n"
    monkeypatch.setitem(steps, following, fails)
    with pytest.raises(OSError, match="mem"):
        open_old()
    monkeypatch.undo()
    assert version(old) == stays
    assert contents(old) == before
    with closing(sqlite3.connect(old)) as connection, connection:
        made = connection.execute("SELECT name FROM sqlite_master").fetchall()
        assert (("told",) in made) == (stays > 2)
        assert (("part_user",) in made) == (stays > 1)
        assert ("mem_lapse",) not in made
        columns = connection.execute("SELECT name FROM pragma_table_info('tomb')")
        assert (("why",) in columns.fetchall()) == (stays > 2)
    service = open_old()
    assert set(ZEBRAS[schema]) <= set(texts(service, "alice", "zebra"))
    assert version(old) == NEWEST


OPENER = """
import sys, warnings
import vecall
warnings.simplefilter("ignore")
print("ready", flush=True)
for line in sys.stdin:
    path, count = line.split()
    with vecall.MemoryService(path, embedder=None) as service:
        scope = dict(app_name="app", user_id="alice")
        found = service.sync.search_memory(**scope, query="zebra", top_k=100)
        assert len(found.memories) >= int(count), found
        service.sync.add_memory(**scope, memories=["okapi number " + sys.argv[1]])
    print("done", flush=True)
"""


@pytest.fixture(scope="module")
def openers():
    """Four processes that open the files they are given."""
    with ExitStack() as stack:
        running = [stack.enter_context(child(OPENER, number)) for number in range(4)]
        assert [said(process) for process in running] == ["ready"] * 4
        yield running


def test_processes_that_open_an_old_file_together_migrate_it_once(
    open_old, old, schema, openers
):
    """The number is read again inside of the transaction."""
    for round_ in range(3):
        path = copied(schema, old.with_name(f"together{round_}.db"))
        for process in openers:
            tell(process, f"{path} {len(ZEBRAS[schema])}")
        assert [said(process) for process in openers] == ["done"] * 4
        assert version(path) == NEWEST
        service = open_old(path)
        okapis = {f"okapi number {number}" for number in range(4)}
        assert okapis <= set(texts(service, "alice", "okapi"))
        service.close()
