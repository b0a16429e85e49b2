"""Cancels, times out and interrupts calls of 50 users; at the end all must be well.

    python bench/cancel_soak.py --calls 1000000 --seconds 600

Calls are given up after a random time on the event loop, or run to their end. The
memory budget is small, so users are evicted and loaded all the time. At the end every
user must find what was acknowledged, and no descriptor, thread or pin may be left.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

from vecall import MemoryService

USERS = 50
MEMORIES = 40  # each user's; they are added again and again under the same ids
AT_ONCE = 64


def scope(user: int) -> dict[str, Any]:
    return {"app_name": "soak", "user_id": f"user{user}"}


def entry(number: int) -> dict[str, str]:
    return {"content": f"zebra number{number}", "id": f"m{number}"}


def call(service: MemoryService, rng: random.Random) -> Awaitable[Any]:
    who = scope(rng.randrange(USERS))
    kind = rng.random()
    if kind < 0.7:
        return service.search_memory(**who, query="zebra", top_k=MEMORIES)
    if kind < 0.8:
        return service.add_memory(**who, memories=[entry(rng.randrange(MEMORIES))])
    if kind < 0.9:
        return service.warm(**who)
    return service.get_memory(**who, memory_id=f"m{rng.randrange(MEMORIES)}")


async def one(service: MemoryService, rng: random.Random, seen: Counter[str]) -> None:
    work = asyncio.ensure_future(call(service, rng))
    how = rng.random()
    if how < 0.4:
        for _ in range(rng.randrange(4)):
            await asyncio.sleep(0)
        work.cancel()
        await asyncio.wait([work])
        seen["cancelled" if work.cancelled() else "done before"] += 1
    elif how < 0.8:
        try:
            await asyncio.wait_for(work, rng.random() * 0.005)
            seen["in time"] += 1
        except asyncio.TimeoutError:
            seen["timed out"] += 1
    else:
        await asyncio.wait_for(work, 60)
        seen["waited for"] += 1


async def soak(
    service: MemoryService, calls: int, seconds: float, seed: int
) -> Counter[str]:
    seen: Counter[str] = Counter()
    end = time.monotonic() + seconds

    async def worker(number: int) -> None:
        rng = random.Random(seed * AT_ONCE + number)
        for _ in range(number, calls, AT_ONCE):
            if time.monotonic() > end:
                return
            await one(service, rng, seen)

    await asyncio.gather(*(worker(number) for number in range(AT_ONCE)))
    for user in range(USERS):
        found = await asyncio.wait_for(
            service.search_memory(**scope(user), query="zebra", top_k=1000), 30
        )
        ids = {memory.id for memory in found.memories}
        assert ids == {f"m{i}" for i in range(MEMORIES)}, f"user {user}: {len(ids)}"
    return seen


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        threads, files = threading.active_count(), descriptors()
        begin = time.monotonic()
        service = MemoryService(
            Path(folder) / "m.db",
            durability="process",
            memory_budget=200_000,
            warn_raw=False,
        )
        with service:
            for user in range(USERS):
                told = [entry(number) for number in range(MEMORIES)]
                service.sync.add_memory(**scope(user), memories=told)
            work = soak(service, given.calls, given.seconds, given.seed)
            seen = asyncio.run(work)
            loader = service._memory.serving.loader
            assert not loader._residents.pins(), "a pin is left"
            end = time.monotonic() + 10
            while loader._work.keys() or len(loader._locks):
                assert time.monotonic() < end, "a partition is still being worked on"
                time.sleep(0.01)
        took = time.monotonic() - begin
        left = threading.active_count() - threads
        assert left <= 0, f"{left} threads are left"
        assert descriptors() <= files, f"{descriptors() - files} descriptors are left"
    total = sum(seen.values())
    print(f"{total} calls in {took:.0f} s: {dict(seen)}")
    print(f"all {USERS} users answer; no thread, descriptor or pin is left")
    return 0 if total == given.calls else 1


if __name__ == "__main__":
    sys.exit(main())
