"""A pytest plugin that puts VecallStore in the place of LangGraph's own stores.

What the tests do to the other store's tables by SQL, to make an item expire or to
change an order, is done to the items of vecall by the store itself. Migrations, and
PostgreSQL connections that make and drop databases, do nothing.
"""

# ruff: noqa: D101, D102, D105, D107 -- the other stores document these methods

from __future__ import annotations

import hashlib
import shutil
import sqlite3
import tempfile
import time
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from unittest import mock

import pytest
from vecall.langgraph import VecallStore
from vecall.store.values import encode_namespace

FOLDER = Path(tempfile.mkdtemp())
# Part of a path, name of a test, reason: these are expected to fail.
UNSUPPORTED = (
    (
        "async_store.py",
        "test_no_running_loop",
        "the other store refuses blocking calls on its event loop",
    ),
    (
        "sqlite/test_store.py",
        "test_vector_store_initialization",
        "looks for the other store's tables by SQL",
    ),
    (
        "postgres",
        "test_abatch_uses_single_pool_checkout",
        "counts the connections that are taken from a pool",
    ),
    (
        "postgres",
        "test_omit_expired_disabled_preserves_expired_rows",
        "expects expired items unless omit_expired is set; here they never come back",
    ),
)
EXPIRES_S = 1.0  # longer than the 0.6 s in which a TTL of 6 s is not begun again
DEADLINE_S = 15.0


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
            store.path = path_of(conn)
            yield store

    @contextmanager
    def _cursor(self):
        cursor = Cursor(self)
        yield cursor
        cursor.finish()


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
            store.path = path_of(conn)
            yield store

    async def setup(self):
        pass

    async def sweep_ttl(self):
        return super().sweep_ttl()

    async def start_ttl_sweeper(self, minutes=None):
        return super().start_ttl_sweeper(minutes)

    async def stop_ttl_sweeper(self, timeout=None):  # noqa: ASYNC109
        return super().stop_ttl_sweeper(timeout)

    @asynccontextmanager
    async def _cursor(self):
        cursor = AsyncCursor(self)
        yield cursor
        cursor.finish()


class Sqlite(Blocking):
    """In the place of SqliteStore, which refreshes TTLs only if it is told."""

    def __init__(self, conn, *, ttl=None, **options):
        ttl = ttl and {"refresh_on_read": False, **ttl}
        super().__init__(conn, ttl=ttl, **options)


class Cursor:
    """Does to items what the statements of the tests do to the other store's rows."""

    def __init__(self, store):
        self._store = store
        self._row = None
        self._dated = []

    def execute(self, sql, values=()):
        if "DROP TABLE IF EXISTS store_migrations" in sql:
            return
        if "SET expires_at = NOW()" in sql:
            self._expire(*values)
        elif "SET updated_at = NOW()" in sql:
            self._dated.append(values)
        elif "SELECT COUNT(*)" in sql:
            self._row = {"n": len(self._stored(*values))}
        elif "SELECT expires_at" in sql:
            self._row = {"expires_at": self._expires_at(*values)}
        else:
            raise NotImplementedError(sql)

    def fetchone(self):
        return self._row

    def finish(self):
        """Write items again in the order of the times that they were given."""
        for _, prefix, key in sorted(self._dated, reverse=True):
            namespace = tuple(prefix.split("."))
            item = self._store.get(namespace, key, refresh_ttl=False)
            if item is None:
                self._expire(prefix, key)
            else:
                self._store.put(namespace, key, item.value)

    def _stored(self, prefix, key):
        """Return the expiry of an item in the file, also of one that has expired."""
        with sqlite3.connect(self._store.path) as file:
            return file.execute(
                "SELECT expires_at FROM item WHERE ns = ? AND key = ?",
                (encode_namespace(prefix.split(".")), key),
            ).fetchall()

    def _expire(self, prefix, key):
        """Write an item with a short TTL, and wait until that is over."""
        namespace = tuple(prefix.split("."))
        self._store.put(namespace, key, {}, ttl=EXPIRES_S / 60)
        wait_until(lambda: self._stored(prefix, key)[0][0] < time.time())

    def _expires_at(self, prefix, key):
        """Return the expiry in the file after the refreshes of reads are written."""
        pair = (tuple(prefix.split(".")), key)
        store = self._store

        def written():
            [item] = store._memory.items.sync.get([pair], **store._owner)
            [(stored,)] = self._stored(prefix, key)
            return item is None or stored > time.time() + item.expires_in - 0.1

        wait_until(written)
        return self._stored(prefix, key)[0][0]


class AsyncCursor(Cursor):
    async def execute(self, sql, values=()):
        super().execute(sql, values)

    async def fetchone(self):
        return super().fetchone()


def wait_until(condition):
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.01)


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
    """Run one connection mode of PostgreSQL; mark what only the other stores do."""
    again = [item for item in items if parameters(item) & {"pipe", "pool"}]
    config.hook.pytest_deselected(items=again)
    items[:] = [item for item in items if item not in again]
    for item in items:
        package = "sqlite" if "checkpoint_sqlite" in str(item.path) else "postgres"
        place = f"{package}/{item.path.name}"
        for part, name, reason in UNSUPPORTED:
            if part in place and name == getattr(item, "originalname", item.name):
                item.add_marker(pytest.mark.xfail(reason=reason, strict=True))


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
