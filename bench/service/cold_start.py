"""Time to open a large file, and of a user's first search: rows, snapshot, warm.

    python -m bench.service.cold_start [--rows 100 1000 10000 100000]
        [--partitions 1000000]

Each first search is a process of its own. "cold" drops the files from the page cache
before it (posix_fadvise), so the disk counts too; "cached" leaves them there.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import vecall

from bench.common import arguments

DIM = 384
WORDS = 5_000
USER = {"app_name": "app", "user_id": "alice"}
QUERY = "word17 word230 word4000"


class Random:
    """Unit vectors that depend on the text alone; no model is being measured here."""

    model_id = "random"
    dimensions = DIM

    def embed(self, texts: list[str]) -> np.ndarray:
        seeds = [
            int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")
            for text in texts
        ]
        rows = [np.random.default_rng(s).standard_normal(DIM) for s in seeds]
        return np.asarray(rows, np.float32)


def open_service(path: Path) -> vecall.MemoryService:
    return vecall.MemoryService(path, embedder=Random())


def build(path: Path, rows: int) -> None:
    rng = np.random.default_rng(rows)
    with open_service(path) as memory:
        for start in range(0, rows, 2_000):
            count = min(2_000, rows - start)
            words = rng.zipf(1.3, (count, 12)) % WORDS
            events = [
                {
                    "id": f"e{start + i}",
                    "author": "user",
                    "timestamp": 1.7e9 + 60.0 * (start + i),
                    "text": " ".join(f"word{word}" for word in line),
                }
                for i, line in enumerate(words.tolist())
            ]
            memory.sync.add_events_to_memory(
                **USER, events=events, session_id=f"s{start // 2_000}"
            )


def first_search(path: Path) -> dict[str, float]:
    """In a process of its own: milliseconds to open, first search, later ones."""
    begin = time.perf_counter()
    with open_service(path) as memory:
        opened = time.perf_counter()
        memory.sync.search_memory(**{**USER, "user_id": "nobody"}, query=QUERY)
        embedded = time.perf_counter()
        memory.sync.search_memory(**USER, query=QUERY)
        first = time.perf_counter()
        later = []
        for _ in range(200):
            start = time.perf_counter()
            memory.sync.search_memory(**USER, query=QUERY)
            later.append(time.perf_counter() - start)
        time.sleep(0.1)
        folder = path.with_name(path.name + ".snap")
        wait_for_snapshot = time.monotonic() + 60
        while (
            memory.sync.admin.stats()["memories"] >= 500
            and not list(folder.glob("*.vs"))
            and time.monotonic() < wait_for_snapshot
        ):
            time.sleep(0.05)
        time.sleep(0.2)
    return {
        "open": 1e3 * (opened - begin),
        "first": 1e3 * (first - embedded),
        "later": 1e3 * statistics.median(later),
    }


def forget_pages(folder: Path) -> None:
    """Drop clean pages of every file below a folder from the page cache."""
    for file in folder.rglob("*"):
        if file.is_file():
            handle = os.open(file, os.O_RDONLY)
            os.fsync(handle)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(handle)


def in_process(path: Path, *, cold: bool) -> dict[str, float]:
    if cold:
        forget_pages(path.parent)
    command = [sys.executable, "-m", "bench.service.cold_start", "--child", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    told: dict[str, float] = json.loads(done.stdout)
    return told


def measure(folder: Path, rows: int) -> None:
    path = folder / f"{rows}.db"
    build(path, rows)
    snapshots = path.with_name(path.name + ".snap")

    def without() -> None:
        for file in snapshots.glob("*"):
            file.unlink()

    for what in ("rows", "snapshot"):
        times = {"cold": [], "cached": []}
        later = []
        for cold in (False, True, False, True, False, True):
            if what == "rows":
                without()
            elif not list(snapshots.glob("*.vs")):
                in_process(path, cold=False)  # writes it
                if not list(snapshots.glob("*.vs")):
                    break
            told = in_process(path, cold=cold)
            times["cold" if cold else "cached"].append(told["first"])
            later.append(told["later"])
        if times["cold"]:
            print(
                f"| {rows:,} | {what} | {statistics.median(times['cold']):.1f} ms "
                f"| {statistics.median(times['cached']):.1f} ms "
                f"| {1e3 * statistics.median(later):.0f} us |",
                flush=True,
            )


def many_partitions(folder: Path, count: int) -> None:
    """Open a file of many users, and search one of them."""
    path = folder / "many.db"
    lines = folder / "many.jsonl"
    with lines.open("w") as file:
        file.write('{"vecall":"export","format":1,"model":null}\n')
        for number in range(count):
            part = {"app": "app", "user": f"user {number}", "created_at": 1.7e9}
            memory = {
                "id": f"{number:032x}",
                "text": f"user {number} likes word{number % WORDS}",
                "created_at": 1.7e9,
                "updated_at": 1.7e9,
                "state": "live",
            }
            file.write(json.dumps({"part": part}) + "\n")
            file.write(json.dumps({"mem": memory}) + "\n")
    begin = time.perf_counter()
    with vecall.MemoryService(
        path, storage=vecall.StorageOptions(durability="process"), embedder=None
    ) as service:
        service.sync.admin.import_jsonl(lines)
    print(
        f"{count:,} users of one memory written in {time.perf_counter() - begin:.0f} s"
    )
    lines.unlink()
    for cold in (False, True):
        if cold:
            forget_pages(folder)
        begin = time.perf_counter()
        service = vecall.MemoryService(path, embedder=None)
        opened = time.perf_counter()
        found = service.sync.search_memory(
            app_name="app", user_id=f"user {count // 3}", query="likes"
        )
        searched = time.perf_counter()
        assert len(found.memories) == 1
        service.close()
        print(
            f"{'cold' if cold else 'cached'}: opened in {1e3 * (opened - begin):.1f} ms"
            f", first search {1e3 * (searched - opened):.1f} ms,"
            f" {path.stat().st_size / 1e6:.0f} MB",
            flush=True,
        )


def main() -> None:
    parser = arguments.parser(__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=[100, 1_000, 10_000])
    parser.add_argument("--partitions", type=int, default=100_000)
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        print(json.dumps(first_search(options.child)))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.rows:
            print("| rows | from | first search, cold | cached | later |")
            print("|---|---|---|---|---|")
        for rows in options.rows:
            measure(folder, rows)
        if options.partitions:
            many_partitions(folder, options.partitions)


if __name__ == "__main__":
    main()
