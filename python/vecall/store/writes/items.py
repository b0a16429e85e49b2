"""Items: JSON documents under a namespace and a key, without history or tombstones.

The row number of an item is `part << 32 | version`. Every write takes the next version
of its partition, and none is used twice, so a row number stands for one content for
ever. A reader that knows all versions up to one finds later writes by their larger
numbers. It finds deletions because the row numbers are missing. The pieces of a large
value have the versions before that of its item; no read returns them as items.

Expired items are still returned, except where `now` is an argument. Ranges of
namespaces are in code point order, as `namespace_range` returns them.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from secrets import token_hex
from typing import Any

from vecall.errors import (
    ConflictError,
    CorruptFileError,
    DimensionError,
    EmbeddingMismatchError,
    LimitExceededError,
)
from vecall.store.names import WRONG_USER
from vecall.store.queries.partition_reads import CheckedRows
from vecall.store.rows import Change
from vecall.store.transaction import Transaction, select_in
from vecall.store.values import (
    DAMAGED_ITEM,
    HEAD_DIGITS,
    HEADS,
    ITEM_COLUMNS,
    PIECES,
    ItemDrop,
    ItemPut,
    ItemRow,
    ItemState,
    ItemVectors,
    checked_item,
    checked_vectors,
    decode_namespace,
    item_checksum,
    number_of_pieces,
    parsed_value,
    stored_object,
    with_checksum,
)
from vecall.store.writes.partition_writer import PartitionWriter, UserJob

_AT_ONCE = 200
_SELECT = f"SELECT {ITEM_COLUMNS}, crc FROM item"
_ONE = f"{_SELECT} WHERE part = ? AND ns = ? AND key = ?"
_JOINED = f"item.{', item.'.join(ITEM_COLUMNS.split(', '))}, item.crc"
# The names come from the row, which SQLite reads by its number, not from the index that
# leads to it. A table alone in its SELECT is read by number whatever the statistics of
# the file say; LIMIT 1 keeps it alone. "+" lets it compare with a column without a type
# by that column's index.
_USER = (
    "SELECT {} FROM part WHERE id = (SELECT id FROM part WHERE app = ? AND user = ?)"
)
_STATE = _USER.format("id, app, user, item")
_OF_USER = (
    f"SELECT named.id, named.app, named.user, {_JOINED} "
    f"FROM ({_USER.format('id, app, user')} LIMIT 1) AS named "
    "LEFT JOIN item ON item.part = +named.id AND item.ns = ? AND item.key = ?"
)


def state_of(connection: Transaction, part: int) -> ItemState:
    """Return what is known about the items of a partition."""
    row = connection.execute("SELECT item FROM part WHERE id = ?", (part,)).fetchone()
    return parsed_state(part, None if row is None else row[0])


@lru_cache(maxsize=256)
def parsed_state(part: int, stored: str | None) -> ItemState:
    """Return what the column `item` of a partition says."""
    if stored is None:
        return ItemState(part)
    values = stored_object(stored)
    values.setdefault("heads", "")  # a file of an earlier version
    state = ItemState(part, *map(values.get, ItemState._fields[1:]))  # type: ignore[arg-type]
    counts = (state.seq, state.gone, state.dim)
    named = state.embedder is None or isinstance(state.embedder, str)
    named = named and isinstance(state.heads, str)
    if not named or {*map(type, counts)} != {int} or min(counts) < 0:
        raise CorruptFileError(DAMAGED_ITEM)
    return state


def find_state(connection: Transaction, app: str, user: str) -> ItemState | None:
    """Return what is known about a user's items; None if the index has no such user."""
    row = connection.execute(_STATE, (app, user)).fetchone()
    if row is None:
        return None
    if row[1:3] != (app, user):
        raise CorruptFileError(WRONG_USER)
    return parsed_state(row[0], row[3])


def item_at(
    connection: Transaction, app: str, user: str, ns: str, key: str
) -> tuple[bool, ItemRow | None]:
    """Return whether a user is known, and an item of the user, by one statement.

    The pieces of a large value are not read.
    """
    row = connection.execute(_OF_USER, (app, user, ns, key)).fetchone()
    if row is None:
        return False, None
    if row[1:3] != (app, user):
        raise CorruptFileError(WRONG_USER)
    return True, None if row[3] is None else _item_of_part(row[0], row[3:])


def _item_of_part(part: int, row: Sequence[Any]) -> ItemRow:
    """Return the item of a row with its checksum, which has to be of a partition."""
    if row[0] is None or row[0] >> 32 != part:  # an index led to no row, or another's
        raise CorruptFileError(DAMAGED_ITEM)
    return checked_item(row[:-1], row[-1])


def items_at(
    connection: Transaction,
    part: int,
    places: Sequence[tuple[str, str]],
    *,
    pieces: bool = True,
) -> list[ItemRow | None]:
    """Return the item of each (namespace, key), without vectors.

    Without `pieces`, the pieces of large values are not read.
    """
    found: list[ItemRow | None] = []
    for ns, key in places:
        row = connection.execute(_ONE, (part, ns, key)).fetchone()
        item = None if row is None else _item_of_part(part, row)
        found.append(_item_with_pieces(connection, item) if item and pieces else item)
    return found


def _item_with_pieces(connection: Transaction, row: ItemRow) -> ItemRow:
    """Return an item with the pieces of its value, if it is a large one."""
    count = number_of_pieces(row.value)
    if not count:
        return row
    first = row.rid - count
    query = f"{_SELECT} WHERE rid >= ? AND rid < ? ORDER BY rid"
    rows = connection.execute(query, (first, row.rid))
    pieces: list[str] = []
    while batch := rows.fetchmany(1):
        piece = checked_item(batch[0][:-1], batch[0][-1])
        if piece.ns != PIECES or piece.rid != first + len(pieces):
            raise CorruptFileError(DAMAGED_ITEM)
        pieces.append(piece.value)
    if len(pieces) != count:
        raise CorruptFileError(DAMAGED_ITEM)
    return row._replace(pieces=tuple(pieces))


def items_by_number(
    connection: Transaction, part: int, rids: Sequence[int]
) -> list[ItemRow]:
    """Return the items that still exist of some row numbers, with vectors."""
    # By row number alone, so that no index of the partition is searched.
    query = f"SELECT {ITEM_COLUMNS}, crc, vecs, part FROM item WHERE rid IN"
    rows = select_in(connection, query, [], rids)
    return [
        _item_with_pieces(connection, checked_item(row[:8], row[8], row[9]))
        for row in rows
        if row[10] == part and row[1] != PIECES
    ]


def newest_items(
    connection: Transaction,
    part: int,
    low: str,
    high: str | None,
    first: int = 16,
    before: int | None = None,
) -> Iterator[ItemRow]:
    """Yield the items of a range of namespaces, latest write first.

    `first` items are read at once at the beginning. With `before`, only versions below
    it are yielded. `high` is the lowest namespace above the range; None is no bound.
    """
    within, values = _namespace_range_condition(part, low, high)
    if before is not None:
        # "+" as below: the rows are found by the index of namespaces.
        within, values = f"{within} AND +rid < ?", [*values, (part << 32) + before]
    # The sorts have row numbers only; the rows are read as they are needed. "+" keeps
    # PostgreSQL from reading all users' items backwards until enough are of this user.
    newest = connection.execute(
        f"SELECT {_JOINED} FROM (SELECT rid FROM item WHERE {within} "
        "ORDER BY +rid DESC LIMIT ?) AS newest LEFT JOIN item ON item.rid = newest.rid "
        "ORDER BY newest.rid DESC",
        [*values, first],
    ).fetchall()

    def checked(row: Sequence[Any]) -> ItemRow:
        item = _item_of_part(part, row)
        if item.ns < low or (high is not None and item.ns >= high):
            raise CorruptFileError(DAMAGED_ITEM)  # an index led to another range
        return _item_with_pieces(connection, item)

    yield from map(checked, newest)
    if len(newest) < first:
        return
    query = f"SELECT rid FROM item WHERE {within} AND rid < ? ORDER BY +rid DESC"
    others = connection.execute(query, [*values, newest[-1][0]])
    rids = [rid for (rid,) in others]
    for start in range(0, len(rids), _AT_ONCE):
        some = rids[start : start + _AT_ONCE]
        found = select_in(connection, f"{_SELECT} WHERE rid IN", [], some)
        rows = {row[0]: row for row in found}
        yield from (checked(rows.get(rid, (None,))) for rid in some)


def item_vectors(
    connection: Transaction, part: int, namespace: str | None, after: int
) -> Iterator[ItemVectors]:
    """Yield the items of versions above `after` with their vectors, b"" for none.

    The namespace None is every namespace.
    """
    dim = state_of(connection, part).dim
    low, high = (part << 32) | after, (part << 32) | 0xFFFFFFFF
    where = "rid > ? AND rid <= ? ORDER BY rid"
    values: list[Any] = [low, high]
    if namespace is not None:
        where, values = "part = ? AND ns = ? AND rid > ?", [part, namespace, low]
    query = f"SELECT rid, ns, key, vecs, part FROM item WHERE {where}"
    rows = connection.execute(query, values)
    while batch := rows.fetchmany(_AT_ONCE):
        for rid, ns, key, vecs, of_part in batch:
            if of_part == part and ns != PIECES:  # else damaged and set aside
                yield ItemVectors(rid, ns, key, checked_vectors(rid, vecs, dim))


_ALIVE = "(expires_at IS NULL OR expires_at > ?)"


def item_namespaces(
    connection: Transaction, part: int, low: str, high: str | None, now: float
) -> list[str]:
    """Return the namespaces of a range that have an item, in code point order.

    It seeks each namespace in the index instead of reading all items.
    """
    query = "SELECT 1 FROM item INDEXED BY item_ends WHERE expires_at <= ? LIMIT 1"
    narrower, values = "", list[Any]()
    if high is not None:
        narrower, values = " AND ns < ?", [high]
    if connection.execute(query, (now,)).fetchone() is not None:
        narrower, values = f"{narrower} AND {_ALIVE}", [*values, now]
    seek = "SELECT ns FROM item WHERE part = ? AND ns {}{} ORDER BY ns LIMIT 1"
    rows = connection.execute(
        f"WITH RECURSIVE seen(ns) AS (SELECT ({seek.format('>= ?', narrower)}) "
        f"UNION ALL SELECT ({seek.format('> seen.ns', narrower)}) FROM seen "
        "WHERE seen.ns IS NOT NULL) SELECT ns FROM seen WHERE ns IS NOT NULL",
        [part, low, *values, part, *values],
    )
    return [ns for (ns,) in rows if ns != PIECES]


def count_items(
    connection: Transaction, part: int, low: str, high: str | None, now: float
) -> int:
    """Return the number of items in a range of namespaces."""
    within, values = _namespace_range_condition(part, low, high)
    query = f"SELECT count(*) FROM item WHERE {within} AND {_ALIVE}"
    return int(connection.execute(query, [*values, now]).fetchone()[0])


def export_items(
    connection: Transaction, part: int, vectors: bool
) -> Iterator[dict[str, Any]]:
    """Yield the values of each item's export line."""
    state = state_of(connection, part)
    rows = connection.execute(
        f"SELECT {ITEM_COLUMNS}, crc, vecs FROM item WHERE part = ? AND rid >= ? "
        "AND rid <= ? AND ns <> ? ORDER BY rid",
        (part, part << 32, (part << 32) | 0xFFFFFFFF, PIECES),
    )
    while batch := rows.fetchmany(_AT_ONCE):
        for *values, crc, vecs in batch:
            row = _item_with_pieces(connection, checked_item(values, crc))
            line: dict[str, Any] = {
                "ns": list(decode_namespace(row.ns)),
                "key": row.key,
                "value": parsed_value(row.value, row.pieces),
                "created_at": row.created_at,
                "updated_at": row.updated_at,
                "ttl": row.ttl,
                "expires_at": row.expires_at,
            }
            if vectors and vecs is not None:
                checked = checked_vectors(row.rid, vecs, state.dim)
                line["vecs"] = base64.b64encode(checked).decode("ascii")
                line |= {"dim": state.dim, "embedder": state.embedder}
            yield {name: value for name, value in line.items() if value is not None}


def checked_items(connection: Transaction) -> CheckedRows:
    """Check every item, its value and its vectors.

    A piece whose item is gone or damaged is damaged, too.
    """
    dims: dict[int, int] = {}
    checked, damaged = 0, []
    old: list[tuple[int, int]] = []
    pieces: list[ItemRow] = []  # since the last item
    rows = connection.execute(
        f"SELECT {ITEM_COLUMNS}, crc, vecs FROM item WHERE part > 0 ORDER BY rid"
    )
    while batch := rows.fetchmany(_AT_ONCE):
        for *values, crc, vecs in batch:
            try:
                row = checked_item(values, crc)
                if row.ns == PIECES:
                    pieces.append(row)
                    continue
                own = _own_pieces(row, pieces)
                part = row.rid >> 32
                if part not in dims:
                    dims[part] = state_of(connection, part).dim
                checked_vectors(row.rid, vecs, dims[part])
                decode_namespace(row.ns)
                parsed_value(row.value, own)
            except (CorruptFileError, ValueError, TypeError):
                damaged.append(values[0])
                checked += values[1] != PIECES
            else:
                checked += 1
                del pieces[len(pieces) - len(own) :]
                if (new := item_checksum(row)) != crc:
                    old.append((new, row.rid))
            damaged += [piece.rid for piece in pieces]
            pieces.clear()
    return CheckedRows(checked, damaged + [piece.rid for piece in pieces], old)


def _own_pieces(row: ItemRow, pieces: Sequence[ItemRow]) -> list[str]:
    """Return the pieces of an item, which have the numbers before its own."""
    count = number_of_pieces(row.value)
    own = pieces[len(pieces) - count :] if 0 < count <= len(pieces) else []
    if [piece.rid for piece in own] != list(range(row.rid - count, row.rid)):
        raise CorruptFileError(DAMAGED_ITEM)
    return [piece.value for piece in own]


def _namespace_range_condition(
    part: int, low: str, high: str | None
) -> tuple[str, list[Any]]:
    if not low:
        return "part = ? AND ns <> ?", [part, PIECES]
    if high is None:
        return "part = ? AND ns >= ?", [part, low]
    return "part = ? AND ns >= ? AND ns < ?", [part, low, high]


# Changes to the rows of items inside a transaction.


def save_item_state(connection: Transaction, state: ItemState) -> None:
    """Store what is known about the items of a partition after a change of them."""
    heads = state.heads + token_hex(HEAD_DIGITS // 2)
    state = state._replace(heads=heads[-HEADS * HEAD_DIGITS :])
    values = dict(zip(ItemState._fields[1:], state[1:], strict=True))
    query = "UPDATE part SET item = ? WHERE id = ?"
    connection.execute(query, (json.dumps(values), state.part))


def delete_item(connection: Transaction, row: ItemRow) -> None:
    """Delete a row and the pieces of its value."""
    connection.execute("DELETE FROM item WHERE rid = ?", (row.rid,))
    if count := number_of_pieces(row.value):
        _delete_pieces(connection, row.rid, count)


def _delete_pieces(connection: Transaction, rid: int, count: int) -> None:
    first = max(rid - count, rid >> 32 << 32)
    connection.execute(
        # The expression keeps the search from the index by namespace.
        "DELETE FROM item WHERE rid >= ? AND rid < ? AND ns || '' = ?",
        (first, rid, PIECES),
    )


def delete_items(partition: PartitionWriter) -> None:
    """Delete all items of a partition, also those set aside as damaged."""
    first = partition.id << 32
    _delete_where(partition, "rid BETWEEN ? AND ?", first, first | 0xFFFFFFFF)


def delete_expired_items(partition: PartitionWriter) -> int:
    """Delete the expired items of a partition; return their number."""
    expired, own = "part = ? AND expires_at <= ?", (partition.id, partition.expiry_now)
    query = f"SELECT rid, substr(value, 1, 32) FROM item WHERE {expired}"
    for rid, head in partition.execute(f"{query} AND value LIKE '@%'", own).fetchall():
        _delete_pieces(partition.connection, rid, number_of_pieces(head))
    return _delete_where(partition, expired, *own)


def _delete_where(partition: PartitionWriter, condition: str, *values: float) -> int:
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
                    raise _version_conflict(at, each, 0)
                self.versions.append(0)
            return partition.changed()
        partition.reveal()
        state = before = state_of(connection, partition.id)
        if self.dim:  # items without vectors go with any others
            state = self._agree_if_free(connection, state)
        for at, each in enumerate(self.operations):
            place = (each.namespace, each.key)
            found = items_at(connection, partition.id, [place], pieces=False)[0]
            is_expired = (
                found is not None
                and found.expires_at is not None
                and found.expires_at <= partition.expiry_now
            )
            version = 0 if found is None or is_expired else found.version
            if each.if_version not in (None, version):
                if not (isinstance(each, ItemDrop) and each.is_optional):
                    raise _version_conflict(at, each, version)
                self.versions.append(0)
                continue
            if isinstance(each, ItemDrop):
                self.versions.append(version)
            if found is not None:
                delete_item(connection, found)
                state = state._replace(gone=state.gone + 1)
            if isinstance(each, ItemPut):
                row = ItemRow(
                    0,
                    *place,
                    each.value,
                    found.created_at if found and version else partition.now,
                    partition.now,
                    each.ttl,
                    None if each.ttl is None else partition.expiry_now + each.ttl,
                    pieces=each.pieces,
                )
                state = insert_item(partition, state, row, each.vectors)
                self.versions.append(state.seq)
        if state != before or self.dim:
            save_item_state(connection, state)
        return partition.changed()

    def _agree_if_free(self, connection: Transaction, state: ItemState) -> ItemState:
        """As `require_same_vectors`, if a vector is stored; else any will do."""
        try:
            return require_same_vectors(state, self.dim, self.embedder)
        except (DimensionError, EmbeddingMismatchError):
            query = "SELECT 1 FROM item WHERE part = ? AND vecs IS NOT NULL LIMIT 1"
            if connection.execute(query, (state.part,)).fetchone() is not None:
                raise
            free = state._replace(dim=0, embedder=None)
            return require_same_vectors(free, self.dim, self.embedder)


def insert_item(
    partition: PartitionWriter, state: ItemState, row: ItemRow, vectors: bytes
) -> ItemState:
    """Insert a row and its pieces with their checksums; return the state after it.

    Each has a version of its own. The pieces have those before that of the row.
    """
    state = state._replace(seq=state.seq + len(row.pieces) + 1)
    if state.seq > _MAX_SEQ:
        raise LimitExceededError("one user's items: at most 2^32 - 1 writes")
    row = row._replace(rid=(partition.id << 32) | state.seq)
    first = row.rid - len(row.pieces)
    for at, piece in enumerate(row.pieces):
        key = f"{(first + at) & _MAX_SEQ:08x}"
        _insert_item_row(
            partition, ItemRow(first + at, PIECES, key, piece, 0.0, 0.0, None, None)
        )
    vecs = with_checksum(row.rid, vectors) if vectors else None
    _insert_item_row(partition, row, vecs)
    return state


def _insert_item_row(
    partition: PartitionWriter, row: ItemRow, vecs: bytes | None = None
) -> None:
    partition.execute(
        f"INSERT INTO item ({ITEM_COLUMNS}, part, vecs, crc) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*row[:8], partition.id, vecs, item_checksum(row)),
    )


def require_same_vectors(state: ItemState, dim: int, embedder: str | None) -> ItemState:
    """Return the state with the dimension and the embedder of new vectors.

    DimensionError or EmbeddingMismatchError: the stored ones have others.
    """
    if not dim:
        return state
    if None not in (state.embedder, embedder) and state.embedder != embedder:
        raise EmbeddingMismatchError(
            f"the items' vectors come from {state.embedder}, not from {embedder}; "
            "delete the items or use the same embedder"
        )
    if state.dim not in (0, dim):
        msg = f"vectors: expected {state.dim} numbers each, as in the user's items"
        raise DimensionError(msg)
    return state._replace(dim=dim, embedder=state.embedder or embedder)


def _version_conflict(
    at: int, given: ItemPut | ItemDrop, version: int
) -> ConflictError:
    there = "there is none" if not version else "it has another one"
    if given.if_version == 0 and isinstance(given, ItemPut):
        there = "it exists already"
    msg = f"operations[{at}].if_version: the item is not in that version: {there}"
    return ConflictError(msg)


@dataclass(slots=True)
class TouchItems(UserJob):
    """Moves the expiry of items that were read."""

    # New expiry by row number; an expiry never moves to an earlier time.
    expiries: Mapping[int, float]

    def _write(self, partition: PartitionWriter) -> Change:
        connection = partition.connection
        for rid, expires_at in self.expiries.items():
            query = f"{_SELECT} WHERE rid = ? AND part = ? AND expires_at < ?"
            values = (rid, partition.id, expires_at)
            found = connection.execute(query, values).fetchone()
            if found is not None:
                row = checked_item(found[:-1], found[-1])
                _set_expiry(connection, row, expires_at)
        return partition.changed()


def move_expiries(connection: Transaction, seconds: float) -> int:
    """Shift the expiry of all items; return how many have one."""
    moved, last = 0, -1
    where = "WHERE expires_at IS NOT NULL AND rid > ? ORDER BY rid LIMIT 500"
    while rows := connection.execute(f"{_SELECT} {where}", (last,)).fetchall():
        for *values, crc in rows:
            row = checked_item(values, crc)
            assert row.expires_at is not None
            _set_expiry(connection, row, row.expires_at + seconds)
        moved, last = moved + len(rows), rows[-1][0]
    return moved


def _set_expiry(connection: Transaction, row: ItemRow, expires_at: float) -> None:
    row = row._replace(expires_at=expires_at)
    query = "UPDATE item SET expires_at = ?, crc = ? WHERE rid = ?"
    connection.execute(query, (expires_at, item_checksum(row), row.rid))


@dataclass(slots=True)
class SweepItems(UserJob):
    """Deletes the expired items of one user."""

    swept: int = 0  # after the job: how many were deleted

    def _write(self, partition: PartitionWriter) -> Change:
        self.swept = delete_expired_items(partition)
        return partition.changed()


def import_items(partition: PartitionWriter, lines: Sequence[Mapping[str, Any]]) -> int:
    """Write exported items of one partition; return how many were written.

    An item that has expired, or that is stored with a version as new, is not. The
    values are the fields of an `ItemRow` without `rid`; `vecs` as float32, `dim` and
    `embedder`.
    """
    if not lines:
        return 0
    connection, count = partition.connection, 0
    state = state_of(connection, partition.id)
    for values in lines:
        expires_at = values.get("expires_at")
        place = (values["ns"], values["key"])
        found = items_at(connection, partition.id, [place], pieces=False)[0]
        if (found is not None and found.updated_at >= values["updated_at"]) or (
            expires_at is not None and expires_at <= partition.expiry_now
        ):
            continue
        vectors = values.get("vecs", b"")
        dim = values.get("dim", 0) if vectors else 0
        state = require_same_vectors(state, dim, values.get("embedder"))
        if found is not None:
            delete_item(connection, found)
            state = state._replace(gone=state.gone + 1)
        row = ItemRow(
            0,
            *place,
            values["value"],
            values["created_at"],
            values["updated_at"],
            values.get("ttl"),
            expires_at,
            pieces=values.get("pieces", ()),
        )
        state = insert_item(partition, state, row, vectors)
        count += 1
    save_item_state(connection, state)
    return count
