"""Warm searches on the system that runs this: is another system slower, and where?

    python -m bench.service.warm_search [--small-pages]

Prints the fastest twentieth and the median, in microseconds, of three kinds of search:
of a service over a file (1,000 memories, by words), of the same in memory, and of an
index (20,000 x 384, k 10). A file differs from memory by what SQLite asks the system.
An index of this size lies in huge pages on Linux, unless --small-pages forbids them.
"""

from __future__ import annotations

import ctypes
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from vecall import Index, MemoryService, build_info

from bench.common import arguments

_THP_DISABLE = 41  # of prctl(2)
_WORDS = [f"word{n}" for n in range(400)]


def timed(search: Callable[[int], object], times: int) -> str:
    """Search so often; return the fastest twentieth and the median."""
    took = []
    for n in range(times):
        begin = time.perf_counter()
        search(n)
        took.append(1e6 * (time.perf_counter() - begin))
    took.sort()
    return f"{took[times // 20]:.0f} / {took[times // 2]:.0f}"


def of_service(path: str) -> str:
    """Time a service over a path, with the same memories and queries each time."""
    chosen = random.Random(1)
    with MemoryService(path, embedder=None).sync as memory:
        user = memory.user("hotel", "alice")
        for _ in range(20):
            user.add([" ".join(chosen.choices(_WORDS, k=12)) for _ in range(50)])
        queries = [" ".join(chosen.choices(_WORDS, k=3)) for _ in range(3_000)]
        return timed(lambda n: user.search(queries[n]), len(queries))


def of_index() -> str:
    """Time an index."""
    rows = np.random.default_rng(1).standard_normal((20_000, 384), dtype=np.float32)
    index = Index(384)
    index.add(np.arange(len(rows)), rows)
    return timed(lambda n: index.search(rows[n], k=10), 300)


def main() -> None:
    """Print a line."""
    parser = arguments.parser(__doc__)
    parser.add_argument("--small-pages", action="store_true")
    small = parser.parse_args().small_pages
    if small:
        ctypes.CDLL(None).prctl(_THP_DISABLE, 1, 0, 0, 0)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        file = of_service(str(Path(folder) / "memory.db"))
    about = f"{sys.platform}{' small pages' if small else ''}"
    about += f" {build_info()['active_isa']}"
    figures = f"file {file}, memory {of_service(':memory:')}, index {of_index()}"
    print(f"{about}: us, 5 % / median: {figures}", flush=True)


if __name__ == "__main__":
    main()
