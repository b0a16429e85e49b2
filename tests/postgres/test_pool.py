"""Connections that transactions borrow are whole, and few are opened."""

from __future__ import annotations

import pytest

pytest.importorskip("psycopg")

from psycopg.errors import DivisionByZero
from vecall.store.postgres import connections as connections_module
from vecall.store.postgres.bounded_connection import BoundedConnection
from vecall.store.postgres.pool import Pool


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
    with pool.borrowed(5) as first:
        try:
            first.execute(statement)
        except DivisionByZero:  # the transaction has failed, and is still open
            assert "/0" in statement
    with pool.borrowed(5) as second:
        second.execute("SELECT 1")
        second.commit()
    with pool.borrowed(5) as third:
        assert third is second
    assert opened == [first, second]
    assert first.closed


def test_connections_that_are_lost_together_cost_no_newer_one(pool, opened):
    with pool.borrowed(5) as one, pool.borrowed(5) as two:
        pool.lose(one)
        with pool.borrowed(5) as newer:
            pool.lose(two)
    with pool.borrowed(5) as again:
        assert again is newer
    assert opened == [one, two, newer]


def test_the_wait_for_a_free_connection_counts_towards_the_timeout(
    schema, open_service, monkeypatch
):
    service = open_service(f"{schema.url}&timeout=5", embedder=None)
    connections = service._memory.storage._connections
    readings = iter([100.0, 104.0])
    allowed = []

    def allow(_: BoundedConnection, seconds: float, *, each: bool) -> None:
        allowed.append((seconds, each))

    with monkeypatch.context() as patched:
        patched.setattr(connections_module, "monotonic", lambda: next(readings))
        patched.setattr(BoundedConnection, "allow", allow)
        with connections.transaction(keeper=False, role="vecall_app"):
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
    with connections.transaction(keeper=False, role="vecall_app") as connection:
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
