"""Hides the ids of deleted memories, and the names of users without memories.

Tombstones stay effective. The next write for a user restores hidden names, see
`PartitionWriter`.
"""

from __future__ import annotations

import json
import sqlite3

from vecall.store.erased_names import (
    HIDDEN_APP,
    hidden_user,
    hide,
    is_hidden,
    make_key,
    make_secret,
)
from vecall.store.reads.partition_reads import load_rows
from vecall.store.rows import names_checksum
from vecall.store.writes.delete import delete_partition
from vecall.store.writes.partition_writer import PartitionWriter
from vecall.store.writes.row_state import State, rewrite
from vecall.store.writes.waiting_counts import forget_waits

_RECOGNISED = ("tomb", "told", "idem")  # tables whose ids a later call may repeat
_PLAIN = "id >= char(1)"  # an id that is not hidden, and not a key
_GONE = "NOT EXISTS (SELECT 1 FROM mem WHERE mem.part = {0}.part AND mem.id = {0}.{1})"


def hide_what_is_gone(connection: sqlite3.Connection, now: float) -> None:
    """Replace ids and names of deleted data by keyed digests, inside a transaction."""
    _hide_links(connection)
    hidden = _Hiding(connection, now)
    connection.create_function("hide", 2, hidden, deterministic=True)
    try:
        _hide_ids(connection, hidden)
        forget_waits(connection)
        for part, app, user in _users_without_memories(connection):
            _hide_user(connection, part, app, user, hidden)
    finally:
        connection.create_function("hide", 2, None)


class _Hiding:
    """Hides names of a user under the user's key."""

    def __init__(self, connection: sqlite3.Connection, now: float) -> None:
        self._connection = connection
        self._now = now
        self._keys: dict[int, bytes] = {}

    def prepare(self, parts: list[tuple[int]]) -> None:
        """Load or create the keys of users; none can be made while a query runs."""
        for (part,) in parts:
            if part not in self._keys:
                self._keys[part] = make_key(self._connection, part, self._now)

    def __call__(self, part: int, name: str) -> str:
        return name if is_hidden(name) else hide(self._keys[part], name)


def _hide_links(connection: sqlite3.Connection) -> None:
    """Remove the ids of deleted memories from `supersedes`."""
    found = connection.execute(
        "SELECT rid, state FROM mem WHERE supersedes IS NOT NULL AND NOT EXISTS ("
        "SELECT 1 FROM mem AS older WHERE older.part = mem.part "
        "AND older.id = mem.supersedes)"
    ).fetchall()
    by_part: dict[int, dict[int, State]] = {}
    for rid, state in found:
        by_part.setdefault(rid >> 32, {})[rid] = state
    for part, states in by_part.items():
        names = connection.execute(
            "SELECT app, user FROM part WHERE id = ?", (part,)
        ).fetchone()
        if names is None:
            continue
        partition = PartitionWriter(connection, *names, create=False)
        for entry in load_rows(connection, states, any_state=True):
            state = states[entry.row.rid]
            row = entry.row._replace(supersedes=None)
            rewrite(partition, entry, row, was=state, state=state)
        partition.finish()


def _hide_ids(connection: sqlite3.Connection, hidden: _Hiding) -> None:
    """Hide the ids of deleted memories in tombstones, seen turns and recorded calls."""
    execute = connection.execute
    tombstoned_turns = f"event IS NULL AND {_PLAIN} AND {_GONE.format('told', 'id')}"
    by = f"by >= char(1) AND {_GONE.format('replaced', 'by')}"
    changes = (
        ("tomb", "id = hide(part, id)", _PLAIN),
        (
            "told",
            "session = hide(part, session), id = hide(part, id)",
            tombstoned_turns,
        ),
        ("replaced", "by = hide(part, by)", by),
    )
    for table, change, which in changes:
        query = f"SELECT DISTINCT part FROM {table} WHERE {which}"
        hidden.prepare(execute(query).fetchall())
        execute(f"UPDATE OR REPLACE {table} SET {change} WHERE {which}")
    for part, key, ids in execute("SELECT part, key, ids FROM idem").fetchall():
        known: list[str] = json.loads(ids) if ids else []
        query = "SELECT 1 FROM mem WHERE part = ? AND id = ?"
        gone = {id_ for id_ in known if not execute(query, (part, id_)).fetchone()}
        if not gone:
            continue
        hidden.prepare([(part,)])
        new_ids = [hidden(part, id_) if id_ in gone else id_ for id_ in known]
        execute(
            "UPDATE idem SET ids = ? WHERE part = ? AND key = ?",
            (json.dumps(new_ids), part, key),
        )


def _users_without_memories(
    connection: sqlite3.Connection,
) -> list[tuple[int, str, str]]:
    return connection.execute(
        "SELECT id, app, user FROM part WHERE app <> ? "
        "AND NOT EXISTS (SELECT 1 FROM mem WHERE part = part.id) "
        "AND NOT EXISTS (SELECT 1 FROM trig WHERE part = part.id) "
        "AND NOT EXISTS ("
        "SELECT 1 FROM told WHERE part = part.id AND event IS NOT NULL)",
        (HIDDEN_APP,),
    ).fetchall()


def _hide_user(
    connection: sqlite3.Connection, part: int, app: str, user: str, hidden: _Hiding
) -> None:
    """Hide a user's names, or delete the partition if it has no ids to recognise."""
    execute = connection.execute
    for table in ("chg", "hist", "replaced"):
        execute(f"DELETE FROM {table} WHERE part = ?", (part,))
    of_user = [f"SELECT 1 FROM {name} WHERE part = ?" for name in _RECOGNISED]
    any_row = " UNION ALL ".join(of_user)
    if execute(f"{any_row} LIMIT 1", (part,) * len(of_user)).fetchone() is None:
        delete_partition(connection, part)
        return
    hidden.prepare([(part,)])
    execute("UPDATE OR REPLACE idem SET key = hide(part, key) WHERE part = ?", (part,))
    make_secret(connection)
    name = hidden_user(connection, app, user)
    assert name is not None
    execute(
        "UPDATE part SET app = ?, user = ?, crc = ?, snap = NULL WHERE id = ?",
        (HIDDEN_APP, name, names_checksum(part, HIDDEN_APP, name), part),
    )
