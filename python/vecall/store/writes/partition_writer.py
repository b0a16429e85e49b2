"""Writes to the partition of one (app, user), with sequence numbers of its changes.

Every change of a memory takes the partition's next sequence number. The change log
`chg` stores it for readers that have to catch up. The row number of a new memory is the
sequence number of its insertion, so it is never reused, not even after a deletion.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, nextafter

from vecall.errors import LimitExceededError
from vecall.store.rows import Change, RowWithVector, names_checksum
from vecall.store.sql import insert_many
from vecall.store.transaction import (
    ReadsAhead,
    Transaction,
    enter,
    expiry_clock_of,
    leave,
)
from vecall.store.values import require_counts

_ROW_BITS = 32
_MIN_LOGGED = 2_048  # changes; a reader further behind reloads the partition
_LOGGED_SHARE = 2  # one change is logged per so many live memories, for snapshots
_MAX_SEQ = (1 << _ROW_BITS) - 1


NEXT_VECTORS = (
    "SELECT (SELECT id FROM model WHERE state = 'migrating'), "
    "EXISTS (SELECT 1 FROM vec_next)"
)
"""The query of `PartitionWriter.finish`."""


class PartitionWriter:
    """One partition inside one write transaction."""

    def __init__(
        self,
        connection: Transaction,
        app: str,
        user: str,
        *,
        create: bool,
        ahead: ReadsAhead | None = None,
    ) -> None:
        """Find or create the partition.

        A user whose names a purge hid is found, too. The next write restores the names.

        Args:
            connection: The transaction.
            app: The app.
            user: The user.
            create: Create the partition if the user has none.
            ahead: The reads that follow.
        """
        self.connection = connection
        self.app = app
        self.user = user
        expiry_clock = expiry_clock_of(connection)
        self.now = expiry_clock.wall()  # for timestamps
        self.expiry_now = expiry_clock.now()  # for expiry
        self._changes: list[tuple[int, int, int, str]] = []
        self._live = 0
        self._bytes = 0
        known = enter(connection, app, user, create=create, now=self.now, ahead=ahead)
        require_counts(known.id, known.seq, known.live, known.nbytes)
        self.id = known.id
        self.seq = self.seq_before = known.seq
        self.head = self.head_before = known.head
        self._live_before, self._bytes_before = known.live, known.nbytes
        self._is_hidden = known.is_hidden

    def after(self, version: float | None) -> float:
        """Return the version of a memory that follows another one.

        A version is never used twice and never goes back, also if the clock does.
        """
        return self.now if version is None else max(self.now, nextafter(version, inf))

    def reveal(self) -> None:
        """Restore the user's names if a purge hid them."""
        if self._is_hidden:
            self.connection.execute(
                "UPDATE part SET app = ?, user = ?, crc = ? WHERE id = ?",
                (
                    self.app,
                    self.user,
                    names_checksum(self.id, self.app, self.user),
                    self.id,
                ),
            )
            self._is_hidden = False

    def change(self, rid: int, op: str, *, live: int = 0, size: int = 0) -> int:
        """Take the next sequence number for a row.

        Args:
            rid: The row, or 0 for a new one.
            op: "u" for written, "d" for deleted, "m" if only the usage changed.
            live: The change in the number of live memories.
            size: The change in the bytes of text.

        Returns:
            The row's number.
        """
        if self.seq >= _MAX_SEQ:
            msg = "one user's memories: at most 2^32 - 1 changes"
            raise LimitExceededError(msg)
        self.reveal()
        self.seq += 1
        rid = rid or (self.id << _ROW_BITS) | self.seq
        self._changes.append((self.id, self.seq, rid, op))
        self._live += live
        self._bytes += size
        return rid

    @property
    def live(self) -> int:
        """The number of live memories, including the changes so far."""
        return self._live_before + self._live

    @property
    def nbytes(self) -> int:
        """The bytes of text of the live memories, including the changes so far."""
        return self._bytes_before + self._bytes

    def has_grown(self, count: int = 0, size: int = 0) -> bool:
        """Whether the number of memories or bytes has grown.

        Args:
            count: The change in the number of buffered turns.
            size: The change in their bytes.
        """
        return self._live + count > 0 or self._bytes + size > 0

    def finish(self) -> None:
        """Write the change log and the partition's row."""
        if self.seq == self.seq_before:
            return
        insert_many(self.connection, "chg (part, seq, rid, op)", self._changes)
        self.head = leave(self.connection, self.id, self.seq, self._live, self._bytes)
        self._revise_next_vectors()
        if self.seq // _MIN_LOGGED != self.seq_before // _MIN_LOGGED:
            live = self._live_before + self._live
            change_limit = max(_MIN_LOGGED, live // _LOGGED_SHARE)
            self.connection.execute(
                "DELETE FROM chg WHERE part = ? AND seq <= ?",
                (self.id, self.seq - change_limit),
            )

    def changed(
        self,
        stored: Sequence[RowWithVector] = (),
        removed: Sequence[int] = (),
        ids: Sequence[str] = (),
    ) -> Change:
        """Return the change of this transaction, for the engine and the caller."""
        return Change(
            self.app,
            self.user,
            self.id,
            self.seq_before,
            self.seq,
            stored,
            removed,
            ids,
            head_before=self.head_before,
            head=self.head,
        )

    def unchanged(self, ids: Sequence[str]) -> Change:
        """Return an empty change."""
        return Change(
            self.app,
            self.user,
            self.id,
            self.seq_before,
            self.seq_before,
            ids=ids,
            head_before=self.head_before,
            head=self.head_before,
        )

    def _revise_next_vectors(self) -> None:
        """Drop vectors that a model migration prepared for rows that have changed."""
        coming, any_left = self.connection.execute(NEXT_VECTORS).fetchone()
        if coming is None and not any_left:
            return
        for _, _, rid, op in self._changes:
            if coming is None or op == "d":
                self.connection.execute("DELETE FROM vec_next WHERE rid = ?", (rid,))
            elif op != "m":  # a usage change keeps the prepared vector
                # An entry without a vector: the row has to be embedded.
                self.connection.execute(
                    "INSERT INTO vec_next (rid, model, vec) VALUES (?, ?, x'') "
                    "ON CONFLICT (rid) DO UPDATE SET model = excluded.model, "
                    "vec = excluded.vec, crc = NULL",
                    (rid, coming),
                )
