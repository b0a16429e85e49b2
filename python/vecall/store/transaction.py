"""The interface of a database transaction to the SQL of jobs and reads.

Jobs and reads are written once, in SQL that SQLite executes as it is.
`store/postgres/transaction.py` translates it for PostgreSQL. What both must support:

- `?` and `:name` mark values; `IN` lists have one mark a value.
- `coalesce`, `ON CONFLICT`, `x''`, `char(n)`, `instr(a, b) > 0`, `IS ?`,
  `length(CAST(x AS BLOB))` for bytes, `max(a, b)` for the larger of two values that are
  not NULL, and `LIMIT ?`, where -1 is no limit.
- `INDEXED BY` is a hint that only SQLite follows.
- A condition is 0 or 1 in SQLite and a boolean in PostgreSQL: compare it with neither.
- A subquery in FROM has a name: PostgreSQL 15 demands it.
- A lone value, as in `? IS NULL`, has a `CAST`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, singledispatch
from itertools import chain
from typing import Any, NamedTuple, Protocol

import numpy as np

from vecall.errors import CorruptFileError, EmbeddingMismatchError
from vecall.filters.rights import FULL, Rights, tiers_from
from vecall.store.rows import Change, MemoryCounts
from vecall.store.values import NO_VALUE, require_whole_numbers


class Result(Protocol):
    """The rows of a statement."""

    @property
    def rowcount(self) -> int:
        """The number of rows that an UPDATE, INSERT or DELETE changed."""

    def fetchone(self) -> Any:
        """Return the next row; None after the last."""

    def fetchmany(self, size: int, /) -> list[Any]:
        """Return at most `size` further rows."""

    def fetchall(self) -> list[Any]:
        """Return all further rows."""

    def __iter__(self) -> Iterator[Any]:
        """Yield all further rows."""

    def close(self) -> None:
        """Drop the further rows."""


class Transaction(Protocol):
    """Executes SQL. `sqlite3.Connection` is one."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction has begun."""

    def execute(
        self, sql: str, values: Sequence[Any] | Mapping[str, Any] = (), /
    ) -> Result:
        """Execute one statement."""


class PartitionEntry(NamedTuple):
    """A partition as a write finds it."""

    id: int  # its number; 0 if the user has none
    seq: int  # its newest change
    live: int  # the number of its live memories
    nbytes: int  # the bytes of their texts
    head: int = 0  # random bits of its newest change; 0 before the first one
    is_hidden: bool = False  # whether a purge replaced its names by digests


Statement = tuple[str, Sequence[Any]]  # the text of a statement, and its values

LoggedChange = tuple[int, int, int, str]  # (part, seq, rid, op): a change for the log


class ReadsAhead(NamedTuple):
    """SELECT statements that follow the look-up of a partition.

    Nothing is written before they are executed. A database is asked all of them at
    once. In a file a statement costs no round trip, so nothing is done.
    """

    # Returns them for the partition of a number.
    of: Callable[[int], Iterable[Statement]]
    # The number of the user's partition, as far as it is known. If it is right, the
    # look-up needs no round trip of its own.
    likely_part: int | None = None


@singledispatch
def enter_partition(
    transaction: Any,
    app: str,  # noqa: ARG001
    user: str,  # noqa: ARG001
    *,
    create: bool,  # noqa: ARG001
    now: float,  # noqa: ARG001
    ahead: ReadsAhead | None = None,  # noqa: ARG001
) -> PartitionEntry:
    """Find the partition of a user, and lock it for this transaction."""
    # Each kind of transaction registers its own implementation. `now` is the time of
    # creation, in seconds since 1970; `ahead` are the reads that follow.
    raise TypeError(f"no implementation for {type(transaction).__name__}")


@singledispatch
def leave_partition(
    transaction: Any,
    part: int,  # noqa: ARG001
    seq: int,  # noqa: ARG001
    changes: Sequence[LoggedChange],  # noqa: ARG001
    live: int,  # noqa: ARG001
    nbytes: int,  # noqa: ARG001
    added: MemoryCounts | None,  # noqa: ARG001
    gone: MemoryCounts | None,  # noqa: ARG001
) -> int:
    """Write the newest change of a partition, and add to its counts.

    Each kind of transaction registers its own implementation. `changes` are those for
    the log; none if the log has them. `live` and `nbytes` are changes of counts, which
    a file counts itself. `added` are rows that were added: None, and a file reads them.
    `gone` are counted rows that were deleted. Returned are random bits of the change.
    """
    raise TypeError(f"no implementation for {type(transaction).__name__}")


@singledispatch
def retire_partition(transaction: Any, part: int) -> None:
    """Record that a partition was deleted, so that its number is not used again."""
    transaction.execute(
        "INSERT INTO meta (key, value) VALUES ('last_part', ?) "
        "ON CONFLICT (key) DO UPDATE SET value = "
        "CAST(max(CAST(meta.value AS INTEGER), CAST(excluded.value AS INTEGER)) "
        "AS TEXT)",
        (str(part),),
    )


@singledispatch
def count_inserted(transaction: Any, part: int, name: str, count: int) -> None:
    """Add to the counter of a user's items or tombstones; a database counts itself."""


@singledispatch
def announce_reads(
    transaction: Any,  # noqa: ARG001
    statements: Callable[[], Iterable[Statement]],  # noqa: ARG001
) -> bool:
    """Announce SELECT statements that follow, so that they share one round trip."""
    # Nothing is written before they are executed. In a file a statement costs no round
    # trip, so nothing is done. Returned is whether they were sent.
    return False


# The interface of a write job.


class WriteJob(Protocol):
    """A write, as data. Its results are the `Change` and its own attributes.

    `run` may be called again, because a failed commit may be retried.
    """

    @property
    def estimated_bytes(self) -> int:
        """Estimate of the file's growth in bytes; 0 for a job that frees space."""

    def run(self, transaction: Any, /) -> Change:
        """Execute the job. Only the storage calls this, inside a transaction."""


# The condition of the memories that exist for a caller, in SQL.


def visible(rights: Rights) -> str:
    """Return a condition on `mem` that the memories meet which a caller sees."""
    # It is empty if the caller sees all memories; otherwise it begins with AND.
    return "" if rights is FULL else _visibility_condition(rights)


@lru_cache(maxsize=32)
def _visibility_condition(rights: Rights) -> str:
    condition = trust_condition(rights)
    return condition if rights.review else f"{condition} AND mem.state <> 'quarantined'"


def trust_condition(rights: Rights) -> str:
    """Return the part of `visible` that concerns trust."""
    if rights.min_trust is None or not rights.has_floor:
        return ""
    tiers = ", ".join(f"'{tier}'" for tier in tiers_from(rights.min_trust))
    return f" AND mem.trust IN ({tiers})"


# Statements over many rows.
#
# sqlite3 releases the GIL in every call. Next to a busy thread, it takes a switch
# interval of 5 ms to get the GIL back. So vecall writes a session of a hundred turns
# with a handful of statements instead of hundreds.

_VARIABLES = 900  # per statement; every SQLite allows 999


@singledispatch
def insert_many(
    connection: Any, into: str, rows: Sequence[tuple[Any, ...]], conflict: str = ""
) -> int:
    """Insert rows in order, into a table and columns as "chg (part, seq)"; how many."""
    # A kind of transaction may register its own. FAIL: the job ends, no page is copied.
    if not rows:
        return 0
    count = 0
    width = len(rows[0])
    placeholders = f"({', '.join('?' * width)})"
    limit = max(1, _VARIABLES // width)
    for start in range(0, len(rows), limit):
        batch = rows[start : start + limit]
        values = list(chain.from_iterable(batch))
        count += connection.execute(
            f"INSERT OR FAIL INTO {into} "
            f"VALUES {', '.join([placeholders] * len(batch))} "
            f"{conflict}",
            values,
        ).rowcount
    return count


def statement_with_marks(
    connection: Any,  # noqa: ARG001
    query: str,
    before: Sequence[Any],
    among: Sequence[Any],
) -> Statement:
    """Return a query that ends in "IN" with a mark for each value."""
    # `before` has the values of the question marks in it. `among` has values of one
    # type; not None.
    return f"{query} ({', '.join('?' * len(among))})", (*before, *among)


statement_among = singledispatch(statement_with_marks)
"""`statement_with_marks`, or what a kind of transaction has registered for it."""


def rows_with_marks(
    connection: Any,  # noqa: ARG001
    name: str,
    rows: Sequence[tuple[Any, ...]],
) -> Statement:
    """Return the WITH clause of a table of given rows, with a mark for each value."""
    # `name` is the table and its columns, such as "said (hash, author)".
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
    connection: Transaction, query: str, before: Sequence[Any], among: Sequence[Any]
) -> Iterable[tuple[Any, ...]]:
    """Return the rows of a query that ends in "IN", for many values."""
    # For example "SELECT rid FROM mem WHERE part = ? AND id IN".
    statements = in_statements(connection, query, before, among)
    if len(statements) == 1:
        return connection.execute(*statements[0]).fetchall()
    return chain.from_iterable(
        connection.execute(*each).fetchall() for each in statements
    )


def read_fact(connection: Transaction, key: str) -> str | None:
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


def execute_among(
    connection: Transaction, statement: str, before: Sequence[Any], among: Sequence[Any]
) -> None:
    """Execute an UPDATE or DELETE that ends in "IN", for many values."""
    for each in in_statements(connection, statement, before, among):
        connection.execute(*each)


# The embedding model that a file's vectors come from.


class EmbeddingModel(NamedTuple):
    """An embedding model on record; `id` is its number in the storage."""

    name: str
    dim: int
    id: int = 0
    fingerprint: bytes | None = None  # its vector of a fixed text, float32

    def __str__(self) -> str:
        """Return name and dimension, for error messages."""
        return f"{self.name} ({self.dim} dimensions)"


_MAX_DIM = 65_536
_SAME_MODEL = 0.99  # cosine of the same text's vectors from any two machines


def is_vector(value: object, dim: int) -> bool:
    """Whether a value is a finite float32 vector of `dim` dimensions, at least 1."""
    if not isinstance(value, bytes) or len(value) != 4 * dim:
        return False
    return bool(np.isfinite(np.frombuffer(value, "<f4")).all())


def checked_model(row: tuple[Any, ...]) -> EmbeddingModel:
    """Return the model of a row of `model`; refuse what vecall never writes."""
    name, dim, id_, print_ = row
    require_whole_numbers(dim, id_)
    if not isinstance(name, str) or not 1 <= dim <= _MAX_DIM:
        raise CorruptFileError(NO_VALUE)
    if print_ is not None and not is_vector(print_, dim):
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


def require_same_model(stored: EmbeddingModel, candidate: EmbeddingModel) -> None:
    """Check that an embedder produces the vectors of the file's model."""
    if (stored.name, stored.dim) != (candidate.name, candidate.dim):
        raise EmbeddingMismatchError(
            f"embedder: the file's vectors come from {stored}, the embedder given is "
            f"{candidate}; open it with the former, or move the file to the latter "
            "with `vecall reembed`"
        )
    if stored.fingerprint and candidate.fingerprint:
        before = np.frombuffer(stored.fingerprint, "<f4").astype(np.float64)
        now = np.frombuffer(candidate.fingerprint, "<f4").astype(np.float64)
        norms = float(np.linalg.norm(before) * np.linalg.norm(now))
        if norms > 0 and float(before @ now) < _SAME_MODEL * norms:
            raise EmbeddingMismatchError(
                f"embedder: the file's vectors come from another function of the name "
                f"{stored}; give each its own model_id"
            )


def require_active_model(connection: Transaction, model: int | None) -> None:
    """Check, inside a transaction, that `model` is still the active model."""
    if model is None:
        return
    stored = active_model(connection)
    if stored is None or stored.id != model:
        raise EmbeddingMismatchError(
            f"embedder: the file's vectors come from {stored} by now; reopen the file "
            "with that one"
        )


def adopt_model(connection: Transaction, candidate: EmbeddingModel) -> EmbeddingModel:
    """Make `candidate` the model of a file that has none, inside a transaction."""
    stored = active_model(connection)
    if stored is not None:
        require_same_model(stored, candidate)
        return stored
    connection.execute(
        "INSERT INTO model (name, dim, fingerprint, state) VALUES (?, ?, ?, 'active')",
        (candidate.name, candidate.dim, candidate.fingerprint),
    )
    adopted = active_model(connection)
    assert adopted is not None
    return adopted
