"""All rows of one user, in a form that does not depend on the storage.

Row numbers are without the number of the partition, and times on the expiry clock are
as of the storage that the rows come from.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, NamedTuple

from vecall.store.item_records import ITEM_COLUMNS
from vecall.store.item_values import PIECES
from vecall.store.rows import COLUMNS


class CopiedTable(NamedTuple):
    """A table with rows of one user.

    Attributes:
        columns: The columns without `part`. A column `rid` is the first.
        key: The columns by which rows are ordered.
        clocked: The column on the expiry clock, if there is one.
    """

    columns: tuple[str, ...]
    key: str
    clocked: str | None = None


TABLES = {
    "mem": CopiedTable(
        (*COLUMNS.split(", "), "seq", "state", "hash", "vec", "model", "crc"),
        "rid",
        "expires_at",
    ),
    "item": CopiedTable(
        (*ITEM_COLUMNS.split(", "), "vecs", "crc"), "rid", "expires_at"
    ),
    "chg": CopiedTable(("rid", "seq", "op"), "seq"),
    "tomb": CopiedTable(("id", "at", "why"), "id"),
    "hist": CopiedTable(
        ("id", "seq", "at", "op", "old", "expires_at"), "id, seq", "expires_at"
    ),
    "idem": CopiedTable(("key", "at", "hash", "ids"), "key", "at"),
    "trig": CopiedTable(
        ("session", "kind", "due_at", "state"), "session, kind", "due_at"
    ),
    "replaced": CopiedTable(("id", "by", "why", "at"), "id"),
    "told": CopiedTable(("session", "id", "at", "pos", "event"), "session, id"),
}
"""The tables with rows of one user, apart from caches and vectors of another model."""


class PartitionNames(NamedTuple):
    """A user of a storage, and the version of its rows."""

    part: int
    app: str
    user: str
    seq: int
    live: int
    nbytes: int
    created_at: float
    item: str | None


@dataclass(slots=True)
class PartitionCopy:
    """All rows of one user.

    Attributes:
        names: The user.
        tables: The rows of each table of `TABLES`, without `part`, in order.
        expiry_now: The reading of the storage's expiry clock.
        digest: Of the names and of all values but checksums and times on the clock.
    """

    names: PartitionNames
    tables: dict[str, list[tuple[Any, ...]]]
    expiry_now: float
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        """Compute the digest."""
        digest = blake2b(digest_size=16)
        for value in self.names[1:]:
            digest.update(_encoded(value))
        for table, rows in self.tables.items():
            known = TABLES[table]
            summed = [
                (at, name == known.clocked)
                for at, name in enumerate(known.columns)
                if name not in ("crc", "model")
            ]
            digest.update(b"%s %d " % (table.encode(), len(rows)))
            for row in rows:
                # Whether a time is set counts; its value depends on the clock.
                digest.update(
                    b"".join(
                        [
                            _encoded(row[at] is None if clocked else row[at])
                            for at, clocked in summed
                        ]
                    )
                )
        self.digest = digest.hexdigest()

    @property
    def items(self) -> int:
        """The number of items."""
        return sum(row[1] != PIECES for row in self.tables["item"])

    @property
    def nbytes(self) -> int:
        """Estimate the size of the rows, in bytes."""
        values = (
            value for rows in self.tables.values() for row in rows for value in row
        )
        return sum(
            len(value) if isinstance(value, (str, bytes)) else 8 for value in values
        )

    def latest_difference(self, other: PartitionCopy, shift: float) -> float:
        """Return the greatest difference of a time on the clock, in seconds.

        Args:
            other: A copy with the same digest.
            shift: What the clock of `other` is ahead of this one's.
        """
        return max(
            (
                abs(theirs - ours - shift)
                for table in TABLES
                for ours, theirs in zip(
                    _times(self, table), _times(other, table), strict=True
                )
            ),
            default=0.0,
        )


def _encoded(value: object) -> bytes:
    if isinstance(value, bytes):
        return b"b%d:%s" % (len(value), value)
    if isinstance(value, str):
        data = value.encode()
        return b"s%d:%s" % (len(data), data)
    return b"%s;" % repr(value).encode()


def _times(copied: PartitionCopy, table: str) -> Iterator[float]:
    clocked = TABLES[table].clocked
    if clocked is None:
        return
    at = TABLES[table].columns.index(clocked)
    for row in copied.tables[table]:
        if row[at] is not None:
            yield row[at]


def shifted(copied: PartitionCopy, shift: float) -> PartitionCopy:
    """Return the rows with `shift` seconds added to the times on the expiry clock."""
    tables = {}
    for table, rows in copied.tables.items():
        clocked = TABLES[table].clocked
        if clocked is None or not shift:
            tables[table] = rows
            continue
        at = TABLES[table].columns.index(clocked)
        tables[table] = [
            row if row[at] is None else (*row[:at], row[at] + shift, *row[at + 1 :])
            for row in rows
        ]
    return replace(copied, tables=tables, expiry_now=copied.expiry_now + shift)
