"""How a write to a file finds the partition of a user."""

from __future__ import annotations

import sqlite3

from vecall.store.erased_names import HIDDEN_APP, hidden_user
from vecall.store.partition_lookup import partition_state, require_absent
from vecall.store.rows import names_checksum
from vecall.store.transaction import PartitionEntry, ReadsAhead, enter

_FIND = (
    "SELECT id, seq, live, bytes, coalesce(head, 0) FROM part "
    "WHERE app = ? AND user = ?"
)
_MISSING = PartitionEntry(0, 0, 0, 0)


@enter.register
def _enter(
    connection: sqlite3.Connection,
    app: str,
    user: str,
    *,
    create: bool,
    now: float,
    ahead: ReadsAhead | None = None,  # noqa: ARG001
) -> PartitionEntry:
    row = connection.execute(_FIND, (app, user)).fetchone()
    if row is not None:
        partition_state(connection, row[0], app, user)  # check that it is the user's
        return PartitionEntry(*row)
    require_absent(connection, app, user)
    hidden = hidden_user(connection, app, user)
    row = connection.execute(_FIND, (HIDDEN_APP, hidden)).fetchone()
    if row is not None:
        return PartitionEntry(*row)._replace(is_hidden=True)
    if not create:
        return _MISSING
    connection.execute(_CREATE, (app, user, now))
    entry = PartitionEntry(*connection.execute(_FIND, (app, user)).fetchone())
    connection.execute(
        "UPDATE part SET crc = ? WHERE id = ?",
        (names_checksum(entry.id, app, user), entry.id),
    )
    return entry


# A partition number is never reused: row numbers begin with it, and caches of other
# processes identify memories by row number. `last_part` covers deleted partitions.
_CREATE = """
INSERT INTO part (id, app, user, created_at) SELECT 1 + max(
  coalesce((SELECT max(id) FROM part), 0),
  coalesce((SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'last_part'), 0)
), ?, ?, ?
"""
