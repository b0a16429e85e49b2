"""The slowdown of a scan where rows lie close together.

    python -m bench.vector.tight_data

Fails where tight data takes more than 3 times the time of Gaussian rows, with the best
instruction set of this machine. 20,000 rows of 384 dimensions, the 10 nearest, one
thread. The sets take turns, and the fastest turn of each counts: other work on the
machine makes a turn longer, never shorter.
"""

from __future__ import annotations

import os
import sys
import time

from bench.common import arguments

ROWS, DIM, K = 20_000, 384, 10
QUERIES, ROUNDS = 20, 40
MOST = 3.0


def main() -> int:
    """Measure, print a table, and return how the process shall end."""
    arguments.parse_none(__doc__)
    os.environ["OMP_NUM_THREADS"] = "1"  # before anything loads a BLAS
    import numpy as np
    import vecall

    from bench.common.tables import table

    indexes, queries = {}, {}
    for name, (vectors, ids) in _sets().items():
        index = vecall.Index(DIM, "flat")
        index.add(np.arange(ROWS) if ids is None else ids, vectors[:ROWS])
        indexes[name], queries[name] = index, vectors[ROWS:]
    best = dict.fromkeys(indexes, float("inf"))
    for _ in range(ROUNDS):
        for name, index in indexes.items():
            index.search(queries[name][0], K)  # fetches the rows
            begin = time.process_time_ns()
            for query in queries[name]:
                index.search(query, K)
            took = (time.process_time_ns() - begin) / len(queries[name])
            best[name] = min(best[name], took / 1e3)
    least = best["Gaussian"]
    rows = [(name, f"{us:.0f}", f"{us / least:.2f}") for name, us in best.items()]
    print(f"Microseconds of processor time a scan with {_isa()}:\n")
    print(table(("rows", "us", "to Gaussian"), rows))
    return int(max(best.values()) > MOST * least)


def _sets() -> dict:
    """Return vectors and ids by name; the last of the vectors are queries."""
    import numpy as np

    rng = np.random.default_rng(1)
    count = ROWS + QUERIES
    common = rng.standard_normal((1, DIM))
    common /= np.linalg.norm(common)

    def sharing(cosine: float) -> tuple:
        own = rng.standard_normal((count, DIM)) / np.sqrt(DIM)
        both = np.sqrt(cosine) * common + np.sqrt(1 - cosine) * own
        return both.astype(np.float32), None

    def topic(spread: float) -> tuple:
        noise = rng.standard_normal((count, DIM)) / np.sqrt(DIM)
        return (common + spread * noise).astype(np.float32), None

    gaussian = rng.standard_normal((count, DIM)).astype(np.float32)
    equal = np.repeat(common, count, axis=0).astype(np.float32)
    sets = {"Gaussian": (gaussian, None)}
    sets |= {f"cosines near {c}": sharing(c) for c in (0.5, 0.75, 0.9, 0.99)}
    sets |= {f"one topic of spread {s}": topic(s) for s in (0.1, 0.01, 0.001)}
    sets["equal"] = (equal, None)
    sets["equal, the smallest id last"] = (equal, np.arange(ROWS)[::-1].copy())
    return sets


def _isa() -> str:
    import vecall

    return vecall.build_info()["active_isa"]


if __name__ == "__main__":
    sys.exit(main())
