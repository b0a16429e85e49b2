"""A user whose row another transaction has locked delays that user alone."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from time import monotonic

import pytest
from helpers.clocks import SettableClock
from helpers.embedders import Recorder
from vecall import BusyError, ClosedError, Inactivity, MemoryService
from vecall.store.storage import ClaimedUser

psycopg = pytest.importorskip("psycopg")

TIMEOUT = 2.0
MARGIN_S = 5.0  # of a loaded machine
ENDED_S = 30.0


@contextmanager
def holding(schema, statement):
    """Another program's transaction that executed a statement and does not end."""
    with psycopg.connect(schema.server.url()) as other:
        other.execute(f"SET LOCAL search_path = {schema.name}")
        other.execute(statement)
        yield other
        other.rollback()


def locked(schema, *users):
    """Hold the rows of users."""
    names = ", ".join(f"'{user}'" for user in users)
    return holding(
        schema,
        f"SELECT 1 FROM part WHERE app = 'hotel' AND \"user\" IN ({names}) FOR UPDATE",
    )


@pytest.fixture
def service(schema, open_service) -> MemoryService:
    """A service with two writers; twelve users have a memory."""
    made: MemoryService = open_service(
        f"{schema.url}&timeout={TIMEOUT}&writers=2", embedder=None
    )
    for n in range(12):
        add(made, f"u{n}", "first")
    return made


def add(memory: MemoryService, user: str, text: str) -> list[str]:
    return memory.sync.add_memory(
        app_name="hotel", user_id=user, memories=[text]
    ).stored


def texts(memory: MemoryService, user: str) -> list[str]:
    listed = memory.sync.list_memories(app_name="hotel", user_id=user)
    return [each.text for each in listed]


def is_waiting(schema) -> bool:
    found = schema.server.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE usename = 'server' "
        "AND wait_event_type = 'Lock'"
    )
    return bool(found[0][0])


def until(holds) -> None:
    end = monotonic() + ENDED_S
    while not holds():
        assert monotonic() < end


def test_writes_of_other_users_do_not_wait_for_a_locked_one(schema, service):
    with locked(schema, "u0"), ThreadPoolExecutor(24) as pool:
        blocked = [pool.submit(add, service, "u0", f"of u0 {n}") for n in range(6)]
        until(lambda: is_waiting(schema))
        begin = monotonic()
        others = [
            pool.submit(add, service, f"u{n}", f"second {k}")
            for n in range(1, 12)
            for k in range(2)
        ]
        for other in others:
            assert other.result(ENDED_S)
        took = monotonic() - begin
        assert not any(each.done() for each in blocked) or took > TIMEOUT
        for each in blocked:
            with pytest.raises(BusyError, match="did not answer in time"):
                each.result(ENDED_S)
        assert monotonic() - begin < TIMEOUT + MARGIN_S
    assert texts(service, "u0") == ["first"]
    assert add(service, "u0", "after")
    assert texts(service, "u0") == ["first", "after"]


def test_many_locked_users_end_in_time_and_delay_nobody(schema, service):
    held = [f"u{n}" for n in range(10)]
    with locked(schema, *held), ThreadPoolExecutor(24) as pool:
        begin = monotonic()
        blocked = [pool.submit(add, service, user, "no") for user in held]
        assert add(service, "u10", "second")
        assert add(service, "u11", "second")
        for each in blocked:
            with pytest.raises(BusyError):
                each.result(ENDED_S)
        assert monotonic() - begin < TIMEOUT + MARGIN_S
    for user in held:
        assert add(service, user, "second")


def test_the_jobs_of_a_locked_user_are_written_in_their_order_when_it_is_free(
    schema, open_service
):
    service = open_service(f"{schema.url}&writers=2", embedder=None)
    add(service, "u0", "first")

    async def program() -> None:
        calls = [
            asyncio.create_task(
                service.add_memory(app_name="hotel", user_id="u0", memories=[f"{n}"])
            )
            for n in range(20)
        ]
        await asyncio.to_thread(until, lambda: is_waiting(schema))
        await asyncio.sleep(0.3)  # it is parked meanwhile
        held.rollback()
        await asyncio.gather(*calls)

    with locked(schema, "u0") as held:
        asyncio.run(program())
    assert texts(service, "u0") == ["first", *(f"{n}" for n in range(20))]


def test_closing_ends_although_a_user_is_locked(schema, service):
    with locked(schema, "u0"), ThreadPoolExecutor(4) as pool:
        blocked = [pool.submit(add, service, "u0", "no") for _ in range(3)]
        until(lambda: is_waiting(schema))
        begin = monotonic()
        service.close()
        assert monotonic() - begin < TIMEOUT + MARGIN_S
        for each in blocked:
            with pytest.raises((BusyError, ClosedError)):
                each.result(ENDED_S)
    assert not [t for t in threading.enumerate() if t.name.startswith("vecall-writer")]


def test_a_cancelled_call_of_a_locked_user_returns_at_once(schema, service):
    async def program() -> float:
        call = asyncio.create_task(
            service.add_memory(app_name="hotel", user_id="u0", memories=["no"])
        )
        await asyncio.to_thread(until, lambda: is_waiting(schema))
        begin = monotonic()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        return monotonic() - begin

    with locked(schema, "u0"):
        assert asyncio.run(program()) < TIMEOUT / 2
        assert add(service, "u1", "second")


def test_work_across_users_holds_writes_up_for_a_moment_only(schema, open_service):
    """A stuck transaction has read what such work locks alone."""
    service = open_service(schema.url, embedder=None)
    with (
        holding(schema, "SELECT 1 FROM model") as stuck,
        ThreadPoolExecutor(4) as pool,
    ):
        purge: Future[int] = pool.submit(service.sync.admin.purge)
        until(lambda: is_waiting(schema))
        begin = monotonic()
        assert add(service, "u0", "first")
        assert monotonic() - begin < MARGIN_S
        stuck.rollback()
        purge.result(ENDED_S)
    assert texts(service, "u0") == ["first"]


def test_work_across_users_gives_up_after_the_timeout(schema, service):
    with (
        holding(schema, "SELECT 1 FROM model") as stuck,
        ThreadPoolExecutor(1) as pool,
    ):
        purge = pool.submit(service.sync.admin.purge)
        try:
            with pytest.raises(BusyError):
                purge.result(ENDED_S)
        finally:
            stuck.rollback()
    assert service.sync.admin.purge() >= 0


def test_a_statement_that_an_administrator_cancels_is_busy_and_not_repeated(
    schema, open_service
):
    """SQLSTATE 57014: nothing was written, and the connection lives."""
    service = open_service(f"{schema.url}&writers=1&readers=1", embedder=None)
    add(service, "u0", "first")
    cancel = (
        "SELECT pg_cancel_backend(pid) FROM pg_stat_activity "
        "WHERE usename = 'server' AND wait_event_type = 'Lock'"
    )

    def is_cancelled() -> bool:
        schema.server.execute(cancel)
        return call.done()

    with (
        holding(schema, "LOCK TABLE mem IN EXCLUSIVE MODE"),
        ThreadPoolExecutor(1) as pool,
    ):
        call = pool.submit(add, service, "u0", "no")
        until(is_cancelled)
        with pytest.raises(BusyError, match="57014"):
            call.result(ENDED_S)
    assert add(service, "u0", "second")
    assert texts(service, "u0") == ["first", "second"]


def test_memories_of_other_users_get_vectors_beside_a_locked_user(schema, open_service):
    with open_service(schema.url, embedder=None) as words:
        for user in ("u0", "u1"):
            add(words, user, "first")
    with locked(schema, "u0"):
        open_service(f"{schema.url}&timeout=0.3", embedder=Recorder())
        until(
            lambda: schema.server.execute(
                f"SELECT count(*) FROM {schema.name}.mem WHERE vec IS NOT NULL"
            )
            == [(1,)]
        )


def test_the_end_of_a_claim_locks_no_user_while_it_waits_for_another(schema, service):
    claims = service._memory.storage.claims
    parts = dict(schema.server.execute(f'SELECT "user", id FROM {schema.name}.part'))
    users = [ClaimedUser(parts[user], "hotel", user) for user in ("u1", "u0", "u2")]
    leases = f"UPDATE {schema.name}.part SET sweep_until = %s"
    left = f'SELECT "user" FROM {schema.name}.part WHERE sweep_until IS NOT NULL'
    schema.server.execute(leases % "9e9")
    with locked(schema, "u0"), ThreadPoolExecutor(1) as pool:
        released = pool.submit(claims.release_users, users)
        until(lambda: is_waiting(schema) or released.done())
        assert add(service, "u1", "second")
        assert add(service, "u2", "second")
        released.result(ENDED_S)
        held = {user for (user,) in schema.server.execute(left)}
        assert held & {"u0", "u1", "u2"} == {"u0"}
    claims.release_users(users)
    held = {user for (user,) in schema.server.execute(left)}
    assert not held & {"u0", "u1", "u2"}


def test_the_end_of_a_claim_waits_shortly_for_a_locked_user(schema, open_service):
    """Its claim ends with its lease anyway."""
    service = open_service(f"{schema.url}&timeout=60", embedder=None)
    add(service, "u0", "first")
    claims = service._memory.storage.claims
    ((part,),) = schema.server.execute(f"SELECT id FROM {schema.name}.part")
    with locked(schema, "u0"), ThreadPoolExecutor(1) as pool:
        users = [ClaimedUser(part, "hotel", "u0")]
        pool.submit(claims.release_users, users).result(ENDED_S)


def test_a_session_that_another_server_is_claiming_is_passed_over(schema, open_service):
    clock = SettableClock()
    service = open_service(
        f"{schema.url}&timeout=1",
        embedder=None,
        clock=clock,
        maintenance_interval=None,
        trigger=Inactivity(1_000),
    )
    for user in ("u0", "u1"):
        turns = [{"id": "e", "content": "zebra"}]
        session = {"app_name": "hotel", "user_id": user, "id": "s", "events": turns}
        service.sync.observe_session(session)
        clock.let_pass(1.0)
    clock.let_pass(10.0)
    claims = service._memory.storage.claims
    first = "SELECT 1 FROM trig ORDER BY due_at LIMIT 1 FOR UPDATE"
    with holding(schema, first):
        assert claims.claim_session(600.0).user == "u1"
        assert claims.claim_session(600.0) is None
    assert claims.claim_session(600.0).user == "u0"


def test_periodic_work_for_other_users_is_done_beside_a_locked_one(
    schema, open_service
):
    clock = SettableClock()
    service = open_service(
        f"{schema.url}&timeout=0.4",
        embedder=None,
        clock=clock,
        maintenance_interval=None,
        trigger=Inactivity(1_000),
    )
    users = ("u0", "u1", "u2")
    for user in users:
        one = {"content": "old", "custom_metadata": {"ttl": 1.0}}
        service.sync.user("hotel", user).add([one])
        turns = [{"id": "e", "content": "zebra"}]
        session = {"app_name": "hotel", "user_id": user, "id": "s", "events": turns}
        service.sync.observe_session(session)
    clock.let_pass(10.0)
    counted = (
        f'SELECT "user", count(text) FROM {schema.name}.part LEFT JOIN '
        f"{schema.name}.mem ON part = part.id GROUP BY 1 ORDER BY 1"
    )
    with locked(schema, "u0"):
        service.sync.admin.run_due()
        texts_of = [texts(service, user) for user in users]
        assert texts_of == [[], ["zebra"], ["zebra"]]
        # Of the locked user, the expired memory is still there.
        assert schema.server.execute(counted) == [("u0", 1), ("u1", 1), ("u2", 1)]
    clock.let_pass(1_000.0)  # the claims have ended
    service.sync.admin.run_due()
    assert [texts(service, user) for user in users] == [["zebra"]] * 3
