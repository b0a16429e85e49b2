"""A full disk of the database is a typed error; with room the service works again."""

from __future__ import annotations

import os
import random
import subprocess
import tempfile
from pathlib import Path

import pytest
from helpers.memories import ALICE
from helpers.postgres_server import as_other_user
from vecall import MemoryService, StorageFullError

pytest.importorskip("psycopg")


@pytest.fixture
def small_disk():
    """A file system of 8 MiB that the server's user owns."""
    folder = Path(tempfile.mkdtemp(prefix="full"))
    owner = as_other_user()
    options = f"size=8m,uid={owner.get('user', 0)},gid={owner.get('group', 0)}"
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)],
        check=False,
        capture_output=True,
    )
    if done.returncode:
        folder.rmdir()
        pytest.skip("needs the right to mount a small file system")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)
    folder.rmdir()


@pytest.fixture
def on_a_small_disk(schema, small_disk):
    """A schema whose memories are on the small file system."""
    change = schema.server.execute
    change(f"CREATE TABLESPACE small LOCATION '{small_disk}'")
    change(f"ALTER TABLE {schema.name}.mem SET TABLESPACE small")
    yield schema
    change(f"DROP TABLE {schema.name}.mem")
    change("DROP TABLESPACE small")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs the right to mount")
def test_a_full_disk_loses_nothing_and_room_makes_it_work(on_a_small_disk, small_disk):
    chance = random.Random(4711)
    stored = set()

    def some(n):
        return [
            {"id": f"{n} {k}", "content": f"zebra {chance.randbytes(4_000).hex()}"}
            for k in range(50)
        ]

    def ids(memory):
        found = memory.sync.list_memories(**ALICE, limit=1_000)
        return {each.id for each in found}

    with MemoryService(on_a_small_disk.url, embedder=None) as memory:
        for n in range(100):
            more = some(n)
            try:
                memory.sync.add_memory(**ALICE, memories=more)
            except StorageFullError as full:
                error = full
                break
            stored |= {each["id"] for each in more}
        else:
            pytest.fail("the disk was never full")
        assert str(error) == "the database has no room left (SQLSTATE 53100)"
        assert stored
        assert ids(memory) == stored
        assert memory.sync.search_memory(**ALICE, query="zebra").memories
        remount = ["mount", "-o", "remount,size=64m", str(small_disk)]
        subprocess.run(remount, check=True)
        memory.sync.add_memory(**ALICE, memories=more)
        assert ids(memory) == stored | {each["id"] for each in more}
