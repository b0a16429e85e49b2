"""Several processes and services on one file: each sees what the others wrote."""

from __future__ import annotations

import asyncio
import json
import os
import struct
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from helpers.memories import ALICE, texts
from helpers.processes import HOLDER, child, run, said, tell

SERVER = """
import json, sys, vecall
service = vecall.MemoryService(sys.argv[1], embedder=None)
print("ready", flush=True)
for line in sys.stdin:
    name, arguments = json.loads(line)
    if name == "texts":
        found = service.sync.search_memory(**arguments, top_k=1000)
        answer = sorted(memory.text for memory in found.memories)
    else:
        answer = getattr(service.sync, name)(**arguments)
    print(json.dumps(answer), flush=True)
"""


def ask(process: subprocess.Popen[str], name: str, **arguments: Any) -> Any:
    tell(process, json.dumps([name, {**ALICE, **arguments}]))
    return json.loads(said(process))


def test_two_processes_see_each_others_writes_at_once(open_service, tmp_path):
    """Guarantee 4: what one acknowledged, the next search in the other finds.

    Adds, changes and deletions, in both directions, without a pause.
    """
    path = tmp_path / "m.db"
    service = open_service(path)
    with child(SERVER, path) as other:
        assert said(other) == "ready"
        expected: list[str] = []
        for i in range(20):
            (id_,) = service.sync.add_memory(**ALICE, memories=[f"zebra here{i}"])
            assert f"zebra here{i}" in ask(other, "texts", query="zebra")
            (there,) = ask(other, "add_memory", memories=[f"zebra there{i}"])
            expected += [f"zebra here{i}", f"zebra there{i}"]
            assert texts(service, "zebra") == sorted(expected)
            entry = {"content": f"zebra changed{i}", "id": id_}
            ask(other, "add_memory", memories=[entry])
            expected[-2] = f"zebra changed{i}"
            assert texts(service, "zebra") == sorted(expected)
            assert texts(service, f"here{i}") == []
            if i % 3 == 0:
                service.sync.delete_memory(**ALICE, memory_id=there)
                expected.remove(f"zebra there{i}")
            assert ask(other, "texts", query="zebra") == sorted(expected)
        assert service.sync.admin.stats()["memories"] == len(expected)


def test_two_services_of_one_process_see_each_others_writes(open_service, tmp_path):
    """Guarantee 4, and closing one drops no lock of the other (finding 1)."""
    path = tmp_path / "m.db"
    first, second = open_service(path), open_service(str(path))
    for i in range(10):
        first.sync.add_memory(**ALICE, memories=[f"zebra one{i}"])
        second.sync.add_memory(**ALICE, memories=[f"zebra two{i}"])
        assert len(texts(first, "zebra")) == len(texts(second, "zebra")) == 2 * i + 2
    second.close()
    with child(SERVER, path) as other:
        assert said(other) == "ready"
        ask(other, "add_memory", memories=["zebra three"])
        first.sync.add_memory(**ALICE, memories=["zebra four"])
        assert len(ask(other, "texts", query="zebra")) == 22
    assert len(texts(first, "zebra")) == 22


def test_processes_may_make_one_new_file_at_the_same_time(open_service, tmp_path):
    """Opening, journal mode and migration race with no one."""
    script = """
import sys
import vecall
print("ready", flush=True)
sys.stdin.readline()
for number in range(15):
    with vecall.MemoryService(f"{sys.argv[1]}/{number}.db", embedder=None) as service:
        service.sync.add_memory(app_name="app", user_id="alice", memories=[sys.argv[2]])
print("done", flush=True)
"""
    with ExitStack() as stack:
        running = [
            stack.enter_context(child(script, tmp_path, f"zebra {i}")) for i in range(4)
        ]
        for process in running:
            assert said(process) == "ready"
        for process in running:
            tell(process, "go")
        assert [said(process) for process in running] == ["done"] * 4
    for number in range(15):
        assert len(texts(open_service(tmp_path / f"{number}.db"), "zebra")) == 4


def commits_in(log: Path) -> int:
    """The transactions in a write-ahead log, read by another process.

    Frames are a header of 24 bytes and a page; the fifth to eighth byte of the header
    are not zero where a transaction ends.
    """
    script = "import sys; sys.stdout.buffer.write(open(sys.argv[1], 'rb').read())"
    data = subprocess.run(
        [sys.executable, "-c", script, str(log)], capture_output=True, check=True
    ).stdout
    page = struct.unpack(">I", data[8:12])[0]
    salt = data[16:24]
    commits = 0
    for at in range(32, len(data) - page, 24 + page):
        if data[at + 8 : at + 16] == salt:
            commits += struct.unpack(">I", data[at + 4 : at + 8])[0] != 0
    return commits


def test_writes_that_wait_together_share_one_sync(open_service, tmp_path):
    """A hundred writes that queued up behind the gate are a few transactions."""
    path = tmp_path / "m.db"
    service = open_service(path)

    async def work() -> None:
        with child(HOLDER, path) as holder:
            assert said(holder) == "held"
            adds = [
                asyncio.ensure_future(
                    service.add_memory(**ALICE, memories=[f"zebra {i}"])
                )
                for i in range(100)
            ]
            await asyncio.sleep(0)  # each ran up to its first wait: it is queued
            before = commits_in(path.with_name("m.db-wal"))
            tell(holder, "go")
            assert said(holder) == "free"
            ids = await asyncio.gather(*adds)
            after = commits_in(path.with_name("m.db-wal"))
            assert len({id_ for (id_,) in ids}) == 100
            assert 1 <= after - before <= 5

    asyncio.run(work())
    assert len(texts(service, "zebra")) == 100


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_does_not_hang_and_harms_nothing(open_service, tmp_path):
    """contracts.md, threads: after fork, a child opens anew. Bug class 13."""
    path = tmp_path / "m.db"
    script = """
import os, sys, vecall
scope = dict(app_name="app", user_id="alice")
service = vecall.MemoryService(sys.argv[1], embedder=None)
service.sync.add_memory(**scope, memories=["zebra parent"])
service.sync.search_memory(**scope, query="zebra")
child = os.fork()
if child == 0:
    import faulthandler
    faulthandler.dump_traceback_later(4, exit=True)
    try:
        service.sync.add_memory(**scope, memories=["zebra child"])
        found = service.sync.search_memory(**scope, query="zebra").memories
        os._exit(0 if len(found) == 2 else 3)
    except vecall.VecallError:
        os._exit(0)
    finally:
        os._exit(4)
_, status = os.waitpid(child, 0)
service.sync.add_memory(**scope, memories=["zebra again"])
print(os.waitstatus_to_exitcode(status), flush=True)
"""
    assert run(script, path).stdout.strip() == "0", (
        "the child hung or got a wrong answer"
    )
    assert {"zebra parent", "zebra again"} <= set(texts(open_service(path), "zebra"))
