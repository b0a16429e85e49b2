"""Through a real pgbouncer in transaction mode everything is as without one."""

from __future__ import annotations

import re
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from helpers.campaigns import FULL_SIZE_ONLY
from helpers.pgbouncer import MISSING, Pgbouncer, program
from helpers.postgres_server import Schema, new_server
from vecall import (
    BusyError,
    ConfigError,
    MemoryService,
    StorageError,
    StorageOptions,
    VecallError,
)
from vecall.store import examine_database

psycopg = pytest.importorskip("psycopg")
pytestmark = pytest.mark.skipif(program() is None, reason=MISSING)

TURNS = 10
UNPREPARED = {"ignore_startup_parameters": "options"}


def version():
    """The second number of the version of pgbouncer."""
    done = subprocess.run([program(), "--version"], capture_output=True, check=True)
    return int(re.search(rb"PgBouncer 1\.(\d+)", done.stdout)[1])


@pytest.fixture
def pooler(schema):
    """Starts a pgbouncer with some settings."""
    made = []

    def start(**settings):
        made.append(Pgbouncer(schema, **settings))
        return made[-1]

    yield start
    for each in made:
        each.remove()


def raw(pooler):
    """A connection of another program through the same pooler."""
    return psycopg.connect(
        pooler.url().partition("?")[0], autocommit=True, prepare_threshold=None
    )


def sessions(pooler):
    """What is left in the sessions of the server that the pooler holds."""
    found = set()
    with raw(pooler) as one, raw(pooler) as two, raw(pooler) as three:
        for each in (one, two, three):  # held, so that each has its own process
            each.execute("BEGIN")
            found |= set(
                each.execute(
                    "SELECT current_setting('role'), current_setting('search_path'), "
                    "current_setting('statement_timeout'), "
                    "coalesce(current_setting('vecall.part', true), '')"
                ).fetchall()
            )
        statements = [
            name
            for each in (one, two, three)
            for (name,) in each.execute("SELECT name FROM pg_prepared_statements")
        ]
    return found, statements


def used_by_many(url, other):
    """Let six threads of two services write, search and delete; return what is left."""
    services = [MemoryService(each, embedder=None) for each in (url, other)]
    start = threading.Barrier(6)

    def program(n):
        memory = services[n % 2].sync
        alice = {"app_name": "hotel", "user_id": f"guest {n % 3}"}
        start.wait()
        for turn in range(TURNS):
            ids = [f"{n} {turn} {k}" for k in range(2)]
            memory.add_memory(
                **alice, memories=[{"id": i, "content": f"zebra {i}"} for i in ids]
            )
            found = memory.search_memory(**alice, query=f"zebra {n} {turn}", top_k=50)
            assert set(ids) <= {each.id for each in found}
            memory.delete_memory(**alice, memory_id=ids[0])
            assert ids[0] not in {each.id for each in memory.list_memories(**alice)}

    with ThreadPoolExecutor(6) as pool:
        for each in [pool.submit(program, n) for n in range(6)]:
            each.result()
    for each in services:
        each.close()


@pytest.mark.parametrize("settings", [{}, UNPREPARED, {"max_prepared_statements": 0}])
def test_no_call_of_many_fails_and_none_is_lost(schema, pooler, settings):
    """Three server processes for some twenty connections of two services."""
    if "max_prepared_statements" in settings and version() < 21:
        pytest.skip("this pgbouncer has no max_prepared_statements")
    running = pooler(**settings)
    used_by_many(running.url(), running.url(prepare="never"))
    with MemoryService(schema.url, embedder=None) as direct:
        for guest in range(3):
            alice = {"app_name": "hotel", "user_id": f"guest {guest}"}
            left = {each.id for each in direct.sync.list_memories(**alice)}
            assert left == {
                f"{n} {t} 1" for n in (guest, guest + 3) for t in range(TURNS)
            }


def test_nothing_is_left_in_the_sessions_of_other_programs(pooler):
    """Neither a role, nor a search path, nor a statement that a name could hit."""
    running = pooler()
    untouched, _ = sessions(running)
    used_by_many(running.url(), running.url())
    assert examine_database(running.url())
    with (
        MemoryService(running.url(), embedder=None) as service,
        pytest.warns(UserWarning, match="not vacuumed: a pooler is between"),
    ):
        service.sync.admin.purge()
    left, statements = sessions(running)
    assert left == untouched
    assert len(left) == 1
    assert [name for name in statements if not name.startswith("PGBOUNCER")] == []


def shown(service, name):
    """A setting inside of a transaction of a service."""
    connections = service._memory.storage._connections
    with connections.transaction("vecall_app") as connection:
        return connection.execute(f"SHOW {name}").fetchone()[0]


NAMES = ("statement_timeout", "lock_timeout", "synchronous_commit", "work_mem",
         "idle_in_transaction_session_timeout", "geqo", "application_name",
         "search_path", "role")  # fmt: skip


@pytest.mark.parametrize("durability", ["full", "process"])
def test_settings_are_those_of_a_connection_without_a_pooler(
    schema, pooler, durability
):
    """The pooler drops `options`, those of vecall and those of the URL."""
    more = {"timeout": "7", "options": "-c work_mem=5MB -cgeqo=off"}
    urls = [
        schema.server.url("server", schema=schema.name, **more),
        pooler(**UNPREPARED).url(**more),
        pooler().url(**more),
    ]
    found = []
    for url in urls:
        storage = StorageOptions(durability=durability)
        with MemoryService(url, embedder=None, storage=storage) as service:
            found.append({name: shown(service, name) for name in NAMES})
    assert found[1] == found[0]
    assert found[2] == found[0]
    assert found[0]["work_mem"] == "5MB"
    assert found[0]["lock_timeout"] == "6300ms"


def test_options_that_no_transaction_can_have_are_refused(pooler):
    with pytest.raises(ConfigError, match="options: behind a pooler"):
        MemoryService(pooler(**UNPREPARED).url(options="-c geqo=off -j"), embedder=None)


def test_a_check_that_waits_for_a_lock_ends_on_the_server_too(schema, pooler):
    """Else each search would leave a process that waits, until none is left."""
    waiting = (
        "SELECT count(*) {} 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    )
    url = pooler(**UNPREPARED).url(timeout="1")
    with MemoryService(url, embedder=None) as service:
        alice = service.sync.user("hotel", "alice")
        alice.add(["zebra"])
        with psycopg.connect(schema.server.url()) as other:
            other.execute(f"LOCK TABLE {schema.name}.part IN ACCESS EXCLUSIVE MODE")
            with pytest.raises((BusyError, StorageError)):
                alice.search("zebra")
            schema.server.wait_until(waiting.format("="))
        assert [hit.content for hit in alice.search("zebra")] == ["zebra"]


def test_statements_are_prepared_where_the_pooler_allows_it(schema, pooler):
    def names(url):
        with MemoryService(url, embedder=None) as service:
            connections = service._memory.storage._connections
            with connections.transaction("vecall_app") as used:
                for _ in range(8):
                    used.execute("SELECT 1").fetchone()
                sql = "SELECT name FROM pg_prepared_statements"
                return [n for (n,) in used.execute(sql, prepare=False).fetchall()]

    running = pooler()
    prepared = names(running.url())
    assert bool(prepared) is (version() >= 21)
    assert all(name.startswith("PGBOUNCER") for name in prepared)
    assert names(schema.url)
    assert not names(f"{schema.url}&prepare=never")


@pytest.mark.campaign
@FULL_SIZE_ONLY
@pytest.mark.parametrize(("killed", "times"), [("pooler", 3), ("database", 1)])
def test_a_restart_in_the_middle_loses_and_doubles_nothing(killed, times):
    """Acknowledged writes are found afterwards. A failed call is repeated by its id."""
    server = new_server()
    pooler = None
    try:
        pooler = Pgbouncer(Schema(server), server_login_retry=1)
        process = pooler if killed == "pooler" else server
        restart_under_load(process, pooler.url(timeout="6"), times)
    finally:
        if pooler is not None:
            pooler.remove()
        server.remove()


def restart_under_load(process, url, times):
    service = MemoryService(url, embedder=None)
    acknowledged, kinds, ending = set(), set(), threading.Event()

    def write(n):
        alice = {"app_name": "hotel", "user_id": f"guest {n}"}
        turn = 0
        while not ending.is_set():
            turn += 1
            name = f"{n} {turn}"
            item = {"id": name, "content": f"zebra {name}"}
            for _ in range(20):
                try:
                    service.sync.add_memory(**alice, memories=[item])
                except VecallError as error:
                    kinds.add(type(error))
                    ending.wait(0.1)
                    continue
                acknowledged.add(name)
                break

    with ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(write, n) for n in range(4)]
        for _ in range(times):
            before = len(acknowledged)
            while len(acknowledged) < before + 8:
                assert not any(call.done() for call in calls)
                ending.wait(0.01)
            process.kill()
            process.start()
        ending.set()
        for call in calls:
            call.result(30)
    found = [
        each.id
        for n in range(4)
        for each in service.sync.list_memories(
            app_name="hotel", user_id=f"guest {n}", limit=1000
        )
    ]
    service.close()
    assert kinds <= {BusyError, StorageError}
    assert len(found) == len(set(found))
    assert acknowledged <= set(found)


def test_a_pooler_without_a_free_server_process_is_busy(pooler):
    running = pooler(default_pool_size=1, query_wait_timeout=1)
    with MemoryService(running.url(timeout="9"), embedder=None) as service:
        alice = service.sync.user("hotel", "alice")
        alice.add(["zebra"])
        with raw(running) as other:
            other.execute("BEGIN")
            with pytest.raises(BusyError):
                alice.search("zebra")
            other.execute("ROLLBACK")
        assert [hit.content for hit in alice.search("zebra")] == ["zebra"]


@pytest.mark.parametrize(
    ("before", "after", "fault"),
    [
        ("/postgres?", "/nothing?", "refused access"),
        ("server@", "never_created@", "refused access"),
    ],
)
def test_what_the_pooler_refuses_is_an_error_of_the_configuration(
    pooler, before, after, fault
):
    with pytest.raises(ConfigError, match=fault):
        MemoryService(pooler().url().replace(before, after), embedder=None)


def test_the_doctor_says_that_a_pooler_is_between(schema, pooler):
    found = {each.about: each for each in examine_database(pooler().url())}
    assert found["pooler"].level == "note"
    assert "one is between" in found["pooler"].message
    alone = {each.about: each for each in examine_database(schema.url)}
    assert alone["pooler"].message == "none"
