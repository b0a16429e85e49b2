"""The protocol of embedders, and the validation of their results."""

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
    """Turns texts into vectors. `embed` may be a coroutine function.

    A model that embeds queries and memories differently is an `AsymmetricEmbedder`,
    which has a second method.

    An embedder may have two more attributes:

    - `max_concurrency`: how many threads may call a plain `embed` at once; 1 by
      default.
    - `scripts`: the scripts that the model supports. A script's name is the first word
      of its letters' Unicode names, in lower case: "latin", "cyrillic", "cjk",
      "hiragana". A query with most of its letters in other scripts is searched by words
      alone.

    Attributes:
        model_id: The model's name. Vectors of two models are never compared.
        dimensions: Length of every vector, from 1 to 65,536.
    """

    @property
    def model_id(self) -> str:
        """The model's name, stored in every file with its vectors."""
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
            An array-like of numbers, shape (len(texts), dimensions), or an awaitable
            of it.
        """
        ...


@runtime_checkable
class AsymmetricEmbedder(Embedder, Protocol):
    """An embedder with a second method for queries, in the same vector space."""

    def embed_queries(self, texts: Sequence[str]) -> Any | Awaitable[Any]:
        """Return one vector for each query, in order. See `Embedder.embed`."""
        ...


class WrappedEmbedder:
    """Has every attribute of another embedder that it does not define itself.

    `scripts` and `probe`, which it may lack, are None then.

    Args:
        embedder: The other embedder.
    """

    def __init__(self, embedder: Embedder) -> None:
        """Read the name and the dimensions, which do not change."""
        self._embedder = embedder
        self.model_id = embedder.model_id
        self.dimensions = embedder.dimensions
        self.scripts = getattr(embedder, "scripts", None)
        self.probe = getattr(embedder, "probe", None)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the other embedder."""
        if name == "_embedder":  # not set yet, in a copy
            raise AttributeError(name)
        return getattr(self._embedder, name)


def is_async(function: object) -> bool:
    """Return whether calling an object returns a coroutine."""
    call = getattr(function, "__call__", None)  # noqa: B004 - an async __call__
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def checked_vectors(result: object, count: int, dimensions: int) -> Vectors:
    """Return an embedder's result as float32 (count, dimensions).

    Raises:
        EmbedderError: The result is not an array of numbers, has another shape, or has
            a value that is NaN, infinite or outside the range of float32.
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
