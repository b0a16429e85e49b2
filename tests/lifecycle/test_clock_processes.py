"""Several processes on one file, and a wall clock that is set between their calls."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from subprocess import Popen

import pytest
from helpers.clocks import START, YEAR, FileClock
from helpers.paths import TESTS
from helpers.processes import child, said, tell

# Does what each line says: opens, tells something for some seconds, looks, sweeps.
WORKER = f"""
import sys
sys.path.insert(0, {str(TESTS)!r})
import vecall
from helpers.clocks import FileClock
who = dict(app_name="app", user_id="alice")
path, clock = sys.argv[1], FileClock(sys.argv[2])
service = None
for line in sys.stdin:
    do, _, what = line.strip().partition(" ")
    if do == "open":
        if service is not None:
            service.close()
        service = vecall.MemoryService(
            path, storage=vecall.StorageOptions(clock=clock, maintenance_interval=None),
            embedder=None)
    if do == "tell":
        word, ttl = what.split()
        entry = vecall.MemoryEntry("zebra " + word, id=word)
        service.sync.add_memory(
            **who, memories=[entry], custom_metadata={{"ttl": float(ttl)}})
    if do == "sweep":
        service.sync.admin.run_due()
    found = service.sync.search_memory(**who, query="zebra", top_k=100).memories
    print("has", *sorted(memory.id for memory in found), flush=True)
"""


class Machine:
    """A clock that all processes share."""

    def __init__(self, path: Path) -> None:
        self.clock = FileClock(path)
        self.wall, self.passing = START, 1_000.0
        self.let_pass(0.0)

    def let_pass(self, seconds: float) -> None:
        self.passing += seconds
        self.jump(seconds)

    def jump(self, seconds: float) -> None:
        self.wall += seconds
        self.clock.set(self.wall, self.passing)


@pytest.fixture
def machine(tmp_path) -> Machine:
    return Machine(tmp_path / "clock")


@pytest.fixture
def workers(tmp_path, machine) -> Iterator[list[Popen[str]]]:
    with ExitStack() as stack:
        arguments = (tmp_path / "m.db", tmp_path / "clock")
        yield [stack.enter_context(child(WORKER, *arguments)) for _ in range(2)]


def asked(worker: Popen[str], line: str = "look") -> list[str]:
    tell(worker, line)
    first, *found = said(worker).split(" ")
    assert first == "has"
    return found


@pytest.mark.parametrize("jump", [YEAR, -YEAR])
def test_processes_agree_on_what_lives_whatever_the_wall_clock_says(
    tmp_path, machine, workers, jump
):
    """S4.58, bug class 29: opened before the clock was set, or after."""
    one, other = workers
    asked(one, "open")
    asked(one, "tell a 100")
    machine.jump(jump)
    asked(other, "open")
    assert asked(other) == asked(one) == ["a"]
    machine.let_pass(50.0)
    asked(other, "tell b 100")
    machine.jump(-jump)
    machine.let_pass(49.75)
    for worker in workers:
        assert asked(worker, "sweep") == ["a", "b"]
    machine.let_pass(0.25)
    assert asked(one) == asked(other) == ["b"]
    machine.jump(jump)
    assert asked(one, "open") == asked(other, "open") == ["b"]
    asked(one, "tell c 100")
    machine.let_pass(50.0)
    assert asked(other, "sweep") == asked(one) == ["c"]
    machine.jump(-jump)
    assert asked(one, "open") == asked(other, "open") == ["c"]
    machine.let_pass(50.0)
    assert asked(one, "sweep") == asked(other) == []
    with closing(sqlite3.connect(tmp_path / "m.db")) as connection:
        assert connection.execute("SELECT count(*) FROM mem").fetchone() == (0,)
        gone = connection.execute("SELECT id, why FROM tomb ORDER BY id").fetchall()
    assert gone == [(name, "expired") for name in "abc"]
