"""Hides the ids of deleted memories, and the names of users without memories.

Tombstones stay effective. The next write for a user restores hidden names, see
`PartitionWriter`.
"""

from __future__ import annotations

import json

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
from vecall.store.transaction import Transaction
from vecall.store.writes.delete import delete_partition
from vecall.store.writes.partition_writer import PartitionWriter
from vecall.store.writes.row_state import State, rewrite
from vecall.store.writes.waiting_counts import forget_waits

_RECOGNISED = ("tomb", "told", "idem")  # tables whose ids a later call may repeat
_AT_ONCE = 500  # rows
_PLAIN = "id >= char(1)"  # an id that is not hidden, and not a key
_GONE = "NOT EXISTS (SELECT 1 FROM mem WHERE mem.part = {0}.part AND mem.id = {0}.{1})"


def hide_what_is_gone(connection: Transaction, now: float) -> None:
    """Replace ids and names of deleted data by keyed digests, inside a transaction."""
    _hide_links(connection)
    hidden = _Hiding(connection, now)
    _hide_ids(connection, hidden)
    forget_waits(connection)
    for part, app, user in _users_without_memories(connection):
        _hide_user(connection, part, app, user, hidden)


class _Hiding:
    """Hides names of a user under the user's key."""

    def __init__(self, connection: Transaction, now: float) -> None:
        self._connection = connection
        self._now = now
        self._keys: dict[int, bytes] = {}

    def __call__(self, part: int, name: str) -> str:
        if is_hidden(name):
            return name
        if part not in self._keys:
            self._keys[part] = make_key(self._connection, part, self._now)
        return hide(self._keys[part], name)


def _hide_links(connection: Transaction) -> None:
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


def _hide_ids(connection: Transaction, hidden: _Hiding) -> None:
    """Hide the ids of deleted memories in tombstones, seen turns and recorded calls."""
    execute = connection.execute
    tombstones = f"SELECT part, id, at, why FROM tomb WHERE {_PLAIN} LIMIT {_AT_ONCE}"
    while found := execute(tombstones).fetchall():
        for part, id_, *rest in found:
            execute("DELETE FROM tomb WHERE part = ? AND id = ?", (part, id_))
            execute(
                "INSERT INTO tomb (part, id, at, why) VALUES (?, ?, ?, ?) "
                "ON CONFLICT (part, id) DO UPDATE SET at = excluded.at, "
                "why = excluded.why",
                (part, hidden(part, id_), *rest),
            )
    turns = (
        "SELECT part, session, id, at, pos FROM told WHERE event IS NULL AND "
        f"{_PLAIN} AND {_GONE.format('told', 'id')} LIMIT {_AT_ONCE}"
    )
    while found := execute(turns).fetchall():
        for part, session, id_, *rest in found:
            own = (part, session, id_)
            execute("DELETE FROM told WHERE part = ? AND session = ? AND id = ?", own)
            execute(
                "INSERT INTO told (part, session, id, at, pos) VALUES (?, ?, ?, ?, ?) "
                "ON CONFLICT (part, session, id) DO UPDATE SET at = excluded.at, "
                "pos = excluded.pos, event = NULL",
                (part, hidden(part, session), hidden(part, id_), *rest),
            )
    replaced = (
        "SELECT part, id, by FROM replaced WHERE by >= char(1) AND "
        f"{_GONE.format('replaced', 'by')} LIMIT {_AT_ONCE}"
    )
    while found := execute(replaced).fetchall():
        for part, id_, by in found:
            execute(
                "UPDATE replaced SET by = ? WHERE part = ? AND id = ?",
                (hidden(part, by), part, id_),
            )
    for part, key, ids in execute("SELECT part, key, ids FROM idem").fetchall():
        known: list[str] = json.loads(ids) if ids else []
        query = "SELECT 1 FROM mem WHERE part = ? AND id = ?"
        gone = {id_ for id_ in known if not execute(query, (part, id_)).fetchone()}
        if not gone:
            continue
        new_ids = [hidden(part, id_) if id_ in gone else id_ for id_ in known]
        execute(
            "UPDATE idem SET ids = ? WHERE part = ? AND key = ?",
            (json.dumps(new_ids), part, key),
        )


def _users_without_memories(
    connection: Transaction,
) -> list[tuple[int, str, str]]:
    found: list[tuple[int, str, str]] = connection.execute(
        "SELECT id, app, user FROM part WHERE app <> ? "
        "AND NOT EXISTS (SELECT 1 FROM mem WHERE part = part.id) "
        "AND NOT EXISTS (SELECT 1 FROM item WHERE part = part.id) "
        "AND NOT EXISTS (SELECT 1 FROM trig WHERE part = part.id) "
        "AND NOT EXISTS ("
        "SELECT 1 FROM told WHERE part = part.id AND event IS NOT NULL)",
        (HIDDEN_APP,),
    ).fetchall()
    return found


def _hide_user(
    connection: Transaction, part: int, app: str, user: str, hidden: _Hiding
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
    for (key,) in execute("SELECT key FROM idem WHERE part = ?", (part,)).fetchall():
        if (form := hidden(part, key)) != key:
            execute("DELETE FROM idem WHERE part = ? AND key = ?", (part, form))
            execute(
                "UPDATE idem SET key = ? WHERE part = ? AND key = ?", (form, part, key)
            )
    make_secret(connection)
    name = hidden_user(connection, app, user)
    assert name is not None
    execute(
        "UPDATE part SET app = ?, user = ?, crc = ?, snap = NULL WHERE id = ?",
        (HIDDEN_APP, name, names_checksum(part, HIDDEN_APP, name), part),
    )
