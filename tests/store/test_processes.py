"""Several processes and services on one file: each sees what the others wrote."""

from __future__ import annotations

import json
import subprocess
from contextlib import ExitStack
from typing import Any

from helpers.memories import ALICE, texts
from helpers.processes import child, said, tell

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
