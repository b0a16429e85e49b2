"""Removes expired data."""

from __future__ import annotations

import json
from dataclasses import dataclass

from vecall.store.digests import digest_of_old
from vecall.store.rows import Change
from vecall.store.transaction import Transaction
from vecall.store.writes.delete import RowToDelete, delete_rows, write_tombstones
from vecall.store.writes.item_rows import delete_expired_items
from vecall.store.writes.partition_writer import PartitionWriter
from vecall.store.writes.row_state import archive


def due_users(connection: Transaction, now: float) -> list[tuple[str, str]]:
    """Return (app, user) of the users who have expired data."""
    return connection.execute(
        "SELECT app, user FROM part WHERE id IN ("
        "SELECT part FROM mem INDEXED BY mem_expires WHERE expires_at <= :now UNION "
        "SELECT part FROM mem INDEXED BY mem_valid WHERE valid_until <= :now "
        "AND state = 'live' UNION "
        "SELECT part FROM hist INDEXED BY hist_expires WHERE expires_at <= :now UNION "
        "SELECT part FROM item INDEXED BY item_ends WHERE expires_at <= :now)",
        {"now": now},
    ).fetchall()


@dataclass(slots=True)
class Sweep:
    """Removes expired data of one user, in batches.

    Memories past their TTL are deleted; re-ingesting a session does not bring its turns
    back. Memories past `valid_until` are archived. Expired revisions are deleted,
    except for a digest that prevents ingest from undoing a correction.

    Attributes:
        app: The app.
        user: The user.
        most: Maximum number of memories per job, so that other writers get their turn.
    """

    app: str
    user: str
    most: int
    estimated_bytes: int = 0

    def run(self, connection: Transaction) -> Change:
        """Do it inside a transaction."""
        partition = PartitionWriter(connection, self.app, self.user, create=False)
        expired, removed = clear_away(partition, self.most)
        _forget_past(partition)
        delete_expired_items(partition)
        partition.finish()
        return partition.changed(removed=removed, ids=expired)


def clear_away(
    partition: PartitionWriter, most: int = -1
) -> tuple[list[str], list[int]]:
    """Delete memories past their TTL, and archive those past `valid_until`.

    Args:
        partition: Their partition.
        most: Maximum number of each; -1 is no limit.

    Returns:
        The ids of the deleted memories, and the rows of all.
    """
    execute = partition.connection.execute
    own = (partition.expiry_now, partition.id, most)
    expired = [
        RowToDelete(*row)
        for row in execute(
            "SELECT rid, id, length(CAST(text AS BLOB)), state FROM mem "
            "INDEXED BY mem_ends WHERE expires_at <= ? AND part = ? LIMIT ?",
            own,
        ).fetchall()
    ]
    delete_rows(partition, expired)
    ids = [row.id for row in expired]
    write_tombstones(partition, ids, "expired")
    lapsed = execute(
        "SELECT rid FROM mem INDEXED BY mem_lapse WHERE valid_until <= ? "
        "AND part = ? AND state = 'live' LIMIT ?",
        own,
    ).fetchall()
    removed = [row.rid for row in expired]
    return ids, removed + archive(partition, [rid for (rid,) in lapsed], "lapsed")


def _forget_past(partition: PartitionWriter) -> None:
    execute = partition.connection.execute
    over = "part = ? AND expires_at <= ?"
    own = (partition.id, partition.expiry_now)
    edits = execute(
        f"SELECT id, seq, old FROM hist WHERE {over} AND op = 'edit'", own
    ).fetchall()
    for id_, seq, old in edits:
        execute(
            "UPDATE hist SET old = ?, expires_at = NULL "
            "WHERE part = ? AND id = ? AND seq = ?",
            (json.dumps({"digest": digest_of_old(old)}), partition.id, id_, seq),
        )
    execute(f"DELETE FROM hist WHERE {over}", own)
