"""A dump of a database, restored as the guide says, has every memory."""

from __future__ import annotations

import subprocess

import pytest
from helpers.memories import ALICE, BOB
from helpers.postgres_server import program_of_server
from vecall import MemoryService
from vecall.store import examine_database

pytest.importorskip("psycopg")


def texts(memory, user):
    return sorted(each.content for each in memory.sync.list_memories(**user))


@pytest.mark.parametrize("place", ["after its loss", "in another database"])
def test_a_restored_dump_has_every_memory_and_a_service_goes_on(
    schema, place, tmp_path
):
    for program in ("pg_dump", "pg_restore"):
        if program_of_server(program) is None:
            pytest.skip(f"the server has no {program}")
    admin, change = schema.server.url(), schema.server.execute
    file = str(tmp_path / "dump")

    def run(program, *arguments):
        done = subprocess.run(
            [program_of_server(program), *arguments], capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr

    with MemoryService(schema.url, embedder=None) as memory:
        for user in (ALICE, BOB):
            memory.sync.add_memory(**user, memories=["zebra", "lion"])
        before = [texts(memory, user) for user in (ALICE, BOB)]
        run("pg_dump", "--format=custom", f"--schema={schema.name}",
            "--no-unlogged-table-data", f"--file={file}", admin)  # fmt: skip
        memory.sync.add_memory(**ALICE, memories=["lost"])
        memory.sync.search_memory(**ALICE, query="lost")
        if place == "after its loss":
            change(f"DROP SCHEMA {schema.name} CASCADE")
            run("pg_restore", f"--dbname={admin}", file)
            assert [texts(memory, user) for user in (ALICE, BOB)] == before
            found = memory.sync.search_memory(**ALICE, query="lost").memories
            assert "lost" not in {each.text for each in found}
            memory.sync.add_memory(**ALICE, memories=["tiger"])
            assert texts(memory, ALICE) == ["lion", "tiger", "zebra"]
            return
    change("CREATE DATABASE restored")
    try:
        run("pg_restore", f"--dbname={admin.replace('/postgres', '/restored')}", file)
        url = schema.url.replace("/postgres", "/restored")
        with MemoryService(url, embedder=None) as memory:
            assert [texts(memory, user) for user in (ALICE, BOB)] == before
        levels = {each.about: each.level for each in examine_database(url)}
        assert levels["tables"] == levels["policies"] == levels["memories"] == "ok"
    finally:
        change("DROP DATABASE restored WITH (FORCE)")


def test_a_dump_with_the_rights_of_a_service_is_refused(schema, tmp_path):
    """Row-level security would leave users out; pg_dump refuses instead."""
    if program_of_server("pg_dump") is None:
        pytest.skip("the server has no pg_dump")
    done = subprocess.run(
        [program_of_server("pg_dump"), f"--schema={schema.name}",
         schema.server.url("server")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode
