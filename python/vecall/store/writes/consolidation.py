"""Reads for consolidation, and the record of its last run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vecall.scalars import stored_float
from vecall.store.queries.partition_reads import END, load_rows
from vecall.store.rows import Change, Row, RowWithVector
from vecall.store.sql import fact, set_fact
from vecall.store.transaction import Transaction

_LAST_RUN = "consolidated_at"  # in meta


def facts_of(
    connection: Transaction, app: str, user: str, now: float
) -> list[RowWithVector]:
    """Return a user's live memories that are not turns, with their vectors."""
    found = connection.execute(
        "SELECT rid FROM mem WHERE part = (SELECT id FROM part WHERE app = ? AND "
        f"user = ?) AND state = 'live' AND pos IS NULL AND {END} > ?",
        (app, user, now),
    )
    return load_rows(connection, [rid for (rid,) in found])


def old_facts(
    connection: Transaction, app: str, user: str, before: float, now: float
) -> list[Row]:
    """Return live facts and summaries from before a time, oldest first.

    Memories with a TTL or a `valid_until` are left out: a summary would outlive them,
    or would expire with them too early for the others.
    """
    rows = [entry.row for entry in facts_of(connection, app, user, now)]
    lasting = [
        row
        for row in rows
        if row.time < before and row.expires_at is None and row.valid_until is None
    ]
    return sorted(lasting, key=lambda row: (row.time, row.rid))


def changed_users(
    connection: Transaction, since: float | None
) -> list[tuple[str, str]]:
    """Return the owners of memories that were written or changed since a time."""
    query = (
        "SELECT app, user FROM part WHERE id IN (SELECT part FROM mem WHERE "
        "state = 'live' AND (CAST(? AS REAL) IS NULL "
        "OR coalesce(updated_at, created_at) >= ?)) ORDER BY id"
    )
    return [(app, user) for app, user in connection.execute(query, (since, since))]


def last_consolidation(connection: Transaction) -> float | None:
    """Return when a scheduled consolidation ran last, in seconds since 1970."""
    found = fact(connection, _LAST_RUN)
    return None if found is None else stored_float(found)


def move_last_consolidation(connection: Transaction, seconds: float) -> None:
    """Move the time of the last run, inside a transaction."""
    last = last_consolidation(connection)
    if last is not None:
        set_fact(connection, _LAST_RUN, repr(last + seconds))


@dataclass(slots=True)
class ClaimConsolidation:
    """Claims a scheduled run, unless another process already has.

    Attributes:
        last: The last run that the caller saw.
        now: Seconds since 1970.
    """

    last: float | None
    now: float
    estimated_bytes: int = 0

    def run(self, connection: Transaction) -> Change:
        """Do it inside a transaction; the change has an id if the run is claimed."""
        ids: Sequence[str] = ()
        if last_consolidation(connection) == self.last:
            set_fact(connection, _LAST_RUN, repr(self.now))
            ids = (_LAST_RUN,)
        return Change("", "", 0, 0, 0, ids=ids)
