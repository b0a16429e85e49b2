"""Migrates a file to another embedding model, in steps that survive a crash.

1. The new model is on record as migrating. Its vectors are stored in `vec_next`, in
   order of row number; a cursor records the progress. Every row that any process writes
   meanwhile leaves an entry without a vector there (see `PartitionWriter`), so one pass
   over the rows is enough.
2. When no such entry is left, one small transaction makes the new model active. From
   then on, reads use the vectors in `vec_next`.
3. The vectors are moved to their rows in batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from vecall.errors import ConflictError, EmbeddingMismatchError
from vecall.store import transaction
from vecall.store.queries.partition_reads import load_rows
from vecall.store.rows import Change, Row, RowWithVector, checksum
from vecall.store.writes.partition_writer import NO_USER, PartitionWriter, UserJob

# Stores vectors for memories that were added before the file had a model.


@dataclass(slots=True, repr=False, eq=False)
class SetVectors(UserJob):
    """Sets the vectors of one user's rows, unless a row changed meanwhile."""

    rows: Sequence[RowWithVector]  # the rows as they were when they were embedded
    vectors: Sequence[bytes]  # one vector each, float32 little-endian
    model: int  # number of the embedding model

    def _write_partition(self, partition: PartitionWriter) -> Change:
        transaction.require_active_model(partition.connection, self.model)
        now = _read_current_rows(partition.connection, self.rows)
        written = []
        for stored, vec in zip(self.rows, self.vectors, strict=True):
            row = now.get(stored.row.rid)
            if row is None or embedded_values(row) != embedded_values(stored.row):
                continue
            partition.change(row.rid, "u")
            partition.execute(
                "UPDATE mem SET vec = ?, model = ?, crc = ?, seq = ? WHERE rid = ?",
                (vec, self.model, checksum(row, vec), partition.seq, row.rid),
            )
            written.append(RowWithVector(row, vec, self.model))
        return partition.changed(written)

    @property
    def estimated_bytes(self) -> int:
        """About how many bytes the file grows by."""
        return sum(map(len, self.vectors))


def _read_current_rows(
    connection: transaction.Transaction,
    rows: Sequence[RowWithVector],
    *,
    any_state: bool = False,
) -> dict[int, Row]:
    """Return the rows as they are now, by number."""
    rids = [stored.row.rid for stored in rows]
    found = load_rows(connection, rids, any_state=any_state)
    return {stored.row.rid: stored.row for stored in found}


def embedded_values(row: Row) -> tuple[str | None, str]:
    """The inputs of a row's vector: author and text."""
    return row.author, row.text


_MOVED_AT_ONCE = 500


def migrating_model(
    connection: transaction.Transaction,
) -> transaction.EmbeddingModel | None:
    """Return the model that the file is being migrated to, or None."""
    row = connection.execute(
        "SELECT name, dim, id, fingerprint FROM model WHERE state = 'migrating'"
    ).fetchone()
    return None if row is None else transaction.checked_model(row)


def begin_model_migration(
    connection: transaction.Transaction, candidate: transaction.EmbeddingModel
) -> transaction.EmbeddingModel | None:
    """Begin a migration to a model, or resume it after an interruption."""
    # None: it is the active model, or becomes it because there was none. A migration to
    # a third model is abandoned. ConflictError: vectors of the active model are still
    # to be moved to their rows.
    with suppress(EmbeddingMismatchError):
        transaction.adopt_model(connection, candidate)
        return None
    if unmoved_vectors(connection):
        msg = "the file's last change of model is not finished yet; try again"
        raise ConflictError(msg)
    known = migrating_model(connection)
    if known is not None and known._replace(id=candidate.id) == candidate:
        return known
    # The old model's row stays, so that its number is not reused: another process may
    # still be migrating to it.
    connection.execute("UPDATE model SET state = 'retired' WHERE state = 'migrating'")
    connection.execute("DELETE FROM vec_next")
    connection.execute(
        "INSERT INTO model (name, dim, fingerprint, state) "
        "VALUES (?, ?, ?, 'migrating')",
        (candidate.name, candidate.dim, candidate.fingerprint),
    )
    transaction.set_fact(connection, "reembed_cursor", "0")
    made = migrating_model(connection)
    assert made is not None
    return made


def require_running_migration(connection: transaction.Transaction, model: int) -> None:
    """Check that the migration to a model is still running; else ConflictError."""
    migrating = migrating_model(connection)
    if migrating is None or migrating.id != model:
        msg = "the file is being moved to another model by another process"
        raise ConflictError(msg)


def rows_to_be_embedded(
    connection: transaction.Transaction, limit: int
) -> tuple[list[RowWithVector], int | None]:
    """Return at most `limit` rows that still need a vector of the new model."""
    # The cursor is the new one: once these rows are embedded, all rows up to it are
    # done. It is None after the pass, when only rows that changed behind it are left.
    cursor = transaction.read_fact(connection, "reembed_cursor")
    assert cursor is not None  # the migration is running
    query = "SELECT rid FROM mem WHERE rid > ? ORDER BY rid LIMIT ?"
    rids = [rid for (rid,) in connection.execute(query, (int(cursor), limit))]
    if rids:
        return load_rows(connection, rids, any_state=True), rids[-1]
    query = "SELECT rid FROM vec_next WHERE vec = x'' ORDER BY rid LIMIT ?"
    rids = [rid for (rid,) in connection.execute(query, (limit,))]
    return load_rows(connection, rids, any_state=True), None


@dataclass(slots=True, repr=False, eq=False)
class PutNextVectors:
    """Stores vectors of the new model, except for rows that changed meanwhile."""

    model: int  # number of the new model
    rows: Sequence[RowWithVector]  # the rows as they were when they were embedded
    # One vector each, float32 little-endian. None removes the row's vector.
    vectors: Sequence[bytes | None]
    cursor: int | None  # the new cursor of the pass; None leaves it unchanged

    @property
    def estimated_bytes(self) -> int:
        """About how many bytes the file grows by."""
        return sum(len(vec or b"") for vec in self.vectors)

    def run(self, connection: transaction.Transaction) -> Change:
        """Do it inside a transaction."""
        migrating = migrating_model(connection)
        if migrating is None or migrating.id != self.model:
            return NO_USER  # another process finished or abandoned the migration
        now = _read_current_rows(connection, self.rows, any_state=True)
        for stored, vec in zip(self.rows, self.vectors, strict=True):
            row = now.get(stored.row.rid)
            if row is None:
                continue
            same = embedded_values(row) == embedded_values(stored.row)
            if same and vec is None:
                connection.execute("DELETE FROM vec_next WHERE rid = ?", (row.rid,))
                query = "UPDATE mem SET vec = NULL, model = NULL, crc = ? WHERE rid = ?"
                connection.execute(query, (checksum(row, None), row.rid))
                continue
            connection.execute(
                "INSERT INTO vec_next (rid, model, vec, crc) "
                "VALUES (?, ?, ?, ?) ON CONFLICT (rid) DO UPDATE SET "
                "model = excluded.model, vec = excluded.vec, crc = excluded.crc",
                (row.rid, self.model, vec if same else b"", checksum(row, vec)),
            )
        if self.cursor is not None:
            connection.execute(
                "UPDATE meta SET value = CAST(max(CAST(value AS INTEGER), ?) AS TEXT) "
                "WHERE key = 'reembed_cursor'",
                (self.cursor,),
            )
        return NO_USER


@dataclass(slots=True, repr=False, eq=False)
class SwitchModels:
    """Makes the new model active if every row has its vector."""

    model: transaction.EmbeddingModel
    done: bool = False  # set by `run`: whether the model is active
    estimated_bytes: int = 0

    def run(self, connection: transaction.Transaction) -> Change:
        """Do it inside a transaction."""
        active, model = transaction.active_model(connection), self.model.id
        self.done = active is not None and active.id == model
        if self.done:
            return NO_USER
        require_running_migration(connection, model)
        rows, cursor = rows_to_be_embedded(connection, 1)
        if rows or cursor is not None:
            return NO_USER
        # The remaining entries without a vector belong to deleted or damaged rows.
        connection.execute("DELETE FROM vec_next WHERE vec = x''")
        connection.execute("UPDATE model SET state = 'retired' WHERE state = 'active'")
        connection.execute("UPDATE model SET state = 'active' WHERE id = ?", (model,))
        connection.execute("DELETE FROM meta WHERE key = 'reembed_cursor'")
        # The snapshots contain the old vectors.
        connection.execute("UPDATE part SET snap = NULL WHERE snap IS NOT NULL")
        self.done = True
        return NO_USER


def unmoved_vectors(connection: transaction.Transaction) -> bool:
    """Whether vectors of the active model are still to be moved to their rows."""
    found = connection.execute(
        "SELECT 1 FROM vec_next WHERE model = "
        "(SELECT id FROM model WHERE state = 'active') LIMIT 1"
    )
    return found.fetchone() is not None


@dataclass(slots=True, repr=False, eq=False)
class MoveVectors:
    """Moves a batch of vectors from `vec_next` to their rows. Reads do not change."""

    estimated_bytes: int = 0

    def run(self, connection: transaction.Transaction) -> Change:
        """Do it inside a transaction."""
        active = transaction.active_model(connection)
        if active is None:
            return NO_USER
        query = "SELECT rid, vec, model, crc FROM vec_next WHERE model = ? LIMIT ?"
        rows = connection.execute(query, (active.id, _MOVED_AT_ONCE)).fetchall()
        for rid, vec, model, crc in rows:
            statement = "UPDATE mem SET vec = ?, model = ?, crc = ? WHERE rid = ?"
            connection.execute(statement, (vec, model, crc, rid))
            connection.execute("DELETE FROM vec_next WHERE rid = ?", (rid,))
        return NO_USER
