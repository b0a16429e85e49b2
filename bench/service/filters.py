"""Cost of filters: a search with each kind of condition, as a ratio to one without.

    python -m bench.service.filters [--memories 10000]

All calls run in one process, interleaved, so that the ratios hold on a busy machine.
`list` and `count` read the rows themselves; `delete` is a `delete_where` that matches
nothing.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vecall import MemoryEntry, MemoryService

from bench.common import arguments

OWNER = {"app_name": "bench", "user_id": "filters"}
CONDITIONS: dict[str, dict[str, Any] | None] = {
    "none": None,
    "one kind": {"kind": "fact"},
    "two kinds": {"kind": ["fact", "plan"]},
    "text": {"metadata": {"city": "c7"}},
    "number": {"metadata": {"n": {"$gte": 900}}},
    "path": {"metadata": {"place.zip": 17}},
    "or, not": {"metadata": {"$or": [{"city": "c7"}, {"$not": {"n": {"$lt": 990}}}]}},
}
ROUNDS = 15


def main() -> None:
    """Print a line for each condition."""
    parser = arguments.parser(__doc__)
    parser.add_argument("--memories", type=int, default=10_000)
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        MemoryService(Path(folder) / "m.db", embedder=None) as service,
    ):
        for start in range(0, given.memories, 1_000):
            entries = [
                MemoryEntry(
                    f"zebra {n} likes tea",
                    kind="fact" if n % 2 else "plan",
                    custom_metadata={
                        "city": f"c{n % 100}",
                        "n": n % 1_000,
                        "place": {"zip": n % 50},
                    },
                )
                for n in range(start, min(start + 1_000, given.memories))
            ]
            service.sync.add_memory(**OWNER, memories=entries)
        calls: dict[tuple[str, str], Callable[[], Any]] = {}
        sync = service.sync
        for name, asked in CONDITIONS.items():
            calls[name, "search"] = lambda asked=asked: sync.search_memory(
                **OWNER, query="zebra tea", filter=asked
            )
            calls[name, "list"] = lambda asked=asked: sync.list_memories(
                **OWNER, filter=asked
            )
            calls[name, "count"] = lambda asked=asked: sync.count_memories(
                **OWNER, filter=asked
            )
            if asked is not None:
                nothing = {**asked, "author": "nobody"}
                calls[name, "delete"] = lambda nothing=nothing: sync.delete_where(
                    **OWNER, filter=nothing
                )
        times: dict[tuple[str, str], list[float]] = {key: [] for key in calls}
        for _ in range(ROUNDS):
            for key, call in calls.items():
                begin = time.perf_counter()
                call()
                times[key].append(1e3 * (time.perf_counter() - begin))
    base = statistics.median(times["none", "search"])
    print(f"{given.memories:,} memories; a search without a filter: {base:.2f} ms")
    for (name, call), found in times.items():
        middle = statistics.median(found)
        print(f"{name:<12}{call:<8}{middle:9.2f} ms{middle / base:9.1f} x", flush=True)


if __name__ == "__main__":
    main()
