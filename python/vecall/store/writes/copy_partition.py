"""Writes all rows of a user that come from another storage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vecall.store.item_records import ItemRow, item_checksum, with_checksum
from vecall.store.partition_copy import TABLES, PartitionCopy
from vecall.store.rows import COLUMNS, Change, Row, checksum
from vecall.store.sql import insert_many
from vecall.store.transaction import Transaction, enter, leave
from vecall.store.writes.delete import delete_partition

_WIDTH = len(COLUMNS.split(", "))


@dataclass(slots=True)
class CopyPartition:
    """Writes all rows of a user, unless the storage has rows of the user.

    Attributes:
        copied: The rows, with times on this storage's expiry clock.
        model: The number of the model of the vectors in this storage; None for none.
        replace: Delete what the storage has of the user.
        estimated_bytes: Their size.
        part: The number of the new partition.
        is_written: Whether the rows were written.
    """

    copied: PartitionCopy
    model: int | None
    replace: bool
    estimated_bytes: int = 0
    part: int = 0
    is_written: bool = False

    @property
    def app(self) -> str:
        """The app."""
        return self.copied.names.app

    @property
    def user(self) -> str:
        """The user."""
        return self.copied.names.user

    def run(self, connection: Transaction) -> Change:
        """Do it inside a transaction."""
        self.is_written = False
        names = self.copied.names
        known = self._enter(connection)
        if _has_rows(connection, known.id):
            if not self.replace:
                return Change(
                    self.app, self.user, known.id, known.seq, known.seq,
                    head_before=known.head, head=known.head,
                )  # fmt: skip
            delete_partition(connection, known.id)
            known = self._enter(connection)
        self.part = known.id
        for table, rows in self.copied.tables.items():
            columns = ("part", *TABLES[table].columns)
            insert_many(
                connection,
                f"{table} ({', '.join(columns)})",
                [(self.part, *self._stored(table, row)) for row in rows],
            )
        connection.execute(
            "UPDATE part SET created_at = ?, item = ? WHERE id = ?",
            (names.created_at, names.item, self.part),
        )
        head = leave(connection, self.part, names.seq, names.live, names.nbytes)
        self.is_written = True
        return Change(
            self.app, self.user, self.part, 0, names.seq, head_before=0, head=head
        )

    def _enter(self, connection: Transaction) -> Any:
        created_at = self.copied.names.created_at
        return enter(connection, self.app, self.user, create=True, now=created_at)

    def _stored(self, table: str, row: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return a row with its number in this storage, and with checksums."""
        if TABLES[table].columns[0] != "rid":
            return row
        rid = (self.part << 32) | row[0]
        if table == "mem":
            values = Row(rid, *row[1:_WIDTH])
            seq, state, hash_, vec, _, _ = row[_WIDTH:]
            model = None if vec is None else self.model
            return (*values, seq, state, hash_, vec, model, checksum(values, vec))
        if table == "item":
            item = ItemRow(rid, *row[1:8])
            vecs = None if row[8] is None else with_checksum(rid, row[8])
            return (*item[:8], vecs, item_checksum(item))
        return (rid, *row[1:])


def _has_rows(connection: Transaction, part: int) -> bool:
    return any(
        connection.execute(
            f"SELECT 1 FROM {table} WHERE part = ? LIMIT 1", (part,)
        ).fetchone()
        for table in TABLES
    )
