"""Connections that transactions borrow are whole, and few are opened."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import chain, repeat
from time import monotonic

import pytest

pytest.importorskip("psycopg")

from helpers.snapshots import until
from psycopg.errors import DivisionByZero
from vecall.store.postgres import connections as connections_module
from vecall.store.postgres.connections import BoundedConnection, Pool
from vecall.store.postgres.url import NoConnectionFreeError


@pytest.fixture
def opened():
    """Every connection that the pool of a test has opened."""
    return []


@pytest.fixture
def pool(schema, opened):
    def connect() -> BoundedConnection:
        opened.append(BoundedConnection.connect(schema.server.url()))
        return opened[-1]

    made = Pool(connect, 3)
    yield made
    made.close()
    assert all(connection.closed for connection in opened)


@pytest.mark.parametrize("statement", ["SELECT 1", "SELECT 1/0"])
def test_a_connection_that_comes_back_in_a_transaction_is_not_lent_again(
    pool, opened, statement
):
    with pool.borrow_connection(5) as first:
        try:
            first.execute(statement)
        except DivisionByZero:  # the transaction has failed, and is still open
            assert "/0" in statement
    with pool.borrow_connection(5) as second:
        second.execute("SELECT 1")
        second.commit()
    with pool.borrow_connection(5) as third:
        assert third is second
    assert opened == [first, second]
    assert first.closed


def test_connections_that_are_lost_together_cost_no_newer_one(pool, opened):
    with pool.borrow_connection(5) as one, pool.borrow_connection(5) as two:
        pool.discard_lost_connection(one)
        with pool.borrow_connection(5) as newer:
            pool.discard_lost_connection(two)
    with pool.borrow_connection(5) as again:
        assert again is newer
    assert opened == [one, two, newer]


def test_a_call_waits_for_a_connection_no_longer_than_its_time(pool):
    with ExitStack() as stack, ThreadPoolExecutor(1) as thread:
        for _ in range(3):
            stack.enter_context(pool.borrow_connection(5))
        waiting = thread.submit(lambda: pool.borrow_connection(0.05).__enter__())
        with pytest.raises(NoConnectionFreeError):
            waiting.result(20)


def test_a_connection_that_the_server_has_ended_is_not_lent_again(schema, pool, opened):
    with pool.borrow_connection(5) as first:
        pass
    schema.server.execute(f"SELECT pg_terminate_backend({first.info.backend_pid})")
    until(lambda: not first.is_usable_connection(first.generation))
    with pool.borrow_connection(5) as second:
        second.execute("SELECT 1")
        second.commit()
    assert opened == [first, second]


def test_a_connection_lives_for_half_an_hour(pool, opened, monkeypatch):
    with pool.borrow_connection(5) as first:
        pass
    with pool.borrow_connection(5) as again:
        assert again is first
    later = monotonic() + 1_801
    monkeypatch.setattr(connections_module, "monotonic", lambda: later)
    with pool.borrow_connection(5) as second:
        assert second is not first
    assert first.closed
    assert opened == [first, second]


def test_the_wait_for_a_free_connection_counts_towards_the_timeout(
    schema, open_service, monkeypatch
):
    service = open_service(f"{schema.url}&timeout=5", embedder=None)
    connections = service._memory.storage._connections
    readings = chain([100.0], repeat(104.0))
    allowed = []

    def allow(_: BoundedConnection, seconds: float, *, each: bool) -> None:
        allowed.append((seconds, each))

    with monkeypatch.context() as patched:
        patched.setattr(connections_module, "monotonic", lambda: next(readings))
        patched.setattr(BoundedConnection, "allow", allow)
        with connections.transaction("vecall_app"):
            pass
    assert allowed == [(1.0, False)]


@pytest.mark.parametrize(
    ("timeout", "limit", "connecting"), [("10", "9s", "4"), ("5.5", "4950ms", "3")]
)
def test_the_server_ends_what_its_client_gives_up(
    schema, open_service, timeout, limit, connecting
):
    """Else it goes on with what nobody waits for, and keeps its locks."""
    service = open_service(f"{schema.url}&timeout={timeout}", embedder=None)
    connections = service._memory.storage._connections
    with connections.transaction("vecall_app") as connection:
        shown = [
            connection.execute(f"SHOW {name}").fetchone()[0]
            for name in (
                "statement_timeout",
                "lock_timeout",
                "idle_in_transaction_session_timeout",
            )
        ]
        given = connection.info.get_parameters()
    assert shown == [limit, limit, "1min"]
    assert given["connect_timeout"] == connecting


@pytest.mark.parametrize(
    ("durability", "own"), [("process", ("off", "client")), ("full", None)]
)
def test_only_durability_process_leaves_the_wait_for_the_disk_out(
    schema, open_service, durability, own
):
    """The tests' server has it off in its own configuration."""
    service = open_service(schema.url, embedder=None, durability=durability)
    connections = service._memory.storage._connections
    with connections.transaction("vecall_app") as connection:
        shown = connection.execute(
            "SELECT setting, source FROM pg_settings WHERE name = 'synchronous_commit'"
        ).fetchone()
    assert shown == own or (own is None and shown[1] != "client")
