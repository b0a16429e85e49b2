"""What updates overwrote is kept for as long as somebody said, and no longer."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from helpers.clocks import YEAR, SettableClock
from helpers.memories import ALICE, texts
from helpers.sessions import session, turn, turns
from vecall import (
    ConfigError,
    InvalidArgumentError,
    MemoryEntry,
    MemoryService,
    WritePolicy,
)
from vecall.store import examine


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock()


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "m.db"


def seq(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("SELECT max(seq) FROM part").fetchone()[0])


def kept(path: Path) -> list[str]:
    """What the file keeps of what was overwritten."""
    with closing(sqlite3.connect(path)) as connection:
        return [old for (old,) in connection.execute("SELECT old FROM hist")]


def is_in_a_file(path: Path, text: str) -> bool:
    """Whether any file beside a closed one, or itself, has a text."""
    files = [file for file in path.parent.rglob("*") if file.is_file()]
    assert path in files
    return any(text.encode() in file.read_bytes() for file in files)


def said(service: MemoryService, id_: str) -> list[str]:
    past = service.sync.memory_history(**ALICE, memory_id=id_)
    return [each.memory.text for each in past]


@pytest.mark.parametrize("way", ["service", "history_ttl", "revision_ttl"])
def test_what_an_update_overwrote_is_gone_after_its_time(
    open_service, path, clock, way
):
    """S1.21: history_ttl of a service or of a call; not a trace is left."""
    by_service, by_call = ("3600s", None) if way == "service" else (None, 3_600)
    service = open_service(
        path, clock=clock, maintenance_interval=None, history_ttl=by_service
    )
    for text in ("zebra xyzzyold", "zebra new"):
        service.sync.add_memory(
            **ALICE,
            memories=[MemoryEntry(text, id="z")],
            custom_metadata={} if way == "service" else {way: by_call},
        )
    clock.let_pass(3_599.5)
    service.sync.admin.run_due()
    assert said(service, "z") == ["zebra xyzzyold", "zebra new"]
    clock.let_pass(0.5)
    service.sync.admin.run_due()
    service.sync.admin.purge()
    assert kept(path) == []
    assert said(service, "z") == ["zebra new"]
    service.close()
    assert not is_in_a_file(path, "xyzzyold")
    assert all(finding.level != "error" for finding in examine(path))


def test_of_both_names_of_a_time_history_ttl_counts(open_service, path, clock):
    """S1.21: neither is stored as metadata."""
    service = open_service(path, clock=clock, maintenance_interval=None)
    names = {"history_ttl": 50, "revision_ttl": 100}
    for text in ("zebra old", "zebra new"):
        service.sync.add_memory(
            **ALICE, memories=[MemoryEntry(text, id="z")], custom_metadata=names
        )
    assert service.sync.get_memory(**ALICE, memory_id="z").custom_metadata == {}
    clock.let_pass(50.0)
    service.sync.admin.run_due()
    assert said(service, "z") == ["zebra new"]
    for name in names:
        with pytest.raises(InvalidArgumentError):
            service.sync.add_memory(
                **ALICE, memories=["okapi"], custom_metadata={name: 0}
            )


def test_without_a_time_it_is_kept_for_ever(open_service, path, clock):
    """S1.21: nobody said that it should go."""
    service = open_service(path, clock=clock, maintenance_interval=None)
    for text in ("zebra old", "zebra new"):
        service.sync.add_memory(**ALICE, memories=[MemoryEntry(text, id="z")])
    clock.let_pass(1e9)
    assert service.sync.admin.run_due() == 0
    assert said(service, "z") == ["zebra old", "zebra new"]


def test_a_calls_time_counts_before_the_services(open_service, path, clock):
    """S1.21: of two revisions each goes when its own time is over."""
    service = open_service(
        path, clock=clock, maintenance_interval=None, history_ttl=100
    )
    for text, ttl in (("zebra 1", None), ("zebra 2", 50), ("zebra 3", None)):
        service.sync.add_memory(
            **ALICE,
            memories=[MemoryEntry(text, id="z")],
            custom_metadata={"history_ttl": ttl},
        )
    clock.let_pass(50.0)
    service.sync.admin.run_due()
    assert said(service, "z") == ["zebra 2", "zebra 3"]
    clock.let_pass(50.0)
    service.sync.admin.run_due()
    assert said(service, "z") == ["zebra 3"]


@pytest.mark.parametrize("jump", [YEAR, -YEAR])
def test_a_wall_clock_that_is_set_takes_no_past_away_and_keeps_none(
    open_service, path, clock, jump
):
    """S1.21, bug class 29: the time that passed counts, here as everywhere."""
    service = open_service(
        path, clock=clock, maintenance_interval=None, history_ttl=100
    )
    for text in ("zebra old", "zebra new"):
        service.sync.add_memory(**ALICE, memories=[MemoryEntry(text, id="z")])
    clock.jump(jump)
    service.sync.add_memory(**ALICE, memories=["okapi"], custom_metadata={"ttl": 50})
    clock.let_pass(50.0)
    assert service.sync.admin.run_due() == 1
    assert said(service, "z") == ["zebra old", "zebra new"]
    clock.let_pass(50.0)
    service.sync.admin.run_due()
    assert kept(path) == []


def test_a_memory_takes_its_past_with_it_when_it_expires(open_service, path, clock):
    """S4.58: nothing of what it said before outlives it."""
    service = open_service(path, clock=clock, maintenance_interval=None, ttl=60)
    for text in ("zebra xyzzyold", "zebra new"):
        service.sync.add_memory(**ALICE, memories=[MemoryEntry(text, id="z")])
    clock.let_pass(60.0)
    assert service.sync.admin.run_due() == 1
    assert kept(path) == []
    service.sync.admin.purge()
    service.close()
    assert not is_in_a_file(path, "xyzzyold")


def test_a_correction_outlives_the_memory_of_what_it_corrected(
    open_service, path, clock
):
    """S1.21: the text is gone for good, and the next ingest does not bring it back."""
    options = {"clock": clock, "maintenance_interval": None, "history_ttl": 60}
    service = open_service(path, **options)
    wrong = session(turn(1, "zebra xyzzyold"), *turns(2))
    ids = service.sync.add_session_to_memory(wrong)
    service.sync.update_memory(**ALICE, memory_id=ids[0], content="zebra new")
    assert "xyzzyold" in kept(path)[0]
    clock.let_pass(60.0)
    service.sync.admin.run_due()
    service.sync.admin.purge()
    service.close()
    assert not is_in_a_file(path, "xyzzyold")
    service = open_service(path, **options)
    before = seq(path)
    service.sync.add_session_to_memory(wrong)
    assert seq(path) == before
    assert texts(service) == ["turn word2", "zebra new"]
    clock.let_pass(1e9)
    assert service.sync.admin.run_due() == 0
    service.sync.add_session_to_memory(wrong)
    assert texts(service) == ["turn word2", "zebra new"]
    service.sync.add_session_to_memory(session(turn(1, "zebra newest"), *turns(2)))
    assert texts(service) == ["turn word2", "zebra newest"]


@pytest.mark.parametrize("wrong", [0, -1, "later", True, []])
def test_what_is_no_time_to_keep_history_is_refused(wrong):
    """S1.21: no service is opened."""
    with pytest.raises(ConfigError, match="history_ttl"):
        MemoryService(writes=WritePolicy(history_ttl=wrong), embedder=None)
