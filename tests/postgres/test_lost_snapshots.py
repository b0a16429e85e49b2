"""A snapshot of a history that the database has lost is neither recorded nor read."""

from __future__ import annotations

import struct
import threading
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from helpers.campaigns import FULL_SIZE_ONLY
from helpers.postgres_server import MISSING, Schema, Server, is_available, new_server
from vecall import MemoryService
from vecall.lexical import ANALYSIS_VERSION
from vecall.store import ChangedRows
from vecall.store.postgres.storage import PostgresSnapshots
from vecall.store.rows import SnapshotTag

pytestmark = [
    pytest.mark.campaign,
    FULL_SIZE_ONLY,
    pytest.mark.skipif(not is_available(), reason=MISSING),
]

ME = {"app_name": "hotel", "user_id": "alice"}
ROWS = 600  # more than a snapshot needs


@pytest.fixture
def primary() -> Iterator[Server]:
    """A server of its own."""
    server = new_server()
    yield server
    server.remove()


class Held:
    """Holds the snapshots of a process back between their taking and their storing."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.taken, self.go_on, self.done = (threading.Event() for _ in range(3))
        self.recorded: list[bool] = []
        write = PostgresSnapshots.write_snapshot

        def held(own: PostgresSnapshots, *args: Any) -> bool:
            self.taken.set()
            assert self.go_on.wait(60)
            try:
                self.recorded.append(write(own, *args))
            finally:
                self.done.set()
            return self.recorded[-1]

        monkeypatch.setattr(PostgresSnapshots, "write_snapshot", held)


def count(memory: MemoryService, word: str) -> int:
    """How many memories a search by a word finds: a ghost has the text of another."""
    return len(memory.sync.search_memory(**ME, query=word, top_k=50).memories)


def write_three(memory: MemoryService, word: str) -> None:
    """Three memories, in a transaction each."""
    for n in range(3):
        memory.sync.add_memory(**ME, memories=[f"{word} {n}"])


def queued_across_a_failover(
    primary: Server, open_service: Callable[..., MemoryService], held: Held
) -> tuple[int, int]:
    """A snapshot with three lost writes waits to be stored, until the replica has won.

    Returns:
        What a new server finds of the lost writes, and of those that took their place.
    """
    schema = Schema(primary)
    replica = primary.replica(synchronous=False)
    try:
        url = schema.url_of_either(primary, replica)
        service = open_service(url)
        service.sync.add_memory(**ME, memories=[f"okapi {n}" for n in range(ROWS)])
        replica.wait_for(primary)
        replica.execute("ALTER SYSTEM SET primary_conninfo = ''")
        replica.execute("SELECT pg_reload_conf()")
        replica.wait_until_alone()
        write_three(service, "zebra")
        assert count(service, "zebra") == 3  # loaded: its snapshot is due
        assert held.taken.wait(30)
        primary.kill()
        replica.promote()
        other = open_service(url)
        write_three(other, "gnu")
        held.go_on.set()
        assert held.done.wait(60)
        third = open_service(url)
        found = count(third, "zebra"), count(third, "gnu")
        assert count(third, "okapi") == 50
        for each in (service, other, third):
            each.close()
        return found
    finally:
        held.go_on.set()
        replica.remove()


def test_a_snapshot_that_was_queued_across_a_failover_is_not_recorded(
    primary, open_service, monkeypatch
):
    held = Held(monkeypatch)
    assert queued_across_a_failover(primary, open_service, held) == (0, 3)
    assert held.recorded[0] is False


def record_blindly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Record every snapshot, as a server without the check does."""
    monkeypatch.setattr(
        "vecall.store.writes.history.is_snapshot_in_log", lambda *_: True
    )


def test_a_snapshot_of_a_lost_history_is_not_read_although_it_is_on_record(
    primary, open_service, monkeypatch
):
    held = Held(monkeypatch)
    record_blindly(monkeypatch)
    assert queued_across_a_failover(primary, open_service, held) == (0, 3)
    assert held.recorded[0] is True


def test_without_both_checks_a_new_server_would_find_ghosts(
    primary, open_service, monkeypatch
):
    """The number of rows and the digest are right: this is what the checks are for."""
    held = Held(monkeypatch)
    record_blindly(monkeypatch)
    monkeypatch.setattr(
        "vecall.index.partition_cache.PartitionLoader._changes_since_snapshot",
        lambda *_: ChangedRows([], []),
    )
    assert queued_across_a_failover(primary, open_service, held) == (3, 0)


def test_the_tag_of_an_older_format_is_not_believed():
    """It has no random bits: its bytes say another partition or another analysis."""
    nonce, analysis = b"12345678", zlib.crc32(ANALYSIS_VERSION.encode())
    old = struct.pack("<16sQQ8sII", b"u" * 16, 7, 9, nonce, 0, analysis)
    assert not SnapshotTag.unpack_tag(old).is_of(b"u" * 16, 7, nonce, 0)
