"""A schema is migrated while servers of the version before it read and write."""

from __future__ import annotations

import threading
import time

import pytest
from helpers.counted import wrong_counters
from helpers.postgres_server import MISSING, Schema, is_available
from vecall import BusyError, ConfigError, IncompatibleFileError, MemoryService, Put
from vecall.store import examine_database

psycopg = pytest.importorskip("psycopg")
from vecall.store.postgres.schema import NEWEST  # noqa: E402

MORE = 3  # writes of each user before and after the migration
# What a next version may do: it adds, with a lock of every table that it changes.
STEP = b"""
ALTER TABLE mem ADD COLUMN colour text NOT NULL DEFAULT 'grey';
ALTER TABLE part ADD COLUMN shade bigint;
CREATE INDEX mem_colour ON mem (part, colour);
ALTER TABLE chg ADD COLUMN reason text;
"""


@pytest.fixture
def next_version(monkeypatch):
    """Makes this process one of the version that has another step."""
    from vecall.store.postgres import schema as module

    script = module._read_schema_script
    steps = {
        f"schema_{NEWEST + 1}.sql": STEP,
        f"rights_{NEWEST + 1}.sql": b"SELECT 1",
    }

    def become(number):
        monkeypatch.setattr(module, "NEWEST", number)
        monkeypatch.setattr(
            module, "_read_schema_script", lambda name: steps.get(name) or script(name)
        )

    return become


def parsed(schema):
    from vecall.store.postgres.url import parse_database_url

    return parse_database_url(schema.server.url(schema=schema.name))


def migrate(schema):
    """`vecall pg migrate`; returns the number before."""
    from vecall.store.postgres.schema import migrate_schema

    return migrate_schema(parsed(schema))


def used(service, user, stop, written, errors):
    """Write and search until `stop`; each write is found."""
    me = {"app_name": "hotel", "user_id": user}
    try:
        while not stop.is_set():
            text = f"okapi {len(written)}"
            service.sync.add_memory(**me, memories=[text])
            written.append(text)
            hits = service.sync.search_memory(**me, query=text, top_k=1000).memories
            assert text in {hit.text for hit in hits}
            service.sync.list_memories(**me, limit=5)
    except BaseException as error:
        errors.append(error)


def until_each_has(written, counts, errors):
    """Wait until each user has written so much, or one failed."""
    end = time.monotonic() + 30
    while any(len(written[user]) < count for user, count in counts.items()):
        if errors or time.monotonic() > end:
            return
        time.sleep(0.01)


def test_a_migration_under_servers_that_write_loses_and_fails_nothing(
    schema, open_service, next_version
):
    services = [open_service(schema.url) for _ in range(2)]
    stop, errors = threading.Event(), []
    written = {f"u{n}": [] for n in range(4)}
    threads = [
        threading.Thread(
            target=used, args=(services[n % 2], f"u{n}", stop, written[f"u{n}"], errors)
        )
        for n in range(4)
    ]
    for each in threads:
        each.start()
    until_each_has(written, dict.fromkeys(written, MORE), errors)
    next_version(NEWEST + 1)
    assert migrate(schema) == NEWEST
    before = {user: len(texts) for user, texts in written.items()}
    after = {user: count + MORE for user, count in before.items()}
    until_each_has(written, after, errors)
    stop.set()
    for each in threads:
        each.join()
    assert errors == []
    assert all(len(written[user]) > count for user, count in before.items())
    assert migrate(schema) == NEWEST + 1
    newer = open_service(schema.url)
    for service in (newer, *services):
        for user, texts in written.items():
            me = {"app_name": "hotel", "user_id": user}
            assert service.sync.count_memories(**me) == len(texts)
            newest = service.sync.search_memory(**me, query=texts[-1], top_k=1000)
            assert texts[-1] in {each.text for each in newest.memories}


def test_an_older_version_does_not_open_the_newer_number(schema, next_version):
    next_version(NEWEST + 1)
    migrate(schema)
    next_version(NEWEST)
    told = rf"schema {NEWEST + 1}.*up to schema {NEWEST}"
    with pytest.raises(IncompatibleFileError, match=told):
        MemoryService(schema.url, embedder=None)


def test_a_version_works_on_its_own_number_and_on_the_one_before(
    schema, open_service, next_version
):
    next_version(NEWEST + 1)
    me = {"app_name": "hotel", "user_id": "alice"}
    service = open_service(schema.url)
    service.sync.add_memory(**me, memories=["okapi"])
    (about,) = [each for each in examine_database(schema.url) if each.about == "schema"]
    assert (about.level, f"{NEWEST} of {NEWEST + 1}" in about.message) == ("note", True)
    next_version(NEWEST + 2)
    told = f"schemas {NEWEST + 1} and {NEWEST + 2}; run `vecall pg migrate"
    with pytest.raises(ConfigError, match=told):
        MemoryService(schema.url, embedder=None)


def test_a_migration_that_gets_no_lock_changes_nothing_and_holds_up_nobody(
    schema, open_service, next_version, monkeypatch
):
    from vecall.store.postgres import schema as module

    service = open_service(schema.url)
    me = {"app_name": "hotel", "user_id": "alice"}
    service.sync.add_memory(**me, memories=["okapi"])
    next_version(NEWEST + 1)
    monkeypatch.setattr(module, "_PATIENCE_S", 1.0)
    with psycopg.connect(schema.server.url()) as holder:
        holder.execute(f"SELECT count(*) FROM {schema.name}.mem")  # and a lock
        ended = []
        thread = threading.Thread(
            target=lambda: ended.append(pytest.raises(BusyError, migrate, schema))
        )
        thread.start()
        while thread.is_alive():
            service.sync.add_memory(**me, memories=["okapi more"])
        thread.join()
        assert len(ended) == 1
    assert schema.server.execute(
        f"SELECT value FROM {schema.name}.meta WHERE key = 'schema'"
    ) == [(str(NEWEST),)]
    assert migrate(schema) == NEWEST


def names(schema):
    """The apps of the users; "" of a user whose names a purge has hidden."""
    found = schema.server.execute(f"SELECT app FROM {schema.name}.part ORDER BY app")
    return [app for (app,) in found]


def test_servers_of_schema_1_go_on_after_a_migration_to_schema_2(
    open_service, next_version
):
    """The rows that they write are checked; names that a purge hid come back."""
    if not is_available():
        pytest.skip(MISSING)
    alice = {"app_name": "hotel", "user_id": "alice"}
    next_version(1)
    schema = Schema()
    try:
        older = open_service(schema.url, embedder=None)
        older.sync.add_memory(**alice, memories=[{"id": "m", "content": "okapi"}])
        older.items.sync.write([Put(("n",), "k", 1)], **alice)
        older.sync.delete_user(**alice)
        older.sync.admin.purge()
        assert names(schema) == [""]
        next_version(2)
        newer = open_service(schema.url, embedder=None)
        newer.sync.add_memory(app_name="hotel", user_id="bob", memories=["okapi"])
        assert migrate(schema) == 1
        for service, text in ((older, "okapi one"), (newer, "okapi two")):
            service.sync.add_memory(**alice, memories=[text])
            service.items.sync.write([Put(("n",), text, 1)], **alice)
        assert names(schema) == ["hotel", "hotel"]
        for service in (older, newer):
            listed = service.sync.list_memories(**alice)
            assert [each.text for each in listed] == ["okapi one", "okapi two"]
        assert older.sync.delete_user(**alice, forget=True) == 2
        found = {each.about: each.level for each in examine_database(schema.url)}
        about = ("schema", "tables", "numbers", "policies")
        assert [found[each] for each in about] == ["ok"] * 4
    finally:
        schema.drop()


def test_what_servers_of_schema_2_write_is_counted_after_the_migration(
    open_service, next_version
):
    """Users are counted while servers write, also after a migration that was killed."""
    if not is_available():
        pytest.skip(MISSING)
    from vecall.store.postgres import schema as module

    next_version(2)
    schema = Schema()
    try:
        older = open_service(schema.url, embedder=None)
        turn = {"id": "t", "author": "user", "content": "okapi", "timestamp": 5.0}
        for n in range(5):
            me = {"app_name": f"app{n % 2}", "user_id": f"u{n}"}
            older.sync.add_events_to_memory(**me, session_id="s", events=[turn])
            older.sync.add_memory(
                **me, memories=["a fact", {"id": "f", "content": "é"}]
            )
            older.sync.delete_memory(**me, memory_id="f")
            older.items.sync.write([Put(("n",), "k", 1)], **me)
        listed = counts_of(older)
        next_version(3)
        with psycopg.connect(schema.server.url(), autocommit=True) as connection:
            module._migrate_schema(connection, parsed(schema))
            assert module._count_users(connection, parsed(schema), 3) == 5
        assert counts_of(older) == listed  # no counter is read before all are right
        assert migrate(schema) == 3
        assert counts_of(older) == listed
        me = {"app_name": "app0", "user_id": "u0"}
        older.sync.add_events_to_memory(**me, session_id="s2", events=[turn])
        older.sync.delete_session(**me, session_id="s")
        assert wrong_counters(older) == ""
        assert [each.session_id for each in older.sync.list_sessions(**me)] == ["s2"]
        found = {each.about: each.level for each in examine_database(schema.url)}
        assert (found["counts"], found["tables"]) == ("ok", "ok")
    finally:
        schema.drop()


def counts_of(service):
    """Everything that counters know."""
    admin = service.sync.admin
    apps = admin.list_apps()
    users = [admin.list_users(app_name=each.app_name) for each in apps]
    stats = {name: admin.stats()[name] for name in ("sessions", "items", "deleted_ids")}
    me = {"app_name": "app0", "user_id": "u0"}
    return apps, users, stats, service.sync.list_sessions(**me)


@pytest.mark.parametrize("command", ["initialize", "migrate"])
def test_a_command_waits_for_the_lock_of_migrations_with_a_bound(
    schema, monkeypatch, in_time, command
):
    """Any login may hold an advisory lock, for as long as it likes."""
    from vecall.store.postgres import schema as module
    from vecall.store.postgres.url import parse_database_url

    monkeypatch.setattr(module, "_PATIENCE_S", 0.3)
    url = parse_database_url(schema.server.url(schema=schema.name))
    with psycopg.connect(schema.server.url()) as holder:
        holder.execute("SELECT pg_advisory_xact_lock(%s)", (0x7663616C,))
        with pytest.raises(BusyError):
            in_time(getattr(module, f"{command}_schema"), url)
    in_time(getattr(module, f"{command}_schema"), url)
