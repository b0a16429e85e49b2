"""Random lives of observed sessions against a model: each turn once, at its time."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from helpers.campaigns import campaign
from helpers.clocks import SettableClock
from helpers.embedders import Recorder
from helpers.folders import fastest
from helpers.memories import ALICE
from helpers.observed_sessions import Llm, compaction, due, kept, memories
from helpers.sessions import session, turn
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from vecall import (
    Compaction,
    Inactivity,
    MemoryService,
    MessageCount,
    StorageOptions,
    SummaryError,
)

DELAY_S, COUNT, LAST = 600, 3, 8
TRIGGERS = [None, Inactivity(DELAY_S * 1000), MessageCount(COUNT), Compaction()]
NAMES = ["s", "t"]

names = st.sampled_from(NAMES)
told = st.lists(st.integers(1, LAST), max_size=6)
ends = st.integers(0, LAST)


@dataclass
class Observed:
    """What is expected of one session; turn n was said at second n."""

    known: set[int] = field(default_factory=set)
    compactions: set[int] = field(default_factory=set)  # by their ends
    waiting: list[int] = field(default_factory=list)
    remembered: list[str] = field(default_factory=list)
    due: float | None = None
    tries: int = 0


class Lives(RuleBasedStateMachine):
    """A service over a file, and what two sessions should have become."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir=fastest()))
        self.clock = SettableClock()
        self.llm = Llm()
        self.recorder = Recorder()
        self.calls = 0
        self.sessions = {name: Observed() for name in NAMES}

    @initialize(trigger=st.sampled_from(TRIGGERS), sums_up=st.booleans())
    def start(self, trigger: Any, sums_up: bool) -> None:
        self.trigger, self.sums_up = trigger, sums_up
        self.open()

    def open(self) -> None:
        self.service = MemoryService(
            self.folder / "m.db",
            trigger=self.trigger,
            summarizer=self.llm.provider if self.sums_up else None,
            embedder=self.recorder,
            storage=StorageOptions(
                clock=self.clock, durability="process", maintenance_interval=None
            ),
        )

    def teardown(self) -> None:
        self.service.close()
        shutil.rmtree(self.folder)

    @property
    def now(self) -> float:
        return self.clock.wall()

    def events(self, name: str, numbers: list[int], closed: list[int]) -> Any:
        found: list[Any] = [
            turn(number, f"turn word{number}{name}") for number in numbers
        ]
        for end in closed:
            at = len(found) // 2
            found.insert(at, compaction(f"zebra {name} {end}", 0.0, float(end)))
        return session(*found, id_=name)

    def tell(self, name: str, numbers: list[int], closed: list[int]) -> bool:
        """What is kept of a call; return whether any turn waits that is new."""
        one = self.sessions[name]
        covered = max((end for end in closed if end in one.compactions), default=-1)
        fresh = [n for n in dict.fromkeys(numbers) if n not in one.known]
        new = [n for n in fresh if n > covered]
        one.known.update(fresh)
        one.waiting += new
        for end in dict.fromkeys(closed):
            if end not in one.compactions:
                one.compactions.add(end)
                one.waiting = [n for n in one.waiting if n > end]
                one.remembered.append(f"zebra {name} {end}")
        return bool(new)

    def make(self, name: str) -> None:
        """Make what is expected of a session that is remembered now."""
        one = self.sessions[name]
        words = [f"word{number}{name}" for number in one.waiting]
        if words and self.sums_up:
            one.remembered.append("sum of " + " ".join(words))
            self.calls += 1
        else:
            one.remembered += [f"turn {word}" for word in words]
        one.waiting, one.due, one.tries = [], None, 0

    @rule(name=names, numbers=told, closed=st.lists(ends, max_size=2))
    def observe(self, name: str, numbers: list[int], closed: list[int]) -> None:
        closed = closed if isinstance(self.trigger, Compaction) else []
        one = self.sessions[name]
        if self.tell(name, numbers, closed):
            after = None
            if isinstance(self.trigger, Inactivity):
                after = self.now + DELAY_S
            elif isinstance(self.trigger, MessageCount) and len(one.waiting) >= COUNT:
                after = self.now
            if after is not None:
                pause = one.due if one.tries else None
                one.due = max(after, pause or 0.0)
        self.service.sync.observe_session(self.events(name, numbers, closed))

    @rule(name=names, numbers=told, by_name=st.booleans())
    def end(self, name: str, numbers: list[int], by_name: bool) -> None:
        if by_name:
            self.service.sync.end_session(**ALICE, session_id=name)
        else:
            self.tell(name, numbers, [])
            self.service.sync.end_session(self.events(name, numbers, []))
        self.make(name)

    @precondition(lambda self: self.sums_up)
    @rule(name=names, numbers=told)
    def end_without_the_model(self, name: str, numbers: list[int]) -> None:
        self.tell(name, numbers, [])
        given = self.events(name, numbers, [])
        if self.sessions[name].waiting:
            self.calls += 1
            self.llm.failures = 1
            with pytest.raises(SummaryError):
                self.service.sync.end_session(given)
        else:
            assert self.service.sync.end_session(given) == []

    @rule(seconds=st.sampled_from([1.0, 31.0, 299.0, 601.0, 4_000.0]))
    def wait(self, seconds: float) -> None:
        self.clock.let_pass(seconds)

    @rule(fails=st.booleans())
    def run_due(self, fails: bool) -> None:
        fails = fails and self.sums_up
        self.llm.failures = 1_000 if fails else 0
        self.service.sync.admin.run_due()
        self.llm.failures = 0
        for name, one in self.sessions.items():
            if one.due is None or one.due > self.now:
                continue
            if fails:
                self.calls += 1
                one.due = self.now + min(30.0 * 2**one.tries, 3_600.0)
                one.tries += 1
            else:
                self.make(name)

    @rule(name=names)
    def delete(self, name: str) -> None:
        self.service.sync.delete_session(**ALICE, session_id=name)
        one = self.sessions[name]
        one.waiting, one.remembered, one.due, one.tries = [], [], None, 0

    @rule()
    def restart(self) -> None:
        self.service.close()
        self.open()

    @invariant()
    def each_turn_is_remembered_once_at_its_time(self) -> None:
        if not hasattr(self, "service"):
            return
        lives = self.sessions.values()
        expected = [text for one in lives for text in one.remembered]
        assert sorted(memories(self.service)) == sorted(expected)
        assert len(kept(self.folder / "m.db")) == sum(len(one.waiting) for one in lives)
        soon = sorted(one.due for one in lives if one.due is not None)
        assert due(self.folder / "m.db") == pytest.approx(soon, rel=0, abs=1e-3)
        assert len(self.llm.asked) == self.calls
        assert len(self.recorder.asked) == len(set(self.recorder.asked))


TestLives = pytest.mark.campaign(Lives.TestCase)
TestLives.settings = campaign(25, 20)
