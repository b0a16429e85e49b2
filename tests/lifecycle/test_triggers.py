"""Triggers: when memories are made of sessions that are observed."""

from __future__ import annotations

import time

import pytest
from helpers.clocks import SettableClock
from helpers.embedders import Recorder
from helpers.memories import ALICE, BOB
from helpers.observed_sessions import (
    EVERY,
    Llm,
    due,
    grow,
    kept,
    memories,
    rows,
    said,
    summed,
    talk,
)
from helpers.sessions import session
from vecall import (
    Compaction,
    ConfigError,
    Inactivity,
    InvalidArgumentError,
    MessageCount,
    SessionEnd,
)

NAMED = {**ALICE, "session_id": "s"}
EVERY_TRIGGER = [None, SessionEnd(), Inactivity(EVERY), MessageCount(9), Compaction()]


@pytest.fixture
def observing(open_service, tmp_path):
    """Opens a service on a file, with a clock of its own and no thread beside it."""

    def open_one(**options):
        return open_service(
            tmp_path / "m.db",
            **{"maintenance_interval": None, "clock": SettableClock(), **options},
        )

    return open_one


@pytest.mark.parametrize("trigger", EVERY_TRIGGER)
def test_nothing_is_remembered_before_its_time(observing, trigger):
    """S4.10, S4.17: observing alone makes no memory, and ending the session does."""
    service = observing(trigger=trigger)
    grow(service, 3)
    service.sync.admin.run_due()
    assert memories(service) == []
    assert len(service.sync.end_session(**NAMED)) == 3
    assert memories(service) == said(1, 2, 3)
    assert service.sync.end_session(**NAMED) == []


def test_a_session_may_be_handed_in_when_it_ends(observing):
    """S4.10: turns that were never observed are remembered with the others."""
    service = observing(trigger="session_end")
    grow(service, 2)
    service.sync.end_session(talk(1, 2, 3, 4))
    assert memories(service) == said(1, 2, 3, 4)


def test_ending_one_session_leaves_others_waiting(observing, tmp_path):
    """S4.10: of another session, and of another user, nothing is remembered."""
    service = observing()
    service.sync.observe_session(talk(1))
    service.sync.observe_session(talk(1, id_="other"))
    service.sync.observe_session(session(*talk(1)["events"], **BOB))
    service.sync.end_session(**NAMED)
    assert memories(service) == said(1)
    assert service.sync.list_memories(**BOB) == []
    assert len(kept(tmp_path / "m.db")) == 2


@pytest.mark.parametrize("missing", ["app_name", "user_id", "session_id"])
def test_a_session_needs_its_three_names_to_end(observing, missing):
    """S4.10: without the session itself all names must be there."""
    names = {name: value for name, value in NAMED.items() if name != missing}
    with pytest.raises(InvalidArgumentError):
        observing().sync.end_session(**names)


def test_inactivity_counts_from_the_last_turn(observing):
    """S4.18: every new turn begins the wait anew; what is not new does not."""
    clock = SettableClock()
    service = observing(trigger=Inactivity(EVERY), clock=clock)
    grow(service, 1)
    clock.let_pass(599.0)
    grow(service, 2, first=2)
    clock.let_pass(599.0)
    service.sync.observe_session(talk(1, 2))
    service.sync.admin.run_due()
    assert memories(service) == []
    clock.let_pass(1.5)
    service.sync.admin.run_due()
    assert memories(service) == said(1, 2)


def test_a_wall_clock_that_is_set_triggers_nothing(observing):
    """S4.18: inactivity is time that passed, not what the wall clock says."""
    clock = SettableClock()
    service = observing(trigger=Inactivity(EVERY), clock=clock)
    grow(service, 1)
    clock.jump(86_400.0)
    service.sync.admin.run_due()
    assert memories(service) == []
    grow(service, 2, first=2)
    clock.jump(-2 * 86_400.0)
    clock.let_pass(601.0)
    service.sync.admin.run_due()
    assert memories(service) == said(1, 2)


def test_a_session_that_goes_on_after_inactivity_adds_only_what_is_new(observing):
    """S4.13, S4.18: the second time only turns since the first are remembered."""
    clock, embedder = SettableClock(), Recorder()
    service = observing(trigger=Inactivity(EVERY), clock=clock, embedder=embedder)
    grow(service, 2)
    clock.let_pass(601.0)
    service.sync.admin.run_due()
    grow(service, 4, first=3)
    service.sync.admin.run_due()
    assert memories(service) == said(1, 2)
    clock.let_pass(601.0)
    service.sync.admin.run_due()
    assert memories(service) == said(1, 2, 3, 4)
    assert len(embedder.asked) == len(set(embedder.asked)) == 4


def test_message_count_remembers_so_many_together(observing):
    """S4.19: below the count nothing, at the count all, and then from zero again."""
    llm = Llm()
    service = observing(trigger=MessageCount(3), summarizer=llm.provider)
    made = []
    for number in range(1, 8):
        grow(service, number, first=number)
        service.sync.admin.run_due()
        made.append(len(memories(service)))
    assert made == [0, 0, 1, 1, 1, 2, 2]
    assert memories(service) == [summed(1, 2, 3), summed(4, 5, 6)]
    service.sync.end_session(**NAMED)
    assert memories(service)[2:] == [summed(7)]
    assert len(llm.asked) == 3


def test_a_session_that_is_told_at_once_reaches_the_count_too(observing):
    """S4.19: turns count, not calls."""
    service = observing(trigger=MessageCount(3))
    service.sync.observe_session(talk(1, 2, 3, 4, 5))
    service.sync.admin.run_due()
    assert memories(service) == said(1, 2, 3, 4, 5)


@pytest.mark.parametrize(
    "trigger",
    [
        "session_end",
        {"type": "session_end"},
        {"type": "inactivity", "inactivity_ms": EVERY},
        "compaction",
    ],
)
def test_triggers_that_no_count_sets_off_can_be_named(observing, trigger):
    """S4.17, S4.18, S4.20: a trigger by its name, or as a mapping with its number."""
    service = observing(trigger=trigger)
    grow(service, 4)
    service.sync.admin.run_due()
    assert memories(service) == []


def test_a_trigger_named_in_a_mapping_works_with_its_number(observing):
    """S4.19: {"type": "message_count", "message_count": 3}."""
    service = observing(trigger={"type": "message_count", "message_count": 3})
    grow(service, 2)
    service.sync.admin.run_due()
    assert memories(service) == []
    grow(service, 3, first=3)
    service.sync.admin.run_due()
    assert memories(service) == said(1, 2, 3)


@pytest.mark.parametrize(
    "trigger",
    [
        "never",
        "inactivity",
        "message_count",
        7,
        {},
        {"type": "session_end", "inactivity_ms": 5},
        {"type": "inactivity"},
        {"type": "inactivity", "inactivity_ms": 0},
        {"type": "inactivity", "inactivity_ms": 1.5},
        {"type": "message_count", "message_count": True},
        {"type": "message_count", "message_count": "3"},
        {"type": ["inactivity"]},
    ],
)
def test_a_trigger_that_cannot_be_is_refused(observing, trigger):
    """S4.47: when the service is opened, not when the trigger should work."""
    with pytest.raises(ConfigError, match="trigger"):
        observing(trigger=trigger)


@pytest.mark.parametrize("make", [lambda: Inactivity(-1), lambda: MessageCount(0)])
def test_a_trigger_checks_its_number(make):
    """S4.18, S4.19: numbers start at one."""
    with pytest.raises(ConfigError, match="trigger"):
        make()


@pytest.mark.parametrize("trigger", EVERY_TRIGGER)
def test_observing_costs_no_write_when_nothing_is_new(observing, tmp_path, trigger):
    """S4.13: what was told before changes neither the file nor its log."""
    service, path = observing(trigger=trigger), tmp_path / "m.db"
    grow(service, 3)
    log = path.with_name("m.db-wal")
    query = "SELECT session, id, at, event FROM told"
    before = log.stat().st_size, rows(path, query), rows(path, "SELECT seq FROM part")
    for _ in range(5):
        service.sync.observe_session(talk(1, 2, 3))
        service.sync.observe_session(talk(2))
    assert log.stat().st_size == before[0]
    assert (rows(path, query), rows(path, "SELECT seq FROM part")) == before[1:]


def test_each_text_is_embedded_once_in_its_life(observing):
    """S4.13: observed after every turn, ended, ingested: one call for each text."""
    embedder = Recorder()
    service = observing(trigger=MessageCount(4), embedder=embedder)
    for last in range(1, 11):
        grow(service, last, first=last)
        service.sync.admin.run_due()
    service.sync.end_session(talk(*range(1, 11)))
    service.sync.add_session_to_memory(talk(*range(1, 11)))
    assert len(embedder.asked) == len(set(embedder.asked)) == 10
    assert memories(service) == said(*range(1, 11))


def test_what_is_kept_is_not_found_yet(observing):
    """S4.15: a search finds memories, not what waits."""
    service = observing()
    grow(service, 2)
    assert not service.sync.search_memory(**ALICE, query="word1").memories
    service.sync.end_session(**NAMED)
    assert service.sync.search_memory(**ALICE, query="word1").memories[0].text == (
        "turn word1"
    )


@pytest.mark.parametrize(
    ("trigger", "last"),
    [(Inactivity(1), 1), (MessageCount(3), 3)],
)
def test_a_thread_in_the_background_pulls_the_trigger(
    open_service, in_time, trigger, last
):
    """S4.18, S4.19: without any call, well before the next regular sweep."""
    llm = Llm()
    service = open_service(
        trigger=trigger, summarizer=llm.provider, maintenance_interval=3_600.0
    )

    def wait():
        while not memories(service):
            time.sleep(0.01)

    grow(service, last)
    in_time(wait)
    assert " ".join(memories(service)).count("sum of") == len(llm.asked) >= 1


def test_nothing_runs_in_the_background_where_it_is_switched_off(observing, tmp_path):
    """S4.18: with maintenance_interval=None a trigger waits for run_due."""
    service = observing(trigger=MessageCount(1))
    grow(service, 1)
    assert len(due(tmp_path / "m.db")) == 1
    assert memories(service) == []
    service.sync.admin.run_due()
    assert memories(service) == said(1)
    assert due(tmp_path / "m.db") == []


def test_a_trigger_of_one_session_leaves_others_alone(observing):
    """S4.19: each session has a count of its own."""
    service = observing(trigger=MessageCount(2))
    service.sync.observe_session(talk(1))
    service.sync.observe_session(talk(2, 3, id_="other"))
    service.sync.admin.run_due()
    assert memories(service) == said(2, 3)
