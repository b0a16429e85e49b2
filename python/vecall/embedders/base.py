"""The protocol of embedders, and the checks on their results."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from vecall.errors import EmbedderError

Vectors = NDArray[np.float32]


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors. The one method may be a coroutine function.

    A model that embeds questions otherwise than what may answer them is an
    `AsymmetricEmbedder`, which has a second method. A plain `embed` is called by one
    thread at a time, unless the embedder has an attribute `max_concurrency` above 1.
    An attribute `scripts` names the scripts whose letters the model knows, by the first
    words of their letters' names in Unicode: "latin", "cyrillic", "cjk", "hiragana". A
    query most of whose letters are of others is then searched by words alone.

    Attributes:
        model_id: Names the model; vectors of two models are never compared.
        dimensions: Length of every vector.
    """

    @property
    def model_id(self) -> str:
        """The model's name, stored in every file that holds its vectors."""
        ...

    @property
    def dimensions(self) -> int:
        """Length of every vector."""
        ...

    def embed(self, texts: Sequence[str]) -> Any | Awaitable[Any]:
        """Return one vector for each text, in order.

        Args:
            texts: At least one text.

        Returns:
            Anything that numpy turns into float32 (len(texts), dimensions), or an
            awaitable of it.
        """
        ...


@runtime_checkable
class AsymmetricEmbedder(Embedder, Protocol):
    """An embedder with a second method for queries, in the same space of vectors."""

    def embed_queries(self, texts: Sequence[str]) -> Any | Awaitable[Any]:
        """Return one vector for each query, in order, as `embed` does for memories."""
        ...


def is_async(function: object) -> bool:
    """Whether a callable is a coroutine function, or an object whose call is one."""
    call = getattr(function, "__call__", None)  # noqa: B004 - an async __call__
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def checked_vectors(result: object, count: int, dimensions: int) -> Vectors:
    """Return an embedder's result as float32 (count, dimensions).

    Raises:
        EmbedderError: Another count or dimension, not numbers, NaN, Inf, or a vector
            that float32 cannot hold.
    """
    try:
        array = np.asarray(result)
        if array.dtype.kind not in "fiu":
            raise TypeError
        with np.errstate(over="ignore"):
            vectors = np.ascontiguousarray(array, dtype=np.float32)
    except (TypeError, ValueError):
        msg = "the embedder did not return an array of numbers"
        raise EmbedderError(msg) from None
    if vectors.shape != (count, dimensions):
        msg = (
            f"the embedder returned shape {vectors.shape} for {count} texts; expected "
            f"({count}, {dimensions})"
        )
        raise EmbedderError(msg)
    if not np.isfinite(vectors).all():
        msg = "the embedder returned NaN or Inf"
        raise EmbedderError(msg)
    return vectors
