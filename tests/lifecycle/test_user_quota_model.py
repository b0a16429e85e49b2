"""Random lives of one user under a limit, against a list in plain Python."""

from __future__ import annotations

import math
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from helpers.campaigns import campaign
from helpers.clocks import DAY, SettableClock
from helpers.folders import fastest
from helpers.memories import ALICE, BOB, texts
from helpers.sessions import session
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from vecall import (
    LimitExceededError,
    MemoryEntry,
    MemoryService,
    Quota,
    StorageOptions,
    WritePolicy,
)
from vecall.store import examine

MOST, MOST_BYTES = 6, 130
NAMES = [f"f{number}" for number in range(9)]

names = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True)
sizes = st.sampled_from([0, 5, 20, 60])
times = st.sampled_from([None, 1.0, 1.0, 500.0, 1_799_999_000.0])
priors = st.sampled_from([None, 0.0, 0.3, 0.8, 1.0])


@dataclass
class Kept:
    """What the model knows of a live memory."""

    number: int  # in the order of their making
    text: str
    time: float
    touched: float
    prior: float | None
    uses: int = 0
    updated: float = 0.0  # each version has a later time than the one before

    @property
    def size(self) -> int:
        return len(self.text.encode())


def value(kept: Kept, now: float) -> float:
    """What docs say about importance, written down again."""
    prior = 0.5 if kept.prior is None else kept.prior
    if prior in (0.0, 1.0):
        return prior
    days = max(now - kept.time, 0.0) // DAY
    gained = 1.4 * (1 - 2 ** (-kept.uses / 4))
    lost = 0.7 * (1 - 2 ** (-days / 90))
    return 1 / (1 + math.exp(-(math.log(prior / (1 - prior)) + gained - lost)))


class LimitPrograms(RuleBasedStateMachine):
    """A service with limits, and what of the same calls would be left."""

    policy = "oldest"

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir=fastest()))
        self.path = self.folder / "m.db"
        self.clock = SettableClock()
        self.live: dict[str, Kept] = {}
        self.buried: set[str] = set()  # a turn of that name stays away
        self.made = 0
        self.turns = 0
        self.service = self.opened()
        self.service.sync.add_memory(**BOB, memories=["zebra bob"])

    def opened(self) -> MemoryService:
        return MemoryService(
            self.path,
            storage=StorageOptions(
                durability="process", clock=self.clock, maintenance_interval=None
            ),
            writes=WritePolicy(
                quota=Quota(memories=MOST, bytes=MOST_BYTES, eviction=self.policy)
            ),
            embedder=None,
        )

    def teardown(self) -> None:
        self.service.close()
        levels = {finding.about: finding.level for finding in examine(self.path)}
        shutil.rmtree(self.folder)
        assert "error" not in levels.values()
        assert levels["counts"] == "ok"

    def put(self, live: dict[str, Kept], name: str, new: Kept) -> bool:
        """Write one memory over what is there; whether anything changed."""
        now = self.clock.wall()
        old = live.get(name)
        if old is None:
            self.made += 1
            new.number, new.updated = self.made, now
        elif (old.text, old.prior) == (new.text, new.prior) and old.time == new.time:
            return False
        else:
            new.number, new.uses = old.number, old.uses
            new.updated = max(now, math.nextafter(old.updated, math.inf))
            new.touched = max(new.updated, old.touched)
        live[name] = new
        return True

    def settle(self, live: dict[str, Kept], written: set[str]) -> list[str]:
        """Who has to go, from what there would be; LimitExceededError for nobody."""
        now = self.clock.wall()
        order = {
            "oldest": lambda kept: kept.time,
            "lru": lambda kept: kept.touched,
            "lowest_value": lambda kept: value(kept, now),
        }
        gone = []

        def exceeds(most: int, most_bytes: int) -> bool:
            size = sum(kept.size for kept in live.values())
            return len(live) > most or size > most_bytes

        most, most_bytes = MOST, MOST_BYTES
        if self.policy in ("lru", "lowest_value"):  # 1 % more of the limit exceeded
            most -= MOST // 100 if exceeds(most, 10**9) else 0
            most_bytes -= MOST_BYTES // 100 if exceeds(10**9, MOST_BYTES) else 0
        while exceeds(most, most_bytes):
            if self.policy == "reject":
                raise LimitExceededError
            first = min(
                live,
                key=lambda name: (
                    name in written,
                    order[self.policy](live[name]),
                    live[name].number,
                ),
            )
            if first in written and not exceeds(MOST, MOST_BYTES):
                break
            del live[first]
            gone.append(first)
        return gone

    def write(
        self, told: dict[str, Kept], call: Callable[[], object], *, turns: bool = False
    ) -> None:
        """Make a call, and do to the model what it should do."""
        live = dict(self.live)
        written = set()
        for name, new in told.items():
            if turns and name in self.buried:
                continue
            if self.put(live, name, new):
                written.add(name)
        try:
            gone = self.settle(live, written)
        except LimitExceededError:
            with pytest.raises(LimitExceededError, match="nothing was written"):
                call()
            return
        call()
        self.live = live
        if not turns:
            self.buried -= told.keys()
        self.buried |= set(gone)

    def text(self, name: str, size: int) -> str:
        return f"zebra {name} " + "x" * size

    @rule(told=names, size=sizes, time=times, prior=priors)
    def tell(
        self, told: list[str], size: int, time: float | None, prior: float | None
    ) -> None:
        now = self.clock.wall()
        entries = [
            MemoryEntry(
                self.text(name, size), id=name, timestamp=time, importance=prior
            )
            for name in told
        ]
        made = {name: Kept(0, self.text(name, size), 0.0, now, prior) for name in told}
        for name, kept in made.items():
            kept.time = self.time_of(name, time)
        self.write(
            made,
            # Also over a correction of the same text, which is not what is tested here.
            lambda: self.service.sync.add_memory(
                **ALICE, memories=entries, restore=True
            ),
        )

    def time_of(self, name: str, time: float | None) -> float:
        """When it was said: as told, or when it was first stored."""
        if time is not None:
            return time
        old = self.live.get(name)
        return self.clock.wall() if old is None else self.stored_at[name]

    @property
    def stored_at(self) -> dict[str, float]:
        """When each memory was first stored, from the file."""
        with closing(sqlite3.connect(self.path)) as connection:
            found = connection.execute("SELECT id, created_at FROM mem").fetchall()
        return dict(found)

    @rule(more=st.integers(0, 9))
    def ingest_the_session(self, more: int) -> None:
        """All of its turns so far, and some new ones."""
        now = self.clock.wall()
        self.turns += more
        events, made = [], {}
        for number in range(self.turns):
            name, time = f"t{number}", 1_700_000_000.0 + number
            text = self.text(name, 0)
            events.append(
                {"id": name, "author": "user", "timestamp": time, "text": text}
            )
            made[name] = Kept(0, text, time, now, None)
        told = session(*events)
        self.write(
            made,
            lambda: self.service.sync.add_session_to_memory(told),
            turns=True,
        )
        if self.policy == "reject" and not set(made) <= self.live.keys() | self.buried:
            self.turns -= more

    @rule(name=st.sampled_from(NAMES), size=sizes)
    def correct(self, name: str, size: int) -> None:
        if name not in self.live:
            return
        old = self.live[name]
        text = self.text(name, size)
        new = Kept(0, text, old.time, self.clock.wall(), old.prior)
        self.write(
            {name: new},
            lambda: self.service.sync.update_memory(
                **ALICE, memory_id=name, content=text
            ),
        )

    @rule(told=names)
    def use(self, told: list[str]) -> None:
        self.service.sync.mark_used(**ALICE, memory_ids=told)
        for name in told:
            if name in self.live:
                used = self.live[name]
                used.uses += 1
                used.touched = max(used.touched, self.clock.wall())

    @rule(name=st.sampled_from(NAMES))
    def delete(self, name: str) -> None:
        self.service.sync.delete_memory(**ALICE, memory_id=name)
        if self.live.pop(name, None) is not None:
            self.buried.add(name)

    @rule(days=st.sampled_from([0.001, 3.0, 200.0]))
    def time_passes(self, days: float) -> None:
        self.clock.let_pass(days * DAY)

    @rule()
    def reopen(self) -> None:
        self.service.close()
        self.service = self.opened()

    @invariant()
    def exactly_the_right_ones_are_left(self) -> None:
        expected = sorted(kept.text for kept in self.live.values())
        assert texts(self.service) == expected
        listed = self.service.sync.list_memories(**ALICE, limit=1_000)
        assert sorted(memory.text for memory in listed) == expected
        assert texts(self.service, **BOB) == ["zebra bob"]
        with closing(sqlite3.connect(self.path)) as connection:
            counts = "SELECT live, bytes FROM part WHERE user = 'alice'"
            live, size = connection.execute(counts).fetchone() or (0, 0)
        assert live == len(expected) <= MOST
        assert size == sum(len(text.encode()) for text in expected) <= MOST_BYTES


class RejectPrograms(LimitPrograms):
    policy = "reject"


class LruPrograms(LimitPrograms):
    policy = "lru"


class ValuePrograms(LimitPrograms):
    policy = "lowest_value"


TestOldest = LimitPrograms.TestCase
TestReject = RejectPrograms.TestCase
TestLru = LruPrograms.TestCase
TestLowestValue = ValuePrograms.TestCase
for _case in (TestOldest, TestReject, TestLru, TestLowestValue):
    pytest.mark.campaign(_case).settings = campaign(15, 25)
