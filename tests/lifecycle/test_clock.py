"""The count by which memories expire, whatever the wall clock is set to."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from helpers.campaigns import campaign
from helpers.clocks import DAY, START, YEAR, SettableClock, UnnamedClock
from helpers.folders import fastest
from helpers.memories import ALICE, texts
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from vecall import (
    ConfigError,
    MemoryEntry,
    MemoryService,
    NotFoundError,
    StorageOptions,
)
from vecall.clock import Clock, ClockCheckpoint, ExpiryClock

JUMPS = [YEAR, -YEAR, DAY, -DAY]


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock()


def told(service: MemoryService, text: str, ttl: float | None = None) -> str:
    """Tell a fact under its own text as id."""
    entry = MemoryEntry(text, id=text)
    meta = None if ttl is None else {"ttl": ttl}
    (id_,) = service.sync.add_memory(**ALICE, memories=[entry], custom_metadata=meta)
    return id_


def test_the_count_begins_at_the_wall_clock(clock):
    """S4.58: without a file's word, the machine's time is the best there is."""
    lifetime = ExpiryClock(clock)
    assert lifetime.now() == START
    clock.let_pass(10.0)
    assert lifetime.now() == START + 10.0


@pytest.mark.parametrize("jump", JUMPS)
def test_the_count_does_not_follow_a_wall_clock_that_is_set(clock, jump):
    """S4.58, bug class 29: what people read follows, what expires does not."""
    lifetime = ExpiryClock(clock)
    clock.jump(jump)
    clock.let_pass(3.0)
    assert lifetime.now() == START + 3.0
    assert lifetime.wall() == START + 3.0 + jump


@pytest.mark.parametrize("jump", JUMPS)
def test_a_mark_of_the_same_start_says_exactly_how_late_it_is(clock, jump):
    """S4.58: another process, or the next one, counts on whatever the wall says."""
    lifetime = ExpiryClock(clock)
    clock.jump(jump)
    mark = lifetime.make_checkpoint()
    clock.jump(jump)
    clock.let_pass(7.0)
    assert ExpiryClock(clock, mark).now() == START + 7.0


@pytest.mark.parametrize("monotonic", [5.0, 5_000.0])
def test_a_mark_of_an_earlier_start_says_only_that_it_is_not_earlier(clock, monotonic):
    """S4.58: how long a machine was off only the wall clock can say."""
    mark = ExpiryClock(clock).make_checkpoint()
    clock.restart(100.0, monotonic)
    assert ExpiryClock(clock, mark).now() == START + 100.0
    clock.restart(-YEAR, monotonic)
    assert ExpiryClock(clock, mark).now() == START


def test_the_same_start_with_a_smaller_reading_is_another_machine(clock):
    """S4.58: of a copy that ran further, the count is not taken back by it."""
    clock.let_pass(500.0)
    mark = ExpiryClock(clock).make_checkpoint()
    clock.let_pass(-400.0)
    assert ExpiryClock(clock, mark).now() == START + 500.0


def test_a_machine_without_a_name_for_its_start_never_counts_back():
    """S4.58: where there is no boot id the count is the later of both."""
    clock = UnnamedClock()
    mark = ExpiryClock(clock).make_checkpoint()
    clock.jump(-YEAR)
    clock.let_pass(2.0)
    assert ExpiryClock(clock, mark).now() >= START


@pytest.mark.parametrize("boot", ["", "a", "0b6a-11", "with|bars|in it", "\u00e9"])
def test_a_mark_is_read_as_it_was_written(boot):
    """S4.58: every bit of both times, and any name."""
    mark = ClockCheckpoint(1.8e9 + 0.1, 1e-9 + 12345.0, boot)
    assert ClockCheckpoint.parse_checkpoint(str(mark)) == mark


def test_a_mark_with_any_letter_changed_is_not_believed():
    """S4.58, guarantee 5: with another digit all would expire, or nothing."""
    text = str(ClockCheckpoint(START, 1_000.0, "boot 1"))
    assert ClockCheckpoint.parse_checkpoint(text) is not None
    for place, letter in enumerate(text):
        for other in "9x|.":
            if other != letter:
                assert (
                    ClockCheckpoint.parse_checkpoint(
                        text[:place] + other + text[place + 1 :]
                    )
                    is None
                )
    for nothing in (None, "", "|", "1.0|2.0|boot", text[:-1], text + "0"):
        assert ClockCheckpoint.parse_checkpoint(nothing) is None


def test_a_damaged_mark_in_a_file_expires_nothing(open_service, tmp_path, clock):
    """S4.58, guarantee 5: a digit that flips does not sweep a user's memories away."""
    path = tmp_path / "m.db"
    service = open_service(path, clock=clock, maintenance_interval=None)
    told(service, "zebra", 3600.0)
    service.close()
    with closing(sqlite3.connect(path)) as connection, connection:
        changed = connection.execute(
            "UPDATE meta SET value = '9' || substr(value, 2) WHERE key = 'clock'"
        )
        assert changed.rowcount == 1
    service = open_service(path, clock=clock, maintenance_interval=None)
    assert service.sync.admin.run_due() == 0
    assert texts(service) == ["zebra"]


def test_the_machines_own_clock_tells_the_time_and_passes():
    """S4.58: what a service takes the time from if nobody hands in another."""
    clock = Clock()
    assert abs(clock.wall() - time.time()) < 60.0
    assert clock.monotonic() <= clock.monotonic()
    known = Path("/proc/sys/kernel/random/boot_id")
    if known.exists():
        assert clock.boot_id() == known.read_text("ascii").strip() != ""


@pytest.mark.parametrize("wrong", [time.time, "now", 5.0, object()])
def test_what_is_no_clock_is_refused(wrong):
    """S4.58: a wrong argument is refused at the door."""
    with pytest.raises(ConfigError, match="clock: expected"):
        MemoryService(storage=StorageOptions(clock=wrong), embedder=None)


@pytest.mark.parametrize("jump", JUMPS)
def test_a_jump_while_a_service_runs_changes_no_life(open_service, clock, jump):
    """S4.58: told before or after it, a memory lives exactly its time."""
    service = open_service(clock=clock, maintenance_interval=None)
    told(service, "zebra before", 100.0)
    clock.jump(jump)
    told(service, "zebra after", 100.0)
    clock.let_pass(99.0)
    service.sync.admin.run_due()
    assert texts(service) == ["zebra after", "zebra before"]
    clock.let_pass(1.0)
    assert texts(service) == []
    assert service.sync.admin.run_due() == 2


@pytest.mark.parametrize("jump", JUMPS)
def test_a_jump_between_two_runs_of_a_program_changes_no_life(
    open_service, tmp_path, clock, jump
):
    """S4.58: the machine was not off, so the file says how late it is."""
    path = tmp_path / "m.db"
    service = open_service(path, clock=clock, maintenance_interval=None)
    told(service, "zebra", 100.0)
    clock.let_pass(60.0)
    service.close()
    clock.jump(jump)
    clock.let_pass(30.0)
    service = open_service(path, clock=clock, maintenance_interval=None)
    service.sync.admin.run_due()
    assert texts(service) == ["zebra"]
    told(service, "zebra new", 100.0)
    clock.let_pass(10.0)
    assert texts(service) == ["zebra new"]
    clock.let_pass(90.0)
    assert texts(service) == []


def test_what_has_expired_does_not_come_back_with_a_restart_of_the_machine(
    open_service, tmp_path, clock
):
    """S4.58: a wall clock that was a year behind after it counts as no time."""
    path = tmp_path / "m.db"
    service = open_service(path, clock=clock, maintenance_interval=None)
    told(service, "zebra", 100.0)
    told(service, "zebra long", 1_000.0)
    clock.let_pass(100.0)
    told(service, "okapi")  # from here on the file knows how late it is
    service.close()
    clock.restart(off=-YEAR)
    service = open_service(path, clock=clock, maintenance_interval=None)
    assert texts(service) == ["zebra long"]
    told(service, "zebra new", 50.0)
    clock.let_pass(49.0)
    assert texts(service) == ["zebra long", "zebra new"]
    clock.let_pass(1.0)
    assert texts(service) == ["zebra long"]


def test_the_first_write_after_a_restart_of_the_machine_is_what_counts(
    open_service, tmp_path, clock
):
    """S4.58: though the machine ran for as long as the last time."""
    path = tmp_path / "m.db"
    service = open_service(path, clock=clock, maintenance_interval=None)
    told(service, "zebra", 100.0)
    service.close()
    clock.restart(off=10.0, monotonic=1_000.25)
    service = open_service(path, clock=clock, maintenance_interval=None)
    told(service, "okapi")
    service.close()
    clock.jump(YEAR)
    service = open_service(path, clock=clock, maintenance_interval=None)
    assert texts(service) == ["zebra"]


@pytest.mark.parametrize("jump", [YEAR, -YEAR])
def test_the_first_opening_after_a_restart_of_the_machine_is_what_counts(
    open_service, tmp_path, clock, jump
):
    """S4.58: for all that open the file later, though nobody has written since."""
    path = tmp_path / "m.db"
    service = open_service(path, clock=clock, maintenance_interval=None)
    told(service, "zebra", 100.0)
    service.close()
    clock.restart(off=10.0)
    one = open_service(path, clock=clock, maintenance_interval=None)
    clock.jump(jump)
    other = open_service(path, clock=clock, maintenance_interval=None)
    told(one, "zebra new", 100.0)
    assert texts(one) == texts(other) == ["zebra", "zebra new"]
    clock.let_pass(90.0)
    assert texts(one) == texts(other) == ["zebra new"]


def test_time_passes_while_a_machine_is_off(open_service, tmp_path, clock):
    """S4.58: as long as the wall clock says."""
    path = tmp_path / "m.db"
    service = open_service(path, clock=clock, maintenance_interval=None)
    told(service, "zebra", 100.0)
    service.close()
    clock.restart(off=99.0)
    service = open_service(path, clock=clock, maintenance_interval=None)
    assert texts(service) == ["zebra"]
    service.close()
    clock.restart(off=1.0)
    service = open_service(path, clock=clock, maintenance_interval=None)
    assert texts(service) == []


@dataclass
class Life:
    """What the model knows of a memory: when its time is over, if it ever is."""

    end: float | None


class ClockPrograms(RuleBasedStateMachine):
    """Two services on one file, and a count that only ever adds what passed."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir=fastest()))
        self.clock = SettableClock()
        self.now = self.clock.wall()
        self.lives: dict[str, Life] = {}
        self.number = 0
        self.services: list[MemoryService] = []
        self.open()
        self.write(0, None)

    def open(self) -> None:
        for _ in range(2):
            service = MemoryService(
                self.folder / "m.db",
                storage=StorageOptions(
                    durability="process", clock=self.clock, maintenance_interval=None
                ),
                embedder=None,
            )
            self.services.append(service)

    def close(self) -> None:
        for service in self.services:
            service.close()
        self.services.clear()

    def teardown(self) -> None:
        self.close()
        shutil.rmtree(self.folder)

    def write(self, which: int, ttl: float | None) -> None:
        self.number += 1
        name = f"zebra {self.number}"
        told(self.services[which], name, ttl)
        self.lives[name] = Life(None if ttl is None else self.now + ttl)

    @rule(which=st.integers(0, 1), ttl=st.sampled_from([None, 1.0, 60.0, 3_600.0, DAY]))
    def tell(self, which: int, ttl: float | None) -> None:
        self.write(which, ttl)

    @rule(which=st.integers(0, 1), data=st.data())
    def tell_again(self, which: int, data: st.DataObject) -> None:
        """What has expired and is told again lives on; what lives keeps its time."""
        name = data.draw(st.sampled_from(sorted(self.lives)))
        told(self.services[which], name)
        if not self.is_alive(name):
            self.lives[name].end = None

    @rule(seconds=st.sampled_from([0.5, 30.0, 60.0, 3_599.0, DAY, 2 * YEAR]))
    def time_passes(self, seconds: float) -> None:
        self.clock.let_pass(seconds)
        self.now += seconds

    @rule(jump=st.sampled_from([YEAR, -YEAR, 45.0, -45.0]))
    def somebody_sets_the_clock(self, jump: float) -> None:
        self.clock.jump(jump)

    @rule()
    def the_program_is_restarted(self) -> None:
        self.close()
        self.open()

    @rule(
        off=st.sampled_from([0.0, 60.0, DAY]),
        jump=st.sampled_from([0.0, -YEAR]),
        monotonic=st.sampled_from([2.0**-7, 2.0**26]),  # nothing is rounded
    )
    def the_machine_is_restarted(
        self, off: float, jump: float, monotonic: float
    ) -> None:
        """Nobody but the wall clock says how long it was off, but it never counts back.

        A write a second before keeps how far the count had come.
        """
        self.clock.let_pass(1.0)
        self.now += 1.0
        self.write(0, None)
        self.close()
        self.clock.jump(jump)
        self.clock.restart(off, monotonic)
        self.now = max(self.now, self.clock.wall())
        self.open()

    @rule(which=st.integers(0, 1))
    def sweep(self, which: int) -> None:
        self.services[which].sync.admin.run_due()
        assert self.stored() == self.alive()

    def is_alive(self, name: str) -> bool:
        end = self.lives[name].end
        return end is None or end > self.now

    def alive(self) -> set[str]:
        return {name for name in self.lives if self.is_alive(name)}

    def stored(self) -> set[str]:
        with closing(sqlite3.connect(self.folder / "m.db")) as connection:
            return {text for (text,) in connection.execute("SELECT text FROM mem")}

    @invariant()
    def exactly_what_lives_is_found(self) -> None:
        alive = self.alive()
        for service in self.services:
            assert set(texts(service)) == alive
            listed = service.sync.list_memories(**ALICE, limit=1_000)
            assert {memory.text for memory in listed} == alive
            for name in self.lives:
                try:
                    service.sync.get_memory(**ALICE, memory_id=name)
                except NotFoundError:
                    assert name not in alive
                else:
                    assert name in alive


TestClockPrograms = pytest.mark.campaign(ClockPrograms.TestCase)
TestClockPrograms.settings = campaign(25, 25)


def test_a_clock_needs_no_constructor_of_ours(tmp_path):
    class Bare(Clock):
        def __init__(self) -> None:
            self.asked = 0

        def wall(self) -> float:
            self.asked += 1
            return START

    clock = Bare()
    storage = StorageOptions(clock=clock)
    with MemoryService(tmp_path / "m.db", embedder=None, storage=storage) as service:
        told(service, "a zebra", 60)
        assert texts(service) == ["a zebra"]
    assert clock.asked > 1
    assert clock.boot_id() == Clock().boot_id()


@pytest.mark.parametrize("name", ["wall", "monotonic", "boot_id"])
@pytest.mark.parametrize("told_by", [None, b"x", []])
def test_a_clock_that_fails_is_refused_by_its_method(name, told_by):
    def fails(_: Clock) -> object:
        if told_by is None:
            raise AttributeError
        return told_by

    odd = type("Odd", (Clock,), {name: fails})
    with pytest.raises(ConfigError, match=rf"clock: its method {name}"):
        StorageOptions(clock=odd())
