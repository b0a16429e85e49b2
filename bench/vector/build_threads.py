"""How much faster several threads build a graph, and whether it is the same one.

    python -m bench.vector.build_threads

VECALL_EMBEDDINGS names the folder of the vectors, as in bench.vector.compare. The
numbers of threads take turns; of each the best round counts. Where other work takes the
processors, "longest" tells more than the seconds: the work of one thread, divided by
the processor time of the calling thread, which does all that is not shared beside its
part. Fails where a graph differs from that of one thread.
"""

from __future__ import annotations

import os
import pickle
import sys
import time
from typing import Any

from bench.common import arguments

DIM, QUERIES, K, EFS = 384, 500, 10, (32, 64, 128)


def main() -> int:
    """Measure, print a table, and return how the process shall end."""
    parser = arguments.parser(__doc__)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", default=f"1,{os.cpu_count()}")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"  # before anything loads a BLAS
    from bench.common import datasets
    from bench.common.tables import table

    data = datasets.load(DIM, options.rows, QUERIES)
    counts = sorted({1, *map(int, options.threads.split(","))})
    best: dict[int, list[float]] = {}
    graphs = {}
    for _ in range(options.rounds):
        for threads in counts:
            index, took = _built(data, threads)
            best[threads] = list(map(min, took, best.get(threads, took)))
            graphs[threads] = pickle.dumps(index)
    lines = []
    for threads, (wall, cpu, longest) in best.items():
        shares = (best[1][0] / wall, best[1][1] / longest)
        seconds = (f"{one:.2f}" for one in (wall, cpu, longest))
        lines.append((threads, *seconds, *(f"{one:.2f}" for one in shares)))
    print(f"{data.name}, {len(data):,} rows:")
    head = ("threads", "s", "CPU s", "longest, CPU s", "times", "times by longest")
    print(table(head, lines))
    for ef in EFS:
        found = [index.search(query, K, ef)[0] for query in data.queries]
        print(f"recall@{K} with ef {ef}: {data.recall(found, K):.4f}")
    return int(any(graph != graphs[1] for graph in graphs.values()))


def _built(data: Any, threads: int) -> tuple[Any, list[float]]:
    """Return an index, and the seconds, of all processors and of this thread."""
    import vecall

    index = vecall.Index(DIM, "hnsw")
    index.add(data.ids, data.vectors)
    clocks = (time.perf_counter, time.process_time, time.thread_time)
    begin = [clock() for clock in clocks]
    index.build(threads=threads)
    return index, [clock() - at for clock, at in zip(clocks, begin, strict=True)]


if __name__ == "__main__":
    sys.exit(main())
