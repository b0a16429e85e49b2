"""What is acknowledged is in the file, whole, whatever becomes of the process."""

from __future__ import annotations

import sqlite3

from helpers.memories import ALICE, texts
from helpers.processes import run
from vecall import MemoryEntry


def test_a_process_that_forgets_to_close_loses_nothing(open_service, tmp_path):
    """Guarantee 1: the exit of the process is no different from its death."""
    path = tmp_path / "m.db"
    script = """
import sys, vecall
service = vecall.MemoryService(sys.argv[1], embedder=None)
service.sync.add_memory(app_name="app", user_id="alice", memories=["zebra"])
"""
    run(script, path)
    assert texts(open_service(path), "zebra") == ["zebra"]


def test_everything_is_the_same_after_reopening(open_service, tmp_path):
    """S2.6: entries, ids, order and scores."""
    path = tmp_path / "m.db"
    service = open_service(path)
    service.sync.add_session_to_memory(
        {
            **ALICE,
            "id": "s",
            "events": [
                {"id": f"e{i}", "author": "user", "timestamp": i * 1e5, "text": text}
                for i, text in enumerate(
                    ["zebra okapi", "yes", "zebra", "no", "quagga"]
                )
            ],
        }
    )
    service.sync.add_memory(
        **ALICE,
        memories=[
            MemoryEntry(
                {"parts": [{"text": "zebra"}, {"text": "\u00e9\U0001f99c"}]},
                id="x",
                custom_metadata={"a": [1, {"b": None}]},
                importance=0.9,
            )
        ],
    )
    queries = ["zebra", "okapi zebra", "quagga 1970", "user"]
    before = [service.sync.search_memory(**ALICE, query=query) for query in queries]
    got = service.sync.get_memory(**ALICE, memory_id="x")
    service.close()
    service = open_service(path)
    after = [service.sync.search_memory(**ALICE, query=query) for query in queries]
    assert after == before
    assert service.sync.get_memory(**ALICE, memory_id="x") == got


def test_a_full_disk_writes_nothing_and_can_be_got_over(open_service, tmp_path):
    """Bug class 28: StorageFullError or StorageError, and later writes go through."""
    path = tmp_path / "m.db"
    script = """
import resource, signal, sys, vecall
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
scope = dict(app_name="app", user_id="alice")
service = vecall.MemoryService(sys.argv[1], embedder=None)
size, most = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (800_000, most))
done = 0
try:
    for i in range(1000):
        service.sync.add_memory(**scope, memories=[f"zebra {i} " + "x" * 5000])
        done += 1
except vecall.StorageError:
    pass
except vecall.StorageFullError:
    pass
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
service.sync.add_memory(**scope, memories=["zebra later"])
found = service.sync.search_memory(**scope, query="zebra", top_k=1000).memories
print(done, len(found), flush=True)
"""
    acknowledged, found = map(int, run(script, path).stdout.split())
    assert 5 < acknowledged < 1000
    assert found == acknowledged + 1
    assert len(texts(open_service(path), "zebra")) == found


def test_the_change_log_does_not_grow_for_ever(open_service, tmp_path):
    """Bug class 25: the log is pruned in the transaction that writes it."""
    path = tmp_path / "m.db"
    service = open_service(path, durability="process")

    for i in range(20):
        entries = [MemoryEntry(f"zebra {i}", id=str(j)) for j in range(251)]
        service.sync.add_memory(**ALICE, memories=entries)
    service.close()
    connection = sqlite3.connect(path)
    (changes,) = connection.execute("SELECT count(*) FROM chg").fetchone()
    connection.close()
    assert changes < 20 * 251
