"""Reading memories back: a whole partition, what changed, single rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from vecall.errors import CorruptFileError
from vecall.store.batches import select_in
from vecall.store.rows import COLUMNS, Row, checksum


class StoredRow(NamedTuple):
    """A memory with its vector."""

    row: Row
    vec: bytes | None


def _checked(values: tuple[object, ...]) -> StoredRow:
    """A row whose checksum holds.

    Raises:
        CorruptFileError: It does not.
    """
    row = Row(*values[:-2])  # type: ignore[arg-type]
    vec, crc = values[-2:]
    try:
        # Damage can also give a value another type than the column's.
        if (vec is None or isinstance(vec, bytes)) and crc == checksum(row, vec):
            return StoredRow(row, vec)
    except (TypeError, ValueError):
        pass
    msg = f"the file is damaged: memory row {row.rid} fails its checksum"
    raise CorruptFileError(msg)


def load_partition(connection: sqlite3.Connection, part: int) -> Iterator[StoredRow]:
    """Yield every live memory of a partition in the order of its making."""
    cursor = connection.execute(
        f"SELECT {COLUMNS}, vec, crc FROM mem "
        "WHERE rid BETWEEN ? AND ? AND state = 'live'",
        (part << 32, (part << 32) | 0xFFFFFFFF),
    )
    return map(_checked, cursor)


def load_rows(connection: sqlite3.Connection, rids: Iterable[int]) -> list[StoredRow]:
    """Return those of the rows that are live, in no particular order."""
    found = select_in(
        connection,
        f"SELECT {COLUMNS}, vec, crc FROM mem WHERE state = 'live' AND rid IN",
        [],
        list(rids),
    )
    return [_checked(values) for values in found]


def newest_change(connection: sqlite3.Connection, part: int) -> int:
    """Return the sequence number of a partition's newest change."""
    seq: int = connection.execute(
        "SELECT seq FROM part WHERE id = ?", (part,)
    ).fetchone()[0]
    return seq


def changed_since(
    connection: sqlite3.Connection, part: int, seq: int
) -> list[int] | None:
    """Return the rows that changed after `seq`, deleted ones included.

    None if the log was pruned of some of these changes.
    """
    oldest: int | None = connection.execute(
        "SELECT min(seq) FROM chg WHERE part = ?", (part,)
    ).fetchone()[0]
    if oldest is not None and oldest > seq + 1:
        return None
    cursor = connection.execute(
        "SELECT DISTINCT rid FROM chg WHERE part = ? AND seq > ?", (part, seq)
    )
    return [rid for (rid,) in cursor]


def find(
    connection: sqlite3.Connection, app: str, user: str, id_: str, now: float
) -> Row | None:
    """Return a user's live memory by its id, unless it has expired."""
    values = connection.execute(
        f"SELECT {COLUMNS}, vec, crc FROM mem WHERE id = ? AND state = 'live' "
        "AND (expires_at IS NULL OR expires_at > ?) "
        "AND part = (SELECT id FROM part WHERE app = ? AND user = ?)",
        (id_, now, app, user),
    ).fetchone()
    return None if values is None else _checked(values).row


def known_hashes(
    connection: sqlite3.Connection, app: str, user: str, ids: Sequence[str]
) -> dict[str, tuple[bytes, str | None] | None]:
    """Return author and hash of the text of those memories that have a vector.

    A deleted memory has None: no vector of it is wanted.
    """
    row = connection.execute(
        "SELECT id FROM part WHERE app = ? AND user = ?", (app, user)
    ).fetchone()
    known: dict[str, tuple[bytes, str | None] | None] = {}
    if row is None:
        return known
    part = [row[0]]
    buried = "SELECT id FROM tomb WHERE part = ? AND id IN"
    for (id_,) in select_in(connection, buried, part, ids):
        known[id_] = None
    embedded = (
        "SELECT id, hash, author FROM mem WHERE part = ? AND vec IS NOT NULL AND id IN"
    )
    for id_, text, author in select_in(connection, embedded, part, ids):
        known[id_] = (text, author)
    return known


def without_vector(
    connection: sqlite3.Connection, after: int, most: int
) -> list[StoredRow]:
    """Return live rows after row `after` that have no vector, by row number."""
    cursor = connection.execute(
        f"SELECT {COLUMNS}, vec, crc FROM mem "
        "WHERE rid > ? AND vec IS NULL AND state = 'live' ORDER BY rid LIMIT ?",
        (after, most),
    )
    return [_checked(values) for values in cursor]


def partition_names(connection: sqlite3.Connection, part: int) -> tuple[str, str]:
    """Return the app and the user of a partition."""
    names: tuple[str, str] = connection.execute(
        "SELECT app, user FROM part WHERE id = ?", (part,)
    ).fetchone()
    return names


def totals(connection: sqlite3.Connection) -> dict[str, int]:
    """Return counts over the whole file."""
    partitions, memories, text_bytes = connection.execute(
        "SELECT count(*), coalesce(sum(live), 0), coalesce(sum(bytes), 0) FROM part"
    ).fetchone()
    embedded = connection.execute("SELECT count(*) FROM mem WHERE vec IS NOT NULL")
    sessions = connection.execute(
        "SELECT count(*) FROM (SELECT DISTINCT part, session FROM mem "
        "WHERE session IS NOT NULL)"
    )
    return {
        "users": partitions,
        "sessions": sessions.fetchone()[0],
        "memories": memories,
        "embedded": embedded.fetchone()[0],
        "text_bytes": text_bytes,
    }
