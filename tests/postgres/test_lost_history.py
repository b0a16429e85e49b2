"""Servers notice that the history of the database went back, and lose nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from helpers.campaigns import FULL_SIZE_ONLY
from helpers.postgres_server import MISSING, Schema, Server, is_available, new_server
from vecall import MemoryService, Put
from vecall.index.partition_cache import PartitionCache

pytestmark = [
    pytest.mark.campaign,
    FULL_SIZE_ONLY,
    pytest.mark.skipif(not is_available(), reason=MISSING),
]

ME = {"app_name": "hotel", "user_id": "alice"}


@pytest.fixture
def primary() -> Iterator[Server]:
    """A server of its own."""
    server = new_server()
    yield server
    server.remove()


def found(memory: MemoryService, query: str) -> set[str]:
    """The texts that a search finds."""
    hits = memory.sync.search_memory(**ME, query=query, top_k=50)
    return {str(hit.content) for hit in hits}


def put(memory: MemoryService, label: str, word: str) -> None:
    """Write an item with a vector."""
    memory.items.sync.write([Put((label,), word, 1, [1.0, 0.5])], **ME)


def keys(memory: MemoryService, label: str) -> set[str]:
    """The keys of the items of a namespace that a search by vector finds."""
    items = memory.items.sync.find((label,), **ME, vector=[1.0, 0.5])
    return {item.key for item in items}


def lose_three_writes(primary: Server, open_service) -> tuple[set[str], set[str]]:
    """A replica that lacks three writes is promoted, and gets three others.

    Returns:
        What a server that saw the lost writes finds of them, and of the others.
    """
    schema = Schema(primary)
    replica = primary.replica(synchronous=False)
    try:
        service = open_service(schema.url_of_either(primary, replica))
        service.sync.add_memory(**ME, memories=["okapi both"])
        replica.wait_for(primary)
        replica.execute("ALTER SYSTEM SET primary_conninfo = ''")
        replica.execute("SELECT pg_reload_conf()")
        replica.wait_until_alone()
        for n in range(3):
            service.sync.add_memory(**ME, memories=[f"zebra lost {n}"])
        assert len(found(service, "zebra")) == 3
        primary.kill()
        replica.promote()
        other = open_service(schema.url_of_either(primary, replica))
        for n in range(3):
            other.sync.add_memory(**ME, memories=[f"gnu new {n}"])
        answer = found(service, "zebra"), found(service, "gnu")
        assert "okapi both" in found(service, "okapi")
        service.sync.add_memory(**ME, memories=["ibex after"])
        assert found(other, "ibex") == {"ibex after"}
        service.close()
        other.close()
        return answer
    finally:
        replica.remove()


def test_a_server_forgets_what_a_promoted_replica_never_had(primary, open_service):
    ghosts, news = lose_three_writes(primary, open_service)
    assert ghosts == set()
    assert news == {"gnu new 0", "gnu new 1", "gnu new 2"}


def test_without_the_random_bits_it_would_find_ghosts(
    primary, open_service, monkeypatch
):
    """The sequence number alone is equal again: this is what the bits are for."""
    loaded = PartitionCache.loaded

    def by_number_alone(self, key, target):
        entry = self._residents.get(key)
        if entry is not None and target is not None:
            target = (*target[:2], entry.head)
        return loaded(self, key, target)

    monkeypatch.setattr(PartitionCache, "loaded", by_number_alone)
    ghosts, news = lose_three_writes(primary, open_service)
    assert len(ghosts) == 3
    assert news == set()


@pytest.mark.parametrize("point", [None, "here"])
def test_a_server_forgets_what_a_restored_backup_never_had(
    primary, open_service, point
):
    """The servers run on, while the database is restored under them."""
    if point is not None:
        primary.archive()
    schema = Schema(primary)
    service, other = (open_service(schema.url_of_either(primary)) for _ in range(2))
    backup = None if point is None else primary.back_up()
    service.sync.add_memory(**ME, memories=["okapi both"])
    for label in ("a", "b"):
        put(service, label, "okapi both")
    backup = backup or primary.back_up()
    if point is not None:
        primary.execute(f"SELECT pg_create_restore_point('{point}')")
    for n in range(3):
        service.sync.add_memory(**ME, memories=[f"zebra lost {n}"])
        put(service, "a", f"zebra lost {n}")
    for each in (service, other):
        assert len(found(each, "zebra")) == 3
        assert (len(keys(each, "a")), len(keys(each, "b"))) == (4, 1)
    if point is not None:
        primary.begin_new_log()
    primary.restore(backup, point)
    for n in range(3):
        other.sync.add_memory(**ME, memories=[f"gnu new {n}"])
        put(other, "b", f"gnu new {n}")
    news = {"gnu new 0", "gnu new 1", "gnu new 2"}
    for each in (service, other):
        assert keys(each, "a") == {"okapi both"}
        assert keys(each, "b") == {"okapi both", *news}
        assert found(each, "zebra") == set()
        assert found(each, "gnu") == news
        assert found(each, "okapi") == {"okapi both"}


def test_no_acknowledged_write_is_lost_when_a_synchronous_replica_takes_over(
    primary, open_service
):
    schema = Schema(primary)
    replica = primary.replica(synchronous=True)
    try:
        service = open_service(schema.url_of_either(primary, replica))
        for n in range(20):
            service.sync.add_memory(**ME, memories=[f"zebra {n}"])
        primary.kill()
        replica.promote()
        for n in range(20, 25):
            service.sync.add_memory(**ME, memories=[f"zebra {n}"])
        assert found(service, "zebra") == {f"zebra {n}" for n in range(25)}
        service.close()
    finally:
        replica.remove()
