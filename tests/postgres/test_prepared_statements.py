"""A prepared statement that the server lost is no failure, and never another's."""

from __future__ import annotations

from contextlib import suppress

import psycopg
import pytest
from helpers.memories import ALICE
from vecall import BusyError, MemoryService
from vecall.store.postgres.transaction import prepare_connection


def texts(service):
    found = service.sync.search_memory(**ALICE, query="zebra", top_k=100)
    return sorted(hit.content for hit in found)


def lose_statements(service):
    """Let the server forget every prepared statement of a service.

    It is done past psycopg, so that the client does not notice, as behind a pooler.
    """
    connections = service._memory.storage._connections
    count = 0
    for each in list(connections._single):
        if not each.closed:
            rows = each.pgconn.exec_(b"SELECT count(*) FROM pg_prepared_statements")
            count += int(rows.get_value(0, 0))
            each.pgconn.exec_(b"DEALLOCATE ALL")
    return count


@pytest.fixture
def service(schema, open_service):
    """A service that has prepared what searches and writes execute."""
    made = open_service(schema.url + "&readers=1&writers=1", embedder=None)
    for n in range(8):
        made.sync.add_memory(**ALICE, memories=[f"zebra {n}"])
        assert len(texts(made)) == n + 1
    return made


def prepared(service):
    """How many statements are prepared after some use."""
    for _ in range(8):
        service.sync.list_memories(**ALICE)
        texts(service)
    return lose_statements(service)


def test_searches_and_writes_go_on_unprepared_after_the_first_error(service):
    assert lose_statements(service) > 0
    before = texts(service)  # the check of the version was prepared
    service.sync.add_memory(**ALICE, memories=["zebra new"])
    assert texts(service) == [*before, "zebra new"]
    assert prepared(service) == 0


def test_a_read_that_loses_a_statement_can_be_repeated(service):
    """A read of rows is not repeated by itself: it may have answered in part."""

    def read():
        for _ in range(3):
            with suppress(BusyError):
                return list(service.sync.list_memories(**ALICE))
        pytest.fail("no read succeeded")

    for _ in range(10):
        read()
    lose_statements(service)
    assert len(read()) == 8
    assert prepared(service) == 0


def test_a_statement_may_be_prepared_under_a_name_that_is_taken(service):
    """Every name that the connections will use next is taken on the server."""
    for each in list(service._memory.storage._connections._single):
        if not each.closed:
            first = each._prepared._prepared_idx
            for n in range(first, first + 40):
                each.pgconn.exec_(f"PREPARE _pg3_{n} AS SELECT 1".encode())
    for n in range(8, 16):
        service.sync.add_memory(**ALICE, memories=[{"id": f"{n}", "content": "zebra"}])
        service.sync.mark_used(**ALICE, memory_ids=[f"{n}"])
    assert len(texts(service)) == 16


def test_two_connections_never_give_statements_the_same_names(schema):
    """With equal names, a lost statement would be another one, with other values."""
    names = []
    for _ in range(3):
        with psycopg.connect(schema.server.url(), autocommit=True) as connection:
            prepare_connection(connection)
            for n in range(5):
                connection.execute(f"SELECT {n}", prepare=True)
            found = connection.execute(
                "SELECT name FROM pg_prepared_statements", prepare=False
            ).fetchall()
            assert len(found) == 5
            names += found
    assert len(set(names)) == 15


def test_never_means_never(schema):
    with MemoryService(f"{schema.url}&prepare=never", embedder=None) as service:
        service.sync.add_memory(**ALICE, memories=["zebra"])
        assert prepared(service) == 0
