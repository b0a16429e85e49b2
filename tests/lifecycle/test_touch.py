"""The expiry of memories moves, and nothing else of them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from helpers.clocks import SettableClock
from helpers.embedders import Recorder
from helpers.memories import ALICE, BOB
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from vecall import (
    InvalidArgumentError,
    InvalidTypeError,
    MemoryEntry,
    MemoryService,
    Put,
    StorageOptions,
)

IDS = ["a", "b", "c", "d"]
SOME = st.lists(st.sampled_from([*IDS, "absent"]), min_size=1, max_size=3)
TTLS = st.sampled_from([5.0, 20.0, 100.0, None])


class Expiries(RuleBasedStateMachine):
    """A dict of ends, next to a service with a clock of its own."""

    @initialize()
    def begin(self) -> None:
        self.clock = SettableClock()
        self.service = MemoryService(
            embedder=Recorder(),
            storage=StorageOptions(clock=self.clock, maintenance_interval=None),
        )
        self.now = 0.0
        self.ends: dict[str, float | None] = {}

    def teardown(self) -> None:
        self.service.close()

    def _alive(self) -> set[str]:
        return {i for i, end in self.ends.items() if end is None or end > self.now}

    @rule(id_=st.sampled_from(IDS), ttl=TTLS)
    def add(self, id_: str, ttl: float | None) -> None:
        if id_ in self.ends:
            return
        meta = {} if ttl is None else {"ttl": ttl}
        entry = MemoryEntry(f"zebra {id_}", id=id_, custom_metadata=meta)
        self.service.sync.add_memory(**ALICE, memories=[entry])
        self.ends[id_] = None if ttl is None else self.now + ttl

    @rule(ids=SOME, ttl=TTLS)
    def touch(self, ids: list[str], ttl: float | None) -> None:
        before = {each.id: each for each in self._listed(include_expired=True)}
        right = self._alive() & set(ids)
        found = self.service.sync.touch_memories(**ALICE, memory_ids=ids, ttl=ttl)
        assert found == len(right)
        for id_ in right:
            self.ends[id_] = None if ttl is None else self.now + ttl
        assert {each.id: each for each in self._listed(include_expired=True)} == before

    @rule(seconds=st.sampled_from([1.0, 4.0, 30.0]))
    def wait(self, seconds: float) -> None:
        self.clock.let_pass(seconds)
        self.now += seconds

    @rule()
    def sweep(self) -> None:
        self.service.admin.sync.run_due()
        alive = self._alive()
        self.ends = {id_: end for id_, end in self.ends.items() if id_ in alive}

    @rule()
    def read(self) -> None:
        alive = self._alive()
        sync = self.service.sync
        assert {each.id for each in self._listed()} == alive
        assert {each.id for each in self._listed(include_expired=True)} == set(
            self.ends
        )
        assert sync.count_memories(**ALICE) == len(alive)
        every = sync.count_memories(**ALICE, include_expired=True)
        assert every == len(self.ends)
        found = sync.search_memory(**ALICE, query="zebra", top_k=10)
        assert {each.id for each in found} == alive
        for expired, right in ((False, alive), (True, set(self.ends))):
            read = sync.get_memories(**ALICE, memory_ids=IDS, include_expired=expired)
            assert {each.id for each in read if each is not None} == right

    def _listed(self, **options: Any) -> list[MemoryEntry]:
        return self.service.sync.list_memories(**ALICE, **options)


TestExpiries = Expiries.TestCase
TestExpiries.settings = settings(max_examples=25, stateful_step_count=15, deadline=None)


def test_a_touch_embeds_nothing_leaves_no_revision_and_survives(open_service, tmp_path):
    clock = SettableClock()
    path = tmp_path / "m.db"
    options = {"clock": clock, "maintenance_interval": None}
    embedder = Recorder()
    with open_service(path, embedder=embedder, **options) as service:
        entry = MemoryEntry("zebra", id="m", custom_metadata={"ttl": 10})
        service.sync.add_memory(**ALICE, memories=[entry])
        service.sync.add_memory(**BOB, memories=[entry])
        asked = list(embedder.asked)
        user = service.sync.user(*ALICE.values())
        assert user.touch(["m"], timedelta(seconds=50)) == 1
        assert embedder.asked == asked
        assert len(user.history("m")) == 1
    clock.let_pass(20)
    service = open_service(path, embedder=embedder, **options)
    assert len(service.sync.search_memory(**ALICE, query="zebra").memories) == 1
    assert service.sync.list_memories(**BOB) == []
    service.admin.sync.run_due()
    assert len(service.sync.list_memories(**ALICE)) == 1
    clock.let_pass(40)
    assert service.sync.touch_memories(**ALICE, memory_ids=["m"], ttl=9) == 0
    assert service.sync.list_memories(**ALICE) == []
    assert [
        each.id for each in service.sync.list_memories(**ALICE, include_expired=True)
    ]


def test_an_archived_memory_whose_time_is_over_is_unknown(open_service):
    """No sweep has come yet: it is still in the file."""
    clock = SettableClock()
    service = open_service(clock=clock, maintenance_interval=None)
    for id_, ttl in (("brief", 10), ("lasting", 100)):
        entry = MemoryEntry(f"zebra {id_}", id=id_, custom_metadata={"ttl": ttl})
        service.sync.add_memory(**ALICE, memories=[entry])
        service.sync.archive_memory(**ALICE, memory_id=id_)
    clock.let_pass(20)
    touched = {"memory_ids": ["brief", "lasting"], "ttl": 500}
    assert service.sync.touch_memories(**ALICE, **touched) == 1
    clock.let_pass(200)
    service.admin.sync.run_due()
    listed = service.sync.list_memories(**ALICE, state="archived")
    assert [each.id for each in listed] == ["lasting"]


def test_another_service_sees_the_new_expiry(open_service, tmp_path):
    clock = SettableClock()
    options = {"clock": clock, "maintenance_interval": None}
    one, two = (open_service(tmp_path / "m.db", **options) for _ in range(2))
    entry = MemoryEntry("zebra", id="m", custom_metadata={"ttl": 10})
    one.sync.add_memory(**ALICE, memories=[entry])
    assert len(two.sync.search_memory(**ALICE, query="zebra").memories) == 1
    one.sync.touch_memories(**ALICE, memory_ids=["m"], ttl=100)
    clock.let_pass(50)
    assert len(two.sync.search_memory(**ALICE, query="zebra").memories) == 1
    one.sync.touch_memories(**ALICE, memory_ids=["m"], ttl=1)
    clock.let_pass(2)
    assert len(two.sync.search_memory(**ALICE, query="zebra").memories) == 0


@pytest.mark.parametrize(
    ("ttl", "kind"),
    [
        (0, InvalidArgumentError),
        (-1, InvalidArgumentError),
        (float("nan"), InvalidArgumentError),
        ("soon", InvalidArgumentError),
        (True, InvalidTypeError),
        ([1], InvalidTypeError),
    ],
)
def test_a_ttl_that_cannot_be_is_refused(open_service, ttl, kind):
    service = open_service()
    service.sync.add_memory(**ALICE, memories=[MemoryEntry("zebra", id="m")])
    with pytest.raises(kind, match="ttl"):
        service.sync.touch_memories(**ALICE, memory_ids=["m"], ttl=ttl)
    with pytest.raises(InvalidTypeError, match="include_expired"):
        service.sync.list_memories(**ALICE, include_expired=1)


def test_days_are_a_ttl_wherever_one_is_taken(open_service):
    """The service's, a call's, an entry's, an item's, and that of `touch`."""
    clock = SettableClock()
    begin = clock.monotonic()
    service = open_service(clock=clock, ttl="30d")
    alice = service.sync.user(*ALICE.values())
    entry = MemoryEntry("by entry", id="entry", custom_metadata={"ttl": "1d"})
    alice.add([MemoryEntry("by service", id="service"), entry])
    alice.add([MemoryEntry("by call", id="call")], ttl="12h")
    alice.add([MemoryEntry("touched", id="touched")], ttl="1h")
    assert alice.touch(["touched"], "1w") == 1
    alice.items.write([Put(("n",), "k", 1, ttl="2d")])
    lives = {"call": 0.5, "entry": 1, "touched": 7, "service": 30}
    for days in (0.4, 0.6, 1.1, 6.9, 7.1, 29.9, 30.1):
        clock.let_pass(days * 86_400 - (clock.monotonic() - begin))
        left = {each.id for each in alice.list()}
        assert left == {name for name, end in lives.items() if days < end}
        assert bool(alice.items.find()) == (days < 2)
