"""Gives drafts the vectors that the caller computed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vecall.errors import ConfigError, InvalidArgumentError, InvalidTypeError
from vecall.ingest.passages import each_draft
from vecall.search.query_vector import checked_vector
from vecall.store import EmbeddingModel


def give_own_vectors(
    given: Sequence[object], vectors: object, model: EmbeddingModel | None
) -> None:
    """Set the vectors of drafts. A zero vector is stored as none.

    The vector of a text with several passages is that of the first one. The others get
    none.

    Args:
        given: The memories of a call: drafts, passages, or why there is no draft.
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
    if len(vectors) != len(given):
        msg = f"vectors: expected {len(given)}, one for each memory; None for none"
        raise InvalidArgumentError(msg)
    checked = [
        None if each is None else checked_vector(each, model, f"vectors[{number}]")
        for number, each in enumerate(vectors)
    ]
    for item, each, vector in zip(given, vectors, checked, strict=True):
        if each is None or vector is None:
            continue
        for place, draft in enumerate(each_draft([item])):
            if place == 0 and vector.any():
                draft.vec = vector.astype("<f4").tobytes()
            draft.has_own_vector = True
