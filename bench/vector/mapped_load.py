"""How long opening an index and its first search take, loaded and mapped.

    python -m bench.vector.mapped_load [--rows 200000] [--dimensions 384]

A process each: "loaded" is `Index.load(path)`, "mapped" `Index.load(path, mmap=True)`
of a file that `save(path, mmap=True)` wrote, "of a plain file" the same of what
`save(path)` wrote. Files are in the page cache, unless `--cold` has the system
forget them. Own memory is what no other process can share; an import of vecall takes
14 MB of it. Fails where a mapped index answers other bits than a loaded one.
"""

from __future__ import annotations

import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from vecall import Index

from bench.common import arguments
from bench.common.tables import table

ROUNDS, QUERIES, TOPICS = 9, 100, 1_000
WAYS = (
    ("loaded", "plain", 0),
    ("mapped", "mapped", 1),
    ("of a plain file", "plain", 1),
)


def main() -> int:
    """Measure, print a table, and return how the process shall end."""
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(_one(sys.argv[2], mmap=sys.argv[3] == "1")))
        return 0
    parser = arguments.parser(__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--dimensions", type=int, default=384)
    parser.add_argument("--cold", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
        folder = Path(name)
        _save(folder, options.rows, options.dimensions)
        found: dict[str, list[dict[str, Any]]] = {way: [] for way, _, _ in WAYS}
        for _ in range(ROUNDS):
            for way, file, mmap in WAYS:
                if options.cold:
                    _forget(folder / file)
                call = [sys.executable, "-m", "bench.vector.mapped_load", "--one"]
                made = subprocess.check_output([*call, folder / file, str(mmap)])
                found[way].append(json.loads(made))
    lines = [
        (way, *(f"{statistics.median(one[what] for one in ones):.3g}" for what in HEAD))
        for way, ones in found.items()
    ]
    print(table(("", *HEAD.values()), lines))
    return len({one["answers"] for ones in found.values() for one in ones}) != 1


HEAD = {
    "open": "open, ms",
    "first": "first search, ms",
    "next": "next 100, us each",
    "again": "the same again",
    "private": "own memory, MB",
}


def _save(folder: Path, rows: int, dimensions: int) -> None:
    rng = np.random.default_rng(1)
    topics = rng.standard_normal((TOPICS, dimensions), np.float32)
    index = Index(dimensions)
    for begin in range(0, rows, 20_000):
        ids = np.arange(begin, min(begin + 20_000, rows))
        noise = rng.standard_normal((len(ids), dimensions), np.float32)
        index.add(ids, topics[rng.integers(0, TOPICS, len(ids))] + 0.7 * noise)
    index.build()
    index.save(folder / "plain")
    index.save(folder / "mapped", mmap=True)


def _forget(path: Path) -> None:
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _private_mb() -> float:
    """Memory that is not of a file: what every further process needs."""
    parts = Path("/proc/self/smaps_rollup").read_text("ascii").split()
    return int(parts[parts.index("Anonymous:") + 1]) / 1024


def _one(path: str, *, mmap: bool) -> dict[str, object]:
    """Open, search, and return milliseconds, microseconds and megabytes."""
    begun = time.perf_counter()
    index = Index.load(path, mmap=mmap)
    opened = time.perf_counter()
    queries = np.random.default_rng(2).standard_normal((QUERIES, index.dim), np.float32)
    asked = time.perf_counter()
    index.search(queries[0], 10)
    ends, answers = [time.perf_counter()], hashlib.sha256()
    for _ in range(2):
        for query in queries:
            for part in index.search(query, 10):
                answers.update(part.tobytes())
        ends.append(time.perf_counter())
    return {
        "open": 1e3 * (opened - begun),
        "first": 1e3 * (ends[0] - asked),
        "next": 1e6 * (ends[1] - ends[0]) / QUERIES,
        "again": 1e6 * (ends[2] - ends[1]) / QUERIES,
        "private": _private_mb(),
        "answers": answers.hexdigest(),
    }


if __name__ == "__main__":
    sys.exit(main())
