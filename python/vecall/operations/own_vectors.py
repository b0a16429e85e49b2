"""Gives drafts the vectors that the caller computed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vecall.errors import ConfigError, InvalidArgumentError, InvalidTypeError
from vecall.search.query_vector import checked_vector
from vecall.store import Draft, EmbeddingModel


def give_own_vectors(
    drafts: Sequence[Draft], vectors: object, model: EmbeddingModel | None
) -> None:
    """Set the vectors of drafts. A zero vector is stored as none.

    Args:
        drafts: The memories of a call.
        vectors: A vector for each, float (n, dimensions), or a sequence in which None
            stands for a memory without a vector of the caller's; or None.
        model: The model of the file's vectors.

    Raises:
        ConfigError: The service has no model.
        InvalidTypeError: Not a sequence of vectors.
        DimensionError: A vector of another length than the model's.
        InvalidArgumentError: Not one vector for each memory, or NaN or Inf.
    """
    if vectors is None:
        return
    if model is None:
        msg = "vectors: needs an embedder, or vecall.embedders.CallerVectors"
        raise ConfigError(msg)
    if isinstance(vectors, np.ndarray) and not vectors.ndim:
        vectors = None
    if not isinstance(vectors, list | tuple | np.ndarray):
        msg = "vectors: expected a list of vectors, or an array (n, dimensions)"
        raise InvalidTypeError(msg)
    if len(vectors) != len(drafts):
        msg = f"vectors: expected {len(drafts)}, one for each memory; None for none"
        raise InvalidArgumentError(msg)
    checked = [
        None if each is None else checked_vector(each, model, f"vectors[{number}]")
        for number, each in enumerate(vectors)
    ]
    for draft, each, vector in zip(drafts, vectors, checked, strict=True):
        if each is not None and vector is not None:
            draft.vec = vector.astype("<f4").tobytes() if vector.any() else None
            draft.has_own_vector = True
