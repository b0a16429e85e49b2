"""The thread that clears away what expired, while everything else goes on."""

from __future__ import annotations

import gc
import logging
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from helpers.clocks import SettableClock
from helpers.memories import ALICE, SECRET, WAIT_S, texts
from helpers.processes import HOLDER, child, run, said, tell
from vecall import (
    BusyError,
    ConfigError,
    MemoryEntry,
    MemoryService,
    ReadOnlyError,
    StorageOptions,
)
from vecall.store import examine
from vecall.store.file import database

OFTEN = 0.01
NEVER = 10_000.0


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock()


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "m.db"


def eventually(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.01)


def keepers() -> set[threading.Thread]:
    """The threads of all housekeepers of this process."""
    every = threading.enumerate()
    return {thread for thread in every if thread.name == "vecall-housekeeper"}


def count(path: Path, table: str = "mem") -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def told(service: MemoryService, *names: str, ttl: float = 60.0) -> None:
    entries = [MemoryEntry(f"zebra {name}", id=name) for name in names]
    service.sync.add_memory(**ALICE, memories=entries, custom_metadata={"ttl": ttl})


def is_well(path: Path) -> None:
    levels = {finding.about: finding.level for finding in examine(path)}
    assert "error" not in levels.values()
    assert levels["counts"] == "ok"


def test_what_expired_is_cleared_away_while_nobody_asks(open_service, path, clock):
    """S4.58: the rows go, though there is no call at all."""
    service = open_service(path, clock=clock, maintenance_interval=OFTEN)
    told(service, "a", "b")
    told(service, "stays", ttl=1e6)
    assert len(texts(service)) == 3
    clock.let_pass(60.0)
    eventually(lambda: count(path) == 1)
    assert count(path, "tomb") == 2
    assert texts(service) == ["zebra stays"]
    assert service.sync.admin.stats()["memories"] == 1
    clock.let_pass(1e6)
    eventually(lambda: count(path) == 0)
    is_well(path)


def test_nothing_is_written_while_nothing_is_due(open_service, path, clock):
    """S4.58: an idle service leaves the disk alone."""
    service = open_service(path, clock=clock, maintenance_interval=OFTEN)
    told(service, "a")
    log = path.with_name("m.db-wal")
    before = log.stat().st_size

    def runs() -> int:
        return int(service.sync.admin.stats()["operations"].get("run_due", 0))

    begun = runs()
    eventually(lambda: runs() > begun + 3)
    assert log.stat().st_size == before


def test_a_service_is_closed_while_it_sweeps(open_service, path, clock, in_time):
    """S4.58: what the sweep has begun is finished; nothing is left half done."""
    service = open_service(path, clock=clock, maintenance_interval=OFTEN)
    told(service, *"abc")
    with child(HOLDER, path) as holder:
        assert said(holder) == "held"  # the sweep waits for its turn to write
        clock.let_pass(60.0)
        time.sleep(0.1)
        ended = threading.Event()
        threading.Thread(
            target=lambda: (service.close(), ended.set()), daemon=True
        ).start()
        assert not ended.wait(0.05)
        assert count(path) == 3
        tell(holder, "free")
        assert said(holder) == "free"
        assert ended.wait(WAIT_S)
    assert count(path) == 0
    is_well(path)


def test_closing_does_not_wait_for_the_next_look(open_service, in_time):
    """S4.58: however far off that is."""
    service = open_service(maintenance_interval=NEVER)
    in_time(service.close)


def refuse_deletions(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if "what was due could not be done" in record.getMessage()
    ]


def test_a_sweep_that_fails_is_tried_again(open_service, path, clock, caplog):
    """S4.58: the file refuses for a while; the log says so, but not what was there."""
    caplog.set_level(logging.DEBUG, "vecall")
    service = open_service(path, clock=clock, maintenance_interval=OFTEN)
    told(service, SECRET, "a")
    refuse_deletions(
        path,
        "CREATE TRIGGER no BEFORE DELETE ON mem BEGIN "
        f"SELECT RAISE(ABORT, 'never {SECRET}'); END",
    )
    clock.let_pass(60.0)
    eventually(lambda: len(warnings_of(caplog)) >= 2)
    assert count(path) == 2
    assert count(path, "tomb") == 0
    assert texts(service) == []
    refuse_deletions(path, "DROP TRIGGER no")
    eventually(lambda: count(path) == 0)
    assert SECRET not in caplog.text
    assert "alice" not in caplog.text
    is_well(path)


def test_a_sweep_that_cannot_have_its_turn_is_tried_again(
    open_service, path, clock, caplog, monkeypatch
):
    """S4.58: somebody else writes for long."""
    monkeypatch.setattr(database, "_GATE_TIMEOUT_S", 0.02)
    service = open_service(path, clock=clock, maintenance_interval=OFTEN)
    told(service, "a")
    with child(HOLDER, path) as holder:
        assert said(holder) == "held"
        clock.let_pass(60.0)
        eventually(lambda: bool(warnings_of(caplog)))
        assert BusyError.__name__ in warnings_of(caplog)[0]
        assert count(path) == 1
        tell(holder, "free")
        assert said(holder) == "free"
        eventually(lambda: count(path) == 0)
    is_well(path)


def test_a_service_that_only_reads_has_no_housekeeper(open_service, path, clock):
    """S4.58: it finds nothing that expired, and clears nothing away."""
    before = keepers()
    service = open_service(path, clock=clock, maintenance_interval=None)
    told(service, "a", "b")
    reading = open_service(
        path, clock=clock, maintenance_interval=OFTEN, read_only=True
    )
    assert keepers() == before
    clock.let_pass(60.0)
    assert texts(reading) == []
    with pytest.raises(ReadOnlyError):
        reading.sync.admin.run_due()
    assert count(path) == 2
    assert service.sync.admin.run_due() == 2
    assert keepers() == before


@pytest.mark.parametrize("wrong", [0, -1.0, "often", True])
def test_what_is_no_interval_is_refused(wrong):
    """S4.58: no service is opened, no thread begun."""
    before = keepers()
    with pytest.raises(ConfigError, match="maintenance_interval"):
        MemoryService(storage=StorageOptions(maintenance_interval=wrong), embedder=None)
    assert keepers() == before


def test_a_closed_service_leaves_no_thread(open_service, path):
    """S4.58: whatever it had begun."""
    before = set(threading.enumerate())
    service = open_service(path, maintenance_interval=OFTEN)
    told(service, "a")
    texts(service)
    service.close()
    assert set(threading.enumerate()) <= before


def test_a_service_that_nobody_has_any_more_is_not_kept_by_its_housekeeper(path):
    """S4.58: the thread ends, though its next look is far off."""
    before = keepers()
    service = MemoryService(
        path, storage=StorageOptions(maintenance_interval=NEVER), embedder=None
    )
    told(service, "a")
    assert len(keepers() - before) == 1
    gone = weakref.ref(service)
    del service
    with pytest.warns(ResourceWarning, match="unclosed"):
        gc.collect()
    assert gone() is None
    eventually(lambda: keepers() == before)


def test_sweeps_adds_and_searches_agree_in_the_end(open_service, path, clock):
    """S4.58: engine and file hold the same after any interleaving."""
    service = open_service(path, clock=clock, maintenance_interval=0.001)

    def work(number: int) -> None:
        for each in range(30):
            name = f"{number}.{each}"
            told(service, name, ttl=1.0 if each % 3 else 1e9)
            clock.let_pass(0.5)
            texts(service)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    clock.let_pass(1.0)
    service.sync.admin.run_due()
    expected = [f"zebra {n}.{each}" for n in range(3) for each in range(0, 30, 3)]
    assert texts(service) == sorted(expected)
    # Over a database the housekeeper may hold the claim on the last ones.
    eventually(lambda: count(path) == 30)
    assert service.sync.admin.stats()["memories"] == 30
    assert count(path, "tomb") == 60
    is_well(path)


SWEEPER = """
import sys, vecall
who = dict(app_name="app", user_id="alice")
storage = vecall.StorageOptions(maintenance_interval=0.002)
with vecall.MemoryService(sys.argv[1], storage=storage, embedder=None) as service:
    print("ready", flush=True)
    sys.stdin.readline()
    for each in range(40):
        entry = vecall.MemoryEntry("zebra", id=f"{sys.argv[2]}.{each}")
        service.sync.add_memory(
            **who, memories=[entry], custom_metadata={"ttl": 0.001})
    print("done", flush=True)
    sys.stdin.readline()
"""


def test_two_processes_sweep_one_file(open_service, path):
    """S4.58: each memory goes once, and nothing else does."""
    service = open_service(path, maintenance_interval=None)
    told(service, "stays", ttl=1e6)
    with ExitStack() as stack:
        running = [stack.enter_context(child(SWEEPER, path, n)) for n in range(2)]
        for process in running:
            assert said(process) == "ready"
        for process in running:
            tell(process, "go")
        assert [said(process) for process in running] == ["done", "done"]
        eventually(lambda: count(path) == 1)
    assert count(path, "tomb") == 80
    assert texts(service) == ["zebra stays"]
    assert service.sync.admin.run_due() == 0
    is_well(path)


# Forked while the housekeeper waits; each child has one of its own once it works.
FORKS = """
import os, sys, threading, time, vecall
who = dict(app_name="app", user_id="alice")

def sweeps(service, word):
    names = [thread.name for thread in threading.enumerate()]
    assert names.count("vecall-housekeeper") == 1, names
    service.sync.add_memory(
        **who, memories=[word], custom_metadata={"ttl": 0.001})
    end = time.monotonic() + 10
    while service.sync.admin.stats()["memories"] > 1:
        assert time.monotonic() < end, "never swept"
        time.sleep(0.01)

storage = vecall.StorageOptions(maintenance_interval=0.02)
service = vecall.MemoryService(sys.argv[1], storage=storage, embedder=None)
service.sync.add_memory(**who, memories=["zebra"])
ends = []
for fork in range(5):
    process = os.fork()
    if process == 0:
        try:
            found = service.sync.search_memory(**who, query="zebra").memories
            assert [memory.text for memory in found] == ["zebra"]
            sweeps(service, f"okapi {fork}")
            service.close()
            names = [thread.name for thread in threading.enumerate()]
            assert "vecall-housekeeper" not in names, names
            os._exit(0)
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
        finally:
            os._exit(4)
    ends.append(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))
idle = os.fork()
if idle == 0:
    service.close()  # never used here
    os._exit(0)
ends.append(os.waitstatus_to_exitcode(os.waitpid(idle, 0)[1]))
sweeps(service, "gnu")
service.close()
print(*ends)
"""


def test_parent_and_child_of_a_fork_both_keep_house(path):
    """S4.58, bug class 13: a thread does not cross a fork; a new one is begun."""
    done = run(FORKS, path)
    assert done.stdout.split() == ["0"] * 6, done.stderr[-2000:]
    assert count(path) == 1
    is_well(path)
