"""Resident memory: many partitions in a small budget, and growth over a long run.

    python -m bench.service.rss partitions --partitions 100000 --memories 3 \\
        --budget-mb 64
    python -m bench.service.rss growth --operations 1000000

`partitions` builds a file (or uses that of --file), then searches every partition in
random order in a process of its own. `growth` adds, searches, deletes and gets over a
bounded set of memories and prints the resident set at every tenth; the first tenth is
the warm-up. Linux only: it reads /proc.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import vecall
from vecall import MemoryEntry, MemoryService, NotFoundError, StorageOptions

from bench.common import arguments

APP = "bench"
WORDS = [a + b + c for a in "bdfgklmnprst" for b in "aeiou" for c in "bdfgklmnprst"]
MB = 1 << 20


def resident(which: str = "VmRSS") -> int:
    """Bytes in memory now, or at most so far (VmHWM)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(which + ":"):
            return int(line.split()[1]) * 1024
    raise LookupError(which)


def sentence(rng: random.Random) -> str:
    return " ".join(rng.choices(WORDS, k=12))


async def build(path: Path, partitions: int, memories: int) -> None:
    """Small partitions, many calls to a transaction."""
    rng = random.Random(1)
    async with MemoryService(
        path, storage=StorageOptions(durability="process"), embedder=None
    ) as service:
        for first in range(0, partitions, 256):
            await asyncio.gather(
                *(
                    service.add_memory(
                        app_name=APP,
                        user_id=f"user{number}",
                        memories=[sentence(rng) for _ in range(memories)],
                    )
                    for number in range(first, min(first + 256, partitions))
                )
            )


def visit(path: Path, partitions: int, budget: int) -> None:
    """Search every partition once, in random order."""
    rng = random.Random(2)
    order = list(range(partitions))
    rng.shuffle(order)
    queries = [sentence(rng) for _ in range(1_000)]
    with MemoryService(
        path, storage=StorageOptions(cache_bytes=budget), embedder=None
    ) as service:
        service.sync.search_memory(app_name=APP, user_id="nobody", query="anything")
        gc.collect()
        baseline = resident()
        found, begin = 0, time.perf_counter()
        for at, number in enumerate(order):
            answer = service.sync.search_memory(
                app_name=APP, user_id=f"user{number}", query=queries[at % 1_000]
            )
            found += bool(answer.memories)
            if at % (partitions // 10) == partitions // 10 - 1:
                print(f"{at + 1:9,} searches   {resident() / MB:7.1f} MB", flush=True)
        took = time.perf_counter() - begin
        most = resident("VmHWM")
        stats = service.sync.admin.stats()
    used = most - baseline
    print(
        f"searches {partitions:,} ({found:,} found), {1e6 * took / partitions:.0f} us"
    )
    print(f"at the end {stats}")
    print(f"baseline {baseline / MB:.1f} MB, at most {most / MB:.1f} MB")
    print(
        f"above baseline {used / MB:.1f} MB, budget {budget / MB:.1f} MB: "
        f"{100 * (used - budget) / budget:+.1f} % of the budget"
    )


def growth(operations: int, users: int, ids: int, budget: int) -> None:
    """Mixed operations on at most users * ids memories."""
    rng = random.Random(3)
    queries = [sentence(rng) for _ in range(3_000)]
    with (
        tempfile.TemporaryDirectory() as folder,
        MemoryService(
            Path(folder) / "m.db",
            storage=StorageOptions(durability="process", cache_bytes=budget),
            embedder=None,
        ) as service,
    ):
        sync = service.sync
        for user in range(users):
            entries = [MemoryEntry(sentence(rng), id=str(id_)) for id_ in range(ids)]
            sync.add_memory(app_name=APP, user_id=f"user{user}", memories=entries)
        warm = 0
        begin = time.perf_counter()
        for done in range(1, operations + 1):
            who = {"app_name": APP, "user_id": f"user{rng.randrange(users)}"}
            id_ = str(rng.randrange(ids))
            dice = rng.random()
            if dice < 0.4:
                sync.search_memory(**who, query=rng.choice(queries))
            elif dice < 0.7:
                entry = MemoryEntry(sentence(rng), id=id_)
                sync.add_memory(**who, memories=[entry], restore=True)
            elif dice < 0.85:
                sync.delete_memory(**who, memory_id=id_)
            else:
                with contextlib.suppress(NotFoundError):
                    sync.get_memory(**who, memory_id=id_)
            if done % (operations // 10) == 0:
                gc.collect()
                now = resident()
                warm = warm or now
                took = time.perf_counter() - begin
                print(
                    f"{done:9,} operations {took:7.1f} s   {now / MB:7.1f} MB   "
                    f"{100 * (now - warm) / warm:+.2f} % since the warm-up   "
                    f"{sync.admin.stats()['memories']:,} memories",
                    flush=True,
                )


def main() -> None:
    parser = arguments.parser(__doc__)
    parser.add_argument("what", choices=("partitions", "visit", "growth"))
    parser.add_argument("--partitions", type=int, default=100_000)
    parser.add_argument("--memories", type=int, default=3)
    parser.add_argument("--operations", type=int, default=1_000_000)
    parser.add_argument("--users", type=int, default=200)
    parser.add_argument("--ids", type=int, default=50)
    parser.add_argument("--budget-mb", type=float, default=64.0)
    parser.add_argument("--file", type=Path, help="a file that `partitions` made")
    options = parser.parse_args()
    budget = int(options.budget_mb * MB)
    print(f"vecall {vecall.__version__}")
    if options.what == "growth":
        growth(options.operations, options.users, options.ids, budget)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = options.file or Path(folder) / "m.db"
        if options.what == "partitions":
            if not path.exists():
                begin = time.perf_counter()
                asyncio.run(build(path, options.partitions, options.memories))
                size = path.stat().st_size / MB
                print(f"built {size:.0f} MB in {time.perf_counter() - begin:.0f} s")
            # In a process that built nothing: what the building took is not measured.
            visit_args = [
                "visit",
                "--file",
                str(path),
                "--budget-mb",
                str(options.budget_mb),
            ]
            visit_args += ["--partitions", str(options.partitions)]
            subprocess.run(
                [sys.executable, "-m", "bench.service.rss", *visit_args], check=True
            )
        else:
            visit(path, options.partitions, budget)


if __name__ == "__main__":
    main()
