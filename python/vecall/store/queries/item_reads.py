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
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from vecall.errors import CorruptFileError
from vecall.store import values as stored_values
from vecall.store.names import WRONG_USER
from vecall.store.queries.partition_reads import CheckedRows
from vecall.store.transaction import Transaction, select_in
from vecall.store.values import DAMAGED_ITEM, ITEM_COLUMNS, PIECES, ItemRow, ItemState

_AT_ONCE = 200
SELECT_ITEM = f"SELECT {ITEM_COLUMNS}, crc FROM item"
_ONE = f"{SELECT_ITEM} WHERE part = ? AND ns = ? AND key = ?"
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


def item_state_of(connection: Transaction, part: int) -> ItemState:
    """Return what is known about the items of a partition."""
    row = connection.execute("SELECT item FROM part WHERE id = ?", (part,)).fetchone()
    return parse_item_state(part, None if row is None else row[0])


@lru_cache(maxsize=256)
def parse_item_state(part: int, stored: str | None) -> ItemState:
    """Return what the column `item` of a partition says."""
    if stored is None:
        return ItemState(part)
    values = stored_values.parse_stored_object(stored)
    values.setdefault("heads", "")  # a file of an earlier version
    state = ItemState(part, *map(values.get, ItemState._fields[1:]))  # type: ignore[arg-type]
    counts = (state.seq, state.gone, state.dim)
    named = state.embedder is None or isinstance(state.embedder, str)
    named = named and isinstance(state.heads, str)
    if not named or {*map(type, counts)} != {int} or min(counts) < 0:
        raise CorruptFileError(DAMAGED_ITEM)
    return state


def find_item_state(connection: Transaction, app: str, user: str) -> ItemState | None:
    """Return what is known about a user's items; None if the index has no such user."""
    row = connection.execute(_STATE, (app, user)).fetchone()
    if row is None:
        return None
    if row[1:3] != (app, user):
        raise CorruptFileError(WRONG_USER)
    return parse_item_state(row[0], row[3])


def read_item_at(
    connection: Transaction, app: str, user: str, ns: str, key: str
) -> tuple[bool, ItemRow | None]:
    """Return whether a user is known, and an item of the user, by one statement."""
    # The pieces of a large value are not read.
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
    return stored_values.check_item_checksum(row[:-1], row[-1])


def read_items_at(
    connection: Transaction,
    part: int,
    places: Sequence[tuple[str, str]],
    *,
    pieces: bool = True,
) -> list[ItemRow | None]:
    """Return the item of each (namespace, key), without vectors."""
    # Without `pieces`, the pieces of large values are not read.
    found: list[ItemRow | None] = []
    for ns, key in places:
        row = connection.execute(_ONE, (part, ns, key)).fetchone()
        item = None if row is None else _item_of_part(part, row)
        found.append(_item_with_pieces(connection, item) if item and pieces else item)
    return found


def _item_with_pieces(connection: Transaction, row: ItemRow) -> ItemRow:
    """Return an item with the pieces of its value, if it is a large one."""
    count = stored_values.count_value_pieces(row.value)
    if not count:
        return row
    first = row.rid - count
    query = f"{SELECT_ITEM} WHERE rid >= ? AND rid < ? ORDER BY rid"
    rows = connection.execute(query, (first, row.rid))
    pieces: list[str] = []
    while batch := rows.fetchmany(1):
        piece = stored_values.check_item_checksum(batch[0][:-1], batch[0][-1])
        if piece.ns != PIECES or piece.rid != first + len(pieces):
            raise CorruptFileError(DAMAGED_ITEM)
        pieces.append(piece.value)
    if len(pieces) != count:
        raise CorruptFileError(DAMAGED_ITEM)
    return row._replace(pieces=tuple(pieces))


def read_items_by_number(
    connection: Transaction, part: int, rids: Sequence[int]
) -> list[ItemRow]:
    """Return the items that still exist of some row numbers, with vectors."""
    # By row number alone, so that no index of the partition is searched.
    query = f"SELECT {ITEM_COLUMNS}, crc, vecs, part FROM item WHERE rid IN"
    rows = select_in(connection, query, [], rids)
    return [
        _item_with_pieces(
            connection, stored_values.check_item_checksum(row[:8], row[8], row[9])
        )
        for row in rows
        if row[10] == part and row[1] != PIECES
    ]


def read_newest_items(
    connection: Transaction,
    part: int,
    low: str,
    high: str | None,
    first: int = 16,
    before: int | None = None,
) -> Iterator[ItemRow]:
    """Yield the items of a range of namespaces, latest write first."""
    # `first` items are read at once at the beginning; only versions below `before` are
    # yielded. `high` is the lowest namespace above the range; None is no bound.
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
        is_large = item.value.startswith(stored_values.MARK)
        return _item_with_pieces(connection, item) if is_large else item

    yield from map(checked, newest)
    if len(newest) < first:
        return
    query = f"SELECT rid FROM item WHERE {within} AND rid < ? ORDER BY +rid DESC"
    others = connection.execute(query, [*values, newest[-1][0]])
    rids = [rid for (rid,) in others]
    for start in range(0, len(rids), _AT_ONCE):
        some = rids[start : start + _AT_ONCE]
        found = select_in(connection, f"{SELECT_ITEM} WHERE rid IN", [], some)
        rows = {row[0]: row for row in found}
        yield from map(checked, [rows.get(rid, (None,)) for rid in some])


def read_item_vectors(
    connection: Transaction, part: int, namespace: str | None, after: int
) -> Iterator[stored_values.ItemVectors]:
    """Yield the items of versions above `after` with their vectors, b"" for none."""
    # The namespace None is every namespace.
    dim = item_state_of(connection, part).dim
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
                checked = stored_values.checked_vectors(rid, vecs, dim)
                yield stored_values.ItemVectors(rid, ns, key, checked)


_ALIVE = "(expires_at IS NULL OR expires_at > ?)"


def list_item_namespaces(
    connection: Transaction, part: int, low: str, high: str | None, now: float
) -> list[str]:
    """Return the namespaces of a range that have an item, in code point order."""
    # It seeks each namespace in the index instead of reading all items.
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
    state = item_state_of(connection, part)
    rows = connection.execute(
        f"SELECT {ITEM_COLUMNS}, crc, vecs FROM item WHERE part = ? AND rid >= ? "
        "AND rid <= ? AND ns <> ? ORDER BY rid",
        (part, part << 32, (part << 32) | 0xFFFFFFFF, PIECES),
    )
    while batch := rows.fetchmany(_AT_ONCE):
        for *values, crc, vecs in batch:
            row = _item_with_pieces(
                connection, stored_values.check_item_checksum(values, crc)
            )
            line: dict[str, Any] = {
                "ns": list(stored_values.decode_namespace(row.ns)),
                "key": row.key,
                "value": stored_values.parse_item_value(row.value, row.pieces),
                "created_at": row.created_at,
                "updated_at": row.updated_at,
                "ttl": row.ttl,
                "expires_at": row.expires_at,
            }
            if vectors and vecs is not None:
                checked = stored_values.checked_vectors(row.rid, vecs, state.dim)
                line["vecs"] = base64.b64encode(checked).decode("ascii")
                line |= {"dim": state.dim, "embedder": state.embedder}
            yield {name: value for name, value in line.items() if value is not None}


def check_stored_items(connection: Transaction) -> CheckedRows:
    """Check every item, its value and its vectors."""
    # A piece whose item is gone or damaged is damaged, too.
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
                row = stored_values.check_item_checksum(values, crc)
                if row.ns == PIECES:
                    pieces.append(row)
                    continue
                own = _pieces_of_item(row, pieces)
                part = row.rid >> 32
                if part not in dims:
                    dims[part] = item_state_of(connection, part).dim
                stored_values.checked_vectors(row.rid, vecs, dims[part])
                stored_values.decode_namespace(row.ns)
                stored_values.parse_item_value(row.value, own)
            except (CorruptFileError, ValueError, TypeError):
                damaged.append(values[0])
                checked += values[1] != PIECES
            else:
                checked += 1
                del pieces[len(pieces) - len(own) :]
                if (new := stored_values.item_checksum(row)) != crc:
                    old.append((new, row.rid))
            damaged += [piece.rid for piece in pieces]
            pieces.clear()
    return CheckedRows(checked, damaged + [piece.rid for piece in pieces], old)


def _pieces_of_item(row: ItemRow, pieces: Sequence[ItemRow]) -> list[str]:
    """Return the pieces of an item, which have the numbers before its own."""
    count = stored_values.count_value_pieces(row.value)
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
