"""Deleting memories for good: a tombstone outlives the row."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from vecall.store.batches import insert_many, select_in
from vecall.store.partitions import PartitionWriter
from vecall.store.rows import Change


class Doomed(NamedTuple):
    """A row to be deleted."""

    rid: int
    id: str
    size: int
    state: str


_DOOMED = "SELECT rid, id, length(CAST(text AS BLOB)), state FROM mem WHERE part = ?"


@dataclass(slots=True)
class DeleteMemories:
    """Deletes memories of one user; what is not there is ignored.

    A later ingest of the same ids does not bring the memories back unless it asks for
    that. Without any condition all of the user's memories go.

    Attributes:
        app: The app.
        user: The user.
        ids: Only these.
        session: Only of this session.
        author: Only by this author.
        kind: Only of this kind.
        after: Only of this time, in seconds, or later.
        before: Only of before this time.
    """

    app: str
    user: str
    ids: Sequence[str] | None = None
    session: str | None = None
    author: str | None = None
    kind: str | None = None
    after: float | None = None
    before: float | None = None
    growth: int = 0

    def run(self, connection: sqlite3.Connection) -> Change:
        """Do it inside a transaction."""
        partition = PartitionWriter(connection, self.app, self.user, create=False)
        query, values = self._conditions(partition.id)
        if self.ids is None:
            found = [Doomed(*row) for row in connection.execute(query, values)]
        else:
            rows = select_in(connection, f"{query} AND id IN", values, self.ids)
            found = [Doomed(*row) for row in rows]
        delete_rows(partition, found)
        insert_many(
            connection,
            "tomb (part, id, at)",
            [(partition.id, row.id, partition.now) for row in found],
            verb="INSERT OR REPLACE",
        )
        partition.finish()
        gone = [row.rid for row in found]
        return partition.changed(removed=gone, ids=[row.id for row in found])

    def _conditions(self, part: int) -> tuple[str, list[Any]]:
        query, values = _DOOMED, [part]
        time = "coalesce(ts, created_at)"
        for condition, value in (
            ("session = ?", self.session),
            ("author = ?", self.author),
            ("kind = ?", self.kind),
            (f"{time} >= ?", self.after),
            (f"{time} < ?", self.before),
        ):
            if value is not None:
                query += f" AND {condition}"
                values.append(value)  # type: ignore[arg-type]
        return query, values


def doomed_of_session(partition: PartitionWriter, session: str) -> list[Doomed]:
    """Return the turns of a session."""
    rows = partition.connection.execute(
        f"{_DOOMED} AND session = ? AND pos IS NOT NULL", (partition.id, session)
    )
    return [Doomed(*row) for row in rows]


def delete_rows(partition: PartitionWriter, found: Sequence[Doomed]) -> None:
    """Delete memories and all that was kept of their past."""
    for row in found:
        live = 1 if row.state == "live" else 0
        partition.change(row.rid, "d", live=-live, size=-row.size * live)
    execute = partition.connection
    delete_in(execute, "DELETE FROM mem WHERE rid IN", [], [row.rid for row in found])
    kept = "SELECT 1 FROM hist WHERE part = ? LIMIT 1"
    if found and execute.execute(kept, (partition.id,)).fetchone():
        past = "DELETE FROM hist WHERE part = ? AND id IN"
        delete_in(execute, past, [partition.id], [row.id for row in found])


def delete_in(
    connection: sqlite3.Connection,
    statement: str,
    before: Sequence[Any],
    among: Sequence[Any],
) -> None:
    """Run a statement that ends in "IN" for many values."""
    for _ in select_in(connection, statement, before, among):
        pass


@dataclass(slots=True)
class ForgetUser:
    """Deletes a user's memories, tombstones and names: nothing says there was one.

    Attributes:
        app: The app.
        user: The user.
    """

    app: str
    user: str
    growth: int = 0

    def run(self, connection: sqlite3.Connection) -> Change:
        """Do it inside a transaction."""
        partition = PartitionWriter(connection, self.app, self.user, create=False)
        part = partition.id
        if not part:
            return partition.changed()
        query = "SELECT rid FROM mem WHERE part = ?"
        gone = [rid for (rid,) in connection.execute(query, (part,))]
        rows = (part << 32, (part << 32) | 0xFFFFFFFF)
        for table in ("mem", "vec_next"):
            connection.execute(f"DELETE FROM {table} WHERE rid BETWEEN ? AND ?", rows)
        for table in ("chg", "tomb", "hist", "idem", "trig"):
            connection.execute(f"DELETE FROM {table} WHERE part = ?", (part,))
        connection.execute("DELETE FROM part WHERE id = ?", (part,))
        connection.execute(
            "INSERT INTO meta (key, value) VALUES ('last_part', ?) "
            "ON CONFLICT (key) DO UPDATE SET value = "
            "max(CAST(value AS INTEGER), CAST(excluded.value AS INTEGER))",
            (str(part),),
        )
        change = partition.changed(removed=gone)
        change.forgotten = True
        return change
