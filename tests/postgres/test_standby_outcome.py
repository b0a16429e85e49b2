"""The outcome of a write is not learned from a standby that lags behind."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from helpers.campaigns import FULL_SIZE_ONLY
from helpers.postgres_server import MISSING, Schema, is_available, new_server
from vecall import StorageError
from vecall.clock import Clock, ExpiryClock
from vecall.store import AddMemories, Draft

pytest.importorskip("psycopg")
from vecall.store.postgres.connections import Connections
from vecall.store.postgres.url import parse_database_url
from vecall.store.postgres.writers import Attempt

pytestmark = [
    pytest.mark.campaign,
    FULL_SIZE_ONLY,
    pytest.mark.skipif(not is_available(), reason=MISSING),
]


def connected(schema, server, timeout):
    url = server.url("server", schema=schema.name)
    return closing(
        Connections(parse_database_url(f"{url}&timeout={timeout}"), durable=True)
    )


def test_a_standby_that_lacks_a_write_does_not_say_that_it_was_rolled_back():
    """Told so, the writer would do it again, and it would be there twice."""
    primary = new_server()
    try:
        schema = Schema(primary)
        standby = primary.replica(synchronous=False)
        try:
            standby.wait_for(primary)
            standby.execute("SELECT pg_wal_replay_pause()")
            with (
                connected(schema, primary, 20) as first,
                connected(schema, standby, 1) as hasty,
                connected(schema, standby, 40) as patient,
            ):
                attempt = Attempt(first, ExpiryClock(Clock()), b"secret")
                job = AddMemories("hotel", "alice", [Draft("zebra", "zebra")])
                change = attempt.run_attempt(job, 20.0, 1.0)
                attempt._connections = hasty
                with pytest.raises(StorageError, match="whether it was is unknown"):
                    attempt.outcome_of_attempt()
                with ThreadPoolExecutor(1) as pool:
                    primary.kill()
                    attempt._connections = patient
                    told = pool.submit(attempt.outcome_of_attempt)
                    standby.promote()
                    assert told.result(30) is change
        finally:
            standby.remove()
    finally:
        primary.remove()
