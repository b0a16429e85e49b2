"""The process ends while a service is open: no abort, no loss."""

from __future__ import annotations

from pathlib import Path
from weakref import WeakValueDictionary

import pytest
from helpers.processes import run
from vecall import ClosedError, MemoryService
from vecall.concurrency import closing
from vecall.concurrency.closing import ClosesOnExit

ME = {"app_name": "a", "user_id": "u"}

# Calls that let go of the interpreter, on a daemon thread, while the interpreter ends.
ENGINE = """
import threading, time
import numpy as np
from vecall import Index
index, rng = Index(64), np.random.default_rng(0)
ids, data = np.arange(500), rng.standard_normal((500, 64)).astype(np.float32)
started = threading.Event()
def work():
    while True:
        index.add(ids.astype(np.int64), data)
        started.set()
threading.Thread(target=work, daemon=True).start()
started.wait()
"""

# Fire and forget, as a callback after an agent's turn does; then the program ends.
FORGET = """
import asyncio, sys
from vecall import MemoryService
async def main():
    memory = MemoryService(sys.argv[1], embedder=None)
    def told(start, count):
        return [{"id": f"e{i}", "content": f"turn {i} " + "and more words " * 10}
                for i in range(start, start + count)]
    me = {"app_name": "a", "user_id": "u", "session_id": "s"}
    await memory.add_events_to_memory(**me, events=told(0, 5))
    task = asyncio.create_task(
        memory.add_events_to_memory(**me, events=told(5, 2_000)))
    while memory._memory.storage._writer._queue.empty() and not task.done():
        await asyncio.sleep(0)
asyncio.run(main())
"""

# Threads add until the end of the process; every acknowledged id is printed.
THREADS = """
import os, sys, threading
from vecall import ClosedError, MemoryService
memory = MemoryService(sys.argv[1], embedder=None)
some = threading.Event()
def work(number):
    for i in range(1_000_000):
        try:
            (id_,) = memory.sync.add_memory(
                app_name="a", user_id=f"u{number}", memories=[f"note {i} " * 50])
        except ClosedError:
            return
        os.write(1, f"u{number} {id_}\\n".encode())
        some.set()
for number in range(4):
    threading.Thread(target=work, args=(number,), daemon=True).start()
some.wait()
"""


def printed(code: str, *args: object) -> str:
    done = run(code, *args, timeout_s=100)
    assert not done.stderr
    return done.stdout


def test_a_daemon_thread_in_the_engine_does_not_abort_the_process() -> None:
    printed(ENGINE)


@pytest.mark.parametrize("turn", range(2))
def test_what_was_queued_is_written_before_the_process_ends(
    tmp_path: Path, turn: int
) -> None:
    path = tmp_path / "m.db"
    printed(FORGET, path)
    with MemoryService(path, embedder=None) as memory:
        count = memory.sync.admin.stats()["memories"]
    assert count in (5, 2_005)  # a call is written whole or not at all


def test_no_acknowledged_write_of_a_daemon_thread_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    told = [line.split() for line in printed(THREADS, path).splitlines()]
    assert told
    with MemoryService(path, embedder=None) as memory:
        for user, id_ in told:
            entry = memory.sync.get_memory(app_name="a", user_id=user, memory_id=id_)
            assert entry.id == id_


def test_a_service_that_cannot_be_closed_keeps_no_other_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stuck(ClosesOnExit):
        def close(self) -> None:
            raise RuntimeError

    monkeypatch.setattr(closing, "_open", WeakValueDictionary())
    memory, stuck = MemoryService(tmp_path / "m.db", embedder=None), Stuck()
    closing.close_at_exit(stuck)  # later ones are closed first
    closing._close_open_services()
    with pytest.raises(ClosedError):
        memory.sync.admin.stats()
