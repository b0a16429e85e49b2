"""Memories that live for some time: gone to the second, then cleared away for good."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from helpers.clocks import SettableClock
from helpers.memories import ALICE, BOB, texts
from helpers.sessions import session, turn, turns
from vecall import (
    ConfigError,
    InvalidArgumentError,
    InvalidTypeError,
    LeftOut,
    MemoryEntry,
    MemoryService,
    NotFoundError,
)
from vecall.clock import ttl_seconds
from vecall.hooks import QUARANTINE
from vecall.store import examine

MINUTE = [60, 60.0, timedelta(minutes=1), "60s", "60"]
WAYS = ["entry", "call", "service", "event"]


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock()


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "m.db"


@pytest.fixture
def service(open_service, path, clock) -> MemoryService:
    return open_service(path, clock=clock, maintenance_interval=None)


def rows(path: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


def count(path: Path, table: str) -> int:
    return int(rows(path, f"SELECT count(*) FROM {table}")[0][0])


def seq(path: Path, user: str = "alice") -> int:
    return int(rows(path, f"SELECT seq FROM part WHERE user = '{user}'")[0][0])


def told(service: MemoryService, text: str, ttl: object = None) -> str:
    meta = None if ttl is None else {"ttl": ttl}
    entry = MemoryEntry(text, id=text)
    ids = service.sync.add_memory(**ALICE, memories=[entry], custom_metadata=meta)
    return ids[0]


def is_well(path: Path) -> None:
    """The file agrees with itself, its checksums and its counts."""
    levels = {finding.about: finding.level for finding in examine(path)}
    assert "error" not in levels.values()
    assert levels["counts"] == "ok"


@pytest.mark.parametrize("ttl", MINUTE)
@pytest.mark.parametrize("way", WAYS)
def test_a_time_to_live_holds_to_the_second(open_service, clock, way, ttl):
    """S4.58, S1.21, S1.47: of an entry, a turn, a call and a service, however said."""
    told_so: dict[str, Any] = {"custom_metadata": {"ttl": ttl}}
    service = open_service(
        clock=clock, maintenance_interval=None, ttl=ttl if way == "service" else None
    )
    if way == "entry":
        entry = MemoryEntry("zebra", custom_metadata={"ttl": ttl})
        service.sync.add_memory(**ALICE, memories=[entry])
    elif way == "event":
        event = {"id": "e1", "author": "user", "text": "zebra", **told_so}
        service.sync.add_session_to_memory(session(event))
    elif way == "call":
        service.sync.add_events_to_memory(**ALICE, events=[turn(1, "zebra")], **told_so)
    else:
        service.sync.add_memory(**ALICE, memories=["zebra"])
    clock.let_pass(59.75)
    (found,) = service.sync.search_memory(**ALICE, query="zebra").memories
    assert "ttl" not in (found.custom_metadata or {})
    clock.let_pass(0.25)
    assert texts(service) == []


def test_the_nearest_word_about_a_time_to_live_counts(open_service, clock):
    """S4.58: an entry's before its call's, a call's before the service's."""
    service = open_service(clock=clock, maintenance_interval=None, ttl=10)
    service.sync.add_memory(
        **ALICE,
        memories=[
            MemoryEntry("zebra entry", custom_metadata={"ttl": 30}),
            "zebra call",
        ],
        custom_metadata={"ttl": 20},
    )
    service.sync.add_memory(**ALICE, memories=["zebra service"])
    left = []
    for _ in range(3):
        clock.let_pass(10.0)
        left.append(texts(service))
    assert left == [["zebra call", "zebra entry"], ["zebra entry"], []]


@pytest.mark.parametrize("ttl", [0, -1, float("nan"), float("inf"), "soon", "1x", ""])
def test_what_is_no_time_to_live_is_refused(open_service, ttl):
    """S4.58: nothing is written, and no service is opened."""
    service = open_service()
    with pytest.raises(InvalidArgumentError, match="ttl"):
        told(service, "zebra", ttl)
    assert texts(service) == []
    with pytest.raises(ConfigError, match="ttl"):
        MemoryService(ttl=ttl, embedder=None)


@pytest.mark.parametrize("ttl", [True, [60], {"s": 60}, b"60s"])
def test_a_time_to_live_of_another_type_is_refused(open_service, ttl):
    """S4.58: nothing is written."""
    service = open_service()
    with pytest.raises(InvalidTypeError, match="ttl"):
        told(service, "zebra", ttl)
    assert texts(service) == []


def every_reading(service: MemoryService, id_: str) -> dict[str, Callable[[], object]]:
    who: dict[str, Any] = {**ALICE, "memory_id": id_}
    return {
        "get": lambda: service.sync.get_memory(**who),
        "expand": lambda: service.sync.expand_session(**who),
        "update": lambda: service.sync.update_memory(**who, content="zebra again"),
    }


@pytest.mark.parametrize("swept", [False, True], ids=["before", "after"])
def test_no_way_of_reading_finds_what_has_expired(service, clock, swept):
    """S4.58: search, get, expand, list, mark_used; before the sweep and after it."""
    events = [
        {**turn(number), "custom_metadata": {"ttl": 60}}
        if number == 2
        else turn(number)
        for number in (1, 2, 3)
    ]
    ids = service.sync.add_session_to_memory(session(*events))
    clock.let_pass(60.0)
    if swept:
        assert service.sync.admin.run_due() == 1
    assert texts(service, "turn word2") == ["turn word1", "turn word3"]
    for reading in every_reading(service, ids[1]).values():
        with pytest.raises(NotFoundError):
            reading()
    around = service.sync.expand_session(**ALICE, memory_id=ids[0])
    assert [memory.text for memory in around] == ["turn word1", "turn word3"]
    listed = service.sync.list_memories(**ALICE)
    assert [memory.id for memory in listed] == [ids[0], ids[2]]
    assert service.sync.mark_used(**ALICE, memory_ids=ids) == 2
    assert service.sync.propose_forget(**ALICE, query="word2").token == ""


def test_the_sweep_takes_rows_from_the_file_and_from_the_engine(service, path, clock):
    """S4.58: after it the file has no more of them than their tombstones."""
    for number in range(5):
        told(service, f"zebra {number}", 60)
    told(service, "zebra stays", 60.25)
    service.sync.add_memory(**BOB, memories=["zebra bob"], custom_metadata={"ttl": 30})
    assert len(texts(service)) == 6
    clock.let_pass(60.0)
    assert service.sync.admin.run_due() == 6
    assert rows(path, "SELECT text FROM mem") == [("zebra stays",)]
    assert rows(path, "SELECT live, bytes FROM part ORDER BY id") == [(1, 11), (0, 0)]
    assert set(rows(path, "SELECT why FROM tomb")) == {("expired",)}
    assert service.sync.admin.stats()["memories"] == 1
    assert texts(service) == ["zebra stays"]
    assert service.sync.admin.run_due() == 0
    is_well(path)


def test_more_than_one_sweep_takes_at_once_is_swept_all_the_same(service, path, clock):
    """S4.58: in transactions that leave other writers their turn."""
    entries = [MemoryEntry(f"zebra {number}") for number in range(2_001)]
    service.sync.add_memory(**ALICE, memories=entries, custom_metadata={"ttl": 60})
    clock.let_pass(60.0)
    assert service.sync.admin.run_due() == 2_001
    assert count(path, "mem") == 0
    is_well(path)


def test_archived_and_held_memories_expire_as_well(open_service, path, clock):
    """S4.58: nothing outlives its time because nobody could find it."""
    service = open_service(
        path, clock=clock, maintenance_interval=None, on_write=lambda _: QUARANTINE
    )
    told(service, "zebra held", 60)
    service.close()
    service = open_service(path, clock=clock, maintenance_interval=None)
    id_ = told(service, "zebra archived", 60)
    service.sync.archive_memory(**ALICE, memory_id=id_)
    clock.let_pass(60.0)
    for state in ("archived", "quarantined"):
        assert service.sync.list_memories(**ALICE, state=state) == []
    assert service.sync.admin.run_due() == 2
    assert count(path, "mem") == 0
    is_well(path)


def test_a_services_time_to_live_counts_from_the_first_telling(
    open_service, path, clock
):
    """S4.58: a session ingested every turn neither lives on nor is rewritten."""
    service = open_service(path, clock=clock, maintenance_interval=None, ttl=100)
    service.sync.add_session_to_memory(session(*turns(1, 2)))
    before = seq(path)
    for _ in range(9):
        clock.let_pass(10.0)
        service.sync.add_session_to_memory(session(*turns(1, 2)))
    assert seq(path) == before
    service.sync.add_session_to_memory(session(*turns(1, 2, 3)))
    assert seq(path) == before + 1
    clock.let_pass(10.0)
    assert texts(service, "turn") == ["turn word3"]
    clock.let_pass(89.5)
    assert texts(service, "turn") == ["turn word3"]
    clock.let_pass(0.5)
    assert texts(service, "turn") == []


def test_a_service_with_a_time_to_live_leaves_older_memories_alone(
    open_service, path, clock
):
    """S4.58: what was told to live for ever does, however often it is told again."""
    told(open_service(path, clock=clock, maintenance_interval=None), "zebra")
    service = open_service(path, clock=clock, maintenance_interval=None, ttl=10)
    told(service, "zebra")
    clock.let_pass(10.0)
    assert texts(service) == ["zebra"]


@pytest.mark.parametrize("later", [30, 300])
def test_a_time_to_live_in_a_later_call_counts_from_then(service, clock, later):
    """S4.58: it shortens a life as it prolongs one."""
    told(service, "zebra", 100)
    clock.let_pass(50.0)
    told(service, "zebra", later)
    clock.let_pass(later - 0.5)
    assert texts(service) == ["zebra"]
    clock.let_pass(0.5)
    assert texts(service) == []


def test_a_correction_does_not_prolong_a_life(service, clock):
    """S4.58: what is said better lives no longer."""
    id_ = told(service, "zebra", 100)
    clock.let_pass(50.0)
    service.sync.update_memory(**ALICE, memory_id=id_, content="zebra corrected")
    clock.let_pass(49.5)
    assert texts(service) == ["zebra corrected"]
    clock.let_pass(0.5)
    assert texts(service) == []


@pytest.mark.parametrize("swept", [False, True], ids=["before", "after"])
def test_an_expired_turn_stays_away_when_its_session_is_ingested(
    service, path, clock, swept
):
    """S4.58: agents ingest the whole session after every turn."""
    events = [{**turn(1), "custom_metadata": {"ttl": 60}}, turn(2)]
    ids = service.sync.add_session_to_memory(session(*events))
    clock.let_pass(60.0)
    if swept:
        service.sync.admin.run_due()
        assert rows(path, "SELECT id, why FROM tomb") == [(ids[0], "expired")]
    before = seq(path)
    returned = service.sync.add_session_to_memory(session(*events))
    assert returned == [None, ids[1]]
    assert returned.left_out == (LeftOut(0, "expired"),)
    service.sync.add_session_to_memory(session(*turns(1, 2)))
    service.sync.add_events_to_memory(**ALICE, events=events, session_id="s")
    assert texts(service, "turn") == ["turn word2"]
    assert seq(path) == before
    service.sync.admin.run_due()
    assert rows(path, "SELECT id, why FROM tomb") == [(ids[0], "expired")]
    is_well(path)


@pytest.mark.parametrize("swept", [False, True], ids=["before", "after"])
def test_a_fact_that_is_told_again_lives_again(service, path, clock, swept):
    """S4.58: whoever tells it means it."""
    told(service, "zebra", 60)
    clock.let_pass(60.0)
    if swept:
        service.sync.admin.run_due()
    assert told(service, "zebra") == "zebra"
    assert texts(service) == ["zebra"]
    assert count(path, "tomb") == 0
    clock.let_pass(1e9)
    assert service.sync.admin.run_due() == 0
    assert texts(service) == ["zebra"]


@pytest.mark.parametrize("swept", [False, True], ids=["before", "after"])
def test_restoring_brings_an_expired_turn_back(service, path, clock, swept):
    """S4.58: as it does with what was deleted."""
    service.sync.add_events_to_memory(
        **ALICE, events=turns(1), session_id="s", custom_metadata={"ttl": 60}
    )
    clock.let_pass(60.0)
    if swept:
        service.sync.admin.run_due()
    service.sync.add_session_to_memory(session(*turns(1)), restore=True)
    assert texts(service, "turn") == ["turn word1"]
    assert count(path, "tomb") == 0
    service.sync.admin.run_due()
    assert texts(service, "turn") == ["turn word1"]


def test_what_was_deleted_stays_deleted_though_it_would_have_expired(service, clock):
    """S4.58: with restore=False, unlike a fact that expired."""
    id_ = told(service, "zebra", 60)
    service.sync.delete_memory(**ALICE, memory_id=id_)
    clock.let_pass(60.0)
    service.sync.admin.run_due()
    entry = MemoryEntry("zebra", id=id_)
    ids = service.sync.add_memory(**ALICE, memories=[entry], restore=False)
    assert ids.left_out == (LeftOut(0, "deleted"),)
    assert texts(service) == []


def test_another_service_on_the_file_sees_the_same_end(open_service, path, clock):
    """S4.58: before its own sweep, and after that of the other one."""
    one = open_service(path, clock=clock, maintenance_interval=None)
    other = open_service(path, clock=clock, maintenance_interval=None)
    told(one, "zebra", 60)
    told(one, "zebra stays")
    assert texts(other) == ["zebra", "zebra stays"]
    clock.let_pass(60.0)
    assert texts(other) == ["zebra stays"]
    assert one.sync.admin.run_due() == 1
    assert texts(other) == ["zebra stays"]
    assert other.sync.admin.run_due() == 0
    assert other.sync.admin.stats()["memories"] == 1


def test_what_was_valid_until_some_time_is_archived_by_the_sweep(service, path, clock):
    """S4.58: it is kept, but no longer found, from that time on."""
    entry = MemoryEntry("zebra", id="zebra", valid_until=clock.wall() + 60.0)
    service.sync.add_memory(**ALICE, memories=[entry])
    clock.let_pass(60.0)
    assert texts(service) == []
    assert service.sync.admin.run_due() == 1
    (past,) = service.sync.list_memories(**ALICE, state="archived")
    assert past.text == "zebra"
    assert rows(path, "SELECT live, bytes FROM part") == [(0, 0)]
    assert service.sync.admin.run_due() == 0
    is_well(path)


def test_what_expires_while_its_correction_is_embedded_stays_gone(open_service, clock):
    """S4.58: a slow embedder does not bring it back."""

    class Slow:
        model_id, dimensions, takes = "slow", 3, 0.0

        def embed(self, texts: Sequence[str]) -> list[list[float]]:
            clock.let_pass(self.takes)
            return [[1.0, 2.0, 3.0] for _ in texts]

    embedder = Slow()
    service = open_service(clock=clock, maintenance_interval=None, embedder=embedder)
    id_ = told(service, "zebra", 60)
    embedder.takes = 60.0
    with pytest.raises(NotFoundError):
        service.sync.update_memory(**ALICE, memory_id=id_, content="zebra new")
    assert texts(service) == []


@pytest.mark.parametrize("swept", [False, True], ids=["before", "after"])
def test_an_archived_memory_that_has_expired_is_not_brought_back(service, clock, swept):
    """S4.58: nothing comes back, and least of all without an end."""
    id_ = told(service, "zebra", 60)
    service.sync.archive_memory(**ALICE, memory_id=id_)
    clock.let_pass(60.0)
    if swept:
        service.sync.admin.run_due()
    with pytest.raises(NotFoundError):
        service.sync.restore_memory(**ALICE, memory_id=id_)
    assert texts(service) == []


def test_a_time_to_live_may_have_a_unit():
    lasts = [ttl_seconds(f"5{unit}") for unit in ("", *"smhdw")]
    assert lasts == [5, 5, 300, 18e3, 432e3, 3_024e3]
