"""vecall's graph beside SymphonyQG, ScaNN's tree and hnswlib, at equal recall.

    python -m bench.vector.graph_rivals
    python -m bench.vector.graph_rivals --copies 10

VECALL_EMBEDDINGS names the folder of the vectors, as in bench.vector.compare.
Each library answers every query with each setting of its knobs, the libraries taking
turns; one thread, one query at a time, from Python. Of each query the best round
counts.
Queries a second at a recall are interpolated between the two settings beside it that no
other setting of the library beats. `--copies 10` searches ten copies of every row with
noise of a third of its length. `--batch` asks all queries in one call instead.

SymphonyQG (rabitqlib) and ScaNN have the settings that their documents recommend, and
those around them. Libraries that are not installed are skipped.
"""

from __future__ import annotations

import gc
import itertools
import math
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.common import arguments

if TYPE_CHECKING:
    from numpy.typing import NDArray

DIM, QUERIES = 384, 500
RECALLS = (0.95, 0.99, 0.998)
NOISE = 1 / 3
EFS = (12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
Knobs = tuple[int, ...]
Point = tuple[float, float]  # recall, queries a second


class Library:
    """One library: how it is built, and searched with a setting of its knobs."""

    module = ""
    threads = 1  # of a build
    knobs: Sequence[Knobs] = [(ef,) for ef in EFS]

    def __init__(self, name: str) -> None:
        self.name = name
        self.index: Any = None
        self.nbytes: int | None = None

    def missing(self) -> str | None:
        """Return why it cannot run here, or None."""
        try:
            self.load()
        except Exception as error:  # a module may fail in any way on a CPU
            return f"{type(error).__name__}: {error}"
        return None

    def load(self) -> Any:
        import importlib

        return importlib.import_module(self.module)

    def build(self, vectors: NDArray) -> None:
        raise NotImplementedError

    def search(self, queries: NDArray, k: int, knobs: Knobs) -> NDArray:
        """Return the ids of each query's neighbours."""
        raise NotImplementedError

    def _weigh(self, save: Callable[[str], None]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            save(str(Path(folder) / "index"))
            files = (path for path in Path(folder).rglob("*") if path.is_file())
            self.nbytes = sum(path.stat().st_size for path in files)


class Vecall(Library):
    """vecall's Index; what is not said is left to its defaults."""

    module = "vecall"

    def __init__(self, name: str, kind: str, **options: int) -> None:
        super().__init__(name)
        self.kind, self.options = kind, options
        if kind == "flat":
            self.knobs = [(64,)]

    def build(self, vectors: NDArray) -> None:
        import numpy as np

        self.index = self.load().Index(vectors.shape[1], self.kind, **self.options)
        self.index.add(np.arange(len(vectors), dtype=np.int64), vectors)
        self.index.build()
        self.nbytes = self.index.nbytes

    def search(self, queries: NDArray, k: int, knobs: Knobs) -> NDArray:
        if len(queries) == 1:
            return self.index.search(queries[0], k, *knobs)[0][None]
        return self.index.search_batch(queries, k, *knobs, threads=1)[0]


class Hnswlib(Library):
    """hnswlib with as many links as vecall."""

    module = "hnswlib"

    def build(self, vectors: NDArray) -> None:
        self.index = self.load().Index(space="ip", dim=vectors.shape[1])
        self.index.init_index(len(vectors), ef_construction=200, M=16)
        self.index.set_num_threads(self.threads)
        self.index.add_items(vectors)
        self.index.set_num_threads(1)
        self.nbytes = self.index.index_file_size()

    def search(self, queries: NDArray, k: int, knobs: Knobs) -> NDArray:
        self.index.set_ef(*knobs)
        return self.index.knn_query(queries, k)[0]


class SymphonyQG(Library):
    """SymphonyQG of rabitqlib: float32 rows, or codes of so many bits."""

    module = "rabitqlib"

    def __init__(self, name: str, bits: int) -> None:
        super().__init__(name)
        self.bits = bits

    def build(self, vectors: NDArray) -> None:
        degree, construction = 32, 200  # of its documents
        dim = vectors.shape[1]
        self.index = self.load().SymqgIndex(dim, degree, "ip", self.bits)
        self.index.build(vectors, construction, self.threads)
        self._weigh(self.index.save)

    def search(self, queries: NDArray, k: int, knobs: Knobs) -> NDArray:
        return self.index.search(queries, k, *knobs)[0]


class Scann(Library):
    """ScaNN: codes of 2 dimensions a block, reordered, with a tree or without."""

    module = "scann"

    def __init__(self, name: str, leaves_of: Callable[[int], int] | None) -> None:
        super().__init__(name)
        self.leaves_of = leaves_of
        reordered = (20, 30, 40, 60, 100, 200)
        if leaves_of is None:
            self.knobs = [(count,) for count in reordered]

    def build(self, vectors: NDArray) -> None:
        scann = self.load()
        make = scann.scann_ops_pybind.builder(vectors, 10, "dot_product")
        make = make.set_n_training_threads(self.threads)
        if self.leaves_of is not None:
            leaves = self.leaves_of(len(vectors))
            make = make.tree(num_leaves=leaves, num_leaves_to_search=leaves // 10)
            shares = (0.01, 0.02, 0.03, 0.045, 0.07, 0.1, 0.15, 0.22, 0.33, 0.5)
            searched = sorted({max(1, round(share * leaves)) for share in shares})
            self.knobs = list(itertools.product((20, 40, 80, 160), searched))
        make = make.score_ah(2, anisotropic_quantization_threshold=0.2).reorder(100)
        self.index = make.build()
        self._weigh(self._save)

    def _save(self, folder: str) -> None:
        Path(folder).mkdir()
        self.index.serialize(folder)

    def search(self, queries: NDArray, k: int, knobs: Knobs) -> NDArray:
        if len(queries) == 1:
            return self.index.search(queries[0], k, *knobs)[0][None]
        return self.index.search_batched(queries, k, *knobs)[0]


def libraries(rows: int) -> list[Library]:
    """Return every library; vecall's graph is the first."""
    root = math.sqrt(rows)
    scans: list[Library] = [Vecall("vecall, exact scan", "flat")]
    if rows <= 100_000:  # where its documents advise against a tree
        scans.append(Scann("ScaNN without a tree", None))
    return [
        Vecall("vecall", "hnsw"),
        # As its rivals are tuned: a build takes 1.7 times as long.
        Vecall("vecall, built at 200", "hnsw", ef_construction=200),
        SymphonyQG("SymphonyQG, float32", 0),
        SymphonyQG("SymphonyQG, 8 bits", 8),
        Scann("ScaNN, sqrt(rows) leaves", lambda _: round(root)),
        Scann("ScaNN, 3 sqrt(rows) leaves", lambda _: round(3 * root)),
        Hnswlib("hnswlib"),
        *scans,
    ]


def at_recall(points: Sequence[Point], recall: float) -> float | None:
    """Return the queries a second at a recall, None where no setting reaches it.

    The logarithm of the rate is interpolated between settings that are on the frontier:
    no other one has at least their recall at a higher rate.
    """
    frontier: list[Point] = []
    for point in sorted(points, key=lambda p: (-p[0], -p[1])):
        if not frontier or point[1] > frontier[-1][1]:
            frontier.append(point)
    above = [point for point in frontier if point[0] >= recall]
    if not above:
        return None
    if len(above) == len(frontier) or above[-1][0] == recall:
        return above[-1][1]
    (high, slow), (low, fast) = above[-1], frontier[len(above)]
    share = (high - recall) / (high - low)
    return slow * (fast / slow) ** share


def main() -> None:
    """Build, measure and print the tables."""
    parser = arguments.parser(__doc__)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--copies", type=int, default=1, help="noisy, of each row")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", action="store_true", help="all queries in one call")
    parser.add_argument("--only", default="", help="libraries that begin so, by comma")
    parser.add_argument("--threads", type=int, default=1, help="of rivals' builds")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"  # before anything loads a BLAS
    from bench.common import datasets
    from bench.common.tables import table

    data = datasets.load(DIM, options.rows, QUERIES)
    if options.copies > 1:
        data = datasets.noisy_copies(data, options.copies, NOISE)
    built = []
    for library in libraries(len(data)):
        why = library.missing()
        if why is not None:
            print(f"skipped: {library.name}: {why}")
        elif library.name.startswith(tuple(options.only.split(","))):
            library.threads = options.threads
            begin = time.process_time()
            library.build(data.vectors)
            seconds = time.process_time() - begin
            weight = "?" if library.nbytes is None else library.nbytes // len(data)
            built.append((library, f"{seconds:.1f}", weight))
            print(f"built {library.name}: {seconds:.1f} s", flush=True)
    curves = _measure([one for one, *_ in built], data, options.rounds, options.batch)
    lines = []
    first = built[0][0].name
    for library, seconds, weight in built:
        rates = [at_recall(curves[library.name], recall) for recall in RECALLS]
        of_first = [at_recall(curves[first], recall) for recall in RECALLS]
        shown = [_rate(*both) for both in zip(rates, of_first, strict=True)]
        lines.append((library.name, *shown, seconds, weight))
    print(f"{data.name}, {len(data):,} rows, queries/s (times slower than {first}):")
    head = ("", *map(str, RECALLS), "build, CPU s", "bytes a row")
    print(table(head, lines))


def _rate(rate: float | None, first: float | None) -> str:
    if rate is None:
        return "-"
    return f"{rate:,.0f}" + ("" if first is None else f" ({first / rate:.2f})")


def _measure(
    built: list[Library], data: Any, rounds: int, batch: bool
) -> dict[str, list[Point]]:
    """Return recall and rate of every library with every setting."""
    from bench.common.measure import K

    seconds: dict[tuple[str, Knobs], list[float]] = {}
    recalls: dict[tuple[str, Knobs], float] = {}
    asked = [data.queries] if batch else [query[None] for query in data.queries]
    gc.disable()
    for _ in range(rounds):
        for place in range(max(len(library.knobs) for library in built)):
            for library in built:
                if place >= len(library.knobs):
                    continue
                knobs = library.knobs[place]
                key = library.name, knobs
                library.search(asked[0], K, knobs)
                found, took = _ask(library, asked, knobs)
                seconds[key] = list(map(min, took, seconds.get(key, took)))
                if key not in recalls:
                    recalls[key] = data.recall(found, K)
    gc.enable()
    curves: dict[str, list[Point]] = {library.name: [] for library in built}
    for (name, knobs), recall in recalls.items():
        rate = len(data.queries) / sum(seconds[name, knobs])
        curves[name].append((recall, rate))
        print(f"{name} {knobs}: recall {recall:.4f}, {rate:,.0f} queries/s")
    return curves


def _ask(
    library: Library, asked: list[NDArray], knobs: Knobs
) -> tuple[list[NDArray], list[float]]:
    """Return the ids for each query, and the seconds of each call."""
    from bench.common.measure import K

    clock = time.perf_counter
    found: list[NDArray] = []
    took = []
    for queries in asked:
        begin = clock()
        ids = library.search(queries, K, knobs)
        took.append(clock() - begin)
        found.extend(ids)
    return found, took


if __name__ == "__main__":
    main()
