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

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, singledispatch
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol

from vecall.filters.rights import FULL, Rights, tiers_from
from vecall.store.rows import Added, Change, Draft
from vecall.store.values import stored_object


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


Statement = tuple[str, Sequence[Any]]
"""The text of a statement, and its values."""


LoggedChange = tuple[int, int, int, str]
"""(part, seq, rid, op): a change for the log."""


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
def enter(
    transaction: Any,
    app: str,  # noqa: ARG001
    user: str,  # noqa: ARG001
    *,
    create: bool,  # noqa: ARG001
    now: float,  # noqa: ARG001
    ahead: ReadsAhead | None = None,  # noqa: ARG001
) -> PartitionEntry:
    """Find the partition of a user, and lock it for this transaction.

    Each kind of transaction registers its own implementation. `now` is the time of
    creation, in seconds since 1970; `ahead` are the reads that follow.
    """
    msg = f"no implementation for {type(transaction).__name__}"
    raise TypeError(msg)


@singledispatch
def leave(
    transaction: Any,
    part: int,  # noqa: ARG001
    seq: int,  # noqa: ARG001
    changes: Sequence[LoggedChange],  # noqa: ARG001
    live: int,  # noqa: ARG001
    nbytes: int,  # noqa: ARG001
    added: Added | None,  # noqa: ARG001
) -> int:
    """Write the newest change of a partition, and add to its counts.

    Each kind of transaction registers its own implementation. `changes` are those for
    the log; none if the log has them. `live` and `nbytes` are changes of counts, which
    a file counts itself. `added` are rows that were added: None, and a file reads them.
    Returned are the random bits that identify the change.
    """
    msg = f"no implementation for {type(transaction).__name__}"
    raise TypeError(msg)


@singledispatch
def retire(transaction: Any, part: int) -> None:
    """Record that a partition was deleted, so that its number is not used again."""
    transaction.execute(
        "INSERT INTO meta (key, value) VALUES ('last_part', ?) "
        "ON CONFLICT (key) DO UPDATE SET value = "
        "CAST(max(CAST(meta.value AS INTEGER), CAST(excluded.value AS INTEGER)) "
        "AS TEXT)",
        (str(part),),
    )


@singledispatch
def read_ahead(
    transaction: Any,  # noqa: ARG001
    statements: Callable[[], Iterable[Statement]],  # noqa: ARG001
) -> bool:
    """Announce SELECT statements that follow, so that they share one round trip.

    Nothing is written before they are executed. In a file a statement costs no round
    trip, so nothing is done. Returned is whether they were sent.
    """
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
    """Return a condition on `mem` that the memories meet which a caller sees.

    It is empty if the caller sees all memories; otherwise it begins with AND.
    """
    return "" if rights is FULL else _visibility_condition(rights)


@lru_cache(maxsize=32)
def _visibility_condition(rights: Rights) -> str:
    condition = above_floor(rights)
    return condition if rights.review else f"{condition} AND mem.state <> 'quarantined'"


def above_floor(rights: Rights) -> str:
    """Return the part of `visible` that concerns trust."""
    if rights.min_trust is None or not rights.has_floor:
        return ""
    tiers = ", ".join(f"'{tier}'" for tier in tiers_from(rights.min_trust))
    return f" AND mem.trust IN ({tiers})"


# Digests of overwritten revisions, which prevent ingest from undoing a correction.


SHORT = 4  # hexadecimal digits of a digest after a purge

COMPARED = (
    "session event ts author kind source trust text content meta importance"
).split()
"""The fields whose change makes a new revision."""


def was_overwritten(draft: Draft, digests: set[str]) -> bool:
    """Whether a draft equals a revision that a correction has overwritten."""
    digest = digest_of(draft)
    return digest in digests or digest[:SHORT] in digests


def digest_of(draft: Draft) -> str:
    """Return a digest of the fields in `COMPARED`."""
    return _compared_values_digest({name: getattr(draft, name) for name in COMPARED})


def digest_of_old(old: str) -> str:
    """Return the digest of a revision; the history may hold only the digest."""
    revision: dict[str, object] = stored_object(old)
    digest = revision.get("digest")
    return digest if isinstance(digest, str) else _compared_values_digest(revision)


def _compared_values_digest(values: Mapping[str, object]) -> str:
    text = json.dumps([values.get(name) for name in COMPARED])
    return blake2b(text.encode(), digest_size=16).hexdigest()
