"""Writes items; `queries/item_reads.py` says how they are numbered."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from secrets import token_hex
from typing import Any

from vecall import errors
from vecall.store import values as stored_values
from vecall.store.queries.item_reads import SELECT_ITEM, item_state_of, read_items_at
from vecall.store.rows import Change
from vecall.store.transaction import Transaction, count_inserted, insert_many
from vecall.store.values import PIECES, ItemDrop, ItemPut, ItemRow, ItemState
from vecall.store.writes.partition_writer import PartitionWriter, UserJob

_MAX_SEQ = (1 << 32) - 1
_MARKS = ", ".join("?" * 11)
_OVERHEAD = 200  # bytes of a row besides its value

NewItems = dict[tuple[str, str], tuple[Any, ...]]
"""Rows to insert by as few statements as can be, by namespace and key."""


def save_item_state(connection: Transaction, state: ItemState) -> None:
    """Store what is known about the items of a partition after a change of them."""
    heads = state.heads + token_hex(stored_values.HEAD_DIGITS // 2)
    state = state._replace(
        heads=heads[-stored_values.HEADS * stored_values.HEAD_DIGITS :]
    )
    values = dict(zip(ItemState._fields[1:], state[1:], strict=True))
    query = "UPDATE part SET item = ? WHERE id = ?"
    connection.execute(query, (json.dumps(values), state.part))


def _delete_item(connection: Transaction, row: ItemRow) -> None:
    """Delete a row and its pieces."""
    connection.execute("DELETE FROM item WHERE rid = ?", (row.rid,))
    if count := stored_values.count_value_pieces(row.value):
        _delete_item_pieces(connection, row.rid, count)


def _delete_item_pieces(connection: Transaction, rid: int, count: int) -> None:
    first = max(rid - count, rid >> 32 << 32)
    connection.execute(
        # The expression keeps the search from the index by namespace.
        "DELETE FROM item WHERE rid >= ? AND rid < ? AND ns || '' = ?",
        (first, rid, PIECES),
    )


def delete_items(partition: PartitionWriter) -> None:
    """Delete all items of a partition, also those set aside as damaged."""
    first = partition.id << 32
    _delete_items_of(partition, "rid BETWEEN ? AND ?", first, first | 0xFFFFFFFF)


def delete_expired_items(partition: PartitionWriter) -> int:
    """Delete the expired items of a partition; return their number."""
    expired, own = "part = ? AND expires_at <= ?", (partition.id, partition.expiry_now)
    query = f"SELECT rid, substr(value, 1, 32) FROM item WHERE {expired}"
    for rid, head in partition.execute(f"{query} AND value LIKE '@%'", own).fetchall():
        _delete_item_pieces(
            partition.connection, rid, stored_values.count_value_pieces(head)
        )
    return _delete_items_of(partition, expired, *own)


def _delete_items_of(partition: PartitionWriter, condition: str, *values: float) -> int:
    if not partition.id:
        return 0
    connection = partition.connection
    gone = connection.execute(f"DELETE FROM item WHERE {condition}", values).rowcount
    if gone:
        state = item_state_of(connection, partition.id)
        save_item_state(connection, state._replace(gone=state.gone + gone))
    return gone


@dataclass(slots=True, repr=False, eq=False)
class WriteItems(UserJob):
    """Writes and deletes items of one user, all or none."""

    operations: Sequence[ItemPut | ItemDrop]  # the writes and deletions, in order
    dim: int = 0  # the dimension of the vectors; 0 without vectors
    embedder: str | None = None  # the name of the vectors' embedder; None accepts any
    # After the job: of each operation the version that it wrote or deleted; 0 for a
    # deletion that found nothing.
    versions: list[int] = field(default_factory=list)

    @property
    def estimated_bytes(self) -> int:
        """The bytes of the written values and vectors."""
        size = 0
        for each in self.operations:
            if isinstance(each, ItemPut):
                size += len(each.value) + len(each.vectors) + sum(map(len, each.pieces))
                size += _OVERHEAD * (1 + len(each.pieces))
        return size

    def run(self, connection: Transaction) -> Change:
        """Do it inside a transaction."""
        self.versions = []
        creates = ItemPut in map(type, self.operations)
        partition = PartitionWriter(connection, self.app, self.user, create=creates)
        if not partition.id:
            for at, each in enumerate(self.operations):
                if each.if_version:
                    raise _item_version_conflict(at, each, 0)
                self.versions.append(0)
            return partition.changed()
        partition.reveal_user_names()
        state = before = item_state_of(connection, partition.id)
        if self.dim:  # items without vectors go with any others
            state = self._adopt_vectors(connection, state)
        new: NewItems = {}
        seq, gone = state.seq, state.gone
        for at, each in enumerate(self.operations):
            place = (each.namespace, each.key)
            if place in new:
                _insert_items(partition, new)
            found = read_items_at(connection, partition.id, [place], pieces=False)[0]
            is_expired = (
                found is not None
                and found.expires_at is not None
                and found.expires_at <= partition.expiry_now
            )
            version = 0 if found is None or is_expired else found.version
            if each.if_version not in (None, version):
                if not (isinstance(each, ItemDrop) and each.is_optional):
                    raise _item_version_conflict(at, each, version)
                self.versions.append(0)
                continue
            if isinstance(each, ItemDrop):
                self.versions.append(version)
            if found is not None:
                _delete_item(connection, found)
                gone += 1
            if isinstance(each, ItemPut):
                created_at = found.created_at if found and version else partition.now
                ends_at = None if each.ttl is None else partition.expiry_now + each.ttl
                own = (*place, each.value, created_at, partition.now, each.ttl, ends_at)
                seq = _add_item(partition, seq, new, own, each.pieces, each.vectors)
                self.versions.append(seq)
        _insert_items(partition, new)
        state = state._replace(seq=seq, gone=gone)
        if state != before or self.dim:
            save_item_state(connection, state)
        return partition.changed()

    def _adopt_vectors(self, connection: Transaction, state: ItemState) -> ItemState:
        """As `require_same_vectors`, if a vector is stored; else any will do."""
        try:
            return require_same_vectors(state, self.dim, self.embedder)
        except (errors.DimensionError, errors.EmbeddingMismatchError):
            query = "SELECT 1 FROM item WHERE part = ? AND vecs IS NOT NULL LIMIT 1"
            if connection.execute(query, (state.part,)).fetchone() is not None:
                raise
            free = state._replace(dim=0, embedder=None)
            return require_same_vectors(free, self.dim, self.embedder)


def _add_item(
    partition: PartitionWriter,
    seq: int,
    new: NewItems,
    own: tuple[Any, ...],
    pieces: Sequence[str],
    vectors: bytes,
) -> int:
    """Add a row and its pieces to those to insert; return the newest version."""
    # Each has a version of its own. The pieces have those before that of the row.
    first = (partition.id << 32) + seq + 1
    seq, rid = seq + len(pieces) + 1, first + len(pieces)
    if seq > _MAX_SEQ:
        raise errors.LimitExceededError("one user's items: at most 2^32 - 1 writes")
    vecs = stored_values.vectors_with_checksum(rid, vectors) if vectors else None
    rows = [ItemRow._make((rid, *own, vecs, ()))]
    for at, piece in enumerate(pieces, first):
        key = f"{at & _MAX_SEQ:08x}"
        rows.append(ItemRow(at, PIECES, key, piece, 0.0, 0.0, None, None))
    for each in rows:
        crc = stored_values.item_checksum(each)
        new[each.ns, each.key] = (*each[:9], partition.id, crc)
    return seq


def _insert_items(partition: PartitionWriter, new: NewItems) -> None:
    """Insert rows, and forget them."""
    if not new:
        return
    into = f"item ({stored_values.ITEM_COLUMNS}, vecs, part, crc)"
    pieces = list(map(itemgetter(0), new)).count(PIECES)
    if len(new) > 1:
        insert_many(partition.connection, into, list(new.values()))
    else:
        (row,) = new.values()
        partition.execute(f"INSERT INTO {into} VALUES ({_MARKS})", row)
    count_inserted(partition.connection, partition.id, "docs", len(new) - pieces)
    new.clear()


def require_same_vectors(state: ItemState, dim: int, embedder: str | None) -> ItemState:
    """Return the state with the dimension and the embedder of new vectors."""
    # DimensionError or EmbeddingMismatchError: the stored ones have others.
    if not dim:
        return state
    if None not in (state.embedder, embedder) and state.embedder != embedder:
        raise errors.EmbeddingMismatchError(
            f"the items' vectors come from {state.embedder}, not from {embedder}; "
            "delete the items or use the same embedder"
        )
    if state.dim not in (0, dim):
        msg = f"vectors: expected {state.dim} numbers each, as in the user's items"
        raise errors.DimensionError(msg)
    return state._replace(dim=dim, embedder=state.embedder or embedder)


def _item_version_conflict(
    at: int, given: ItemPut | ItemDrop, version: int
) -> errors.ConflictError:
    there = "there is none" if not version else "it has another one"
    if given.if_version == 0 and isinstance(given, ItemPut):
        there = "it exists already"
    msg = f"operations[{at}].if_version: the item is not in that version: {there}"
    return errors.ConflictError(msg)


@dataclass(slots=True, repr=False, eq=False)
class TouchItems(UserJob):
    """Moves the expiry of items that were read."""

    # New expiry by row number; an expiry never moves to an earlier time.
    expiries: Mapping[int, float]

    def _write_partition(self, partition: PartitionWriter) -> Change:
        connection = partition.connection
        for rid, expires_at in self.expiries.items():
            query = f"{SELECT_ITEM} WHERE rid = ? AND part = ? AND expires_at < ?"
            values = (rid, partition.id, expires_at)
            found = connection.execute(query, values).fetchone()
            if found is not None:
                row = stored_values.check_item_checksum(found[:-1], found[-1])
                _set_item_expiry(connection, row, expires_at)
        return partition.changed()


def move_item_expiries(connection: Transaction, seconds: float) -> int:
    """Shift the expiry of all items; return how many have one."""
    moved, last = 0, -1
    where = "WHERE expires_at IS NOT NULL AND rid > ? ORDER BY rid LIMIT 500"
    while rows := connection.execute(f"{SELECT_ITEM} {where}", (last,)).fetchall():
        for *values, crc in rows:
            row = stored_values.check_item_checksum(values, crc)
            assert row.expires_at is not None
            _set_item_expiry(connection, row, row.expires_at + seconds)
        moved, last = moved + len(rows), rows[-1][0]
    return moved


def _set_item_expiry(connection: Transaction, row: ItemRow, expires_at: float) -> None:
    row = row._replace(expires_at=expires_at)
    query = "UPDATE item SET expires_at = ?, crc = ? WHERE rid = ?"
    connection.execute(query, (expires_at, stored_values.item_checksum(row), row.rid))


@dataclass(slots=True, repr=False, eq=False)
class SweepItems(UserJob):
    """Deletes the expired items of one user."""

    swept: int = 0  # after the job: how many were deleted

    def _write_partition(self, partition: PartitionWriter) -> Change:
        self.swept = delete_expired_items(partition)
        return partition.changed()


def import_items(partition: PartitionWriter, lines: Sequence[Mapping[str, Any]]) -> int:
    """Write exported items of one partition; return how many were written."""
    # An item that has expired, or that is stored with a version as new, is not. The
    # values are the fields of an `ItemRow` without `rid`; `vecs` as float32, `dim` and
    # `embedder`.
    if not lines:
        return 0
    connection, count = partition.connection, 0
    state = item_state_of(connection, partition.id)
    new: NewItems = {}
    seq, gone = state.seq, state.gone
    for values in lines:
        expires_at = values.get("expires_at")
        place = (values["ns"], values["key"])
        if place in new:
            _insert_items(partition, new)
        found = read_items_at(connection, partition.id, [place], pieces=False)[0]
        if (found is not None and found.updated_at >= values["updated_at"]) or (
            expires_at is not None and expires_at <= partition.expiry_now
        ):
            continue
        vectors = values.get("vecs", b"")
        dim = values.get("dim", 0) if vectors else 0
        state = require_same_vectors(state, dim, values.get("embedder"))
        if found is not None:
            _delete_item(connection, found)
            gone += 1
        own = tuple(map(values.get, ItemRow._fields[1:8]))
        pieces = values.get("pieces", ())
        seq = _add_item(partition, seq, new, own, pieces, vectors)
        count += 1
    _insert_items(partition, new)
    save_item_state(connection, state._replace(seq=seq, gone=gone))
    return count
