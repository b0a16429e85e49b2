"""What a use of a memory writes to PostgreSQL's log, in bytes.

    python -m bench.service.database_wal [--rows 1000] [--dimensions 384]

It marks ten random memories as used, thirty times, and reads the position of the log
before and after: without a checkpoint in between, and right after one, when the first
change of each page writes the whole page. Log bytes are counted, not timed.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import numpy as np
from helpers.postgres_server import Schema, Server
from vecall import FunctionEmbedder, MemoryService

from bench.common import arguments

ME = {"app_name": "bench", "user_id": "someone"}
CALLS, IDS = 30, 10


def main() -> None:
    """Print the figures."""
    parser = arguments.parser(__doc__)
    parser.add_argument("--rows", type=int, default=1_000)
    parser.add_argument("--dimensions", type=int, default=384)
    options = parser.parse_args()
    server = Server(Path(tempfile.mkdtemp(prefix="pg")), sync=True)
    server.start()
    try:
        measure(server, options.rows, options.dimensions)
    finally:
        server.remove()


def measure(server: Server, rows: int, dimensions: int) -> None:
    """Print the figures of one server."""
    numbers = np.random.default_rng(5)
    embedder = FunctionEmbedder(
        lambda texts: numbers.standard_normal((len(texts), dimensions)),
        dimensions=dimensions,
    )
    schema, choose = Schema(server), random.Random(7)
    ids = [f"m{n}" for n in range(rows)]
    with MemoryService(schema.url, embedder=embedder) as memory:
        memory.sync.add_memory(
            **ME,
            memories=[
                {"content": f"a memory of number {id_}", "id": id_} for id_ in ids
            ],
        )
        for name, is_after in (("no checkpoint", False), ("after a checkpoint", True)):
            if is_after:
                server.execute("CHECKPOINT")
            before = position(server)
            for _ in range(CALLS):
                chosen = choose.sample(ids, IDS)
                memory.sync.mark_used(**ME, memory_ids=chosen)
            used = (position(server) - before) / (CALLS * IDS)
            print(f"{name}: {used:.0f} bytes for each use of a memory")


def position(server: Server) -> int:
    """Return how many bytes the server has written to its log."""
    ((bytes_,),) = server.execute(
        "SELECT CAST(pg_current_wal_lsn() - '0/0'::pg_lsn AS bigint)"
    )
    return int(bytes_)


if __name__ == "__main__":
    main()
