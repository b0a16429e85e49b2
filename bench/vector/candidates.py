"""Every library behind the interface of a candidate, vecall among them.

A candidate that cannot run here gives the reason through `missing`, and the reason is
printed. All of them hold the rows in memory; `code` is the encoding. The rows have
norm 1, so all but vecall, which only computes cosines, rank by inner products: they
need not divide by norms.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.vector.candidate import EF_CONSTRUCTION, EFS, Candidate, M, Vecall

DTYPES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "int8": "i8"}
OTHER_CODECS = ("int4", "int4+8+4")
LVQ = {"LVQ8": (8, 0), "LVQ4x8": (4, 8)}


class Hnswlib(Candidate):
    """hnswlib: brute force, or a graph."""

    module = package = "hnswlib"

    def __init__(self, name: str, construction: int = 0) -> None:
        super().__init__(name)
        self.construction = construction
        self.efs = EFS if construction else ()

    def build(self, vectors: NDArray) -> None:
        rows, dim = vectors.shape
        if self.construction:
            self.index = self.load().Index(space="ip", dim=dim)
            self.index.init_index(rows, ef_construction=self.construction, M=M)
        else:
            self.index = self.load().BFIndex(space="ip", dim=dim)
            self.index.init_index(rows)
        self.index.set_num_threads(1)
        self.index.add_items(vectors, np.arange(rows))

    def search(self, query: NDArray, k: int) -> NDArray:
        return self.index.knn_query(query, k)[0][0]

    def batch(self, queries: NDArray, k: int, threads: int) -> NDArray:
        return self.index.knn_query(queries, k, num_threads=threads)[0]

    def set_ef(self, ef: int) -> None:
        self.index.set_ef(ef)

    @property
    def nbytes(self) -> int | None:
        return self.index.index_file_size() if self.construction else None


class Usearch(Candidate):
    """usearch: its index with exact search, or its graph.

    Exact search through an index is quicker than usearch.search on an array, and takes
    its codes; the graph that it needs is as cheap as can be.
    """

    module = "usearch.index"
    package = "usearch"

    def __init__(self, name: str, code: str, graph: bool = False) -> None:
        super().__init__(name, code)
        self.graph = graph
        if graph:
            self.efs, self.construction = EFS, EF_CONSTRUCTION

    def build(self, vectors: NDArray) -> None:
        self.index = self.load().Index(
            ndim=vectors.shape[1],
            metric="ip",
            dtype=DTYPES[self.code],
            connectivity=M if self.graph else 2,
            expansion_add=EF_CONSTRUCTION if self.graph else 1,
        )
        self.index.add(np.arange(len(vectors)), vectors, threads=1)

    def search(self, query: NDArray, k: int) -> NDArray:
        return self.index.search(query, k, exact=not self.graph, threads=1).keys

    def batch(self, queries: NDArray, k: int, threads: int) -> NDArray:
        exact = not self.graph
        return self.index.search(queries, k, exact=exact, threads=threads).keys

    def set_ef(self, ef: int) -> None:
        self.index.expansion_search = ef

    @property
    def nbytes(self) -> int:
        return self.index.memory_usage


class Faiss(Candidate):
    """faiss, by a factory string, for inner products.

    `RFlat` keeps float32 beside the codes and ranks k_factor * k candidates by it; its
    breadth is the k_factor. {2} and {4} in the string are halves and quarters of the
    dimension.
    """

    module = "faiss"
    package = "faiss-cpu"

    def __init__(self, name: str, spec: str, code: str, bits: float) -> None:
        super().__init__(name, code)
        self.spec = spec
        self.bits = bits
        self.refined = spec.endswith("RFlat")
        self.graph = spec.startswith("HNSW")
        if self.refined:
            self.efs = (1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
        elif self.graph:
            self.efs, self.construction = EFS, EF_CONSTRUCTION

    def build(self, vectors: NDArray) -> None:
        faiss = self.load()
        faiss.omp_set_num_threads(1)
        dim = vectors.shape[1]
        spec = self.spec.replace("{2}", str(dim // 2)).replace("{4}", str(dim // 4))
        self.index = faiss.index_factory(dim, spec, faiss.METRIC_INNER_PRODUCT)
        if self.graph:
            self.index.hnsw.efConstruction = EF_CONSTRUCTION
        if spec.startswith("PQ"):
            coarse = faiss.downcast_index(self.index.base_index)
            coarse.pq.cp.min_points_per_centroid = 1  # says nothing of small sets
        self.index.train(vectors)
        self.index.add(vectors)

    def search(self, query: NDArray, k: int) -> NDArray:
        return self.index.search(query[None], k)[1][0]

    def batch(self, queries: NDArray, k: int, threads: int) -> NDArray:
        faiss = self.load()
        faiss.omp_set_num_threads(threads)
        try:
            return self.index.search(queries, k)[1]
        finally:
            faiss.omp_set_num_threads(1)

    def set_ef(self, ef: int) -> None:
        if self.refined:
            self.index.k_factor = ef
        else:
            self.index.hnsw.efSearch = ef

    def row_bytes(self, dim: int) -> float:
        return self.bits * dim / 8

    @property
    def nbytes(self) -> int:
        return self.load().serialize_index(self.index).nbytes


class Svs(Candidate):
    """Intel's scalable-vs: Flat, or Vamana with as many links as a lowest level."""

    module = "svs"
    package = "scalable-vs"

    def __init__(self, name: str, code: str, graph: bool = False) -> None:
        super().__init__(name, code)
        self.graph = graph
        if graph:
            self.efs, self.construction = EFS, EF_CONSTRUCTION

    def missing(self) -> str | None:
        intel = "GenuineIntel" in Path("/proc/cpuinfo").read_text()
        if self.code in LVQ and not intel:
            return "scalable-vs: its LVQ ends the process on a CPU that is not Intel's"
        return super().missing()

    def build(self, vectors: NDArray) -> None:
        svs = self.load()
        with tempfile.TemporaryDirectory() as folder:
            if self.code in LVQ:
                rows: Any = self.lvq(Path(folder), vectors)
            else:
                rows = vectors.astype(self.code)
            if self.graph:
                how = svs.VamanaBuildParameters(
                    alpha=0.95, graph_max_degree=2 * M, window_size=self.construction
                )
                self.index = svs.Vamana.build(how, rows, svs.DistanceType.MIP, 1)
            else:
                self.index = svs.Flat(
                    rows, distance=svs.DistanceType.MIP, num_threads=1
                )

    def lvq(self, folder: Path, vectors: NDArray) -> Any:
        """Return what loads codes; they are only made from a file."""
        svs = self.load()
        written, rows = str(folder / "rows.fvecs"), str(folder / "rows.svs")
        svs.write_vecs(vectors, written)
        svs.convert_vecs_to_svs(written, rows, svs.float32)
        loader = svs.VectorDataLoader(rows, svs.float32, vectors.shape[1])
        primary, residual = LVQ[self.code]
        # The padding that its documentation says is the fastest.
        return svs.LVQLoader(loader, primary, residual, padding=32)

    def search(self, query: NDArray, k: int) -> NDArray:
        return self.index.search(query, k)[0][0]

    def batch(self, queries: NDArray, k: int, threads: int) -> NDArray:
        self.index.num_threads = threads
        try:
            return self.index.search(queries, k)[0]
        finally:
            self.index.num_threads = 1

    def set_ef(self, ef: int) -> None:
        self.index.search_window_size = ef

    def row_bytes(self, dim: int) -> float:
        if self.code in LVQ:
            return sum(LVQ[self.code]) * dim / 8
        return super().row_bytes(dim)


class Numpy(Candidate):
    """One product of a matrix and a vector, then a partial sort."""

    module = package = "numpy"

    def missing(self) -> str | None:
        if os.environ.get("OMP_NUM_THREADS") != "1":
            return "numpy: its BLAS may take several threads, set OMP_NUM_THREADS=1"
        return None

    def build(self, vectors: NDArray) -> None:
        self.index = vectors

    def search(self, query: NDArray, k: int) -> NDArray:
        scores = self.index @ query
        k = min(k, len(scores))
        best = np.argpartition(-scores, k - 1)[:k]
        return best[np.argsort(-scores[best])]


def exact() -> list[Candidate]:
    """Return those that scan; vecall as it comes is the first."""
    return [
        Vecall("vecall", "flat"),
        *(Vecall(f"vecall {c}", "flat", codec=c) for c in OTHER_CODECS),
        Hnswlib("hnswlib BFIndex"),
        Faiss("faiss Flat", "Flat", "float32", 32),
        Usearch("usearch exact f32", "float32"),
        Svs("svs Flat f32", "float32"),
        Numpy("numpy"),
        Faiss("faiss SQfp16", "SQfp16", "float16", 16),
        Usearch("usearch exact f16", "float16"),
        Usearch("usearch exact bf16", "bfloat16"),
        Svs("svs Flat f16", "float16"),
        Svs("svs Flat LVQ8", "LVQ8"),
        Faiss("faiss SQ8", "SQ8", "int8", 8),
        Usearch("usearch exact i8", "int8"),
        Faiss("faiss SQ8 + f32", "SQ8,RFlat", "8 bit + float32", 8),
        Faiss("faiss PQ/2 + f32", "PQ{2}x4fs,RFlat", "2 bit + float32", 2),
        Faiss("faiss PQ/4 + f32", "PQ{4}x4fs,RFlat", "1 bit + float32", 1),
    ]


def graph() -> list[Candidate]:
    """Return the graphs; vecall as it comes is the first."""
    return [
        Vecall("vecall", "hnsw"),
        Vecall("vecall, built at 200", "hnsw", ef_construction=EF_CONSTRUCTION),
        Hnswlib("hnswlib", EF_CONSTRUCTION),
        Hnswlib("hnswlib, built at 100", 100),
        Faiss("faiss HNSW", f"HNSW{M},Flat", "float32", 32),
        Faiss("faiss HNSW fp16", f"HNSW{M},SQfp16", "float16", 16),
        Faiss("faiss HNSW SQ8", f"HNSW{M},SQ8", "int8", 8),
        Usearch("usearch f32", "float32", graph=True),
        Usearch("usearch bf16", "bfloat16", graph=True),
        Usearch("usearch i8", "int8", graph=True),
        Svs("svs Vamana f16", "float16", graph=True),
        Svs("svs Vamana LVQ8", "LVQ8", graph=True),
        Svs("svs Vamana LVQ4x8", "LVQ4x8", graph=True),
    ]


def usable(candidates: list[Candidate]) -> list[Candidate]:
    """Return those that can run here, and say why the others cannot."""
    left = []
    for candidate in candidates:
        why = candidate.missing()
        if why is None:
            left.append(candidate)
        else:
            print(f"skipped: {candidate.name}: {why}", file=sys.stderr)
    return left
