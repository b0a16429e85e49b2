"""Counts of the buffered turns of one user.

The counts are a row of `trig` without a session. They are computed when first needed
and updated by each change. So the cost of a quota does not grow with the buffer.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from vecall.errors import CorruptFileError
from vecall.store.transaction import Transaction
from vecall.store.values import NO_VALUE, require_counts, stored_list
from vecall.store.writes.partition_writer import PartitionWriter

_ROW = "part = ? AND session = '' AND kind = 'waits'"


class Waits(NamedTuple):
    """Counts of buffered turns, or a change of them.

    Attributes:
        turns: The number of turns.
        nbytes: Their bytes in the file, as JSON.
    """

    turns: int = 0
    nbytes: int = 0


def waits_of(partition: PartitionWriter) -> Waits:
    """Return the current counts of a user.

    Raises:
        CorruptFileError: The stored counts are not valid.
    """
    known = _known(partition)
    if known is not None:
        return known
    counted = partition.connection.execute(
        "SELECT count(*), coalesce(sum(length(CAST(event AS BLOB))), 0) FROM told "
        "WHERE part = ? AND event IS NOT NULL",
        (partition.id,),
    ).fetchone()
    waits = Waits(*counted)
    partition.connection.execute(
        "INSERT INTO trig (part, session, kind, state) VALUES (?, '', 'waits', ?)",
        (partition.id, json.dumps(waits)),
    )
    return waits


def add_waits(partition: PartitionWriter, more: Waits) -> None:
    """Add a change to the counts of a user.

    Raises:
        CorruptFileError: The stored counts are not valid.
    """
    known = _known(partition)
    if known is not None and more.turns:
        now = Waits(known.turns + more.turns, known.nbytes + more.nbytes)
        partition.connection.execute(
            f"UPDATE trig SET state = ? WHERE {_ROW}", (json.dumps(now), partition.id)
        )


def forget_waits(connection: Transaction) -> None:
    """Delete the counts of all users; they are computed again when needed."""
    connection.execute("DELETE FROM trig WHERE kind = 'waits'")


def _known(partition: PartitionWriter) -> Waits | None:
    found = partition.connection.execute(
        f"SELECT state FROM trig WHERE {_ROW}", (partition.id,)
    ).fetchone()
    if found is None:
        return None
    counts = stored_list(found[0])
    if len(counts) != len(Waits._fields):
        raise CorruptFileError(NO_VALUE)
    require_counts(*counts)
    return Waits(*counts)
