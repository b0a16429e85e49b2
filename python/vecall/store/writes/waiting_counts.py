"""How much waits of one user until memories are made of it.

The sum is a row of `trig` for no session. It is made by counting when it is first
needed and follows each change from then on: a quota costs the same beside many turns.
"""

from __future__ import annotations

import json
import sqlite3
from typing import NamedTuple

from vecall.errors import CorruptFileError
from vecall.store.values import NO_VALUE, require_counts, stored_list
from vecall.store.writes.partition_writer import PartitionWriter

_ROW = "part = ? AND session = '' AND kind = 'waits'"


class Waits(NamedTuple):
    """Turns that wait, or by how much they became more.

    Attributes:
        turns: How many.
        nbytes: Their bytes in the file, as JSON.
    """

    turns: int = 0
    nbytes: int = 0


def waits_of(partition: PartitionWriter) -> Waits:
    """Return how much waits now.

    Raises:
        CorruptFileError: The sum is not as vecall writes it.
    """
    known = _known(partition)
    if known is not None:
        return known
    counted = partition.connection.execute(
        "SELECT count(*), ifnull(sum(length(CAST(event AS BLOB))), 0) FROM told "
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
    """Note that more turns wait, or fewer.

    Raises:
        CorruptFileError: The sum is not as vecall writes it.
    """
    known = _known(partition)
    if known is not None and more.turns:
        now = Waits(known.turns + more.turns, known.nbytes + more.nbytes)
        partition.connection.execute(
            f"UPDATE trig SET state = ? WHERE {_ROW}", (json.dumps(now), partition.id)
        )


def forget_waits(connection: sqlite3.Connection) -> None:
    """Forget the sums of all users; they are counted again when they are needed."""
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
