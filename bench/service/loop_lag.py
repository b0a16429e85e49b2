"""The lag of an event loop while 10,000 memories are ingested in the same process.

    python -m bench.service.loop_lag [--memories 10000]

A coroutine sleeps for a millisecond again and again and records the excess. The
interpreter's switch interval is left at its default of 5 ms. The second line of each
pair is a search by another user at every turn, as a server would make.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import vecall

from bench.common import arguments

ALICE = {"app_name": "app", "user_id": "alice"}
BOB = {"app_name": "app", "user_id": "bob"}


def turns(count: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(3)
    words = rng.zipf(1.3, (count, 15)) % 5_000
    return [
        {
            "id": f"e{i}",
            "author": "user",
            "timestamp": 1.7e9 + i,
            "text": " ".join(f"word{word}" for word in line),
        }
        for i, line in enumerate(words.tolist())
    ]


async def measure(count: int, batch: int, search: bool) -> None:
    told = turns(count)
    with tempfile.TemporaryDirectory() as folder:
        memory = vecall.MemoryService(Path(folder) / "memory.db", embedder=None)
        for user in (ALICE, BOB):
            await memory.add_events_to_memory(
                **user, session_id="first", events=turns(300)
            )
            await memory.search_memory(**user, query="word3 word40")
        late: list[float] = []
        done = False

        async def watch() -> None:
            while not done:
                before = time.perf_counter()
                await asyncio.sleep(0.001)
                if search:
                    await memory.search_memory(**BOB, query="word3 word40")
                late.append(time.perf_counter() - before - 0.001)

        watching = asyncio.create_task(watch())
        await asyncio.sleep(0.1)
        late.clear()
        begin = time.perf_counter()
        for start in range(0, count, batch):
            await memory.add_events_to_memory(
                **ALICE, session_id="long", events=told[start : start + batch]
            )
        seconds = time.perf_counter() - begin
        done = True
        await watching
        memory.close()
    p50, p99, worst = np.percentile(np.array(late) * 1e3, [50, 99, 100])
    print(
        f"| {batch:,} | {'searching' if search else 'idle'} | {seconds:.2f} s "
        f"| {p50:.2f} | {p99:.2f} | {worst:.1f} |",
        flush=True,
    )


def main() -> None:
    parser = arguments.parser(__doc__)
    parser.add_argument("--memories", type=int, default=10_000)
    options = parser.parse_args()
    print(f"switch interval {1e3 * sys.getswitchinterval():g} ms")
    print("| turns a call | the loop else | ingest | late p50 ms | p99 ms | max ms |")
    print("|---|---|---|---|---|---|")
    for batch in (20, 100, 1_000, options.memories):
        for search in (False, True):
            asyncio.run(measure(options.memories, batch, search))


if __name__ == "__main__":
    main()
