"""Changes that hold only for the version that was read: of services and processes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from helpers.clocks import SettableClock
from helpers.memories import ALICE, BOB
from helpers.processes import run
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from vecall import (
    ConflictError,
    InvalidArgumentError,
    InvalidTypeError,
    MemoryEntry,
    MemoryService,
    NotFoundError,
    StorageOptions,
)

IDS = st.sampled_from(["a", "b", "c"])
TEXTS = st.sampled_from(["zebra", "lion", "duck"])


class Versions(RuleBasedStateMachine):
    """A dict of texts and versions, next to a service whose clock stands still."""

    @initialize()
    def begin(self) -> None:
        self.clock = SettableClock()
        self.service = MemoryService(
            embedder=None,
            storage=StorageOptions(clock=self.clock),
        )
        self.texts: dict[str, str] = {}
        self.seen: dict[str, list[float]] = {}

    def teardown(self) -> None:
        self.service.close()

    def _now(self, id_: str) -> float:
        entry = self.service.sync.get_memory(**ALICE, memory_id=id_)
        assert entry.text == self.texts[id_]
        assert entry.version is not None
        return entry.version

    def _note(self, id_: str) -> None:
        version = self._now(id_)
        assert version not in self.seen.setdefault(id_, [])
        self.seen[id_].append(version)

    @rule(id_=IDS, text=TEXTS)
    def add_if_absent(self, id_: str, text: str) -> None:
        def add() -> Any:
            entry = MemoryEntry(text, id=id_)
            return self.service.sync.add_memory(
                **ALICE, memories=[entry], if_absent=True
            )

        if id_ in self.texts:
            with pytest.raises(ConflictError, match="if_absent"):
                add()
            return
        self.clock.let_pass(1)  # a deleted memory's version may come back otherwise
        assert add() == [id_]
        self.texts[id_] = text
        self._note(id_)

    @rule(id_=IDS, text=TEXTS, newest=st.booleans(), step=st.sampled_from([0, 0, -5]))
    def update(self, id_: str, text: str, newest: bool, step: float) -> None:
        self.clock.let_pass(step)
        versions = self.seen.get(id_, [0.0])

        def update() -> Any:
            return self.service.sync.update_memory(
                **ALICE,
                memory_id=id_,
                content=text,
                if_version=versions[-1 if newest else 0],
            )

        if id_ not in self.texts:
            with pytest.raises(NotFoundError):
                update()
        elif not newest and len(versions) > 1:
            with pytest.raises(ConflictError, match="if_version"):
                update()
        elif self.texts[id_] == text:  # nothing changes
            assert update().version == versions[-1]
        else:
            update()
            self.texts[id_] = text
            self._note(id_)

    @rule(id_=IDS, newest=st.booleans())
    def delete(self, id_: str, newest: bool) -> None:
        versions = self.seen.get(id_, [0.0])

        def delete() -> bool:
            version = versions[-1 if newest else 0]
            return self.service.sync.delete_memory(
                **ALICE, memory_id=id_, if_version=version
            )

        if id_ not in self.texts:
            assert not delete()
        elif not newest and len(versions) > 1:
            with pytest.raises(ConflictError, match="if_version"):
                delete()
            self._now(id_)
        else:
            assert delete()
            del self.texts[id_]
            self.clock.let_pass(10)  # past the steps back of this test


TestVersions = Versions.TestCase
TestVersions.settings = settings(max_examples=30, stateful_step_count=12, deadline=None)


def test_a_version_is_on_all_that_is_read(open_service):
    service = open_service()
    service.sync.add_memory(**ALICE, memories=[MemoryEntry("zebra", id="m")])
    user = service.sync.user(*ALICE.values())
    changed = user.update("m", content="zebra lion", if_version=user.get("m").version)
    (found,) = user.search("zebra")
    (listed,) = user.list()
    (several,) = user.get_many(["m"])
    (*_, past) = user.history("m")
    read = [found, listed, several, user.get("m"), past.memory]
    assert {each.version for each in read} == {changed.version}
    user.mark_used(["m"])
    assert user.get("m").version == changed.version
    user.archive("m")
    with pytest.raises(NotFoundError):
        user.update("m", content="x", if_version=changed.version)
    with pytest.raises(ConflictError):
        user.add([MemoryEntry("new", id="m")], if_absent=True)


def test_a_conflict_in_one_of_several_memories_writes_none(open_service):
    service = open_service()
    service.sync.add_memory(**ALICE, memories=[MemoryEntry("zebra", id="m")])
    told = [MemoryEntry("new", id="n"), MemoryEntry("other", id="m")]
    with pytest.raises(ConflictError):
        service.sync.add_memory(**ALICE, memories=told, if_absent=True)
    assert [each.text for each in service.sync.list_memories(**ALICE)] == ["zebra"]
    assert service.sync.add_memory(**BOB, memories=told, if_absent=True) == ["n", "m"]


@pytest.mark.parametrize("wrong", ["x", float("nan"), float("inf"), True, [1]])
def test_a_version_that_cannot_be_is_refused(open_service, wrong):
    service = open_service()
    service.sync.add_memory(**ALICE, memories=[MemoryEntry("zebra", id="m")])
    named = {**ALICE, "memory_id": "m", "if_version": wrong}
    with pytest.raises((InvalidArgumentError, InvalidTypeError), match="if_version"):
        service.sync.update_memory(**named, content="lion")
    with pytest.raises((InvalidArgumentError, InvalidTypeError), match="if_version"):
        service.sync.delete_memory(**named)
    with pytest.raises(InvalidTypeError, match="if_absent"):
        service.sync.add_memory(**ALICE, memories=["x"], if_absent=1)
    assert [each.text for each in service.sync.list_memories(**ALICE)] == ["zebra"]


def counted(service: Any, times: int) -> int:
    """Count up a memory `times` times; returns the conflicts."""
    conflicts = 0
    while times:
        entry = service.sync.get_memory(**ALICE, memory_id="m")
        try:
            service.sync.update_memory(
                **ALICE,
                memory_id="m",
                content=str(int(entry.text) + 1),
                if_version=entry.version,
            )
        except ConflictError:
            conflicts += 1
        else:
            times -= 1
    return conflicts


def test_no_update_is_lost_between_services_that_race(open_service, tmp_path):
    path = tmp_path / "m.db"
    services = [open_service(path, embedder=None) for _ in range(3)]
    services[0].sync.add_memory(**ALICE, memories=[MemoryEntry("0", id="m")])
    with ThreadPoolExecutor(6) as threads:
        done = [threads.submit(counted, each, 8) for each in services * 2]
        conflicts = [each.result() for each in done]
    assert services[0].sync.get_memory(**ALICE, memory_id="m").text == "48"
    past = services[0].sync.memory_history(**ALICE, memory_id="m")
    assert len({each.memory.version for each in past}) == 49
    assert min(conflicts) >= 0


def test_one_of_several_that_race_to_create_a_memory_does(open_service, tmp_path):
    path = tmp_path / "m.db"
    services = [open_service(path, embedder=None) for _ in range(3)]

    def create(at: int, number: int) -> bool:
        entry = MemoryEntry(f"of {at}", id=f"m{number}")
        try:
            services[at % 3].sync.add_memory(**ALICE, memories=[entry], if_absent=True)
        except ConflictError:
            return False
        return True

    with ThreadPoolExecutor(6) as threads:
        for number in range(10):
            won = [threads.submit(create, at, number) for at in range(6)]
            winners = [at for at, each in enumerate(won) if each.result()]
            assert len(winners) == 1
            entry = services[0].sync.get_memory(**ALICE, memory_id=f"m{number}")
            assert entry.text == f"of {winners[0]}"


COUNTER = """
import sys
from vecall import ConflictError, MemoryService
alice = {"app_name": sys.argv[2], "user_id": sys.argv[3]}
with MemoryService(sys.argv[1], embedder=None) as service:
    times = 15
    while times:
        entry = service.sync.get_memory(**alice, memory_id="m")
        try:
            service.sync.update_memory(
                **alice, memory_id="m", content=str(int(entry.text) + 1),
                if_version=entry.version,
            )
            times -= 1
        except ConflictError:
            pass
"""


def test_no_update_is_lost_between_processes_that_race(open_service, tmp_path):
    path = tmp_path / "m.db"
    service = open_service(path, embedder=None)
    service.sync.add_memory(**ALICE, memories=[MemoryEntry("0", id="m")])
    with ThreadPoolExecutor(3) as threads:
        done = [threads.submit(run, COUNTER, path, *ALICE.values()) for _ in range(2)]
        for each in done:
            each.result()
        counted(service, 5)
    assert service.sync.get_memory(**ALICE, memory_id="m").text == "35"
