"""Latencies of items: 10,000 with 384 dimensions in 100 namespaces, alone and shared.

    python -m bench.service.items [--items 10000] [--namespaces 100] [--folder DIR]

"sync" is the time of one write and fsync of 4 KiB in the same folder, to compare a put
with. The last lines are calls a second of 8 threads, and of 4 processes, that read,
search and write one file.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from vecall import MemoryService, Put

from bench.common import arguments

DIM = 384
OWNER = {"app_name": "bench", "user_id": "store"}
TARGETS_US = {"get": 20, "search": 400, "search all": 5_000, "namespaces": 150}
MIXED_S = 3.0


def timed(call: Callable[[int], Any], count: int) -> list[float]:
    """The times of some calls in microseconds, after a few that are not measured."""
    for n in range(min(20, count)):
        call(n)
    found = []
    for n in range(count):
        begin = time.perf_counter()
        call(n)
        found.append(1e6 * (time.perf_counter() - begin))
    return found


def row(name: str, times: list[float]) -> None:
    middle, high = statistics.median(times), float(np.quantile(times, 0.99))
    target = TARGETS_US.get(name)
    wanted = "" if target is None else f"   target {target:,} us"
    print(f"{name:<18}{middle:10,.1f} us p50{high:10,.1f} us p99{wanted}", flush=True)


def sync_times(folder: Path, count: int) -> list[float]:
    with (folder / "sync").open("wb") as file:

        def write(_: int) -> None:
            file.write(b"x" * 4096)
            file.flush()
            os.fdatasync(file.fileno())

        return timed(write, count)


def mixed(items: Any, seed: int, namespaces: int, per: int) -> int:
    """Reads, searches and writes until the time is over; returns the calls."""
    rng = np.random.default_rng(seed)
    calls = 0
    end = time.perf_counter() + MIXED_S
    while time.perf_counter() < end:
        space = ("n", f"{rng.integers(namespaces)}")
        key = f"k{rng.integers(per)}"
        if calls % 10 == 0:
            vector = rng.normal(size=DIM)
            items.write([Put(space, key, {"text": "new"}, vector)], **OWNER)
        elif calls % 3 == 0:
            items.find(space, vector=rng.normal(size=DIM), **OWNER)
        else:
            items.get([(space, key)], **OWNER)
        calls += 1
    return calls


def main() -> None:
    parser = arguments.parser(__doc__)
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--namespaces", type=int, default=100)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    per = options.items // options.namespaces
    if options.worker:
        path, seed = options.worker
        with MemoryService(path, embedder=None).sync as service:
            print(mixed(service.items, int(seed), options.namespaces, per))
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        run(Path(name), options.items, options.namespaces, per)


def run(folder: Path, count: int, namespaces: int, per: int) -> None:
    path = folder / "m.db"
    rng = np.random.default_rng(1)
    service = MemoryService(path, embedder=None)
    items = service.items.sync
    begin = time.perf_counter()
    for space in range(namespaces):
        vectors = rng.normal(size=(per, DIM))
        items.write(
            [
                Put(("n", f"{space}"), f"k{n}", {"text": f"item {n}", "n": n}, vector)
                for n, vector in enumerate(vectors)
            ],
            **OWNER,
        )
    rate = count / (time.perf_counter() - begin)
    print(f"{count:,} items, {namespaces} namespaces, {DIM} dimensions")
    print(f"{'bulk puts':<18}{rate:10,.0f} a second")
    queries = rng.normal(size=(64, DIM))
    begin = time.perf_counter()
    items.find(("n",), vector=queries[0], **OWNER)
    print(f"{'first search':<18}{1e3 * (time.perf_counter() - begin):10,.1f} ms")

    def space_of(n: int) -> tuple[str, str]:
        return ("n", f"{n * 37 % namespaces}")

    row("get", timed(lambda n: items.get([(space_of(n), "k7")], **OWNER), 3_000))
    row(
        "search",
        timed(
            lambda n: items.find(space_of(n), vector=queries[n % 64], **OWNER), 1_000
        ),
    )
    where = {"n": {"$lt": per // 2}}
    row(
        "search + filter",
        timed(
            lambda n: items.find(
                space_of(n), vector=queries[n % 64], where=where, **OWNER
            ),
            500,
        ),
    )
    row(
        "search all",
        timed(lambda n: items.find((), vector=queries[n % 64], **OWNER), 200),
    )
    row("newest 10", timed(lambda n: items.find(space_of(n), **OWNER), 1_000))
    row("namespaces", timed(lambda _: items.namespaces(**OWNER), 1_000))
    sync = sync_times(folder, 200)
    puts = timed(
        lambda n: items.write(
            [Put(space_of(n), "put", {"n": n}, queries[n % 64])], **OWNER
        ),
        200,
    )
    row("sync", sync)
    row("put", puts)
    ratio = statistics.median(puts) / statistics.median(sync)
    print(f"{'put / sync':<18}{ratio:10.2f}")
    counts: list[int] = []
    threads = [
        threading.Thread(
            target=lambda n=n: counts.append(mixed(items, n, namespaces, per))
        )
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"{'8 threads':<18}{sum(counts) / MIXED_S:10,.0f} calls a second")
    service.close()
    script = [sys.executable, "-m", "bench.service.items", "--worker", str(path)]
    sizes = ["--items", str(count), "--namespaces", str(namespaces)]
    workers = [
        subprocess.Popen([*script, str(n), *sizes], stdout=subprocess.PIPE, text=True)
        for n in range(4)
    ]
    total = sum(int(worker.communicate()[0]) for worker in workers)
    print(f"{'4 processes':<18}{total / MIXED_S:10,.0f} calls a second")


if __name__ == "__main__":
    main()
