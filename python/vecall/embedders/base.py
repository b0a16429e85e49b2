"""What an embedder is, and the checks on what it returns."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from vecall.errors import EmbedderError

Vectors = NDArray[np.float32]


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors. The one method may be a coroutine function.

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


def checked_vectors(result: object, count: int, dimensions: int) -> Vectors:
    """Return an embedder's result as float32 (count, dimensions).

    Raises:
        EmbedderError: Another count or dimension, not numbers, NaN, Inf, or a vector
            that float32 cannot hold.
    """
    try:
        given = np.asarray(result)
        if given.dtype.kind not in "fiu":
            raise TypeError
        with np.errstate(over="ignore"):
            vectors = np.ascontiguousarray(given, dtype=np.float32)
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
