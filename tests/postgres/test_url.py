"""What a URL of a database may say, and what it never shows."""

from __future__ import annotations

import pytest
from helpers.postgres_server import MISSING, is_available
from vecall import ConfigError, MemoryService
from vecall.store.postgres.url import parse_database_url

psycopg = pytest.importorskip("psycopg")

SECRET = "hush-4711"


def libpq(url: str) -> dict[str, str]:
    """The parameters that libpq itself reads from a URL."""
    return psycopg.conninfo.conninfo_to_dict(url)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u@one:5433,two:5434/db?target_session_attrs=any",
        "postgresql://u@[::1]:5433,two/db?target_session_attrs=any",
        "postgresql://u@one/db?application_name=my%20app",
        "postgresql://u@one/db?application_name=a+b&options=-c%20geqo%3Doff",
        "postgresql://@/db?host=%2Ftmp%2Fa%20b",
        "postgresql:///db?host=/tmp",
        "postgresql://",
        f"postgresql://u:{SECRET}%40%2F@one/db",
    ],
)
def test_what_is_not_vecalls_reaches_libpq_as_it_was_written(url):
    ours = f"{url}{'&' if '?' in url else '?'}schema=other&writers=2"
    parsed = parse_database_url(ours)
    assert libpq(parsed.conninfo) == libpq(url)
    assert (parsed.schema, parsed.writers) == ("other", 2)


@pytest.mark.parametrize(
    "url", ["postgresql://u@one,two/db", "postgresql://u@/db?host=one,two"]
)
def test_of_several_hosts_the_one_that_accepts_writes_is_used(url):
    asked = libpq(parse_database_url(url).conninfo)
    assert asked["host"] == "one,two"
    assert asked["target_session_attrs"] == "read-write"
    assert "target_session_attrs" not in libpq(
        parse_database_url("postgresql://one").conninfo
    )


@pytest.mark.parametrize(
    ("url", "checked"),
    [
        ("postgresql://u@localhost,127.0.0.1:5433,[::1]/db", True),
        ("postgresql://u@localhost,example.org/db", False),
        ("postgresql://u@example.org,example.net/db?sslmode=verify-full", True),
        ("postgresql://u@example.org/db?sslmode=require", False),
        ("postgresql://u@/db?host=/tmp,example.org", False),
        ("postgresql://u@/db?host=/tmp,/var/run", True),
    ],
)
def test_every_host_must_be_local_or_verified(url, checked):
    assert parse_database_url(url).is_checked is checked


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://u:{SECRET}@one:port/db",
        f"postgresql://u:{SECRET}@one:99999,two/db",
        f"postgresql://u:{SECRET}@[::1/db",
        f"postgresql://u:{SECRET}@one/db?writers=none",
        f"postgresql://u:{SECRET}@one/db?prepare={SECRET}",
        f"postgresql://u:{SECRET}@one/db#part",
        f"postgresql://u:{SECRET}?2@one/db",
        f"postgresql://u:{SECRET}@one:{'9' * 5_000}/db",
        f"u:{SECRET}@one/db",
        f"postgresql://one/db?keeper_url={SECRET}",
        f"postgresql://one/db?keeper_url=postgresql://u:{SECRET}@one/db?writers=2",
    ],
)
def test_a_wrong_url_is_refused_without_repeating_it(url):
    with pytest.raises(ConfigError) as refused:
        parse_database_url(url)
    assert SECRET not in repr(refused.value) + str(refused.value.__cause__)


def test_neither_text_nor_repr_has_the_password():
    url = f"postgresql://u:{SECRET}@one,two/db?password={SECRET}"
    parsed = parse_database_url(
        f"{url}&keeper_url=postgresql%3A%2F%2Fk%3A{SECRET}%40one%2Fdb"
    )
    assert SECRET not in f"{parsed} {parsed!r}"
    assert str(parsed) == "postgresql://one,two/db"


def test_settings_of_the_url_take_precedence_over_vecalls(schema, open_service):
    given = "&application_name=mine&options=-c%20geqo%3Doff"
    service = open_service(schema.url + given, embedder=None)
    ((name,),) = schema.server.execute(
        "SELECT DISTINCT application_name FROM pg_stat_activity "
        "WHERE usename = 'server' AND application_name = 'mine'"
    )
    assert name == "mine"
    service.close()


@pytest.mark.skipif(not is_available(), reason=MISSING)
@pytest.mark.parametrize("option", ["nonsense=1", "connect_timeout=soon"])
def test_an_option_that_libpq_does_not_know_is_refused(option, caplog):
    with pytest.raises(ConfigError, match="libpq does not know") as refused:
        MemoryService(f"postgresql://u:{SECRET}@localhost/db?{option}", embedder=None)
    assert SECRET not in str(refused.value) + caplog.text


def test_what_the_url_does_not_say_has_the_values_of_the_guide():
    url = parse_database_url("postgresql://one/db")
    assert (url.timeout, url.readers, url.writers) == (18.0, 4, 4)
