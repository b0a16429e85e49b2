"""A service crosses a fork: children work, and lose nothing, nor do their parents."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest
from helpers.campaigns import scaled
from helpers.memories import texts
from helpers.processes import run

ALICE = {"app_name": "app", "user_id": "alice"}

# Threads of the parent add and search at the moment of each fork.
FORKS = """
import faulthandler, os, sys, threading, time, vecall
scope = dict(app_name="app", user_id="alice")
service = vecall.MemoryService(sys.argv[1], embedder=None)
service.sync.add_memory(**scope, memories=["zebra parent"])
over = threading.Event()

def adds(user):
    number = 0
    while not over.is_set():
        scope = dict(app_name="app", user_id=user)
        service.sync.add_memory(**scope, memories=[f"gnu {number}"])
        number += 1

def searches():
    while not over.is_set():
        assert service.sync.search_memory(**scope, query="zebra").memories

for work in (lambda: adds("bob"), lambda: adds("carol"), searches):
    threading.Thread(target=work, daemon=True).start()
ends = []
for fork in range(int(sys.argv[2])):
    time.sleep(0.01)
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(10, exit=True)
        try:
            service.sync.add_memory(**scope, memories=[f"zebra child{fork}"])
            found = service.sync.search_memory(
                **scope, query=f"child{fork} parent", top_k=1000).memories
            texts = {memory.text for memory in found}
            os._exit(0 if {f"zebra child{fork}", "zebra parent"} <= texts else 3)
        except BaseException as error:
            print(fork, repr(error), file=sys.stderr, flush=True)
        finally:
            os._exit(4)
    ends.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
over.set()
service.close()
print(*ends)
"""


def printed(script: str, *arguments: object) -> str:
    return run(script, *arguments, timeout_s=150).stdout.strip()


def test_children_of_a_busy_parent_work(open_service, tmp_path):
    """Bug class 13: no hang, no lost write, whatever the parent did at the fork."""
    path = tmp_path / "m.db"
    assert printed(FORKS, path, 10) == " ".join(["0"] * 10)
    service = open_service(path)
    found = service.sync.search_memory(**ALICE, query="zebra", top_k=1000).memories
    expected = {"zebra parent", *(f"zebra child{fork}" for fork in range(10))}
    assert {memory.text for memory in found} == expected
    service.close()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


# The parent closes, as a server's main process may, while its children go on.
CLOSING_PARENT = """
import os, sys, vecall
scope = dict(app_name="app", user_id="alice")
service = vecall.MemoryService(sys.argv[1], embedder=None)
service.sync.add_memory(**scope, memories=["zebra parent"])
service.sync.search_memory(**scope, query="zebra")
says, hears = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    for number in range(4):
        service.sync.add_memory(**scope, memories=[f"zebra child{number}"])
        os.write(says[1], b"x")
        os.read(hears[0], 1)
    os._exit(0)
os.read(says[0], 1)
service.close()
os.write(hears[1], b"x")
os.read(says[0], 1)
with vecall.MemoryService(sys.argv[1], embedder=None) as third:
    third.sync.add_memory(**scope, memories=["zebra third"])
os.write(hears[1], b"x")
os.read(says[0], 1)
with vecall.MemoryService(sys.argv[1], embedder=None) as third:
    found = third.sync.search_memory(**scope, query="zebra", top_k=100).memories
    print(len(found), flush=True)
os.write(hears[1], b"xx")
os.waitpid(child, 0)
"""


def test_a_child_loses_nothing_when_its_parent_closes(open_service, tmp_path):
    """Guarantee 1: what a child was told is stored is in the file."""
    path = tmp_path / "m.db"
    assert printed(CLOSING_PARENT, path) == "5"
    service = open_service(path)
    found = service.sync.search_memory(**ALICE, query="zebra", top_k=100).memories
    assert {memory.text for memory in found} == {
        "zebra parent",
        "zebra third",
        *(f"zebra child{number}" for number in range(4)),
    }


# As gunicorn --preload: made once, then used by workers that never close it.
PRELOAD = """
import os, sys, vecall
service = vecall.MemoryService(sys.argv[1], embedder=None)
children = []
for worker in range(4):
    child = os.fork()
    if child == 0:
        code = 4
        try:
            for i in range(25):
                service.sync.add_memory(app_name="app", user_id=f"u{i % 3}",
                                        memories=[f"zebra {worker} {i}"])
            code = 0
        finally:
            os._exit(code)
    children.append(child)
print(*[os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])
found = [service.sync.search_memory(app_name="app", user_id=f"u{i}", query="zebra",
                                    top_k=1000).memories for i in range(3)]
assert sum(map(len, found)) == 100, list(map(len, found))
"""


def test_workers_forked_from_one_service_lose_nothing(open_service, tmp_path):
    path = tmp_path / "m.db"
    assert printed(PRELOAD, path) == "0 0 0 0"
    assert open_service(path).sync.admin.stats()["memories"] == 100


# A function on a service of the parent's, or of the child's own.
POOL = """
import multiprocessing, sys, vecall

scope = dict(app_name="app", user_id="alice")
service = None

def work(number):
    opened = service or vecall.MemoryService(sys.argv[1], embedder=None)
    opened.sync.add_memory(**scope, memories=[f"zebra {number}"])
    found = opened.sync.search_memory(**scope, query=f"zebra {number}", top_k=1000)
    return f"zebra {number}" in [memory.text for memory in found.memories]

if __name__ == "__main__":
    service = vecall.MemoryService(sys.argv[1], embedder=None)
    service.sync.add_memory(**scope, memories=["zebra parent"])
    with multiprocessing.get_context(sys.argv[2]).Pool(2) as pool:
        assert pool.map(work, range(12)) == [True] * 12
    found = service.sync.search_memory(**scope, query="zebra", top_k=1000).memories
    print(len(found), flush=True)
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_of_multiprocessing_share_the_file(open_service, tmp_path, method):
    script, path = tmp_path / "pool.py", tmp_path / "m.db"
    script.write_text(POOL)
    done = subprocess.run(
        [sys.executable, str(script), str(path), method],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == "13"
    assert open_service(path).sync.admin.stats()["memories"] == 13


WITHOUT_A_FILE = """
import os, vecall
scope = dict(app_name="app", user_id="alice")
service = vecall.MemoryService(embedder=None)
service.sync.add_memory(**scope, memories=["zebra"])
child = os.fork()
if child == 0:
    codes = 0
    for work in (
        lambda: service.sync.search_memory(**scope, query="zebra"),
        lambda: service.sync.add_memory(**scope, memories=["zebra"]),
        lambda: service.sync.admin.stats(),
        lambda: service.sync.get_memory(**scope, memory_id="x"),
    ):
        try:
            work()
        except vecall.ClosedError:
            codes += 1
    service.close()
    os._exit(codes)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
found = service.sync.search_memory(**scope, query="zebra").memories
assert len(found) == 1
"""


def test_a_memory_without_a_file_does_not_cross_a_fork():
    """contracts.md, threads: ClosedError, and the parent's is unharmed."""
    assert printed(WITHOUT_A_FILE) == "4"


CLOSING_CHILD = """
import os, sys, vecall
scope = dict(app_name="app", user_id="alice")
service = vecall.MemoryService(sys.argv[1], embedder=None)
service.sync.add_memory(**scope, memories=["zebra parent"])
for number in range(6):
    child = os.fork()
    if child == 0:
        if number % 2:
            service.sync.add_memory(**scope, memories=[f"zebra child{number}"])
        service.close()
        try:
            service.sync.admin.stats()
        except vecall.ClosedError:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    service.sync.add_memory(**scope, memories=[f"zebra again{number}"])
found = service.sync.search_memory(**scope, query="zebra", top_k=100).memories
print(len(found))
"""


def test_a_child_that_closes_takes_nothing_from_its_parent(open_service, tmp_path):
    path = tmp_path / "m.db"
    assert printed(CLOSING_CHILD, path) == "10"
    assert open_service(path).sync.admin.stats()["memories"] == 10


# Threads of the parent change, search and save an index at the moment of each fork.
BUSY_INDEX = """
import faulthandler, os, pickle, sys, threading, time
import numpy as np
from vecall import Index

index = Index(96, kind=sys.argv[1], flat_bytes=0)
vectors = np.random.default_rng(1).standard_normal((600, 96)).astype(np.float32)
ids = np.arange(600, dtype=np.int64)
index.add(ids, vectors)
over = threading.Event()

def repeat(work):
    while not over.is_set():
        work()

def changes():
    index.add(ids[300:], vectors[300:])
    index.remove(ids[450:])

saves = lambda: pickle.dumps(index)
works = (changes, lambda: index.search(vectors[0], 5), saves, index.build)
threads = [threading.Thread(target=repeat, args=(work,)) for work in works]
for thread in threads:
    thread.start()
ends = []
for fork in range(int(sys.argv[2])):
    time.sleep(0.01 * (fork % 5) + 0.02)
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(20, exit=True)
        code = 4
        try:
            index.add(ids[450:], vectors[450:])
            index.remove(ids[:10])
            index.build()
            copy = pickle.loads(pickle.dumps(index))
            for each in (index, copy):
                found = [each.search(vectors[n], 1)[0][0] for n in range(10, 600, 59)]
                right = found == list(range(10, 600, 59)) and len(each) == 590
                code = code if not right else code - 2
        finally:
            os._exit(code)
    ends.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
over.set()
for thread in threads:
    thread.join()
print(*ends)
"""


@pytest.mark.campaign
@pytest.mark.parametrize("kind", ["flat", "hnsw"])
def test_children_of_threads_that_change_an_index_use_it(kind):
    """No lock of the parent's threads is held in a child, and no change is halved."""
    forks = scaled(10, least=5)  # five of them come after different times
    assert printed(BUSY_INDEX, kind, forks) == " ".join(["0"] * forks)


@pytest.mark.parametrize("fork", ["os.fork()", "ctypes.PyDLL(None).fork()"])
def test_a_forked_child_does_not_hang_and_harms_nothing(open_service, tmp_path, fork):
    """contracts.md, threads: after fork, a child opens anew. Bug class 13.

    Servers that fork in C need not tell Python.
    """
    path = tmp_path / "m.db"
    script = """
import ctypes, os, sys, vecall
scope = dict(app_name="app", user_id="alice")
service = vecall.MemoryService(sys.argv[1], embedder=None)
service.sync.add_memory(**scope, memories=["zebra parent"])
service.sync.search_memory(**scope, query="zebra")
child = FORK
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
""".replace("FORK", fork)
    assert run(script, path).stdout.strip() == "0", (
        "the child hung or got a wrong answer"
    )
    assert {"zebra parent", "zebra again"} <= set(texts(open_service(path), "zebra"))
