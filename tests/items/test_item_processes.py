"""Items and several processes: they see each other's writes, and survive kills."""

from __future__ import annotations

import random
import signal
import sqlite3
import time
from contextlib import ExitStack

import pytest
from helpers.campaigns import REPEATS, scaled
from helpers.processes import child, run, said
from vecall import Put

ALICE = {"app_name": "app", "user_id": "alice"}

WRITER = """
import sys, os
import numpy as np
from vecall import Drop, MemoryService, Put, StorageOptions
path, name, first, durability = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
service = MemoryService(
    path, embedder=None, storage=StorageOptions(durability=durability, min_free_bytes=0)
)
items = service.items.sync
n = first
while True:
    # One batch over three namespaces: a new item, a replaced one, a deleted one.
    items.write([
        Put(("new", name), str(n), n, vectors=[n + 1.0, 1.0]),
        Put(("last",), name, n, vectors=[1.0, n + 1.0], ttl=None if n % 2 else 1e6),
        Drop(("new", name), str(n - 5)),
    ], app_name="app", user_id="alice")
    os.write(1, b"%d\\n" % n)
    n += 1
"""


@pytest.mark.campaign
@pytest.mark.parametrize("durability", ["full", "process"])
def test_no_acknowledged_batch_is_lost_or_torn_by_kills(
    open_service, tmp_path, durability
):
    path = tmp_path / "m.db"
    rng = random.Random(5 if REPEATS else None)
    done = {"one": -1, "two": -1}
    for _ in range(scaled(12, least=2)):
        with ExitStack() as stack:
            writers = {
                name: stack.enter_context(
                    child(WRITER, path, name, last + 1, durability)
                )
                for name, last in done.items()
            }
            for process in writers.values():
                said(process)
            time.sleep(rng.random() * 0.1)
            for process in writers.values():
                process.send_signal(signal.SIGKILL)
            for name, process in writers.items():
                assert process.stdout is not None
                heard = process.stdout.read()
                lines = [int(line) for line in heard.split("\n")[:-1]]
                done[name] = max([done[name] + 1, *lines])
        service = open_service(path)
        items = service.items.sync
        for name, acknowledged in done.items():
            last = items.get([(("last",), name)], **ALICE)[0].value
            # At most the one batch whose acknowledgement was not read is there too.
            assert acknowledged <= last <= acknowledged + 1
            found = items.find(("new", name), vector=[1.0, 1.0], limit=99, **ALICE)
            expected = set(range(max(0, last - 4), last + 1))
            assert {item.value for item in found} == expected
            done[name] = last
        service.close()
        connection = sqlite3.connect(path)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        connection.close()


def test_a_search_sees_what_another_process_wrote_and_deleted(open_service, tmp_path):
    path = tmp_path / "m.db"
    items = open_service(path).items.sync
    items.write([Put(("n",), f"k{i}", i, [i + 1.0, 1.0]) for i in range(20)], **ALICE)
    assert len(items.find(("n",), vector=[1, 0], limit=50, **ALICE)) == 20
    script = """
import sys
from vecall import Drop, MemoryService, Put
items = MemoryService(sys.argv[1], embedder=None).items.sync
alice = {"app_name": "app", "user_id": "alice"}
items.write(
    [Drop(("n",), f"k{i}") for i in range(19)]
    + [Put(("n",), "k19", "replaced", [0.0, 1.0]), Put(("n",), "new", "new", [1, 0])],
    **alice,
)
print(items.get([(("n",), "k19")], **alice)[0].version)
"""
    assert run(script, path).stdout.strip() == "21"
    found = items.find(("n",), vector=[1, 0], limit=50, **ALICE)
    assert [item.value for item in found] == ["new", "replaced"]
    assert [item.score for item in found] == pytest.approx([1.0, 0.0])


def test_a_forked_child_has_items_of_its_own_index(tmp_path):
    script = """
import os, sys
from vecall import MemoryService, Put
service = MemoryService(sys.argv[1], embedder=None)
items = service.items.sync
alice = {"app_name": "app", "user_id": "alice"}
items.write([Put(("n",), "k", 1, [1.0, 0.0], ttl=60)], **alice)
items.find(vector=[1.0, 0.0], refresh=True, **alice)
if os.fork() == 0:
    items.write([Put(("n",), "child", 2, [0.0, 1.0])], **alice)
    found = items.find(vector=[0.0, 1.0], refresh=True, **alice)
    print([item.value for item in found], flush=True)
    service.close()
    os._exit(0)
os.wait()
print([item.value for item in items.find(vector=[0.0, 1.0], **alice)])
service.close()
"""
    assert run(script, tmp_path / "m.db").stdout.split("\n")[:2] == ["[2, 1]"] * 2
