"""The longest search while another thread adds many vectors in one call.

    python -m bench.vector.search_beside_add [--rows 60000] [--dimensions 768]

Vectors are encoded before the add takes a lock, so a search should wait for a few
milliseconds at most. "In pieces" adds the same vectors 500 a call. Fails where the
least of three rounds is above 20 ms.
"""

from __future__ import annotations

import sys
import threading
import time

import numpy as np
from vecall import Index

from bench.common import arguments
from bench.common.tables import table

PIECE, ROUNDS, MOST_MS = 500, 3, 20.0


def main() -> int:
    """Measure, print a table, and return how the process shall end."""
    parser = arguments.parser(__doc__)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--dimensions", type=int, default=768)
    options = parser.parse_args()
    random = np.random.default_rng(1)
    vectors = random.standard_normal((options.rows, options.dimensions), np.float32)
    lines, worst = [], 0.0
    for name, piece in (("in one call", options.rows), ("in pieces", PIECE)):
        waits, totals = zip(
            *(_beside(vectors, piece) for _ in range(ROUNDS)), strict=True
        )
        worst = max(worst, 1e3 * min(waits))
        shown = (1e3 * np.median(totals), 1e3 * min(waits), 1e3 * max(waits))
        lines.append((name, *(f"{each:.0f}" for each in shown)))
    head = ("an add", "ms in all", "longest search, ms: least", "most of three rounds")
    print(table(head, lines))
    return worst > MOST_MS


def _beside(vectors: np.ndarray, piece: int) -> tuple[float, float]:
    """Return the longest search during an add, and the time of the add, in seconds."""
    index = Index(vectors.shape[1], kind="flat")
    index.add(np.arange(1000), vectors[:1000])
    waits: list[float] = []
    stop = threading.Event()

    def search() -> None:
        while not stop.is_set():
            begin = time.perf_counter()
            index.search(vectors[0], 5)
            waits.append(time.perf_counter() - begin)
            time.sleep(0.0005)

    thread = threading.Thread(target=search)
    thread.start()
    time.sleep(0.1)
    waits.clear()
    begin = time.perf_counter()
    for at in range(0, len(vectors), piece):
        part = vectors[at : at + piece]
        index.add(np.arange(1000 + at, 1000 + at + len(part)), part)
    total = time.perf_counter() - begin
    stop.set()
    thread.join()
    return max(waits), total


if __name__ == "__main__":
    sys.exit(main())
