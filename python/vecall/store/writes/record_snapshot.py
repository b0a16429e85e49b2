"""Puts snapshots on record, and invalidates all records on a purge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from vecall.store.rows import Change
from vecall.store.snapshot_tag import SnapshotTag
from vecall.store.transaction import Transaction
from vecall.store.writes.partition_writer import PartitionWriter


def _nothing(_: Transaction) -> bytes:
    return b""


@dataclass(slots=True)
class RecordSnapshot:
    """Puts a new snapshot on record.

    Attributes:
        app: The app.
        user: The user.
        record: Its nonce and its digest.
        tag: The state of the partition when the snapshot was taken.
        purges: The purge count when the snapshot was taken.
        header: Reads the first bytes of the snapshot that is in place.
        is_recorded: Set by `run`: whether it is on record. If not, the partition was
            replaced, its history went back, the snapshot may contain purged data, or
            one that is at least as new is on record.
    """

    app: str
    user: str
    record: bytes
    tag: SnapshotTag
    purges: int
    header: Callable[[Transaction], bytes] = _nothing
    is_recorded: bool = False
    estimated_bytes: int = 0

    def run(self, connection: Transaction) -> Change:
        """Do it inside a transaction."""
        partition = PartitionWriter(connection, self.app, self.user, create=False)
        self.is_recorded = (
            partition.id == self.tag.part
            and purges(connection) == self.purges
            and is_in_history(connection, self.tag, partition.seq, partition.head)
            and not newer_is_recorded(connection, self.tag, self.header(connection))
        )
        if self.is_recorded:
            connection.execute(
                "UPDATE part SET snap = ? WHERE id = ?", (self.record, partition.id)
            )
        return partition.changed()


def is_in_history(
    connection: Transaction, tag: SnapshotTag, seq: int, head: int
) -> bool:
    """Whether the partition's newest change, or one in its log, is that of a tag.

    A snapshot may wait to be recorded while a replica is promoted that lacks changes,
    or a backup is restored.

    Args:
        connection: The transaction.
        tag: The tag.
        seq: The partition's newest change.
        head: Its random bits.
    """
    if tag.seq >= seq:
        return (tag.seq, tag.head) == (seq, head)
    known = connection.execute(
        "SELECT head FROM chg WHERE part = ? AND seq = ?", (tag.part, tag.seq)
    ).fetchone()
    return known is not None and known[0] == tag.head


def newer_is_recorded(connection: Transaction, tag: SnapshotTag, header: bytes) -> bool:
    """Whether the snapshot on record makes that of a tag superfluous.

    Args:
        connection: The transaction.
        tag: The tag of the snapshot that is to be recorded.
        header: The first bytes of the snapshot that is in place; empty without one.
    """
    known = SnapshotTag.of_snapshot(header)
    if known is None or known.seq < tag.seq:
        return False
    found = connection.execute(
        "SELECT seq, head, snap FROM part WHERE id = ?", (tag.part,)
    ).fetchone()
    if found is None or found[2] is None:
        return False
    return known.is_of(tag.uuid, tag.part, found[2], tag.model) and is_in_history(
        connection, known, *found[:2]
    )


def purges(connection: Transaction) -> int:
    """Return how many times the file was purged."""
    found = connection.execute("SELECT value FROM meta WHERE key = 'purges'").fetchone()
    return 0 if found is None else int(found[0])


def count_purge(connection: Transaction) -> None:
    """Invalidate all snapshots, including those that are being written."""
    connection.execute("UPDATE part SET snap = NULL WHERE snap IS NOT NULL")
    connection.execute(
        "INSERT INTO meta (key, value) VALUES ('purges', ?) "
        "ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        (str(purges(connection) + 1),),
    )
