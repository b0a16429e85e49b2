"""Vector stores on real servers while other calls write, close, or use up the time."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from helpers.redis_server import RedisServer
from helpers.vector_stores.plain import Plain, X, three
from helpers.vector_stores.servers import (
    needs_postgres,
    needs_redis,
    new_pgvector,
    new_redis,
)
from vecall import Filter
from vecall.errors import BusyError, ClosedError
from vecall.vector_store import RedisVectorStore, base
from vecall.vector_store.base import StoredRow


@needs_redis
@pytest.mark.parametrize(
    "asked",
    [{"session_id": "s"}, {"after": 5.0}, {"where": Filter(session_prefix="s")}],
    ids=lambda asked: next(iter(asked)),
)
def test_no_row_is_missed_by_a_deletion_beside_writers(monkeypatch, asked):
    """Rows arrive before each command of the deletion."""
    store, other = (Plain(new_redis(prefix="beside")) for _ in range(2))
    rows = [f"r{n}" for n in range(9)]
    for each in rows:
        store.put(each, X, session_id="s", timestamp=10.0)
    run, arrived = store.store._send, []

    def run_beside_writers(*command):
        for _ in range(9):
            arrived.append(f"new{len(arrived)}")
            other.put(arrived[-1], X, session_id="s", timestamp=10.0)
        return run(*command)

    monkeypatch.setattr(store.store, "_send", run_beside_writers)
    assert store.delete_many(**asked) >= len(rows)
    assert set(other.ids(X, 100)) <= set(arrived)
    other.delete_many()
    for each in (store, other):
        each.store.close()


@needs_redis
def test_a_call_that_has_begun_ends_well_when_its_store_closes():
    server = RedisServer()
    try:
        other = three(Plain(RedisVectorStore(server.url())))
        client = other.store._client

        def of_store():
            return [one for one in client.client_list() if one["name"] == "closing"]

        url = f"{server.url()}?client_name=closing"
        store = Plain(RedisVectorStore(url))
        client.client_pause(10_000, all=False)
        with ThreadPoolExecutor(1) as threads:
            call = threads.submit(store.put, "d", [0.0, 0.0, 1.0])
            deadline = time.monotonic() + 10
            while [one["cmd"] for one in of_store()] != ["eval"]:
                assert time.monotonic() < deadline
                time.sleep(0.005)
            store.store.close()
            client.client_unpause()
            call.result()
        assert sorted(other.ids(X)) == ["a", "b", "c", "d"]
        while of_store():  # its connection is closed, too
            assert time.monotonic() < deadline
            time.sleep(0.005)
        other.store.close()
    finally:
        server.remove()


@needs_redis
@pytest.mark.parametrize("error", [ValueError, AttributeError, OSError])
def test_an_error_of_the_client_after_the_store_has_closed_is_typed(monkeypatch, error):
    store = Plain(new_redis())

    def closed_meanwhile(*command):
        store.store.close()
        raise error(*command)

    monkeypatch.setattr(store.store._client, "execute_command", closed_meanwhile)
    with pytest.raises(ClosedError) as caught:
        store.put("a", X)
    assert "a" not in caught.value.args
    assert caught.value.__cause__ is None


@needs_postgres
def test_a_second_round_of_a_search_after_its_time_is_right_or_busy(monkeypatch):
    store = Plain(new_pgvector())
    for number in range(12):
        kind = "far" if number == 11 else "near"
        store.put(f"r{number}", [1.0, number / 10], kind=kind)
    passes, late = StoredRow.passes_scope, []

    def passes_late(row, scope):
        late.append(100.0)
        return passes(row, scope)

    monkeypatch.setattr(StoredRow, "passes_scope", passes_late)
    monkeypatch.setattr(base, "monotonic", lambda: time.monotonic() + sum(late))
    with suppress(BusyError):
        assert store.ids([1.0, 0.0], 1, where=Filter(kind="far")) == ["r11"]
    assert len(late) >= 8
    store.store.close()


@needs_postgres
def test_no_connection_is_free_when_the_time_is_over():
    from vecall.store.postgres.connections import Pool
    from vecall.store.postgres.url import NoConnectionFreeError

    pool = Pool(lambda: None, 0)
    with pytest.raises(NoConnectionFreeError), pool.borrow_connection(-0.5):
        pass
