"""After a crash a server gives numbers of transactions twice: no other's counts."""

from __future__ import annotations

import os
import signal
import time
from contextlib import closing

import pytest
from helpers.postgres_server import MISSING, Schema, is_available, new_server
from vecall import MemoryService, Put, StorageError
from vecall.clock import Clock, ExpiryClock
from vecall.store import ItemPut
from vecall.store.values import encode_namespace
from vecall.store.writes.items import WriteItems

pytest.importorskip("psycopg")
import psycopg
from vecall.store.postgres.connections import Connections
from vecall.store.postgres.url import parse_database_url
from vecall.store.postgres.writers import Attempt

pytestmark = pytest.mark.skipif(not is_available(), reason=MISSING)

ME = {"app_name": "hotel", "user_id": "alice"}


def crash(server) -> None:
    """Kill a process of the server, which ends the others and recovers by itself."""
    (victim, *_) = server.backends()
    os.kill(victim, signal.SIGKILL)
    time.sleep(0.1)
    while not server.is_ready():
        time.sleep(0.02)


class CrashingBeforeCommit:
    """A job after which the server crashes; nothing of it is on its disk."""

    def __init__(self, job, server) -> None:
        self.app, self.user = job.app, job.user
        self.estimated_bytes = 0
        self._job, self._server = job, server

    def run(self, transaction):
        change = self._job.run(transaction)
        transaction.execute("SELECT 1").fetchone()  # all of it has been executed
        crash(self._server)
        return change


@pytest.fixture
def server():
    made = new_server()
    yield made
    made.remove()


def test_a_write_that_a_crash_undid_is_not_acknowledged_for_another_ones_number(server):
    schema = Schema(server)
    url = f"{server.url('server', schema=schema.name)}&timeout=20"
    with MemoryService(url, embedder=None) as service:
        service.items.sync.write([Put(("n",), "k", "old")], **ME)
    given_twice = 0
    for number in range(10):
        with closing(Connections(parse_database_url(url), durable=True)) as connections:
            attempt = Attempt(connections, ExpiryClock(Clock()), b"secret")
            put = ItemPut(encode_namespace(("n",)), "k", f'"new {number}"')
            job = CrashingBeforeCommit(WriteItems(*ME.values(), [put]), server)
            with pytest.raises(psycopg.OperationalError):
                attempt.run_attempt(job, 20.0, 1.0)
            lost = attempt._transaction.number
            new = [0]
            while new[-1] < lost:  # others use the numbers
                new += server.execute("SELECT txid_current()")[0]
            given_twice += lost in new
            with pytest.raises(StorageError, match="whether it was is unknown"):
                attempt.outcome_of_attempt()
        if given_twice:
            break
    assert given_twice
    with MemoryService(url, embedder=None) as service:
        (item,) = service.items.sync.find(**ME)
        assert item.value == "old"
