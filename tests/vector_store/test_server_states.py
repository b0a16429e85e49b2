"""Vector stores on real servers in bad states: typed errors in bounded time."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
import time
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest
from helpers.campaigns import FULL_SIZE_ONLY
from helpers.postgres_server import Server, shared_server
from helpers.redis_server import RedisServer, shared_redis
from helpers.vector_stores.plain import ALICE, Plain, X, three
from helpers.vector_stores.servers import (
    SERVERS,
    needs_postgres,
    needs_redis,
    new_pgvector,
    pgvector_url,
)
from vecall.errors import (
    BusyError,
    ConfigError,
    StorageError,
    StorageFullError,
    VecallError,
)
from vecall.vector_store import (
    PgVectorStore,
    RedisVectorStore,
    VectorStoreFilter,
)

PASSWORD = "geheim"
ME = VectorStoreFilter(**ALICE)
NAMES = count(1)


@pytest.fixture(scope="module", params=SERVERS)
def server(request):
    if request.param == "redis":
        made = RedisServer("--requirepass", PASSWORD)
    else:
        made = Server(Path(tempfile.mkdtemp(prefix="pg")), sync=True)
        made.start()
        made.execute("CREATE EXTENSION vector")
    yield made
    made.remove()


@pytest.fixture
def broken(server):
    """A server of its own, a store that waits a second, and what stops the server."""
    if isinstance(server, RedisServer):
        store = RedisVectorStore(server.url(f":{PASSWORD}@"), timeout=1)
    else:
        url = server.url("admin", timeout="1").replace("@", f":{PASSWORD}@", 1)
        store = PgVectorStore(url)

    def send(number):
        process = server._process.pid
        children = Path(f"/proc/{process}/task/{process}/children").read_text()
        for each in (process, *map(int, children.split())):
            with suppress(ProcessLookupError):  # one has ended since
                os.kill(each, number)

    yield server, Plain(store), send
    Plain(store).delete_many()
    store.close()


def bounded(call, error, seconds=6.0):
    """The call raises a typed error without the password, in bounded time."""
    begin = time.monotonic()
    with pytest.raises(error) as caught:
        call()
    assert time.monotonic() - begin < seconds
    assert PASSWORD not in repr(caught.value)
    assert caught.value.__cause__ is None
    return caught.value


def calls(store):
    return (
        lambda: store.put("a", X),
        lambda: store.search(X),
        lambda: store.delete("a"),
        store.delete_many,
        lambda: store.delete_many(session_id="s"),
    )


@pytest.mark.campaign
@FULL_SIZE_ONLY
def test_a_server_that_dies_is_an_error_and_works_again(broken):
    server, store, _ = broken
    three(store)
    server.kill()
    for call in calls(store):
        bounded(call, StorageError)
    server.start()
    store.put("again", X)
    assert "again" in store.ids(X)


def test_a_server_that_falls_silent_is_busy_in_bounded_time(broken):
    _, store, send = broken
    three(store)
    send(signal.SIGSTOP)
    try:
        bounded(lambda: store.put("a", X), BusyError)
    finally:
        send(signal.SIGCONT)
    assert sorted(store.ids(X)) == ["a", "b", "c"]


def test_a_cancelled_call_ends_at_once_and_the_store_works_on(broken):
    _, store, send = broken
    three(store)

    async def cancelled(work):
        task = asyncio.create_task(work)
        await asyncio.sleep(0.05)
        task.cancel()
        begin = time.monotonic()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.monotonic() - begin < 0.5

    async def run():
        one = store.store
        for work in (
            one.upsert("b", [0.0, 0.0, 1.0], ALICE),
            one.search(X, 5, ME),
            one.delete("none", **ALICE),
            one.delete_many(VectorStoreFilter(**ALICE, session_id="none")),
            one.upsert("queued", X, {"app_name": "never", "user_id": "never"}),
        ):
            await cancelled(work)

    send(signal.SIGSTOP)
    try:
        asyncio.run(run())
    finally:
        send(signal.SIGCONT)
    # The call for which no connection was free had not begun.
    deadline = time.monotonic() + 10
    while True:
        try:
            found = sorted(store.ids(X))
            break
        except BusyError:
            assert time.monotonic() < deadline
    assert found == ["a", "b", "c"]
    assert store.ids(X, app_name="never", user_id="never") == []


def test_calls_beyond_the_connections_are_busy_in_bounded_time(broken):
    _, store, send = broken
    three(store)

    async def run():
        searches = (store.store.search(X, 5, ME) for _ in range(40))
        return await asyncio.gather(*searches, return_exceptions=True)

    send(signal.SIGSTOP)
    begin = time.monotonic()
    try:
        found = asyncio.run(run())
    finally:
        send(signal.SIGCONT)
    assert time.monotonic() - begin < 6
    assert sum(isinstance(each, BusyError) for each in found) >= 36
    # A database that accepts no connection cannot be reached.
    assert all(isinstance(each, BusyError | StorageError) for each in found)


@needs_redis
def test_a_wrong_password_is_refused_without_naming_it():
    server = RedisServer("--requirepass", "right")
    try:
        for login in (f":{PASSWORD}@", f"{PASSWORD}:right@", ""):
            store = Plain(RedisVectorStore(server.url(login), timeout=1))
            for call in calls(store):
                bounded(call, ConfigError)
            store.store.close()
    finally:
        server.remove()


@needs_redis
def test_a_full_redis_a_replica_and_keys_of_others_are_named():
    server = RedisServer()
    store = three(Plain(RedisVectorStore(server.url())))
    store.put("x", X, user_id="bob")
    run = store.store._client.execute_command
    try:
        run("SET", store.store._redis_key_of_user(("app", "carl")), "text")
        bounded(lambda: store.put("a", X, user_id="carl"), ConfigError)
        run(
            "VADD",
            store.store._redis_key_of_user(("app", "dora")),
            "VALUES",
            3,
            1,
            2,
            3,
            "a",
        )
        bounded(lambda: store.search(X, user_id="dora"), VecallError)
        run("CONFIG", "SET", "maxmemory", "1")
        bounded(lambda: store.put("d", X), StorageFullError)
        run("CONFIG", "SET", "maxmemory", "0")
        run("REPLICAOF", "127.0.0.1", "1")
        bounded(lambda: store.put("d", X), PermissionError)
        assert store.ids(X) == ["a", "b", "c"]
    finally:
        store.store.close()
        server.remove()


@needs_postgres
def test_a_database_without_pgvector_is_named():
    url = pgvector_url(options="-c search_path=nowhere")
    store = Plain(PgVectorStore(url, table="bare"))
    assert store.ids(X) == []
    with pytest.raises(ConfigError, match="CREATE EXTENSION vector"):
        store.put("a", X)
    assert store.ids(X) == []
    store.store.close()


@needs_postgres
def test_a_role_without_rights_is_refused():
    store = three(Plain(new_pgvector(table="rights")))
    shared_server().execute("CREATE ROLE without_rights LOGIN")
    url = pgvector_url().replace("vectors@", "without_rights@")
    without_rights = Plain(PgVectorStore(url, table="rights"))
    try:
        for call in calls(without_rights):
            bounded(call, ConfigError)
        assert store.delete_many() == 3
    finally:
        for each in (store, without_rights):
            each.store.close()
        shared_server().execute("DROP ROLE without_rights")


@needs_postgres
def test_a_dropped_table_is_an_error_once():
    store = three(Plain(new_pgvector(table="dropped")))
    shared_server().execute("DROP TABLE vectors.dropped")
    with pytest.raises(ConfigError):
        store.search(X)
    assert store.ids([1.0, 0.0]) == []
    store.put("a", [1.0, 0.0])
    assert store.ids([1.0, 0.0]) == ["a"]
    store.store.close()


@needs_postgres
@pytest.mark.parametrize(
    ("url", "options", "named"),
    [
        ("mysql://x", {}, "url"), (7, {}, "url"), ("postgresql://[", {}, "URL"),
        ("postgresql://h?writers=2", {}, "writers"), ("", {"table": "a b"}, "table"),
        ("", {"table": 'a"'}, "table"), ("", {"table": None}, "table"),
        ("", {"dimensions": 16_001}, "dimensions"),
        ("", {"dimensions": 0}, "dimensions"),
        ("", {"dimensions": True}, "dimensions"),
        ("", {"connections": 0}, "connections"),
        ("postgresql://h?timeout=0", {}, "timeout"),
    ],
)  # fmt: skip
def test_options_of_pgvector_are_checked(url, options, named):
    with pytest.raises(ConfigError, match=named):
        PgVectorStore(pgvector_url() if url == "" else url, **options)


@needs_redis
@pytest.mark.parametrize(
    ("url", "options", "named"),
    [
        ("http://x", {}, "url"), (7, {}, "url"),
        (f"redis://:{PASSWORD}@h:x", {}, "url"),
        (f"redis://:{PASSWORD}@h/0?odd=1", {}, "url"),
        ("redis://h?decode_responses=true", {}, "decode_responses"),
        ("redis://h?protocol=3", {}, "protocol"), ("", {"prefix": "a:b"}, "prefix"),
        ("", {"prefix": ""}, "prefix"), ("", {"prefix": None}, "prefix"),
        ("", {"dimensions": 40_000}, "dimensions"), ("", {"timeout": 0}, "timeout"),
        ("", {"timeout": "1"}, "timeout"), ("", {"connections": 65}, "connections"),
    ],
)  # fmt: skip
def test_options_of_redis_are_checked(url, options, named):
    with pytest.raises(ConfigError, match=named) as caught:
        RedisVectorStore(shared_redis().url() if url == "" else url, **options)
    assert PASSWORD not in repr(caught.value)


@pytest.mark.parametrize(
    ("kind", "package"), [(PgVectorStore, "psycopg"), (RedisVectorStore, "redis")]
)
def test_a_missing_package_names_the_extra(monkeypatch, kind, package):
    for name in list(sys.modules):
        if name.startswith((f"{package}.", "vecall.store.postgres")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    extra = {"psycopg": "pgvector", "redis": "redis"}[package]
    with pytest.raises(ImportError, match=rf"vecall\[{extra}\]"):
        kind("postgresql://host")
