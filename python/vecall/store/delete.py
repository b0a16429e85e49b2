"""Deleting memories for good: a tombstone outlives the row."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from vecall.store.partitions import PartitionWriter
from vecall.store.rows import Change


@dataclass(slots=True)
class DeleteMemories:
    """Deletes memories of one user by id; unknown ids are ignored.

    A later ingest of the same id does not bring the memory back unless it asks for
    that.
    """

    app: str
    user: str
    ids: Sequence[str]

    def run(self, connection: sqlite3.Connection) -> Change:
        """Do it inside a transaction."""
        partition = PartitionWriter(connection, self.app, self.user, create=False)
        removed: list[int] = []
        ids: list[str] = []
        for id_ in self.ids:
            found = connection.execute(
                "SELECT rid, length(CAST(text AS BLOB)) FROM mem "
                "WHERE part = ? AND id = ?",
                (partition.id, id_),
            ).fetchone()
            if found is None:
                continue
            rid, size = found
            delete_row(partition, rid, id_, size)
            connection.execute(
                "INSERT OR REPLACE INTO tomb (part, id, at) VALUES (?, ?, ?)",
                (partition.id, id_, partition.now),
            )
            removed.append(rid)
            ids.append(id_)
        partition.finish()
        return Change(
            self.app,
            self.user,
            partition.id,
            partition.seq_before,
            partition.seq,
            removed=removed,
            ids=ids,
        )


def delete_row(partition: PartitionWriter, rid: int, id_: str, size: int) -> None:
    """Delete one memory and all that was kept of its past."""
    partition.change(rid, "d", live=-1, size=-size)
    partition.connection.execute("DELETE FROM mem WHERE rid = ?", (rid,))
    partition.connection.execute(
        "DELETE FROM hist WHERE part = ? AND id = ?", (partition.id, id_)
    )
