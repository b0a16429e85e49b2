"""Counts the uses of memories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vecall.concurrency.time_slices import in_slices
from vecall.filters.rights import FULL, Rights
from vecall.store.reads.partition_reads import END, load_rows
from vecall.store.rows import Change, Row, RowWithVector, checksum, is_whole
from vecall.store.sql import select_in
from vecall.store.transaction import Transaction
from vecall.store.visible import visible
from vecall.store.writes.partition_writer import PartitionWriter

_MOST_USES = 2**31 - 1  # also the limit of an import
_ROW_BYTES = 100  # of a change, with its log entry


@dataclass(slots=True)
class MarkUsed:
    """Counts one use of each given live memory of one user.

    Unknown and expired ids are ignored. `updated_at` does not change, so uses do not
    affect which version an import takes.

    Attributes:
        app: The app.
        user: The user.
        ids: The ids of the memories; duplicates count once.
        rights: Other memories than those that the caller sees are unknown.
    """

    app: str
    user: str
    ids: Sequence[str]
    rights: Rights = FULL

    def run(self, connection: Transaction) -> Change:
        """Do it inside a transaction."""
        partition = PartitionWriter(connection, self.app, self.user, create=False)
        found = select_in(
            connection,
            f"SELECT rid FROM mem WHERE part = ? AND state = 'live' AND {END} > ?"
            f"{visible(self.rights)} AND id IN",
            [partition.id, partition.expiry_now],
            list(dict.fromkeys(self.ids)),
        )
        stored = load_rows(connection, [rid for (rid,) in found])
        prepared = _prepared(connection, [entry.row.rid for entry in stored])
        marked = []
        for entry in in_slices(stored):
            row = _mark(partition, entry)
            if row.rid in prepared:
                _carry(connection, entry.row, row, *prepared[row.rid])
            marked.append(row)
        partition.finish()
        change = partition.changed(ids=[row.id for row in marked])
        change.marked = marked
        return change

    @property
    def estimated_bytes(self) -> int:
        """About how many bytes the file grows by."""
        return _ROW_BYTES * len(self.ids)


def _mark(partition: PartitionWriter, stored: RowWithVector) -> Row:
    row, vec, model = stored
    uses = min((row.uses or 0) + 1, _MOST_USES)
    row = row._replace(uses=uses, last_used=partition.now)
    partition.change(row.rid, "m")
    # Right after a model switch, the vector is still in vec_next and moves to the row.
    partition.connection.execute(
        "UPDATE mem SET uses = ?, last_used = ?, seq = ?, vec = ?, model = ?, crc = ? "
        "WHERE rid = ?",
        (
            row.uses,
            row.last_used,
            partition.seq,
            vec,
            model,
            checksum(row, vec),
            row.rid,
        ),
    )
    return row


def _prepared(
    connection: Transaction, rids: Sequence[int]
) -> dict[int, tuple[object, object]]:
    """The vectors that a model migration has prepared for rows, with checksums."""
    found = select_in(
        connection,
        "SELECT rid, vec, crc FROM vec_next WHERE model = "
        "(SELECT id FROM model WHERE state = 'migrating') AND vec <> x'' AND rid IN",
        [],
        rids,
    )
    return {rid: (vec, crc) for rid, vec, crc in found}


def _carry(
    connection: Transaction, old: Row, new: Row, vec: object, crc: object
) -> None:
    """Keep the prepared vector of a marked row; replace a damaged one."""
    if isinstance(vec, bytes) and is_whole(old, vec, crc):
        crc = checksum(new, vec)
    else:
        vec, crc = b"", None
    connection.execute(
        "UPDATE vec_next SET vec = ?, crc = ? WHERE rid = ?", (vec, crc, new.rid)
    )
