"""Stores vectors for memories that were added before the file had a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vecall.store.models import require_active
from vecall.store.reads.partition_reads import load_rows
from vecall.store.rows import Change, Row, RowWithVector, checksum
from vecall.store.transaction import Transaction
from vecall.store.writes.partition_writer import PartitionWriter


@dataclass(slots=True)
class SetVectors:
    """Sets the vectors of one user's rows, unless a row changed meanwhile.

    Attributes:
        app: The app.
        user: The user.
        rows: The rows as they were when they were embedded.
        vectors: One vector each, float32 little-endian.
        model: Number of the embedding model.
    """

    app: str
    user: str
    rows: Sequence[RowWithVector]
    vectors: Sequence[bytes]
    model: int

    def run(self, connection: Transaction) -> Change:
        """Do it inside a transaction."""
        require_active(connection, self.model)
        partition = PartitionWriter(connection, self.app, self.user, create=False)
        now = {
            stored.row.rid: stored.row
            for stored in load_rows(
                connection, [stored.row.rid for stored in self.rows]
            )
        }
        written = []
        for stored, vec in zip(self.rows, self.vectors, strict=True):
            row = now.get(stored.row.rid)
            if row is None or embedded_part(row) != embedded_part(stored.row):
                continue
            partition.change(row.rid, "u")
            crc = checksum(row, vec)
            connection.execute(
                "UPDATE mem SET vec = ?, model = ?, crc = ?, seq = ? WHERE rid = ?",
                (vec, self.model, crc, partition.seq, row.rid),
            )
            written.append(RowWithVector(row, vec, self.model))
        partition.finish()
        return partition.changed(written)

    @property
    def estimated_bytes(self) -> int:
        """About how many bytes the file grows by."""
        return sum(map(len, self.vectors))


def embedded_part(row: Row) -> tuple[str | None, str]:
    """The inputs of a row's vector: author and text."""
    return row.author, row.text
