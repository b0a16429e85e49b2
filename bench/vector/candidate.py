"""The interface of a candidate (build, search on one thread), and vecall's."""

from __future__ import annotations

import importlib
import importlib.metadata
import warnings
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

M = 16
EF_CONSTRUCTION = 200  # of the others; vecall's own is 100
EFS = (
    *(10, 12, 14, 16, 18, 20, 22, 24, 28, 32, 36, 40, 44, 48, 56, 64, 72, 80, 96, 112),
    *(128, 144, 160, 192, 224, 256, 320, 384, 512),
)
ROW_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "int8": 1}


class Candidate:
    """One way to search. Subclasses say how to build and search."""

    module = ""
    package = ""
    #: Values for `set_ef`, rising; a candidate without a breadth has none.
    efs: tuple[int, ...] = ()
    #: Breadth of the search for a new row's links; 0 where there is no graph.
    construction = 0

    def __init__(self, name: str, code: str = "float32") -> None:
        self.name = name
        self.code = code
        self.index: Any = None

    def missing(self) -> str | None:
        """Return why it cannot run here, or None."""
        try:
            self.load()
        except Exception as error:  # a module may fail in any way on a CPU
            return f"{self.package or self.module}: {type(error).__name__}: {error}"
        return None

    def load(self) -> ModuleType:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(self.module)

    @property
    def version(self) -> str:
        return importlib.metadata.version(self.package or self.module)

    def row_bytes(self, dim: int) -> float:
        """Bytes that a scan must read for each row."""
        return ROW_BYTES[self.code] * dim

    @property
    def nbytes(self) -> int | None:
        """What the library says that it holds, or None if it says nothing."""
        return None

    def build(self, vectors: NDArray) -> None:
        raise NotImplementedError

    def search(self, query: NDArray, k: int) -> NDArray:
        raise NotImplementedError

    def batch(self, queries: NDArray, k: int, threads: int) -> NDArray:
        raise NotImplementedError

    def set_ef(self, ef: int) -> None:
        """Set the breadth of the next searches."""


class Vecall(Candidate):
    """vecall's Index; what is not said is left to its defaults."""

    module = package = "vecall"

    def __init__(self, name: str, kind: str, **options: Any) -> None:
        super().__init__(name, options.get("codec", "int4+8"))
        self.options = {"kind": kind, **options}
        self.ef = 64
        if kind == "hnsw":
            self.efs = EFS
            self.construction = options.get("ef_construction", 100)

    @property
    def version(self) -> str:
        return self.load().__version__  # a build need not be installed

    def missing(self) -> str | None:
        why = super().missing()
        if why is None:
            try:
                self.make(8)
            except Exception as error:
                why = f"this vecall: {str(error).splitlines()[0]}"
        return why

    def make(self, dim: int) -> Any:
        return self.load().Index(dim, **self.options)

    def build(self, vectors: NDArray) -> None:
        self.index = self.make(vectors.shape[1])
        self.index.add(np.arange(len(vectors), dtype=np.int64), vectors)
        self.index.build()

    def search(self, query: NDArray, k: int) -> NDArray:
        return self.index.search(query, k, self.ef)[0]

    def batch(self, queries: NDArray, k: int, threads: int) -> NDArray:
        return self.index.search_batch(queries, k, self.ef, threads=threads)[0]

    def set_ef(self, ef: int) -> None:
        self.ef = ef

    def row_bytes(self, dim: int) -> float:
        if dim >= 128 and len(self.index) >= 4_096:
            return dim / 8 + 4  # signs and a factor
        return dim / 2  # the high plane holds four bits a coordinate

    @property
    def nbytes(self) -> int:
        return self.index.nbytes
