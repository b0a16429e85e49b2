"""The write-ahead log has a bound, which only somebody who reads an old state lifts."""

from __future__ import annotations

import random
from pathlib import Path

from helpers.memories import ALICE, BOB, texts
from helpers.processes import child, said, tell

MB = 1024 * 1024
BOUND = 64 * MB
TEXTS = 40  # in a call, of 250 kB each
PINNED = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN")
connection.execute("SELECT count(*) FROM mem").fetchone()
print("reading", flush=True)
sys.stdin.readline()
connection.execute("COMMIT")
connection.close()
print("done", flush=True)
sys.stdin.readline()
"""


def size_of_log(path: Path) -> int:
    return path.with_name(path.name + "-wal").stat().st_size


def test_the_log_is_emptied_once_nobody_reads_an_old_state(open_service, tmp_path):
    """Guarantee 7, bug class 24: it grows under a reader who stays, not after."""
    path = tmp_path / "m.db"
    service = open_service(path, durability="process")
    service.sync.add_memory(**ALICE, memories=["zebra"])
    rng = random.Random(1)

    def write(call: int) -> None:
        filler = rng.randbytes(125_000).hex()
        told = [f"quagga {call} {i} {filler}" for i in range(TEXTS)]
        service.sync.add_memory(**BOB, memories=told)

    with child(PINNED, path) as reader:
        assert said(reader) == "reading"
        for call in range(8):
            write(call)
        assert size_of_log(path) > BOUND
        tell(reader, "go")
        assert said(reader) == "done"
        for call in range(2):  # one brings it into the file, one begins it anew
            write(8 + call)
            service.sync.add_memory(**ALICE, memories=[f"okapi {call}"])
        assert size_of_log(path) <= BOUND
    assert texts(service, "zebra") == ["zebra"]
    assert service.sync.admin.stats()["memories"] == 10 * TEXTS + 3
