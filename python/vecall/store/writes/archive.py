"""Archives memories, restores them, and releases quarantined ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from vecall.errors import ConflictError, NotFoundError
from vecall.filters.rights import FULL, Rights
from vecall.store.erased_names import forms_of
from vecall.store.reads.partition_reads import load_rows
from vecall.store.rows import Change
from vecall.store.sql import select_in
from vecall.store.transaction import Transaction
from vecall.store.visible import visible
from vecall.store.writes.delete import RowToDelete, delete_rows, write_tombstones
from vecall.store.writes.partition_writer import PartitionWriter
from vecall.store.writes.passages import with_passages
from vecall.store.writes.quota import UserQuota, evict
from vecall.store.writes.row_state import (
    Reason,
    State,
    archive,
    bring_back,
    rewrite,
    supersede,
)

_ROW_BYTES = 200  # of a state change, with its log entry


@dataclass(slots=True)
class ArchiveMemories:
    """Archives live memories of one user: they are stored, but not found.

    Attributes:
        app: The app.
        user: The user.
        ids: The ids of the memories.
        why: The reason.
        rights: Other memories than those that the caller sees are unknown.
    """

    app: str
    user: str
    ids: Sequence[str]
    why: Reason = "archived"
    rights: Rights = FULL

    def run(self, connection: Transaction) -> Change:
        """Do it inside a transaction."""
        partition = PartitionWriter(connection, self.app, self.user, create=False)
        query = (
            "SELECT rid FROM mem WHERE part = ? AND state = 'live'"
            f"{visible(self.rights)} AND id IN"
        )
        ids = with_passages(connection, partition.id, self.ids)
        found = select_in(connection, query, [partition.id], ids)
        removed = archive(partition, [rid for (rid,) in found], self.why)
        partition.finish()
        return partition.changed(removed=removed)

    @property
    def estimated_bytes(self) -> int:
        """About how many bytes the file grows by."""
        return _ROW_BYTES * len(self.ids)


@dataclass(slots=True)
class RestoreMemory:
    """Makes an archived or quarantined memory of one user live again.

    If it is an archived summary, the memories that it summarizes are restored instead.

    Attributes:
        app: The app.
        user: The user.
        id: Its id.
        bounds: The user's quota.
        state: The required state: "archived" or "quarantined".
        seen: The `updated_at` that the caller has seen, in seconds; None skips the
            check.
        rights: Other memories than those that the caller sees are unknown.
    """

    app: str
    user: str
    id: str
    bounds: UserQuota | None = None
    state: State = "archived"
    seen: float | None = None
    estimated_bytes: int = _ROW_BYTES
    rights: Rights = FULL

    def run(self, connection: Transaction) -> Change:
        """Do it inside a transaction.

        Raises:
            NotFoundError: There is no such memory, or it has another state and is not
                a summary.
            ConflictError: The memory changed since `seen`.
        """
        partition = PartitionWriter(connection, self.app, self.user, create=False)
        doomed: list[RowToDelete] = []
        self._check_seen(partition)
        ids = [self.id]
        if self.state == "archived":  # a reviewer releases each passage that was read
            ids = with_passages(connection, partition.id, ids)
        written = bring_back(partition, ids, self.state, self.rights)
        if not written and self.state == "archived" and self._sees_summary(partition):
            folded = select_in(
                connection,
                "SELECT id FROM replaced WHERE part = ? AND why = 'folded' AND by IN",
                [partition.id],
                list(forms_of(connection, partition.id, [self.id])),
            )
            ids = [id_ for (id_,) in folded]
            written = bring_back(partition, ids, "archived", self.rights)
            if written:
                doomed = self._summary(partition)
        if not written:
            msg = f"memory_id: this user has no {self.state} memory of that id"
            raise NotFoundError(msg)
        removed = [row.rid for row in doomed]
        rows = [entry.row for entry in written]
        newer = {row.supersedes: row.id for row in rows}
        removed += supersede(partition, newer, self.rights)
        if self.bounds is not None:
            removed += evict(partition, self.bounds, written)
        partition.finish()
        gone = set(removed)
        indexed = [entry for entry in written if entry.row.rid not in gone]
        return partition.changed(indexed, removed, [row.id for row in rows])

    def _check_seen(self, partition: PartitionWriter) -> None:
        if self.seen is None:
            return
        changed = partition.connection.execute(
            "SELECT 1 FROM mem WHERE part = ? AND id = ? AND state = ? "
            f"AND updated_at <> ?{visible(self.rights)}",
            (partition.id, self.id, self.state, self.seen),
        )
        if changed.fetchone():
            msg = "updated_at: the memory was changed since then; read it again"
            raise ConflictError(msg)

    def _sees_summary(self, partition: PartitionWriter) -> bool:
        """Whether the id is not that of a memory that is hidden from the caller."""
        if self.rights is FULL:
            return True
        found = partition.connection.execute(
            "SELECT trust, state FROM mem WHERE part = ? AND id = ?",
            (partition.id, self.id),
        ).fetchone()
        return found is None or self.rights.sees(*found)

    def _summary(self, partition: PartitionWriter) -> list[RowToDelete]:
        found = partition.connection.execute(
            "SELECT rid, id, length(CAST(text AS BLOB)), state FROM mem "
            "WHERE part = ? AND id = ?",
            (partition.id, self.id),
        )
        doomed = [RowToDelete(*row) for row in found]
        delete_rows(partition, doomed)
        write_tombstones(partition, [self.id], "evicted")  # it may be made again
        return doomed


@dataclass(slots=True)
class MergeMemories:
    """Archives duplicates of a memory, which takes over their uses.

    Attributes:
        app: The app.
        user: The user.
        groups: Per group: the id of the memory that stays, and those of its duplicates.
        hashes: The hashes of their texts. A group with a changed text is skipped.
        merged: Set by `run`: of each group the ids that it archived.
    """

    app: str
    user: str
    groups: Sequence[tuple[str, Sequence[str]]]
    hashes: Mapping[str, bytes]
    merged: list[tuple[str, ...]] = field(default_factory=list)

    def run(self, connection: Transaction) -> Change:
        """Do it inside a transaction."""
        partition = PartitionWriter(connection, self.app, self.user, create=False)
        query = (
            "SELECT id, rid, hash FROM mem WHERE part = ? AND state = 'live' AND id IN"
        )
        written, removed = [], []
        self.merged = [()] * len(self.groups)
        for at, (survivor, others) in enumerate(self.groups):
            ids = [survivor, *others]
            found = list(select_in(connection, query, [partition.id], ids))
            if any(self.hashes[id_] != hash_ for id_, _, hash_ in found):
                continue  # changed since the plan was made
            rids = {id_: rid for id_, rid, _ in found}
            if survivor not in rids or len(rids) < 2:
                continue  # deleted since the plan was made
            entries = load_rows(connection, rids.values())
            (stays,) = (entry for entry in entries if entry.row.id == survivor)
            rows = [entry.row for entry in entries]
            uses = sum(row.uses or 0 for row in rows)
            used = [row.last_used for row in rows if row.last_used is not None]
            priors = [row.importance for row in rows if row.importance is not None]
            # The latest end of the group counts, and none is later than any.
            ends = [row.expires_at for row in rows if row.expires_at is not None]
            until = [row.valid_until for row in rows if row.valid_until is not None]
            row = stays.row._replace(
                uses=uses or None,
                last_used=max(used, default=None),
                importance=max(priors, default=None),
                expires_at=max(ends) if len(ends) == len(rows) else None,
                valid_until=max(until) if len(until) == len(rows) else None,
                updated_at=partition.after(stays.row.updated_at),
            )
            written.append(rewrite(partition, stays, row))
            gone = [row.rid for row in rows if row.id != survivor]
            removed += archive(partition, gone, "merged", survivor)
            self.merged[at] = tuple(id_ for id_ in others if id_ in rids)
        partition.finish()
        return partition.changed(written, removed)

    @property
    def estimated_bytes(self) -> int:
        """About how many bytes the file grows by."""
        return _ROW_BYTES * sum(1 + len(others) for _, others in self.groups)
