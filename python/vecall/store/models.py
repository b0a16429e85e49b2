"""The embedding model that a file's vectors come from."""

from __future__ import annotations

from typing import Any

import numpy as np

from vecall.errors import CorruptFileError, EmbeddingMismatchError
from vecall.store.results import EmbeddingModel
from vecall.store.transaction import Transaction
from vecall.store.values import NO_VALUE, require_counts

_MAX_DIM = 65_536
_SAME_MODEL = 0.99  # cosine of the same text's vectors from any two machines


def is_print(value: object, dim: int) -> bool:
    """Whether a value is a finite float32 vector of `dim` dimensions.

    Args:
        value: The value.
        dim: The number of dimensions, at least 1.
    """
    if not isinstance(value, bytes) or len(value) != 4 * dim:
        return False
    return bool(np.isfinite(np.frombuffer(value, "<f4")).all())


def checked_model(row: tuple[Any, ...]) -> EmbeddingModel:
    """Return the model of one row of the table `model`.

    Args:
        row: Name, dimensions, number and fingerprint.

    Raises:
        CorruptFileError: A value has a type or range that vecall never writes.
    """
    name, dim, id_, print_ = row
    require_counts(dim, id_)
    if not isinstance(name, str) or not 1 <= dim <= _MAX_DIM:
        raise CorruptFileError(NO_VALUE)
    if print_ is not None and not is_print(print_, dim):
        raise CorruptFileError(NO_VALUE)
    return EmbeddingModel(*row)


ACTIVE_MODEL = "SELECT name, dim, id, fingerprint FROM model WHERE state = 'active'"
"""The query of `active_model`."""


def active_model(connection: Transaction) -> EmbeddingModel | None:
    """Return the model of the file's vectors, or None if it has none.

    Raises:
        CorruptFileError: A value has a type or range that vecall never writes.
    """
    row = connection.execute(ACTIVE_MODEL).fetchone()
    return None if row is None else checked_model(row)


def has_memories(connection: Transaction) -> bool:
    """Return whether the file holds any memory, in any state."""
    found = connection.execute("SELECT EXISTS (SELECT 1 FROM mem)").fetchone()
    return bool(found[0])


def require_same(stored: EmbeddingModel, candidate: EmbeddingModel) -> None:
    """Check that an embedder produces the vectors of the file's model.

    Raises:
        EmbeddingMismatchError: Name, dimension or fingerprint differ.
    """
    if (stored.name, stored.dim) != (candidate.name, candidate.dim):
        msg = (
            f"embedder: the file's vectors come from {stored}, the embedder given is "
            f"{candidate}; open it with the former, or move the file to the latter "
            "with `vecall reembed`"
        )
        raise EmbeddingMismatchError(msg)
    if stored.fingerprint and candidate.fingerprint:
        before = np.frombuffer(stored.fingerprint, "<f4").astype(np.float64)
        now = np.frombuffer(candidate.fingerprint, "<f4").astype(np.float64)
        norms = float(np.linalg.norm(before) * np.linalg.norm(now))
        if norms > 0 and float(before @ now) < _SAME_MODEL * norms:
            msg = (
                f"embedder: the file's vectors come from another function of the name "
                f"{stored}; give each its own model_id"
            )
            raise EmbeddingMismatchError(msg)


def require_active(connection: Transaction, model: int | None) -> None:
    """Check, inside a transaction, that `model` is still the active model.

    Raises:
        EmbeddingMismatchError: The file was migrated to another model.
    """
    if model is None:
        return
    stored = active_model(connection)
    if stored is None or stored.id != model:
        msg = (
            f"embedder: the file's vectors come from {stored} by now; reopen the file "
            "with that one"
        )
        raise EmbeddingMismatchError(msg)


def adopt(connection: Transaction, candidate: EmbeddingModel) -> EmbeddingModel:
    """Make `candidate` the model of a file that has none, inside a transaction.

    Raises:
        EmbeddingMismatchError: The file already has another model.
    """
    stored = active_model(connection)
    if stored is not None:
        require_same(stored, candidate)
        return stored
    connection.execute(
        "INSERT INTO model (name, dim, fingerprint, state) VALUES (?, ?, ?, 'active')",
        (candidate.name, candidate.dim, candidate.fingerprint),
    )
    adopted = active_model(connection)
    assert adopted is not None
    return adopted
