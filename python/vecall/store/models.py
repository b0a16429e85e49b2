"""The embedding model that a file's vectors come from."""

from __future__ import annotations

import sqlite3
from typing import Any

import numpy as np

from vecall.errors import CorruptFileError, EmbeddingMismatchError
from vecall.store.results import EmbeddingModel
from vecall.store.values import NO_VALUE, require_counts

_MAX_DIM = 65_536
_SAME_MODEL = 0.99  # cosine of the same text's vectors from any two machines


def is_print(value: object, dim: int) -> bool:
    """Whether a value is the vector of a model of so many dimensions, as float32.

    Args:
        value: The value.
        dim: The dimensions, at least 1.
    """
    if not isinstance(value, bytes) or len(value) != 4 * dim:
        return False
    return bool(np.isfinite(np.frombuffer(value, "<f4")).all())


def checked_model(row: tuple[Any, ...]) -> EmbeddingModel:
    """Return a model as a row of the file says.

    Args:
        row: Its name, dimensions, number and fingerprint.

    Raises:
        CorruptFileError: What the file says of it is not as vecall writes it.
    """
    name, dim, id_, print_ = row
    require_counts(dim, id_)
    if not isinstance(name, str) or not 1 <= dim <= _MAX_DIM:
        raise CorruptFileError(NO_VALUE)
    if print_ is not None and not is_print(print_, dim):
        raise CorruptFileError(NO_VALUE)
    return EmbeddingModel(*row)


def active_model(connection: sqlite3.Connection) -> EmbeddingModel | None:
    """Return the model of the file's vectors, or None if it has none.

    Raises:
        CorruptFileError: What the file says of it is not as vecall writes it.
    """
    row = connection.execute(
        "SELECT name, dim, id, fingerprint FROM model WHERE state = 'active'"
    ).fetchone()
    return None if row is None else checked_model(row)


def has_memories(connection: sqlite3.Connection) -> bool:
    """Return whether the file holds any memory, in any state."""
    found = connection.execute("SELECT EXISTS (SELECT 1 FROM mem)").fetchone()
    return bool(found[0])


def require_same(stored: EmbeddingModel, given: EmbeddingModel) -> None:
    """Check that a file's vectors and an embedder fit.

    Raises:
        EmbeddingMismatchError: Another name or dimension.
    """
    if (stored.name, stored.dim) != (given.name, given.dim):
        msg = (
            f"embedder: the file's vectors come from {stored}, the embedder given is "
            f"{given}; open it with the former, or move the file to the latter with "
            "`vecall reembed`"
        )
        raise EmbeddingMismatchError(msg)
    if stored.fingerprint and given.fingerprint:
        before = np.frombuffer(stored.fingerprint, "<f4").astype(np.float64)
        now = np.frombuffer(given.fingerprint, "<f4").astype(np.float64)
        norms = float(np.linalg.norm(before) * np.linalg.norm(now))
        if norms > 0 and float(before @ now) < _SAME_MODEL * norms:
            msg = (
                f"embedder: the file's vectors come from another function of the name "
                f"{stored}; give each its own model_id"
            )
            raise EmbeddingMismatchError(msg)


def require_active(connection: sqlite3.Connection, model: int | None) -> None:
    """Check, inside a transaction, that vectors of a model may still be written.

    Raises:
        EmbeddingMismatchError: The file was moved to another model meanwhile.
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


def adopt(connection: sqlite3.Connection, given: EmbeddingModel) -> EmbeddingModel:
    """Make `given` the model of a file that has none, inside a transaction.

    Raises:
        EmbeddingMismatchError: The file has another one by now.
    """
    stored = active_model(connection)
    if stored is not None:
        require_same(stored, given)
        return stored
    connection.execute(
        "INSERT INTO model (name, dim, fingerprint, state) VALUES (?, ?, ?, 'active')",
        (given.name, given.dim, given.fingerprint),
    )
    adopted = active_model(connection)
    assert adopted is not None
    return adopted
