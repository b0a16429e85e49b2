"""Moving a file to another embedding model, in steps that a crash cannot tear.

1. The new model is on record as migrating. Vectors of all rows are prepared in
   `vec_next`, in the order of rows; `cursor` remembers how far. Every row that is
   written meanwhile, by any process, leaves an entry without a vector there
   (see `PartitionWriter`), so nothing has to be looked for twice.
2. When no such entry is left, one small transaction makes the new model the active one.
   From then on the prepared vectors count.
3. They are moved to their rows in batches.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from vecall.errors import ConflictError
from vecall.store.models import active_model, checked_model
from vecall.store.reads.partition_reads import load_rows
from vecall.store.results import EmbeddingModel
from vecall.store.rows import Change, RowWithVector, checksum
from vecall.store.writes.set_vectors import embedded_part

_MOVED_AT_ONCE = 500
_NO_USER = Change("", "", 0, 0, 0)


def migrating_model(connection: sqlite3.Connection) -> EmbeddingModel | None:
    """Return the model that the file is being moved to, or None."""
    row = connection.execute(
        "SELECT name, dim, id, fingerprint FROM model WHERE state = 'migrating'"
    ).fetchone()
    return None if row is None else checked_model(row)


def begin_migration(
    connection: sqlite3.Connection, candidate: EmbeddingModel
) -> EmbeddingModel:
    """Put the new model on record, or take up a migration that was interrupted.

    A migration to yet another model is given up.

    Raises:
        ConflictError: Vectors of the active model still wait to be moved to their rows.
    """
    if unmoved_vectors(connection):
        msg = "the file's last change of model is not finished yet; try again"
        raise ConflictError(msg)
    known = migrating_model(connection)
    if known is not None and _equal(known, candidate):
        return known
    # Its row stays: who still migrates to it must not find its number on another model.
    connection.execute("UPDATE model SET state = 'retired' WHERE state = 'migrating'")
    connection.execute("DELETE FROM vec_next")
    connection.execute(
        "INSERT INTO model (name, dim, fingerprint, state) "
        "VALUES (?, ?, ?, 'migrating')",
        (candidate.name, candidate.dim, candidate.fingerprint),
    )
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('reembed_cursor', '0')")
    made = migrating_model(connection)
    assert made is not None
    return made


def require_migrating(connection: sqlite3.Connection, model: int) -> None:
    """Check that the file is still being moved to a model.

    Raises:
        ConflictError: It is not.
    """
    migrating = migrating_model(connection)
    if migrating is None or migrating.id != model:
        msg = "the file is being moved to another model by another process"
        raise ConflictError(msg)


def _equal(a: EmbeddingModel, b: EmbeddingModel) -> bool:
    return (a.name, a.dim, a.fingerprint) == (b.name, b.dim, b.fingerprint)


def to_be_embedded(
    connection: sqlite3.Connection, limit: int
) -> tuple[list[RowWithVector], int | None]:
    """Return rows that still need a vector of the new model.

    Returns:
        At most so many rows, and the row number up to which all are done once these
        are; None for the latter if they were written after the pass had gone by.
    """
    cursor = int(
        connection.execute(
            "SELECT value FROM meta WHERE key = 'reembed_cursor'"
        ).fetchone()[0]
    )
    rids = [
        rid
        for (rid,) in connection.execute(
            "SELECT rid FROM mem WHERE rid > ? ORDER BY rid LIMIT ?", (cursor, limit)
        )
    ]
    if rids:
        return load_rows(connection, rids, any_state=True), rids[-1]
    left = connection.execute(
        "SELECT rid FROM vec_next WHERE vec = x'' ORDER BY rid LIMIT ?", (limit,)
    )
    return load_rows(connection, [rid for (rid,) in left], any_state=True), None


@dataclass(slots=True)
class PutNextVectors:
    """Stores vectors of the new model, except of rows that changed meanwhile.

    Attributes:
        model: Number of the new model.
        rows: The rows as they were when they were embedded.
        vectors: One vector each, float32 little-endian.
        cursor: How far the pass has come then, if it has come further.
    """

    model: int
    rows: Sequence[RowWithVector]
    vectors: Sequence[bytes]
    cursor: int | None

    @property
    def estimated_bytes(self) -> int:
        """About how many bytes the file grows by."""
        return sum(map(len, self.vectors))

    def run(self, connection: sqlite3.Connection) -> Change:
        """Do it inside a transaction."""
        migrating = migrating_model(connection)
        if migrating is None or migrating.id != self.model:
            return _NO_USER  # another process finished it, or gave it up
        rids = [stored.row.rid for stored in self.rows]
        now = {
            stored.row.rid: stored.row
            for stored in load_rows(connection, rids, any_state=True)
        }
        for stored, vec in zip(self.rows, self.vectors, strict=True):
            row = now.get(stored.row.rid)
            if row is None:
                continue
            same = embedded_part(row) == embedded_part(stored.row)
            connection.execute(
                "INSERT OR REPLACE INTO vec_next (rid, model, vec, crc) "
                "VALUES (?, ?, ?, ?)",
                (row.rid, self.model, vec if same else b"", checksum(row, vec)),
            )
        if self.cursor is not None:
            connection.execute(
                "UPDATE meta SET value = max(CAST(value AS INTEGER), ?) "
                "WHERE key = 'reembed_cursor'",
                (self.cursor,),
            )
        return _NO_USER


def switch_models(connection: sqlite3.Connection, model: int) -> bool:
    """Make the new model the active one if every row has its vector.

    Inside a transaction. False if there is more to embed.
    """
    active = active_model(connection)
    if active is not None and active.id == model:
        return True
    require_migrating(connection, model)
    rows, cursor = to_be_embedded(connection, 1)
    if rows or cursor is not None:
        return False
    # An entry without a vector whose row is gone or set aside has no use.
    connection.execute("DELETE FROM vec_next WHERE vec = x''")
    connection.execute("UPDATE model SET state = 'retired' WHERE state = 'active'")
    connection.execute("UPDATE model SET state = 'active' WHERE id = ?", (model,))
    connection.execute("DELETE FROM meta WHERE key = 'reembed_cursor'")
    # They are of the old vectors.
    connection.execute("UPDATE part SET snap = NULL WHERE snap IS NOT NULL")
    return True


@dataclass(slots=True)
class SwitchModels:
    """Makes the new model the active one, if every row has its vector.

    Attributes:
        model: The new model.
        done: Whether it is.
    """

    model: EmbeddingModel
    done: bool = False
    estimated_bytes: int = 0

    def run(self, connection: sqlite3.Connection) -> Change:
        """Do it inside a transaction."""
        self.done = switch_models(connection, self.model.id)
        return _NO_USER


def unmoved_vectors(connection: sqlite3.Connection) -> bool:
    """Whether vectors of the active model still wait to be moved to their rows."""
    found = connection.execute(
        "SELECT 1 FROM vec_next WHERE model = "
        "(SELECT id FROM model WHERE state = 'active') LIMIT 1"
    )
    return found.fetchone() is not None


@dataclass(slots=True)
class MoveVectors:
    """Moves some vectors from `vec_next` to their rows; what is read stays the same."""

    estimated_bytes: int = 0

    def run(self, connection: sqlite3.Connection) -> Change:
        """Do it inside a transaction."""
        active = active_model(connection)
        if active is None:
            return _NO_USER
        rows = connection.execute(
            "SELECT rid, vec, model, crc FROM vec_next WHERE model = ? LIMIT ?",
            (active.id, _MOVED_AT_ONCE),
        ).fetchall()
        for rid, vec, model, crc in rows:
            connection.execute(
                "UPDATE mem SET vec = ?, model = ?, crc = ? WHERE rid = ?",
                (vec, model, crc, rid),
            )
            connection.execute("DELETE FROM vec_next WHERE rid = ?", (rid,))
        return _NO_USER
