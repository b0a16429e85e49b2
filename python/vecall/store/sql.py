"""Statements over many rows.

sqlite3 releases the GIL in every call. Next to a busy thread, it takes a switch
interval of 5 ms to get the GIL back. So vecall writes a session of a hundred turns with
a handful of statements instead of hundreds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import singledispatch
from itertools import chain
from typing import Any

import numpy as np

from vecall.errors import CorruptFileError, EmbeddingMismatchError
from vecall.store.results import EmbeddingModel
from vecall.store.transaction import Statement, Transaction
from vecall.store.values import NO_VALUE, require_counts

_VARIABLES = 900  # per statement; every SQLite allows 999


@singledispatch
def insert_many(
    connection: Any,
    into: str,
    rows: Sequence[tuple[Any, ...]],
    conflict: str = "",
) -> None:
    """Insert rows in order, into a table and columns as "chg (part, seq)".

    A kind of transaction may register its own implementation.
    """
    if not rows:
        return
    width = len(rows[0])
    placeholders = f"({', '.join('?' * width)})"
    limit = max(1, _VARIABLES // width)
    for start in range(0, len(rows), limit):
        batch = rows[start : start + limit]
        values = list(chain.from_iterable(batch))
        connection.execute(
            f"INSERT INTO {into} VALUES {', '.join([placeholders] * len(batch))} "
            f"{conflict}",
            values,
        )


def statement_with_marks(
    connection: Any,  # noqa: ARG001
    query: str,
    before: Sequence[Any],
    among: Sequence[Any],
) -> Statement:
    """Return a query that ends in "IN" with a mark for each value.

    `before` has the values of the question marks in it. `among` has values of one type;
    not None.
    """
    return f"{query} ({', '.join('?' * len(among))})", (*before, *among)


statement_among = singledispatch(statement_with_marks)
"""`statement_with_marks`, or what a kind of transaction has registered for it."""


def rows_with_marks(
    connection: Any,  # noqa: ARG001
    name: str,
    rows: Sequence[tuple[Any, ...]],
) -> Statement:
    """Return the WITH clause of a table of given rows, with a mark for each value.

    `name` is the table and its columns, such as "said (hash, author)".
    """
    marks = ", ".join([f"({', '.join('?' * len(rows[0]))})"] * len(rows))
    return f"WITH {name} AS (VALUES {marks})", [value for row in rows for value in row]


given_rows = singledispatch(rows_with_marks)
"""`rows_with_marks`, or what a kind of transaction has registered for it."""


def in_statements(
    connection: Transaction, query: str, before: Sequence[Any], among: Sequence[Any]
) -> list[Statement]:
    """Return the statements that `select_in` executes."""
    limit = _VARIABLES - len(before)
    found = []
    for start in range(0, len(among), limit):
        some = among[start : start + limit]
        found.append(statement_among(connection, query, before, some))
    return found


def select_in(
    connection: Transaction,
    query: str,
    before: Sequence[Any],
    among: Sequence[Any],
) -> Iterable[tuple[Any, ...]]:
    """Return the rows of a query that ends in "IN", for many values.

    For example "SELECT rid FROM mem WHERE part = ? AND id IN".
    """
    statements = in_statements(connection, query, before, among)
    if len(statements) == 1:
        return connection.execute(*statements[0]).fetchall()
    return chain.from_iterable(
        connection.execute(*each).fetchall() for each in statements
    )


def fact(connection: Transaction, key: str) -> str | None:
    """Return a fact of the table `meta`; None if it is not there."""
    found = connection.execute("SELECT value FROM meta WHERE key = ?", (key,))
    row = found.fetchone()
    return None if row is None else row[0]


def set_fact(connection: Transaction, key: str, value: str) -> None:
    """Write a fact of the table `meta`."""
    connection.execute(
        "INSERT INTO meta (key, value) VALUES (?, ?) "
        "ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        (key, value),
    )


def execute_in(
    connection: Transaction, statement: str, before: Sequence[Any], among: Sequence[Any]
) -> None:
    """Execute an UPDATE or DELETE that ends in "IN", for many values."""
    for each in in_statements(connection, statement, before, among):
        connection.execute(*each)


# The embedding model that a file's vectors come from.


_MAX_DIM = 65_536
_SAME_MODEL = 0.99  # cosine of the same text's vectors from any two machines


def is_print(value: object, dim: int) -> bool:
    """Whether a value is a finite float32 vector of `dim` dimensions, at least 1."""
    if not isinstance(value, bytes) or len(value) != 4 * dim:
        return False
    return bool(np.isfinite(np.frombuffer(value, "<f4")).all())


def checked_model(row: tuple[Any, ...]) -> EmbeddingModel:
    """Return the model of a row of `model`; refuse what vecall never writes."""
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
    """Return the model of the file's vectors, or None if it has none."""
    row = connection.execute(ACTIVE_MODEL).fetchone()
    return None if row is None else checked_model(row)


def has_memories(connection: Transaction) -> bool:
    """Return whether the file holds any memory, in any state."""
    found = connection.execute("SELECT EXISTS (SELECT 1 FROM mem)").fetchone()
    return bool(found[0])


def require_same(stored: EmbeddingModel, candidate: EmbeddingModel) -> None:
    """Check that an embedder produces the vectors of the file's model."""
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
    """Check, inside a transaction, that `model` is still the active model."""
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
    """Make `candidate` the model of a file that has none, inside a transaction."""
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
