"""A linear map on the vectors of queries, fitted to an embedding model.

An embedding model places a question near other questions. The map moves its vector to
the region of the answers. Stored vectors do not change: no memory is embedded again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from vecall._core import LinearMap
from vecall.embedders.base import Embedder, Vectors, WrappedEmbedder, is_async
from vecall.errors import ConfigError
from vecall.scalars import repr_of_embedder

_SHIPPED = Path(__file__).with_name("query_maps")
_TEMPERATURE = 0.1
_DECAY = 0.03
_STEPS = 60
_RATE = 1e-3


class Example(NamedTuple):
    """One user's memories and questions about them, embedded."""

    memories: Vectors  # float32 (n, dim)
    questions: Vectors  # float32 (m, dim)
    evidence: Sequence[Sequence[int]]  # of each question, the memories: at least one


class QueryMap:
    """A matrix that multiplies the vectors of queries.

    Attributes:
        matrix: float32 (dim, dim). The identity matrix changes nothing.

    Raises:
        ConfigError: The argument is not a square matrix of finite floats.
    """

    def __init__(self, matrix: NDArray[Any]) -> None:
        """Create a map from a matrix."""
        array = np.asarray(matrix)
        square = array.ndim == 2 and array.shape[0] == array.shape[1] > 0
        if not square or array.dtype.kind != "f" or not np.isfinite(array).all():
            raise ConfigError("query map: expected a square matrix of finite floats")
        self.matrix = np.ascontiguousarray(array, np.float32)
        self._core = LinearMap(self.matrix)

    @staticmethod
    def shipped(model_id: str) -> QueryMap | None:
        """Return the map that comes with vecall for a model; None if it has none."""
        return _load_shipped_map(model_id)

    @staticmethod
    def load(path: str | Path) -> QueryMap:
        """Read a file that `save` wrote.

        Raises:
            ConfigError: The file cannot be read, or is not a map.
        """
        try:
            return QueryMap(np.load(path, allow_pickle=False))
        except (OSError, ValueError, EOFError, TypeError):
            msg = "query map: expected an .npy file written by `QueryMap.save`"
            raise ConfigError(msg) from None

    def save(self, path: str | Path) -> None:
        """Write the matrix as float16, in the .npy format."""
        with Path(path).open("wb") as file:
            np.save(file, self.matrix.astype(np.float16))

    def __call__(self, vectors: Vectors) -> Vectors:
        """Return the mapped vectors, float32 (n, dim) of norm 1.

        Zero vectors stay zero. The matrix is quantised to 12 bits and a vector to 13
        bits, so the cosine between the result and the exact product is about 1 - 2e-7.

        Args:
            vectors: Finite numbers, shape (n, dim).

        Raises:
            InvalidArgumentError: `vectors` has another shape or non-finite values.
        """
        return self._core.apply(vectors)

    def __reduce__(self) -> tuple[type[QueryMap], tuple[Vectors]]:
        """Copy and pickle the matrix only."""
        return QueryMap, (self.matrix,)


@cache
def _load_shipped_map(model_id: str) -> QueryMap | None:
    file = _SHIPPED / f"{model_id}.npy"
    return QueryMap.load(file) if file.is_file() else None


def fit_query_map(examples: Sequence[Example]) -> QueryMap:
    """Fit a map on questions whose answers are known."""
    # The loss is the cross-entropy of a softmax over the cosines of a question and all
    # of its user's memories (InfoNCE; van den Oord et al., 2018), plus a penalty on the
    # distance to the identity. Adam (Kingma and Ba, 2015) minimises it from there on.
    sets = [_Normal.of(example) for example in examples if len(example.questions)]
    count = sum(len(example.questions) for example in sets)
    if not count:
        raise ConfigError("query map: needs questions with evidence")
    dim = sets[0].questions.shape[1]
    change = np.zeros((dim, dim))
    mean, square = np.zeros_like(change), np.zeros_like(change)
    for step in range(1, _STEPS + 1):
        slope = sum(example.slope(change) for example in sets) / count + _DECAY * change
        mean = 0.9 * mean + 0.1 * slope
        square = 0.99 * square + 0.01 * slope * slope
        moved = mean / (1.0 - 0.9**step)
        spread = np.sqrt(square / (1.0 - 0.99**step)) + 1e-8
        change -= _RATE * moved / spread
    return QueryMap(np.eye(dim) + change)


class _Normal(NamedTuple):
    """An example as float64, with vectors of norm 1."""

    memories: NDArray[np.float64]  # (n, dim)
    questions: NDArray[np.float64]  # (m, dim)
    wanted: NDArray[np.float64]  # (m, n): the target probabilities of the memories

    @staticmethod
    def of(example: Example) -> _Normal:
        wanted = np.zeros((len(example.questions), len(example.memories)))
        for row, evidence in zip(wanted, example.evidence, strict=True):
            row[list(evidence)] = 1.0 / len(evidence)
        return _Normal(
            _unit_vectors(example.memories), _unit_vectors(example.questions), wanted
        )

    def slope(self, change: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the gradient, (dim, dim), of the sum of the cross-entropies."""
        mapped = self.questions + self.questions @ change.T
        norms = np.linalg.norm(mapped, axis=1, keepdims=True)
        unit = mapped / norms
        scores = unit @ self.memories.T / _TEMPERATURE
        scores -= scores.max(axis=1, keepdims=True)
        shares = np.exp(scores)
        shares /= shares.sum(axis=1, keepdims=True)
        pull = (shares - self.wanted) / _TEMPERATURE @ self.memories
        pull = (pull - (pull * unit).sum(axis=1, keepdims=True) * unit) / norms
        return cast("NDArray[np.float64]", pull.T @ self.questions)


def _unit_vectors(vectors: Vectors) -> NDArray[np.float64]:
    array = np.asarray(vectors, np.float64)
    if array.ndim != 2 or not np.isfinite(array).all():
        raise ConfigError("query map: expected finite vectors (n, dim)")
    norms = np.linalg.norm(array, axis=1, keepdims=True)
    return array / np.where(norms > 0.0, norms, 1.0)


class MappedEmbedder(WrappedEmbedder):
    """An embedder that applies a map to the vectors of queries.

    `model_id` is the embedder's, since the vectors of memories are the same.

    Args:
        embedder: The embedder to wrap.
        query_map: A `QueryMap`, or the path of a saved one.

    Raises:
        ConfigError: The map has other dimensions than the embedder, or its file cannot
            be read.
    """

    __repr__ = repr_of_embedder

    def __init__(self, embedder: Embedder, query_map: QueryMap | str | Path) -> None:
        """Wrap an embedder."""
        if not isinstance(query_map, QueryMap):
            query_map = QueryMap.load(query_map)
        if len(query_map.matrix) != embedder.dimensions:
            raise ConfigError(
                f"query_map: is of {len(query_map.matrix)} dimensions, the embedder's "
                f"vectors of {embedder.dimensions}"
            )
        super().__init__(embedder)
        self.embed: Callable[[Sequence[str]], Any] = embedder.embed
        self._map = query_map
        self._ask = getattr(embedder, "embed_queries", embedder.embed)
        if is_async(self._ask):
            self.embed_queries = self._queries_async  # type: ignore[method-assign]

    def embed_queries(self, texts: Sequence[str]) -> Any:
        """Return the mapped vectors of queries, float32 (len(texts), dimensions)."""
        return self._map(cast("Vectors", self._ask(texts)))

    async def _queries_async(self, texts: Sequence[str]) -> Any:
        return self._map(await self._ask(texts))
