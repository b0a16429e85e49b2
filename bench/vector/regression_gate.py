"""Fail if vecall lost much of its lead over hnswlib, measured in the same run.

    python -m bench.vector.regression_gate

Takes less than a minute. The bounds are ratios of times, well below those of an idle
machine, so that noise does not fail the gate.
"""

from __future__ import annotations

import os
import statistics
import sys

from bench.common import arguments

# How many times faster than hnswlib, by the instruction set in use: about 60 % of what
# a Sapphire Rapids core gave beside other work, the scalar ones lower. Those of ARM are
# guesses, low on purpose: nobody has measured them yet.
NAMES = ("exact, 1,000 rows", "exact, 10,000 rows", "graph at recall 0.95")
FLOORS = {
    "avx512_vnni": (2.5, 5.0, 1.8),
    "avx2": (1.6, 3.5, 1.2),
    "neon_dotprod": (1.0, 1.5, 0.8),
    "neon": (0.7, 1.0, 0.6),
    "scalar": (0.2, 0.2, 0.1),
}
EXACT_RECALL = 0.998
GRAPH_RECALL = 0.95
GRAPH_ROWS = 20_000
DIM = 384
ROUNDS = 9


def main() -> int:
    """Measure, print a table, and return how the process shall end."""
    arguments.parse_none(__doc__)
    os.environ["OMP_NUM_THREADS"] = "1"  # before anything loads a BLAS
    os.environ.pop("VECALL_EMBEDDINGS", None)  # the floors are of made-up rows
    import vecall

    from bench.common.tables import table
    from bench.vector.candidate import EF_CONSTRUCTION, Vecall
    from bench.vector.candidates import Hnswlib

    isa = vecall.build_info()["active_isa"]
    exact = [Vecall("vecall", "flat"), Hnswlib("hnswlib")]
    graph = [Vecall("vecall", "hnsw"), Hnswlib("hnswlib", EF_CONSTRUCTION)]
    measured = (
        _lead(exact, 1_000, EXACT_RECALL),
        _lead(exact, 10_000, EXACT_RECALL),
        _lead(graph, GRAPH_ROWS, GRAPH_RECALL),
    )
    rows, failed = [], False
    for name, floor, (lead, recalls) in zip(NAMES, FLOORS[isa], measured, strict=True):
        target = GRAPH_RECALL if name.startswith("graph") else EXACT_RECALL
        met = lead >= floor and min(recalls) >= target
        failed |= not met
        both = (f"{recall:.4f}" for recall in recalls)
        rows.append((name, floor, lead, *both, "yes" if met else "no"))
    print(f"Times of hnswlib's, over vecall's with {isa}:\n")
    head = ("", "floor", "measured", "vecall's recall", "hnswlib's", "met")
    print(table(head, rows))
    return int(failed)


def _lead(candidates: list, rows: int, target: float) -> tuple[float, list[float]]:
    """Return how many times longer the second takes, and both recalls."""
    from bench.common import datasets
    from bench.common.measure import ratio, searching, take_turns, tune

    data = datasets.load(DIM, rows, 500)
    searches, recalls = {}, []
    for candidate in candidates:
        candidate.build(data.vectors)
        recalls.append(tune(candidate, data, target)[1])
        searches[candidate.name] = searching(candidate)
    times = take_turns(searches, data.queries, ROUNDS)
    seconds = [f"{1e6 * statistics.median(t):.1f} us" for t in times.values()]
    print(f"{rows:,} rows of {data.name}: {' and '.join(seconds)}", flush=True)
    return ratio(times["hnswlib"], times["vecall"]), recalls


if __name__ == "__main__":
    sys.exit(main())
