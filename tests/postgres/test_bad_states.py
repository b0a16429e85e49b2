"""A database in a bad state is a typed error without the password, and works later."""

from __future__ import annotations

from contextlib import suppress
from time import monotonic

import pytest
from helpers.campaigns import FULL_SIZE_ONLY
from helpers.memories import ALICE
from helpers.postgres_server import Schema, new_server
from vecall import (
    BusyError,
    ConfigError,
    IncompatibleFileError,
    MemoryService,
    StorageError,
    VecallError,
)

psycopg = pytest.importorskip("psycopg")
from vecall.store.postgres.schema import initialize_schema  # noqa: E402
from vecall.store.postgres.url import parse_database_url  # noqa: E402

PASSWORD = "geheim"


@pytest.fixture
def login(schema):
    """The URL of a role with a password, which the server asks for; and its name."""
    server = schema.server
    rules = server.data / "pg_hba.conf"
    before = rules.read_text()
    rules.write_text(f"local all other scram-sha-256\n{before}")
    server.execute("SELECT pg_reload_conf()")
    server.execute(f"CREATE ROLE other LOGIN PASSWORD '{PASSWORD}'")
    initialize_schema(parse_database_url(server.url(schema=schema.name)), login="other")

    def url(password=PASSWORD, **options):
        made = server.url("other", schema=schema.name, **options)
        return made.replace("other@", f"other:{password}@" if password else "other@")

    yield url
    server.execute("DROP OWNED BY other; DROP ROLE other")
    rules.write_text(before)
    server.execute("SELECT pg_reload_conf()")


def refusal(url, kind=ConfigError):
    with pytest.raises(kind) as caught:
        MemoryService(url, embedder=None)
    assert PASSWORD not in str(caught.value)
    assert "falsch" not in str(caught.value)
    return str(caught.value)


def test_a_wrong_password_role_or_database_is_refused(login, schema):
    with MemoryService(login(), embedder=None) as memory:
        memory.sync.add_memory(**ALICE, memories=["zebra"])
    for url in (
        login("falsch"),
        login(""),
        schema.server.url("unknown", schema=schema.name),
        login().replace("/postgres?", "/unknown?"),
    ):
        assert "refused access; check user, password, database" in refusal(url)


def test_a_schema_that_is_not_there_or_of_another_number_is_named(schema):
    assert "vecall pg init" in refusal(schema.server.url("server", schema="nothing"))
    change = schema.server.execute
    change(f"UPDATE {schema.name}.meta SET value = '99' WHERE key = 'schema'")
    assert "99" in refusal(schema.url, IncompatibleFileError)


def test_a_server_that_is_not_there_is_an_error_at_once(tmp_path):
    begin = monotonic()
    for place in (f"?host={tmp_path}", "127.0.0.1:1/db", "unknown.invalid/db"):
        host = place if place.startswith("?") else f"server:{PASSWORD}@{place}"
        with pytest.warns() if "invalid" in place else suppress(UserWarning):
            text = refusal(f"postgresql://{host}", StorageError)
        assert "cannot be reached" in text
    assert monotonic() - begin < 20.0


def test_a_full_server_is_busy_and_the_service_works_when_it_has_room(login, schema):
    change = schema.server.execute
    with MemoryService(login(timeout="3"), embedder=None) as memory:
        memory.sync.add_memory(**ALICE, memories=["zebra"])
        change("ALTER ROLE other CONNECTION LIMIT 0")
        change("SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
               "WHERE usename = 'other'")  # fmt: skip
        with pytest.raises(BusyError, match="no connection free"):
            memory.sync.add_memory(**ALICE, memories=["lion"])
        with pytest.raises(BusyError, match="no connection free"):
            memory.sync.search_memory(**ALICE, query="zebra")
        assert "no connection free" in refusal(login(), BusyError)
        change("ALTER ROLE other CONNECTION LIMIT -1")
        memory.sync.add_memory(**ALICE, memories=["tiger"])
        found = memory.sync.search_memory(**ALICE, query="zebra lion tiger").memories
        assert sorted(each.text for each in found) == ["tiger", "zebra"]


@pytest.mark.campaign
@FULL_SIZE_ONLY
def test_a_service_survives_its_server():
    """The server is killed and starts again; the service is the same."""
    server = new_server()
    try:
        schema = Schema(server)
        url = f"{schema.url}&timeout=3"
        with MemoryService(url, embedder=None) as memory:
            memory.sync.add_memory(**ALICE, memories=["zebra"])
            server.kill()
            for call in (
                lambda: memory.sync.add_memory(**ALICE, memories=["lion"]),
                lambda: memory.sync.search_memory(**ALICE, query="zebra"),
                lambda: memory.sync.admin.list_apps(),
            ):
                begin = monotonic()
                with pytest.raises(VecallError) as caught:
                    call()
                assert isinstance(caught.value, (StorageError, BusyError))
                assert monotonic() - begin < 20.0
            server.start()
            memory.sync.add_memory(**ALICE, memories=["tiger"])
            found = memory.sync.search_memory(**ALICE, query="zebra tiger").memories
            assert sorted(each.text for each in found) == ["tiger", "zebra"]
    finally:
        server.remove()


def test_rights_that_are_taken_while_a_service_is_open_are_an_error(schema):
    change = schema.server.execute
    with MemoryService(schema.url, embedder=None) as memory:
        memory.sync.add_memory(**ALICE, memories=["zebra"])
        change(f"REVOKE INSERT ON {schema.name}.mem FROM vecall_app")
        with pytest.raises(ConfigError, match=r"refused access \(SQLSTATE 42501\)"):
            memory.sync.add_memory(**ALICE, memories=["lion"])
        change(f"GRANT INSERT ON {schema.name}.mem TO vecall_app")
        memory.sync.add_memory(**ALICE, memories=["tiger"])
        found = memory.sync.search_memory(**ALICE, query="zebra lion tiger").memories
        assert sorted(each.text for each in found) == ["tiger", "zebra"]
