"""Jobs that write items: JSON documents under a namespace and a key.

Items have no history and no tombstones. Every write takes the next version of its
partition; a version is never used twice.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vecall.errors import (
    ConflictError,
    DimensionError,
    EmbeddingMismatchError,
    LimitExceededError,
)
from vecall.store.reads.item_reads import items_at, state_of
from vecall.store.rows import Change
from vecall.store.transaction import Transaction
from vecall.store.values import (
    ITEM_COLUMNS,
    PIECES,
    ItemDrop,
    ItemPut,
    ItemRow,
    ItemState,
    checked_item,
    item_checksum,
    number_of_pieces,
    with_checksum,
)
from vecall.store.writes.partition_writer import PartitionWriter

# Changes to the rows of items inside a transaction.


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


_MAX_SEQ = (1 << 32) - 1
_OVERHEAD = 200  # bytes of a row besides its value


@dataclass(slots=True)
class WriteItems:
    """Writes and deletes items of one user, all or none.

    Attributes:
        app: The app.
        user: The user.
        operations: The writes and deletions, in order.
        dim: The dimension of the vectors; 0 without vectors.
        embedder: The name of the vectors' embedder; None accepts any.
        versions: After the job: of each operation the version that it wrote or
            deleted; 0 for a deletion that found nothing.
    """

    app: str
    user: str
    operations: Sequence[ItemPut | ItemDrop]
    dim: int = 0
    embedder: str | None = None
    versions: list[int] = field(default_factory=list)

    @property
    def estimated_bytes(self) -> int:
        """The bytes of the written values and vectors."""
        return sum(
            len(each.value)
            + len(each.vectors)
            + sum(map(len, each.pieces))
            + _OVERHEAD * (1 + len(each.pieces))
            for each in self.operations
            if isinstance(each, ItemPut)
        )

    def run(self, connection: Transaction) -> Change:
        """Do it inside a transaction."""
        self.versions = []
        creates = any(isinstance(each, ItemPut) for each in self.operations)
        partition = PartitionWriter(connection, self.app, self.user, create=creates)
        if not partition.id:
            for at, each in enumerate(self.operations):
                _require_version(at, each.if_version, 0, isinstance(each, ItemDrop))
                self.versions.append(0)
            return partition.changed()
        partition.reveal()
        state = before = self._agreed(connection, state_of(connection, partition.id))
        for at, each in enumerate(self.operations):
            place = (each.namespace, each.key)
            found = items_at(connection, partition.id, [place], pieces=False)[0]
            is_expired = (
                found is not None
                and found.expires_at is not None
                and found.expires_at <= partition.expiry_now
            )
            version = 0 if found is None or is_expired else found.version
            if isinstance(each, ItemDrop):
                if each.is_optional and each.if_version != version:
                    self.versions.append(0)
                    continue
                _require_version(at, each.if_version, version, True)
                self.versions.append(version)
            else:
                _require_version(at, each.if_version, version, False)
            if found is not None:
                delete_item(connection, found)
                state = state._replace(gone=state.gone + 1)
            if isinstance(each, ItemPut):
                created = found.created_at if found and version else partition.now
                state = _put_item(partition, state, each, created)
                self.versions.append(state.seq)
        if state != before or self.dim:
            save_item_state(connection, state)
        return partition.changed()

    def _agreed(self, connection: Transaction, state: ItemState) -> ItemState:
        """As `agreed`; without a stored vector any dimension and embedder will do."""
        try:
            return agreed(state, self.dim, self.embedder)
        except (DimensionError, EmbeddingMismatchError):
            query = "SELECT 1 FROM item WHERE part = ? AND vecs IS NOT NULL LIMIT 1"
            if connection.execute(query, (state.part,)).fetchone() is not None:
                raise
            free = state._replace(dim=0, embedder=None)
            return agreed(free, self.dim, self.embedder)


def _put_item(
    partition: PartitionWriter, state: ItemState, put: ItemPut, created_at: float
) -> ItemState:
    state = _state_after_write(state, put.pieces)
    row = ItemRow(
        (partition.id << 32) | state.seq,
        put.namespace,
        put.key,
        put.value,
        created_at,
        partition.now,
        put.ttl,
        None if put.ttl is None else partition.expiry_now + put.ttl,
        pieces=put.pieces,
    )
    insert_item(partition, row, put.vectors)
    return state


def _state_after_write(state: ItemState, pieces: Sequence[str]) -> ItemState:
    """Return the state after the write of an item; each of its pieces has a version."""
    seq = state.seq + len(pieces) + 1
    if seq > _MAX_SEQ:
        msg = "one user's items: at most 2^32 - 1 writes"
        raise LimitExceededError(msg)
    return state._replace(seq=seq)


def insert_item(partition: PartitionWriter, row: ItemRow, vectors: bytes) -> None:
    """Insert a row and its pieces with their checksums.

    The pieces have the versions before that of the row.
    """
    first = row.rid - len(row.pieces)
    for at, piece in enumerate(row.pieces):
        key = f"{(first + at) & _MAX_SEQ:08x}"
        _insert_item_row(
            partition, ItemRow(first + at, PIECES, key, piece, 0.0, 0.0, None, None)
        )
    _insert_item_row(partition, row, with_checksum(row.rid, vectors))


def _insert_item_row(
    partition: PartitionWriter, row: ItemRow, vecs: bytes | None = None
) -> None:
    partition.connection.execute(
        f"INSERT INTO item ({ITEM_COLUMNS}, part, vecs, crc) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*row[:8], partition.id, vecs, item_checksum(row)),
    )


def agreed(state: ItemState, dim: int, embedder: str | None) -> ItemState:
    """Return the state with the dimension and the embedder of new vectors.

    Raises:
        DimensionError: The stored vectors have another dimension.
        EmbeddingMismatchError: The stored vectors come from another embedder.
    """
    if not dim:
        return state
    if None not in (state.embedder, embedder) and state.embedder != embedder:
        msg = (
            f"the items' vectors come from {state.embedder}, not from {embedder}; "
            "delete the items or use the same embedder"
        )
        raise EmbeddingMismatchError(msg)
    if state.dim not in (0, dim):
        msg = f"vectors: expected {state.dim} numbers each, as in the user's items"
        raise DimensionError(msg)
    return state._replace(dim=dim, embedder=state.embedder or embedder)


def _require_version(at: int, wanted: int | None, version: int, is_drop: bool) -> None:
    if wanted is None or wanted == version:
        return
    there = "there is none" if not version else "it has another one"
    there = "it exists already" if wanted == 0 and not is_drop else there
    msg = f"operations[{at}].if_version: the item is not in that version: {there}"
    raise ConflictError(msg)


@dataclass(slots=True)
class TouchItems:
    """Moves the expiry of items that were read.

    Attributes:
        app: The app.
        user: The user.
        expiries: New expiry by row number; an expiry never moves to an earlier time.
    """

    app: str
    user: str
    expiries: Mapping[int, float]
    estimated_bytes: int = 0

    def run(self, connection: Transaction) -> Change:
        """Do it inside a transaction."""
        partition = PartitionWriter(connection, self.app, self.user, create=False)
        for rid, expires_at in self.expiries.items():
            found = connection.execute(
                f"SELECT {ITEM_COLUMNS}, crc FROM item WHERE rid = ? AND part = ? "
                "AND expires_at < ?",
                (rid, partition.id, expires_at),
            ).fetchone()
            if found is not None:
                row = checked_item(found[:-1], found[-1])
                _set_expiry(connection, row, expires_at)
        return partition.changed()


def move_expiries(connection: Transaction, seconds: float) -> int:
    """Shift the expiry of all items; return how many have one.

    Raises:
        CorruptFileError: An item fails its checksum.
    """
    moved, last = 0, -1
    while rows := connection.execute(
        f"SELECT {ITEM_COLUMNS}, crc FROM item WHERE expires_at IS NOT NULL "
        "AND rid > ? ORDER BY rid LIMIT 500",
        (last,),
    ).fetchall():
        for *values, crc in rows:
            row = checked_item(values, crc)
            assert row.expires_at is not None
            _set_expiry(connection, row, row.expires_at + seconds)
        moved, last = moved + len(rows), rows[-1][0]
    return moved


def _set_expiry(connection: Transaction, row: ItemRow, expires_at: float) -> None:
    row = row._replace(expires_at=expires_at)
    connection.execute(
        "UPDATE item SET expires_at = ?, crc = ? WHERE rid = ?",
        (expires_at, item_checksum(row), row.rid),
    )


@dataclass(slots=True)
class SweepItems:
    """Deletes the expired items of one user.

    Attributes:
        app: The app.
        user: The user.
        swept: After the job: how many were deleted.
    """

    app: str
    user: str
    swept: int = 0
    estimated_bytes: int = 0

    def run(self, connection: Transaction) -> Change:
        """Do it inside a transaction."""
        partition = PartitionWriter(connection, self.app, self.user, create=False)
        self.swept = delete_expired_items(partition)
        return partition.changed()


class ImportedItems:
    """Writes exported items of one partition; of each item the newer version wins."""

    def __init__(self, partition: PartitionWriter) -> None:
        """Write to a partition that exists."""
        self._partition = partition
        self._state: ItemState | None = None
        self._count = 0

    def take(self, values: Mapping[str, Any]) -> None:
        """Write one item, unless the stored one is as new, or it has expired.

        Args:
            values: The fields of an `ItemRow` without `rid`; `vecs` as float32, `dim`
                and `embedder`.
        """
        partition = self._partition
        if self._state is None:
            self._state = state_of(partition.connection, partition.id)
        expires_at = values.get("expires_at")
        if expires_at is not None and expires_at <= partition.expiry_now:
            return
        place = (values["ns"], values["key"])
        found = items_at(partition.connection, partition.id, [place], pieces=False)[0]
        if found is not None and found.updated_at >= values["updated_at"]:
            return
        vectors = values.get("vecs", b"")
        dim = values.get("dim", 0) if vectors else 0
        state = agreed(self._state, dim, values.get("embedder"))
        if found is not None:
            delete_item(partition.connection, found)
            state = state._replace(gone=state.gone + 1)
        pieces = values.get("pieces", ())
        self._state = state = _state_after_write(state, pieces)
        row = ItemRow(
            (partition.id << 32) | state.seq,
            *place,
            values["value"],
            values["created_at"],
            values["updated_at"],
            values.get("ttl"),
            expires_at,
            pieces=pieces,
        )
        insert_item(partition, row, vectors)
        self._count += 1

    def finish(self) -> int:
        """Store the new state; return the number of written items."""
        if self._state is not None:
            save_item_state(self._partition.connection, self._state)
        return self._count
