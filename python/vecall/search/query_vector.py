"""Validates a query vector that the caller computed."""

from __future__ import annotations

import numpy as np

from vecall.embedders import Vectors
from vecall.errors import (
    ConfigError,
    DimensionError,
    InvalidArgumentError,
    InvalidTypeError,
)
from vecall.ranking.options import Ranking
from vecall.store import EmbeddingModel


def checked_query_vector(
    given: object, model: EmbeddingModel | None, ranking: Ranking
) -> Vectors | None:
    """Return a copy of a query's vector, float32 (dimensions,); None for None.

    Args:
        given: A sequence of numbers, or a NumPy array.
        model: The model of the vectors that are searched.
        ranking: The ranking of the search.

    Raises:
        ConfigError: The service or the ranking does not use vectors.
        InvalidTypeError: Not a sequence of numbers.
        DimensionError: The shape differs from that of the model's vectors.
        InvalidArgumentError: NaN, Inf, a number that float32 cannot hold, or only
            zeros.
    """
    if given is None:
        return None
    if model is None:
        msg = "vector: needs an embedder and a file that has its model"
        raise ConfigError(msg)
    if ranking.fusion == "words":
        msg = "vector: a search by words alone (ranking.fusion) uses none"
        raise ConfigError(msg)
    vector = checked_vector(given, model, "vector")
    if not vector.any():
        msg = "vector: must have a number other than zero"
        raise InvalidArgumentError(msg)
    return vector


def checked_vector(given: object, model: EmbeddingModel, name: str) -> Vectors:
    """Return a copy of a vector of the caller's, float32 (dimensions,).

    Args:
        given: A sequence of numbers, or a NumPy array.
        model: The model of the file's vectors.
        name: The name of the argument, for error messages.

    Raises:
        InvalidTypeError: Not a sequence of numbers.
        DimensionError: The shape differs from that of the model's vectors.
        InvalidArgumentError: NaN, Inf, or a number that float32 cannot hold.
    """
    expected = f"expected one vector of {model.dim} numbers"
    if isinstance(given, str | bytes) or not hasattr(given, "__len__"):
        msg = f"{name}: {expected}"
        raise InvalidTypeError(msg)
    try:
        numbers = np.asarray(given)
    except (TypeError, ValueError):  # such as lists of different lengths
        msg = f"{name}: {expected}"
        raise InvalidTypeError(msg) from None
    if numbers.shape != (model.dim,):
        msg = f"{name}: {expected}, got shape {numbers.shape}"
        raise DimensionError(msg)
    if numbers.dtype.kind not in "fiu":
        msg = f"{name}: {expected}"
        raise InvalidTypeError(msg)
    with np.errstate(over="ignore", under="ignore"):
        vector = np.array(numbers, dtype=np.float32, order="C")
    if not np.isfinite(vector).all():
        msg = f"{name}: every number must be finite in float32"
        raise InvalidArgumentError(msg)
    return vector
