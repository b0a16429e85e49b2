"""Changes to the rows of items inside a transaction."""

from __future__ import annotations

import json

from vecall.store.item_records import ItemState
from vecall.store.reads.item_reads import state_of
from vecall.store.transaction import Transaction
from vecall.store.writes.partition_writer import PartitionWriter


def save_item_state(connection: Transaction, state: ItemState) -> None:
    """Store what is known about the items of a partition after a change of them."""
    values = dict(zip(ItemState._fields[1:], state.changed()[1:], strict=True))
    connection.execute(
        "UPDATE part SET item = ? WHERE id = ?", (json.dumps(values), state.part)
    )


def delete_items(partition: PartitionWriter) -> int:
    """Delete all items of a partition; return their number."""
    return _delete(partition, "")


def delete_expired_items(partition: PartitionWriter) -> int:
    """Delete the expired items of a partition; return their number."""
    return _delete(partition, "AND expires_at <= ?", partition.expiry_now)


def _delete(partition: PartitionWriter, condition: str, *values: float) -> int:
    if not partition.id:
        return 0
    connection = partition.connection
    gone = connection.execute(
        f"DELETE FROM item WHERE part = ? {condition}", (partition.id, *values)
    ).rowcount
    if gone:
        state = state_of(connection, partition.id)
        save_item_state(connection, state._replace(gone=state.gone + gone))
    return gone
