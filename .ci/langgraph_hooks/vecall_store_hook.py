"""A pytest plugin that puts VecallStore in the place of LangGraph's own stores.

What the tests do with the database itself, besides the store, has no counterpart: SQL
cursors, migrations, and PostgreSQL connections that make and drop databases.
"""

# ruff: noqa: D101, D102, D105, D107 -- the other stores document these methods

from __future__ import annotations

import hashlib
import shutil
import tempfile
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from unittest import mock

import pytest
from vecall.langgraph import VecallStore

FOLDER = Path(tempfile.mkdtemp())
OWN = {
    "test_no_running_loop": "blocking calls on an event loop are AsyncStore's own rule",
    "test_abatch_uses_single_pool_checkout": "counts the connections of a pool",
}


def own_index(index):
    """An IndexConfig without the settings of PostgreSQL's and SQLite's indexes."""
    left_out = ("ann_index_config",)
    return index and {k: v for k, v in index.items() if k not in left_out}


def path_of(conn: str) -> str:
    if conn == ":memory:":
        return conn
    return str(FOLDER / f"{hashlib.sha256(conn.encode()).hexdigest()[:16]}.db")


class Memory(VecallStore):
    """In the place of InMemoryStore."""

    def __init__(self, *, index=None):
        super().__init__(":memory:", index=index)


class Blocking(VecallStore):
    """In the place of PostgresStore."""

    MIGRATIONS = ()

    @classmethod
    @contextmanager
    def from_conn_string(cls, conn, *, pipeline=False, pool_config=None, **options):
        del pipeline, pool_config
        options["index"] = own_index(options.get("index"))
        with cls(path_of(conn), **options) as store:
            yield store

    @contextmanager
    def _cursor(self):
        yield Cursor()


class Awaiting(VecallStore):
    """In the place of AsyncSqliteStore and AsyncPostgresStore."""

    MIGRATIONS = ()

    @classmethod
    @asynccontextmanager
    async def from_conn_string(
        cls, conn, *, pipeline=False, pool_config=None, **options
    ):
        del pipeline, pool_config
        options["index"] = own_index(options.get("index"))
        async with cls(path_of(conn), **options) as store:
            yield store

    async def setup(self):
        pass

    async def sweep_ttl(self):
        return super().sweep_ttl()

    async def start_ttl_sweeper(self, minutes=None):
        return super().start_ttl_sweeper(minutes)

    async def stop_ttl_sweeper(self, timeout=None):
        return super().stop_ttl_sweeper(timeout)

    @asynccontextmanager
    async def _cursor(self):
        yield AsyncCursor()


class Sqlite(Blocking):
    """In the place of SqliteStore, which refreshes TTLs only if it is told."""

    def __init__(self, conn, *, ttl=None, **options):
        ttl = ttl and {"refresh_on_read": False, **ttl}
        super().__init__(conn, ttl=ttl, **options)

    @property
    def conn(self):
        pytest.skip("reads the other store's tables by SQL")


class Cursor:
    """Takes the statements that make a database ready, and skips tests of any other."""

    def execute(self, sql, *_):
        if "DROP TABLE IF EXISTS store_migrations" not in str(sql):
            pytest.skip("reads or writes the other store's tables by SQL")


class AsyncCursor(Cursor):
    async def execute(self, sql, *_):
        Cursor.execute(self, sql)


class Server:
    """A connection to a database server that is not needed."""

    def execute(self, *_):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class AsyncServer(Server):
    async def execute(self, *_):
        pass

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        pass


async def connect(*_, **__):
    return AsyncServer()


import langgraph.store.memory  # noqa: E402

langgraph.store.memory.InMemoryStore = Memory
try:
    import langgraph.store.sqlite
    import langgraph.store.sqlite.aio

    langgraph.store.sqlite.SqliteStore = Sqlite
    langgraph.store.sqlite.AsyncSqliteStore = Awaiting
    langgraph.store.sqlite.aio.AsyncSqliteStore = Awaiting
except ImportError:
    pass
try:
    import langgraph.store.postgres
    import psycopg

    langgraph.store.postgres.PostgresStore = Blocking
    langgraph.store.postgres.AsyncPostgresStore = Awaiting
    mock.patch.object(psycopg.Connection, "connect", return_value=Server()).start()
    mock.patch.object(psycopg.AsyncConnection, "connect", connect).start()
except ImportError:
    pass


def pytest_configure(config):
    config.addinivalue_line("markers", "flaky: how often another plugin repeats a test")


def pytest_collection_modifyitems(config, items):
    """Skip what is not about a store; run each connection mode of PostgreSQL once."""
    again = [item for item in items if parameters(item) & {"pipe", "pool"}]
    config.hook.pytest_deselected(items=again)
    items[:] = [item for item in items if item not in again]
    for item in items:
        reason = OWN.get(getattr(item, "originalname", item.name))
        if parameters(item) & {"l2", "inner_product"}:
            reason = "cosine is the only distance"
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))


def parameters(item):
    """The parameters of a test that are words."""
    found = getattr(item, "callspec", None)
    values = () if found is None else found.params.values()
    flat = []
    for value in values:
        flat += value if isinstance(value, tuple) else [value]
    return {each for each in flat if isinstance(each, str)}


def pytest_unconfigure():
    shutil.rmtree(FOLDER, ignore_errors=True)
