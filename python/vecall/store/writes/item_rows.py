"""Changes to the rows of items inside a transaction."""

from __future__ import annotations

import json

from vecall.store.item_records import ItemRow, ItemState
from vecall.store.item_values import PIECES, number_of_pieces
from vecall.store.reads.item_reads import state_of
from vecall.store.transaction import Transaction
from vecall.store.writes.partition_writer import PartitionWriter


def save_item_state(connection: Transaction, state: ItemState) -> None:
    """Store what is known about the items of a partition after a change of them."""
    values = dict(zip(ItemState._fields[1:], state.changed()[1:], strict=True))
    connection.execute(
        "UPDATE part SET item = ? WHERE id = ?", (json.dumps(values), state.part)
    )


def delete_item(connection: Transaction, row: ItemRow) -> None:
    """Delete a row and the pieces of its value."""
    connection.execute("DELETE FROM item WHERE rid = ?", (row.rid,))
    _delete_pieces(connection, row.rid, row.value)


def _delete_pieces(connection: Transaction, rid: int, value: str) -> None:
    count = number_of_pieces(value)
    if count:
        first = max(rid - count, rid >> 32 << 32)
        connection.execute(
            # The expression keeps the search from the index by namespace.
            "DELETE FROM item WHERE rid >= ? AND rid < ? AND ns || '' = ?",
            (first, rid, PIECES),
        )


def delete_items(partition: PartitionWriter) -> None:
    """Delete all items of a partition, also those set aside as damaged."""
    first = partition.id << 32
    _delete(partition, "rid BETWEEN ? AND ?", first, first | 0xFFFFFFFF)


def delete_expired_items(partition: PartitionWriter) -> int:
    """Delete the expired items of a partition; return their number."""
    if partition.id:
        large = partition.connection.execute(
            "SELECT rid, substr(value, 1, 32) FROM item "
            "WHERE part = ? AND expires_at <= ? AND value LIKE '@%'",
            (partition.id, partition.expiry_now),
        ).fetchall()
        for rid, head in large:
            _delete_pieces(partition.connection, rid, head)
    return _delete(
        partition, "part = ? AND expires_at <= ?", partition.id, partition.expiry_now
    )


def _delete(partition: PartitionWriter, condition: str, *values: float) -> int:
    if not partition.id:
        return 0
    connection = partition.connection
    gone = connection.execute(f"DELETE FROM item WHERE {condition}", values).rowcount
    if gone:
        state = state_of(connection, partition.id)
        save_item_state(connection, state._replace(gone=state.gone + gone))
    return gone
