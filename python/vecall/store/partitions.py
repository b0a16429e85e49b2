"""The row of one (app, user), and the sequence numbers of its changes.

Every change of a memory takes the partition's next sequence number, which is written to
`chg` for readers that must catch up. A new memory's row number is the sequence number
of its making, so it is never used twice, not even after the newest memory was deleted.
"""

from __future__ import annotations

import sqlite3
import time

from vecall.errors import LimitExceededError
from vecall.store.batches import insert_many

_ROW_BITS = 32
_KEPT_CHANGES = 2_048  # at least; a reader further behind loads the partition again
_MAX_SEQ = (1 << _ROW_BITS) - 1


class PartitionWriter:
    """One partition inside one write transaction."""

    def __init__(
        self, connection: sqlite3.Connection, app: str, user: str, *, create: bool
    ) -> None:
        """Find the partition, or make it."""
        self.connection = connection
        self.now = time.time()
        self._changes: list[tuple[int, int, int, str]] = []
        self._live = 0
        self._bytes = 0
        find = "SELECT id, seq FROM part WHERE app = ? AND user = ?"
        row = connection.execute(find, (app, user)).fetchone()
        if row is None and create:
            connection.execute(
                "INSERT INTO part (app, user, created_at) VALUES (?, ?, ?)",
                (app, user, self.now),
            )
            row = connection.execute(find, (app, user)).fetchone()
        self.id: int = 0 if row is None else row[0]
        self.seq_before: int = 0 if row is None else row[1]
        self.seq = self.seq_before

    def change(self, rid: int, op: str, *, live: int = 0, size: int = 0) -> int:
        """Take the next sequence number for a row ("u" written, "d" deleted).

        Args:
            rid: The row, or 0 for a new one.
            op: What happens to it.
            live: How many live memories more.
            size: How many bytes of text more.

        Returns:
            The row's number.
        """
        if self.seq >= _MAX_SEQ:
            msg = "one user's memories: at most 2^32 - 1 changes"
            raise LimitExceededError(msg)
        self.seq += 1
        rid = rid or (self.id << _ROW_BITS) | self.seq
        self._changes.append((self.id, self.seq, rid, op))
        self._live += live
        self._bytes += size
        return rid

    def finish(self) -> None:
        """Write the change log and the partition's row."""
        insert_many(self.connection, "chg (part, seq, rid, op)", self._changes)
        if self.seq != self.seq_before:
            self.connection.execute(
                "UPDATE part SET seq = ?, live = live + ?, bytes = bytes + ? "
                "WHERE id = ?",
                (self.seq, self._live, self._bytes, self.id),
            )
        if self.seq // _KEPT_CHANGES != self.seq_before // _KEPT_CHANGES:
            self.connection.execute(
                "DELETE FROM chg WHERE part = ? AND seq <= ?",
                (self.id, self.seq - _KEPT_CHANGES),
            )
