"""Cancelled, timed-out and interrupted calls of 50 users, and what they leave behind.

    python -m bench.durability.cancel_soak --calls 1000000 --seconds 600

`--calls` counts the calls that did not run to their end. Calls on an event loop are
cancelled or time out at a random moment, or complete; blocking calls of the main thread
are interrupted by a signal, as by Ctrl-C. They search, add, delete, propose to forget,
export, re-embed, and open and close services on the same file. The memory budget is
small, so users are evicted and loaded all the time. At the end every user must find
every acknowledged memory, and no descriptor, thread, pin, lock or temporary file may be
left.
"""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from pathlib import Path

from vecall import MemoryService, StorageOptions

from bench.common import arguments
from bench.durability.cancel_soak_calls import (
    AT_ONCE,
    MEMORIES,
    USERS,
    Interruptions,
    Soak,
    entry,
    one_async,
    one_sync,
    scope,
)


def open_service(path: Path) -> MemoryService:
    return MemoryService(
        path,
        embedder=None,
        storage=StorageOptions(durability="process", cache_bytes=200_000),
    )


async def on_the_loop(soak: Soak) -> None:
    async def worker(number: int) -> None:
        rng = random.Random(soak.seed * AT_ONCE + number)
        while not soak.is_over():
            await one_async(soak, rng)

    await asyncio.gather(*(worker(number) for number in range(AT_ONCE)))


def on_the_main_thread(soak: Soak) -> None:
    rng = random.Random(-soak.seed)
    with Interruptions() as interruptions:
        while not soak.is_over():
            one_sync(soak, rng, interruptions)


def check_answers(soak: Soak) -> None:
    """Every user finds what was acknowledged, and nobody else's."""
    wanted = {f"m{number}" for number in range(MEMORIES)}
    for user in range(USERS):
        found = soak.service.sync.search_memory(
            **scope(user), query="zebra", top_k=1000
        )
        ids = {memory.id for memory in found.memories}
        texts = {memory.text.split()[-1] for memory in found.memories}
        missing = (wanted | soak.acknowledged[user]) - ids
        assert not missing, f"user {user}: {len(missing)} are missing"
        assert texts == {f"of{user}"}, f"user {user} finds another user's"
    print(f"all {USERS} users answer: {sum(map(len, soak.acknowledged))} more memories")


def check_books(service: MemoryService) -> None:
    """No pin is left, nor work on a partition, nor its lock."""
    end = time.monotonic() + 30
    opened = service._memory
    while True:
        servings = opened.servings
        loaders = [serving.partitions for serving in servings]
        left = {
            "servings": len(servings) - 1,
            "uses": sum(serving._uses for serving in servings),
            "pins": sum(
                len(loader._residents.pinned_partitions()) for loader in loaders
            ),
            "work": sum(len(loader._work.running_keys()) for loader in loaders),
            "locks": sum(len(loader._locks) for loader in loaders),
        }
        if not any(left.values()):
            return
        assert time.monotonic() < end, f"left: {left}"
        time.sleep(0.01)


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def check_freed(threads: int, files: int) -> None:
    """What was open before is open now, and nothing else."""
    end = time.monotonic() + 30
    while threading.active_count() > threads or descriptors() > files:
        if time.monotonic() > end:
            left = [thread.name for thread in threading.enumerate()]
            assert threading.active_count() <= threads, f"threads are left: {left}"
            assert descriptors() <= files, f"{descriptors() - files} are left open"
        time.sleep(0.01)


def main() -> int:
    parser = arguments.parser(__doc__)
    parser.add_argument("--calls", type=int, default=1_000_000)  # given up
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    # What a signal interrupts between making a coroutine and running it.
    warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
    warnings.filterwarnings("ignore", "the file holds vectors", UserWarning)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "exports").mkdir()
        threads, files = threading.active_count(), descriptors()
        path = folder / "m.db"
        with open_service(path):
            plain = names(folder)
        begin = time.monotonic()
        service = open_service(path)
        for user in range(USERS):
            memories = [entry(user, f"m{number}") for number in range(MEMORIES)]
            service.sync.add_memory(**scope(user), memories=memories)
        soak = Soak(service, folder, given.seed, given.calls, begin + given.seconds)
        work = on_the_loop(soak)
        loop = threading.Thread(target=lambda: soak.guard(lambda: asyncio.run(work)))
        loop.start()
        soak.guard(lambda: on_the_main_thread(soak))
        loop.join()
        if soak.error is not None:
            service.close()
            raise soak.error
        took = time.monotonic() - begin
        check_answers(soak)
        check_books(service)
        service.close()
        check_freed(threads, files)
        left = names(folder) - plain - {"m.db.snapshots"}
        assert not left, f"files are left: {sorted(left)}"
        halves = [
            path.name
            for path in (folder / "exports").iterdir()
            if not path.read_bytes().endswith(b"}\n")
        ]
        assert not halves, f"exports that were cut short are left: {halves}"
    total = sum(soak.seen.values())
    print(f"{soak.given_up()} of {total} calls were given up in {took:.0f} s:")
    print(dict(sorted(soak.seen.items())))
    print(f"of them: {dict(Counter(soak.kinds).most_common())}")
    print("no thread, descriptor, pin, lock or temporary file is left")
    return 0 if soak.given_up() >= given.calls else 1


if __name__ == "__main__":
    sys.exit(main())
