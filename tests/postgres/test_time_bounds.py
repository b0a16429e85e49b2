"""Every call ends, and is done once, whatever the network to the database does."""

from __future__ import annotations

import asyncio
import io
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Any

import pytest

pytest.importorskip("psycopg")

from helpers.campaigns import SCALE, scaled
from helpers.database_proxy import DatabaseProxy
from vecall import BusyError, ClosedError, ConfigError, MemoryService, StorageError
from vecall.store import open_storage
from vecall.store.postgres.claims import VersionStatement
from vecall.store.postgres.url import NoAnswerError

ME = {"app_name": "hotel", "user_id": "alice"}
LATEST_S = 30.0  # a call that has not ended by then waits for ever
UNREACHED = (BusyError, StorageError)


@pytest.fixture
def proxy(schema) -> Iterator[DatabaseProxy]:
    """A proxy before the database of a test."""
    made = DatabaseProxy(schema)
    yield made
    made.close()


@pytest.fixture
def service(proxy, open_service) -> MemoryService:
    """A service that waits for its database for a second; one memory is stored."""
    made: MemoryService = open_service(proxy.url(timeout=1.2), embedder=None)
    made.sync.add_memory(**ME, memories=[{"id": "0", "content": "zebra 0"}])
    assert texts(made) == ["zebra 0"]
    return made


def texts(memory: MemoryService, query: str = "zebra") -> list[str]:
    hits = memory.sync.search_memory(**ME, query=query, top_k=100)
    return sorted(str(hit.content) for hit in hits)


def ended(call: Callable[[], Any]) -> Any:
    """The result of a call, or its error; fails if the call does not end."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result(LATEST_S)


def add(memory: MemoryService, n: int) -> Callable[[], Any]:
    item = {"id": str(n), "content": f"zebra {n}"}
    return lambda: memory.sync.add_memory(**ME, memories=[item])


CALLS: list[Callable[[MemoryService], Any]] = [
    lambda memory: memory.sync.search_memory(**ME, query="zebra"),
    lambda memory: memory.sync.search_memory(
        app_name="hotel", user_id="bob", query="zebra"
    ),
    lambda memory: memory.sync.list_memories(**ME),
    lambda memory: add(memory, 1)(),
    lambda memory: memory.sync.delete_memory(**ME, memory_id="0"),
    lambda memory: memory.sync.admin.stats(),
    lambda memory: memory.sync.admin.export_jsonl(io.StringIO()),
]


def test_calls_end_when_the_database_falls_silent_and_work_after_that(proxy, service):
    """The peer acknowledges every packet, so TCP itself never gives up."""
    proxy.is_silent = True
    with ThreadPoolExecutor(len(CALLS)) as pool:
        for call in [pool.submit(call, service) for call in CALLS]:
            with pytest.raises(UNREACHED):
                call.result(LATEST_S)
    proxy.is_silent = False
    assert texts(service) == ["zebra 0"]
    for call in CALLS:
        call(service)
    assert texts(service) == ["zebra 1"]


@pytest.mark.campaign
@pytest.mark.skipif(SCALE < 1, reason="takes half a minute: VECALL_TEST_SCALE=1")
def test_calls_end_in_thirty_seconds_with_the_default_timeout(proxy, open_service):
    service = open_service(proxy.url(), embedder=None)
    service.sync.add_memory(**ME, memories=[{"id": "0", "content": "zebra 0"}])
    proxy.is_silent = True
    with ThreadPoolExecutor(len(CALLS)) as pool:
        for call in [pool.submit(call, service) for call in CALLS]:
            with pytest.raises(UNREACHED):
                call.result(LATEST_S)
    proxy.is_silent = False
    assert texts(service) == ["zebra 0"]


@pytest.mark.campaign
@pytest.mark.skipif(SCALE < 1, reason="takes seconds: VECALL_TEST_SCALE=1")
def test_an_interrupt_is_not_lost_when_the_database_is_silent(
    proxy, open_service, interrupt_once
):
    """Even if the database does not let the statement be cancelled either."""
    service = open_service(proxy.url(timeout=12), embedder=None)
    service.sync.add_memory(**ME, memories=[{"id": "0", "content": "zebra 0"}])
    assert texts(service) == ["zebra 0"]
    checker = service._memory.storage._checker
    before = checker.statements
    proxy.is_silent = True

    interrupt_once(lambda: checker.statements != before)
    with pytest.raises(KeyboardInterrupt):
        texts(service)
    proxy.is_silent = False
    assert texts(service) == ["zebra 0"]


def test_calls_behind_one_that_got_no_answer_do_not_wait_as_long_again(proxy, service):
    """Ten writes of one user are one queue: the last must not wait ten times."""
    proxy.is_silent = True
    with ThreadPoolExecutor(10) as pool:
        calls = [pool.submit(add(service, n)) for n in range(1, 11)]
        for call in calls:
            with pytest.raises(UNREACHED):
                call.result(LATEST_S)
    assert service.sync.admin  # nothing hangs
    proxy.is_silent = False
    assert texts(service) == ["zebra 0"]


def test_a_database_that_does_not_answer_is_asked_for_a_version_once(proxy, service):
    """A second question would wait as long again."""
    with closing(VersionStatement(service._memory.storage._connections)) as statement:
        (known,) = statement.read_versions([tuple(ME.values())]).values()
        assert known is not None
        proxy.is_silent = True
        with pytest.raises(NoAnswerError):
            statement.read_versions([tuple(ME.values())])
        assert statement.sent == 2
        proxy.is_silent = False
        assert list(statement.read_versions([tuple(ME.values())]).values()) == [known]


def test_a_cancelled_call_returns_at_once_and_the_loop_goes_on(proxy, service):
    async def program() -> int:
        search = asyncio.create_task(service.search_memory(**ME, query="zebra"))
        turns = 0
        for turns in range(20):  # noqa: B007 -- the loop is not blocked
            await asyncio.sleep(0)
        search.cancel()
        with pytest.raises(asyncio.CancelledError):
            await search
        return turns

    proxy.is_silent = True
    assert ended(lambda: asyncio.run(program())) == 19
    proxy.is_silent = False
    assert ended(lambda: texts(service)) == ["zebra 0"]


def test_closing_ends_although_the_database_is_silent(proxy, service):
    proxy.is_silent = True
    ended(service.close)
    with pytest.raises(ClosedError):
        texts(service)


def test_opening_ends_although_the_database_is_silent(proxy):
    proxy.is_silent = True
    with pytest.raises(UNREACHED):
        ended(lambda: MemoryService(proxy.url(timeout=1), embedder=None))


def test_a_slow_network_only_delays(proxy, service):
    proxy.delay = 0.02
    add(service, 1)()
    assert texts(service) == ["zebra 0", "zebra 1"]


def test_the_answers_of_a_call_are_waited_for_in_total_no_longer_than_the_timeout(
    proxy, service
):
    """Each of them comes in time."""
    proxy.delay = 0.35  # of requests and of answers; the timeout is 1.2 s
    with pytest.raises(UNREACHED):
        ended(add(service, 1))
    proxy.delay = 0.0
    add(service, 2)()
    assert "zebra 2" in texts(service)


def test_after_a_lost_connection_none_of_its_time_is_used(proxy):
    """They all led to the same server; the next calls need not wait for each."""

    def totals() -> Any:
        with storage.read() as reads:
            return reads.totals()

    with closing(open_storage(proxy.url(timeout=0.6, readers=3), "full")) as storage:
        with ExitStack() as stack:
            for _ in range(3):
                stack.enter_context(storage.read()).totals()
        proxy.silence()
        with pytest.raises(UNREACHED):
            ended(totals)
        for _ in range(3):
            assert ended(totals)["memories"] == 0


@pytest.mark.parametrize("how", ["cut", "silent"])
def test_a_write_whose_acknowledgement_is_lost_is_done_once(proxy, service, how):
    """The service asks the database for the outcome; memories have no ids here."""
    proxy.once(how)
    found = ended(lambda: service.sync.add_memory(**ME, memories=["zebra new"]))
    assert len(found.stored) == 1
    assert texts(service) == ["zebra 0", "zebra new"]


@pytest.mark.parametrize("how", ["cut", "silent"])
def test_a_write_that_is_lost_before_its_commit_is_done_once(proxy, service, how):
    proxy.once(how, answer=b"BEGIN\0")
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(service.sync.add_memory, **ME, memories=["zebra new"])
        if how == "cut":
            call.result(LATEST_S)
        else:
            with pytest.raises(UNREACHED):
                call.result(LATEST_S)
    service.sync.add_memory(**ME, memories=["zebra last"])
    new = ["zebra new"] if how == "cut" else []
    assert texts(service) == ["zebra 0", "zebra last", *new]


@pytest.mark.campaign
def test_over_a_network_that_cuts_at_random_nothing_is_lost_or_doubled(proxy, service):
    """Half of the acknowledgements are lost. A failed call is repeated by its id."""
    proxy.sometimes(random.Random(4711), 0.5)
    acknowledged = {"zebra 0"}
    calls = scaled(24, least=6)
    for n in range(1, calls + 1):
        for _ in range(10):
            try:
                ended(add(service, n))
            except UNREACHED:
                continue
            acknowledged.add(f"zebra {n}")
            break
    proxy.rule = lambda _: "pass"
    proxy.cut()
    assert texts(service) == sorted(acknowledged)
    assert len(acknowledged) == calls + 1


def test_a_connection_that_the_server_ended_is_not_lent_again(schema, open_service):
    service = open_service(schema.url, embedder=None)
    for n in range(3):
        add(service, n)()
        schema.server.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE usename = 'server'"
        )
        schema.server.wait_until(
            "SELECT count(*) = 0 FROM pg_stat_activity WHERE usename = 'server'"
        )
        assert len(service.sync.list_memories(**ME)) == n + 1


def test_calls_wait_for_a_free_connection_and_then_fail(schema, open_service):
    def totals() -> Any:
        with storage.read() as reads:
            return reads.totals()

    url = f"{schema.url}&timeout=0.3&readers=1&writers=1"
    with closing(open_storage(url, "full")) as storage:
        with (
            storage.read(),
            storage.read(),
            pytest.raises(BusyError, match="did not answer in time"),
        ):
            ended(totals)
        assert totals()["memories"] == 0


@pytest.fixture
def without_standby(schema) -> Iterator[Any]:
    """A server that waits for a synchronous standby, which it does not have."""
    yield schema.server.set_synchronous
    schema.server.set_synchronous("")


@pytest.mark.parametrize("how", ["terminate", "cancel"])
def test_a_commit_that_lacks_its_standby_is_not_acknowledged(
    schema, open_service, without_standby, how
):
    """A server that is told to stop waiting has committed it on its own disk only."""
    options = "&timeout=0.6&options=-c%20synchronous_commit%3Don"
    service = open_service(schema.url + options, embedder=None)
    add(service, 0)()
    without_standby("none")
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(add(service, 1))
        waiting = "FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
        schema.server.wait_until(f"SELECT count(*) > 0 {waiting}")
        schema.server.execute(f"SELECT pg_{how}_backend(pid) {waiting}")
        with pytest.raises(StorageError, match="whether it was is unknown"):
            call.result(LATEST_S)
    without_standby("")
    ended(add(service, 1))
    assert texts(service) == ["zebra 0", "zebra 1"]


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "soon", "4000"])
def test_a_time_that_is_none_is_refused(schema, seconds):
    with pytest.raises(ConfigError, match=r"timeout: expected seconds from 0\.1"):
        MemoryService(f"{schema.url}&timeout={seconds}", embedder=None)


def test_a_server_whose_database_falls_silent_is_alive_and_not_ready(proxy, service):
    pytest.importorskip("starlette")
    from helpers.http import Door
    from vecall.server import Tokens, create_app

    door = Door(create_app(service, tokens=Tokens()), None)

    async def statuses() -> list[int]:
        asked = [("GET", path, {}) for path in ("/livez", "/readyz")]
        return [answer.status_code for answer in await door.ask_all(asked)]

    assert asyncio.run(statuses()) == [200, 200]
    proxy.is_silent = True
    door = Door(create_app(service, tokens=Tokens()), None)
    assert asyncio.run(statuses()) == [200, 503]
