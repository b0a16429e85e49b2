"""Records snapshots in the file, and invalidates all records on a purge."""

from __future__ import annotations

from dataclasses import dataclass

from vecall.store.rows import Change
from vecall.store.transaction import Transaction
from vecall.store.writes.partition_writer import PartitionWriter


@dataclass(slots=True)
class RecordSnapshot:
    """Puts a new snapshot on record.

    Attributes:
        app: The app.
        user: The user.
        record: Its nonce and its digest.
        part: The partition's number when the snapshot was taken.
        purges: The file's purge count when the snapshot was taken.
        is_recorded: Set by `run`: whether it is on record. If not, the partition was
            replaced, or the snapshot may contain purged data.
    """

    app: str
    user: str
    record: bytes
    part: int
    purges: int
    is_recorded: bool = False
    estimated_bytes: int = 0

    def run(self, connection: Transaction) -> Change:
        """Do it inside a transaction."""
        partition = PartitionWriter(connection, self.app, self.user, create=False)
        self.is_recorded = (
            partition.id == self.part and purges(connection) == self.purges
        )
        if self.is_recorded:
            connection.execute(
                "UPDATE part SET snap = ? WHERE id = ?", (self.record, partition.id)
            )
        return partition.changed()


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
