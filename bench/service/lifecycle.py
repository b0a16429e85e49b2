"""The cost of re-ingesting, expiring and deleting memories, and of quotas.

    python -m bench.service.lifecycle reingest path/to/locomo10.json
    python -m bench.service.lifecycle expired
    python -m bench.service.lifecycle deletes
    python -m bench.service.lifecycle limits

Each prints its tables. Alternatives take turns in one run; times are medians. The texts
and vectors of the last three are synthetic, the same at each run.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

import numpy as np
from vecall import MemoryService, StorageOptions

from bench.common import arguments
from bench.service import lifecycle_quota, lifecycle_reingest
from bench.service.lifecycle_data import (
    APP,
    Turned,
    entries,
    fill,
    head,
    made_up_embedder,
    median,
    opened,
    row,
)
from bench.service.lifecycle_data import texts as made_up

LIVES = 100_000
QUERIES = 200
ROUNDS = 5
TTL_S = 100.0
BUDGET = 1 << 30  # bytes, so that nothing is dropped and loaded again


def expired(lives: int) -> None:
    """Compare a user of whom half has expired with one who has only the other half."""
    asked = [" ".join(text.split()[:5]) for text in made_up(QUERIES, 3)]
    head(
        "search by",
        "when",
        "p50 of live alone, us",
        "with as many expired",
        "ratio",
        "p99s",
    )
    notes = []
    for name, embedder in (
        ("words", None),
        ("words and vectors", made_up_embedder()),
    ):
        clock = Turned()
        storage = StorageOptions(
            clock=clock, cache_bytes=BUDGET, maintenance_interval=None
        )
        options = {"embedder": embedder, "storage": storage}
        with (
            tempfile.TemporaryDirectory() as folder,
            opened(Path(folder) / "alone.db", **options) as alone,
            opened(Path(folder) / "both.db", **options) as both,
        ):
            _tell(both, lives, old=True)
            _tell(alone, lives, old=False)
            clock.ahead = 10 * TTL_S
            _compare(name, "before the sweep", alone, both, asked)
            notes.append(f"{name}: {asyncio.run(_swept(both, asked, lives))}")
            _compare(name, "after it", alone, both, asked)
    print("\n" + "\n".join(notes))


def _tell(memory: MemoryService, lives: int, *, old: bool) -> None:
    """Add those that live, and among them those that will have expired."""
    live = entries(made_up(lives, 1), "live")
    dead = entries(made_up(lives, 2), "dead")
    for start in range(0, lives, 1_000):
        fill(memory, "alice", live[start : start + 1_000])
        if old:
            fill(memory, "alice", dead[start : start + 1_000], ttl=TTL_S)
    fill(memory, "bob", made_up(300, 4))


def _compare(
    name: str, when: str, alone: MemoryService, both: MemoryService, asked: list[str]
) -> None:
    times: dict[int, list[float]] = {0: [], 1: []}
    for turn in range(1 + ROUNDS):
        for query in asked:
            for place, memory in enumerate((alone, both)):
                begin = time.perf_counter()
                answer = memory.sync.search_memory(
                    app_name=APP, user_id="alice", query=query, top_k=10
                )
                if turn:  # the first warms
                    times[place].append(1e6 * (time.perf_counter() - begin))
                ids = [str(found.id) for found in answer.memories]
                assert not any(id_.startswith("dead") for id_ in ids), ids
    first, second = median(times[0]), median(times[1])
    worst = " and ".join(f"{np.percentile(times[i], 99):,.0f}" for i in (0, 1))
    row(name, when, f"{first:,.0f}", f"{second:,.0f}", f"{second / first:.2f}", worst)


async def _swept(memory: MemoryService, asked: list[str], lives: int) -> str:
    """Sweep while others search, and say how long they had to wait."""
    waits: dict[str, list[float]] = {"alice": [], "bob": []}
    done = False

    async def search(user: str) -> None:
        number = 0
        while not done:
            begin = time.perf_counter()
            await memory.search_memory(
                app_name=APP, user_id=user, query=asked[number % len(asked)]
            )
            waits[user].append(1e3 * (time.perf_counter() - begin))
            await asyncio.sleep(0.001)
            number += 1

    searching = [asyncio.create_task(search(user)) for user in waits]
    await asyncio.sleep(0.2)
    for times in waits.values():
        times.clear()
    begin = time.perf_counter()
    count = await memory.admin.run_due()
    seconds = time.perf_counter() - begin
    done = True
    await asyncio.gather(*searching)
    assert count == lives, count
    waited = "; ".join(
        f"{whose} p50 {median(waits[user]):.1f}, p99 "
        f"{np.percentile(waits[user], 99):.1f}, longest {max(waits[user]):.1f} ms"
        for user, whose in (("alice", "this user's"), ("bob", "another's"))
    )
    return (
        f"{count:,} cleared away in {seconds:.1f} s; searches on the loop meanwhile: "
        f"{waited}"
    )


def main() -> None:
    """Measure what was named."""
    parser = arguments.parser(__doc__)
    what = parser.add_subparsers(dest="what", required=True)
    told = what.add_parser("reingest", help="sessions told again after every turn")
    told.add_argument("file", type=Path, help="locomo10.json")
    told.add_argument("--durability", default="full", choices=("full", "process"))
    past = what.add_parser("expired", help="a user of whom half has expired")
    past.add_argument("--lives", type=int, default=LIVES)
    what.add_parser("deletes", help="1,000 memories deleted; a user among 1,000")
    what.add_parser("limits", help="adds to a user who has as much as is allowed")
    options = parser.parse_args()
    if options.what == "reingest":
        lifecycle_reingest.reingest(options.file, options.durability)
    elif options.what == "expired":
        expired(options.lives)
    elif options.what == "deletes":
        lifecycle_quota.deletes()
    else:
        lifecycle_quota.limits()


if __name__ == "__main__":
    main()
