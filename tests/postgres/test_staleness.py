"""`max_staleness`: what a search may miss, and for how long."""

from __future__ import annotations

import itertools

import pytest
from vecall import MemoryService

pytest.importorskip("psycopg")

ME = {"app_name": "hotel", "user_id": "alice"}
LIMIT = 50.0


@pytest.fixture
def time(monkeypatch):
    """A clock of the checks that the test moves on."""
    from vecall.store.postgres import claims

    now = [1000.0]
    monkeypatch.setattr(claims, "monotonic", lambda: now[0])

    def go_on(seconds: float) -> None:
        now[0] += seconds

    return go_on


def found(memory: MemoryService, query: str = "okapi") -> set[str]:
    """The texts that a search finds."""
    hits = memory.sync.search_memory(**ME, query=query, top_k=50).memories
    return {hit.text for hit in hits}


def statements(memory: MemoryService) -> int:
    """How many checks were sent."""
    return memory._memory.storage._checker.statements


def test_a_search_is_stale_within_the_limit_and_fresh_after_it(
    schema, open_service, time
):
    other, service = (
        open_service(schema.url),
        open_service(schema.url, max_staleness=LIMIT),
    )
    other.sync.add_memory(**ME, memories=["okapi 1"])
    assert found(service) == {"okapi 1"}
    other.sync.add_memory(**ME, memories=["okapi 2"])
    before = statements(service)
    time(LIMIT)
    assert found(service) == {"okapi 1"}
    assert statements(service) == before
    time(0.001)
    assert found(service) == {"okapi 1", "okapi 2"}
    assert statements(service) == before + 1


def test_the_own_writes_of_a_server_are_always_seen(schema, open_service, time):
    service = open_service(schema.url, max_staleness=LIMIT)
    other = open_service(schema.url)
    assert found(service) == set()  # there is no such user, and that is known
    known: set[str] = set()
    for n in range(5):
        text = f"okapi {n}"
        (written,) = service.sync.add_memory(**ME, memories=[text])
        known.add(text)
        assert text in found(service)
        other.sync.add_memory(**ME, memories=[f"okapi of another {n}"])
        assert text in found(service)
    service.sync.delete_memory(**ME, memory_id=written)
    assert "okapi 4" not in found(service)
    time(LIMIT + 1)
    assert found(service) == (known - {"okapi 4"}) | {
        f"okapi of another {n}" for n in range(5)
    }


def test_a_user_that_is_loaded_again_within_the_limit_is_found(
    schema, open_service, time
):
    """What is loaded is newer than the check that is remembered."""
    service = open_service(schema.url, max_staleness=LIMIT)
    other = open_service(schema.url)
    other.sync.add_memory(**ME, memories=["okapi 1"])
    assert found(service) == {"okapi 1"}
    other.sync.add_memory(**ME, memories=["okapi 2"])
    partitions = service._memory.search_index.partitions
    partitions._drop_partition(tuple(ME.values()))  # evicted
    assert found(service) == {"okapi 1", "okapi 2"}


def test_an_answer_that_was_asked_for_before_a_write_does_not_hide_it(
    schema, open_service, time, monkeypatch
):
    from vecall.store.postgres.claims import VersionStatement

    service = open_service(schema.url, max_staleness=LIMIT)
    service.sync.add_memory(**ME, memories=["okapi 1"])
    time(LIMIT + 1)
    ask = VersionStatement.read_versions

    def overtaken(own, *names):
        rows = ask(own, *names)
        monkeypatch.setattr(VersionStatement, "read_versions", ask)
        time(0.01)
        service.sync.add_memory(**ME, memories=["okapi 2"])
        return rows

    monkeypatch.setattr(VersionStatement, "read_versions", overtaken)
    found(service)
    assert found(service) == {"okapi 1", "okapi 2"}
    version = service._memory.storage._checker.ask(*ME.values()).result()
    assert version == open_service(schema.url)._memory.storage.version(*ME.values())


PAIRS = list(itertools.product((None, LIMIT), (False, True), ("full", "process")))


@pytest.mark.parametrize(("staleness", "read_only", "durability"), PAIRS)
def test_it_goes_with_every_other_option_of_the_storage(
    schema, open_service, time, staleness, read_only, durability
):
    writer = open_service(schema.url, durability=durability)
    writer.sync.add_memory(**ME, memories=["okapi 1"])
    service = open_service(
        schema.url, max_staleness=staleness, read_only=read_only, durability=durability
    )
    assert found(service) == {"okapi 1"}
    writer.sync.add_memory(**ME, memories=["okapi 2"])
    assert found(service) == ({"okapi 1"} if staleness else {"okapi 1", "okapi 2"})
    if not read_only:
        service.sync.add_memory(**ME, memories=["okapi 3"])
        assert "okapi 3" in found(service)
    time(LIMIT + 1)
    assert {"okapi 1", "okapi 2"} <= found(service)


def test_versions_are_forgotten_once_they_are_too_old_and_no_sooner(
    schema, open_service, time
):
    """Whether they are of writes or of checks, and however many there are."""
    service = open_service(schema.url, max_staleness=LIMIT)
    checker = service._memory.storage._checker
    for n in range(3000):
        checker.note_version("hotel", f"early {n}", None)
    time(LIMIT / 2)
    for n in range(110_000):
        checker.note_version("hotel", f"late {n}", None)
    service.sync.add_memory(**ME, memories=["okapi"])
    assert found(service) == {"okapi"}
    assert len(checker._recent) == 3000 + 110_000 + 1
    time(LIMIT / 2 + 0.001)
    before = statements(service)
    for n in range(2):
        checker.note_version("hotel", f"late {n}", None)
    assert found(service) == {"okapi"}
    assert statements(service) == before
    assert len(checker._recent) == 110_000 + 1
    time(LIMIT + 0.001)
    for n in range(100):
        assert checker.ask_version_here("hotel", f"unknown {n}") is None
    assert len(checker._recent) == 100
