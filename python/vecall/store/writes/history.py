"""What is kept of a memory that is changed or deleted."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Literal, NamedTuple

from vecall.errors import ConflictError, NotFoundError
from vecall.filters.rights import FULL, Rights
from vecall.store import rows as records
from vecall.store import transaction as sql
from vecall.store.names import hidden_forms_of, read_tombstones
from vecall.store.queries.partition_reads import load_rows
from vecall.store.rows import Change, Draft, Row, is_undamaged_row
from vecall.store.transaction import Transaction
from vecall.store.writes import partition_writer
from vecall.store.writes.delete import delete_memories, write_tombstones
from vecall.store.writes.quota import UserQuota, evict_over_quota

# Archives memories, restores them, and releases quarantined ones.

_ROW_BYTES = 200  # of a state change, with its log entry


@dataclass(slots=True, repr=False, eq=False)
class ArchiveMemories(partition_writer.MemoriesJob):
    """Archives live memories of one user: they are stored, but not found."""

    why: partition_writer.Reason = "archived"
    rights: Rights = FULL  # other memories than those that the caller sees are unknown

    def _write_partition(self, partition: partition_writer.PartitionWriter) -> Change:
        ids = partition_writer.ids_with_passages(partition, self.ids)
        live = f" AND state = 'live'{sql.visible(self.rights)}"
        rids = [rid for (rid,) in partition.select_memories("rid", ids, live)]
        return partition.changed(
            removed=partition_writer.archive(partition, rids, self.why)
        )


@dataclass(slots=True, repr=False, eq=False)
class RestoreMemory(partition_writer.UserJob):
    """Makes an archived or quarantined memory of one user live again.

    If it is an archived summary, the memories that it summarizes are restored instead.
    """

    id: str
    bounds: UserQuota | None = None
    state: partition_writer.State = (
        "archived"  # the required state: "archived" or "quarantined"
    )
    # The `updated_at` that the caller has seen, in seconds; None skips the check.
    seen: float | None = None
    estimated_bytes: int = _ROW_BYTES
    rights: Rights = FULL  # other memories than those that the caller sees are unknown

    def _write_partition(self, partition: partition_writer.PartitionWriter) -> Change:
        """Do it in the user's partition."""
        # NotFoundError: there is no such memory, or it has another state and is not a
        # summary. ConflictError: the memory changed since `seen`.
        ids, removed = [self.id], list[int]()
        changed = f" AND state = ? AND updated_at <> ?{sql.visible(self.rights)}"
        if self.seen is not None and partition.select_memories(
            "1", ids, changed, self.state, self.seen
        ):
            msg = "updated_at: the memory was changed since then; read it again"
            raise ConflictError(msg)
        if self.state == "archived":  # a reviewer releases each passage that was read
            ids = partition_writer.ids_with_passages(partition, ids)
        written = partition_writer.restore_rows(partition, ids, self.state, self.rights)
        if not written and self.state == "archived" and not self._is_hidden(partition):
            folded = self._folded_ids(partition)
            written = partition_writer.restore_rows(
                partition, folded, "archived", self.rights
            )
            if written:  # the summary may be made again
                removed = delete_memories(partition, [self.id])
                write_tombstones(partition, [self.id], "evicted")
        if not written:
            msg = f"memory_id: this user has no {self.state} memory of that id"
            raise NotFoundError(msg)
        rows = [entry.row for entry in written]
        newer = {row.supersedes: row.id for row in rows if row.supersedes is not None}
        removed += partition_writer.supersede_rows(partition, newer, self.rights)
        removed += evict_over_quota(partition, self.bounds, written)
        return partition.changed(written, removed, [row.id for row in rows])

    def _is_hidden(self, partition: partition_writer.PartitionWriter) -> bool:
        """Whether the id is that of a memory that is hidden from the caller."""
        found = partition.select_memories("trust, state", [self.id])
        return any(not self.rights.sees(*each) for each in found)

    def _folded_ids(self, partition: partition_writer.PartitionWriter) -> list[str]:
        """The ids of the memories that the summary of this id replaced."""
        query = "SELECT id FROM replaced WHERE part = ? AND why = 'folded' AND by IN"
        forms = list(hidden_forms_of(partition.connection, partition.id, [self.id]))
        found = sql.select_in(partition.connection, query, [partition.id], forms)
        return [id_ for (id_,) in found]


@dataclass(slots=True, repr=False, eq=False)
class MergeMemories(partition_writer.UserJob):
    """Archives duplicates of a memory, which takes over their uses."""

    # Per group: the id of the memory that stays, and those of its duplicates.
    groups: Sequence[tuple[str, Sequence[str]]]
    # The hashes of their texts. A group with a changed text is skipped.
    hashes: Mapping[str, bytes]
    # Set by `run`: of each group the ids that it archived.
    merged: list[tuple[str, ...]] = field(default_factory=list)

    def _write_partition(self, partition: partition_writer.PartitionWriter) -> Change:
        written, removed = [], []
        self.merged = [()] * len(self.groups)
        for at, (survivor, others) in enumerate(self.groups):
            ids = [survivor, *others]
            live = " AND state = 'live'"
            found = partition.select_memories("id, rid, hash", ids, live)
            same = all(self.hashes[id_] == hash_ for id_, _, hash_ in found)
            rids = {id_: rid for id_, rid, _ in found}
            if not same or survivor not in rids or len(rids) < 2:
                continue  # changed or deleted since the plan was made
            entries = load_rows(partition.connection, rids.values())
            (stays,) = (entry for entry in entries if entry.row.id == survivor)
            rows = [entry.row for entry in entries]
            # The latest end of the group counts, and none is later than any.
            row = stays.row._replace(
                uses=sum(row.uses or 0 for row in rows) or None,
                last_used=_greatest([row.last_used for row in rows]),
                importance=_greatest([row.importance for row in rows]),
                expires_at=_greatest([row.expires_at for row in rows], or_none=True),
                valid_until=_greatest([row.valid_until for row in rows], or_none=True),
                updated_at=partition.after(stays.row.updated_at),
            )
            written.append(partition_writer.rewrite_row(partition, stays, row))
            gone = [row.rid for row in rows if row.id != survivor]
            removed += partition_writer.archive(partition, gone, "merged", survivor)
            self.merged[at] = tuple(id_ for id_ in others if id_ in rids)
        return partition.changed(written, removed)

    @property
    def estimated_bytes(self) -> int:
        """About how many bytes the file grows by."""
        return _ROW_BYTES * sum(1 + len(others) for _, others in self.groups)


def _greatest(values: Sequence[float | None], *, or_none: bool = False) -> float | None:
    """Return the greatest number; with `or_none`, None is greater than any."""
    known = [value for value in values if value is not None]
    return None if or_none and None in values else max(known, default=None)


# Puts snapshots on record, and invalidates all records on a purge.


@dataclass(slots=True, repr=False, eq=False)
class RecordSnapshot(partition_writer.UserJob):
    """Puts a new snapshot on record."""

    record: bytes  # its nonce and its digest
    tag: records.SnapshotTag  # the state of the partition when the snapshot was taken
    purges: int  # the purge count when the snapshot was taken
    # Set by `run`: whether it is on record. If not, the partition was replaced, its
    # history went back, the snapshot may contain purged data, or one that is at least
    # as new is on record.
    is_recorded: bool = False

    def _write_partition(self, partition: partition_writer.PartitionWriter) -> Change:
        connection = partition.connection
        self.is_recorded = (
            partition.id == self.tag.part
            and count_purges(connection) == self.purges
            and is_snapshot_in_log(connection, self.tag, partition.seq, partition.head)
            and not newer_is_recorded(connection, self.tag, self.header(connection))
        )
        if self.is_recorded:
            query = "UPDATE part SET snap = ? WHERE id = ?"
            connection.execute(query, (self.record, partition.id))
        return partition.changed()

    def header(self, connection: Transaction) -> bytes:  # noqa: ARG002
        """Return the first bytes of the snapshot before, if the storage holds it."""
        return b""


def is_snapshot_in_log(
    connection: Transaction, tag: records.SnapshotTag, seq: int, head: int
) -> bool:
    """Whether the partition's newest change, or one in its log, is that of a tag."""
    # A snapshot may wait to be recorded while a replica is promoted that lacks changes,
    # or a backup is restored.
    if tag.seq >= seq:
        return (tag.seq, tag.head) == (seq, head)
    query = "SELECT head FROM chg WHERE part = ? AND seq = ?"
    known = connection.execute(query, (tag.part, tag.seq)).fetchone()
    return known is not None and known[0] == tag.head


def newer_is_recorded(
    connection: Transaction, tag: records.SnapshotTag, header: bytes
) -> bool:
    """Whether the snapshot on record makes that of a tag superfluous."""
    # `header` has the first bytes of the snapshot that is in place; empty without one.
    known = records.SnapshotTag.of_snapshot(header)
    if known is None or known.seq < tag.seq:
        return False
    query = "SELECT seq, head, snap FROM part WHERE id = ?"
    found = connection.execute(query, (tag.part,)).fetchone()
    if found is None or found[2] is None:
        return False
    return known.is_of(tag.uuid, tag.part, found[2], tag.model) and is_snapshot_in_log(
        connection, known, *found[:2]
    )


def count_purges(connection: Transaction) -> int:
    """Return how many times the file was purged."""
    return int(sql.read_fact(connection, "purges") or 0)


def note_purge(connection: Transaction) -> None:
    """Invalidate all snapshots, including those that are being written."""
    connection.execute("UPDATE part SET snap = NULL WHERE snap IS NOT NULL")
    sql.set_fact(connection, "purges", str(count_purges(connection) + 1))


# Compares a draft with the stored row of its id, and merges the two.


class ExistingRow(NamedTuple):
    """The stored row of an id, whose checksum was not checked."""

    row: Row
    state: str
    vec: bytes | None
    model: int | None
    crc: int

    def is_undamaged(self) -> bool:
        """Whether the row passes its checksum."""
        return is_undamaged_row(self.row, self.vec, self.crc)

    def has_expired(self, now: float) -> bool:
        """Whether its TTL is over."""
        return self.row.expires_at is not None and self.row.expires_at <= now


REST = "part, seq, hash, vec, model, crc"
"""The columns of `mem` that a `Row` does not have, as `values_of_rest` gives them."""

_PASSAGE_OF = attrgetter("passage_of")
_compared = attrgetter(*records.COMPARED)
_content_of = attrgetter(
    *"author kind source trust text content meta importance".split()
)
_but_trust = attrgetter(*(name for name in records.COMPARED if name != "trust"))


def values_of_rest(
    partition: partition_writer.PartitionWriter,
    row: Row,
    draft: Draft,
    vec: bytes | None,
    model: int | None,
) -> tuple[object, ...]:
    """Return the values of the columns named by `REST`."""
    model = None if vec is None else model
    crc = records.checksum(row, vec)
    return partition.id, partition.seq, draft.hash, vec, model, crc


# Right after a file changed its model, the new vectors are still in vec_next.
STORED = (
    f"SELECT mem.{records.COLUMNS}, state, coalesce(next.vec, mem.vec), "
    "coalesce(next.model, mem.model), "
    "CASE WHEN next.rid IS NULL THEN mem.crc ELSE next.crc END "
    "FROM mem LEFT JOIN vec_next AS next ON next.rid = mem.rid AND next.model = "
    "(SELECT id FROM model WHERE state = 'active') WHERE part = ? AND id IN"
)
"""The query of `find_stored_drafts`."""

ANY_CORRECTED = "SELECT 1 FROM hist WHERE part = ? AND op = 'edit' LIMIT 1"
"""The first query of `corrected_digests`."""


def find_stored_drafts(
    partition: partition_writer.PartitionWriter, ids: Sequence[str]
) -> dict[str, ExistingRow]:
    """Return the stored rows of drafts, by id."""
    found = sql.select_in(partition.connection, STORED, [partition.id], ids)
    stored = {}
    for values in found:
        stored[values[1]] = ExistingRow(Row(*values[:-4]), *values[-4:])
    return stored


def changed_turns(
    drafts: Mapping[str, Draft], stored: Mapping[str, ExistingRow]
) -> set[str]:
    """Return the ids of drafts whose turns may have fewer passages than stored."""
    turns = set(filter(None, map(_PASSAGE_OF, drafts.values())))
    if stored:
        turns |= {
            id_
            for id_, old in stored.items()
            if id_ in drafts and drafts[id_].text != old.row.text
        }
    return turns


def expiry_of(
    draft: Draft, old: ExistingRow | None, now: float, default: float | None
) -> float | None:
    """Return when a memory expires once the draft is written."""
    # The draft's own TTL wins. Without one, a live memory keeps its expiry, and a new
    # or expired one gets the default TTL.
    if draft.ttl is not None:
        return now + draft.ttl
    if old is None or old.has_expired(now):
        return None if default is None else now + default
    return old.row.expires_at


def has_same_content(draft: Draft, old: ExistingRow) -> bool:
    """Whether a draft has the stored content. A draft without trust matches any."""
    if _compared(draft) == _compared(old.row):
        return True
    return draft.trust is None and _but_trust(draft) == _but_trust(old.row)


def is_noop(
    draft: Draft, old: ExistingRow, expires_at: float | None, *, exact: bool
) -> bool:
    """Whether writing the draft would change nothing; a damaged row is rewritten."""
    # With `exact`, a draft without `valid_until` removes the stored one.
    row = old.row
    if old.state == "quarantined" and not old.is_undamaged():
        return False
    is_new = (
        (draft.vec is not None and old.vec is None)
        or (draft.has_own_vector and draft.vec != old.vec)
        or (draft.ordered and row.pos is None)
        or expires_at != row.expires_at
        or (
            draft.valid_until != row.valid_until
            and (exact or draft.valid_until is not None)
        )
        or draft.supersedes not in (row.supersedes, None)
        or draft.also_supersedes
    )
    return not is_new and has_same_content(draft, old)


def row_of_new_draft(
    draft: Draft, rid: int, pos: float | None, now: float, expires_at: float | None
) -> Row:
    """Return the row of a new memory."""
    place = (draft.id, draft.session, draft.event, pos, draft.ts, now, expires_at)
    ends = (draft.valid_until, draft.supersedes)
    uses = last_used = None
    content = _content_of(draft)
    return Row._make((rid, *place, *content, uses, last_used, *ends, now))


def merge_draft_into_row(
    draft: Draft,
    old: ExistingRow,
    pos: float | None,
    now: float,
    expires_at: float | None,
) -> Row:
    """Return the row that results from writing a draft over a stored row."""
    was = old.row
    row = row_of_new_draft(draft, was.rid, pos, now, expires_at)
    row = row._replace(created_at=was.created_at)
    if not old.is_undamaged():  # its use count is not reliable
        return row
    if row.valid_until is None and old.state != "archived":
        row = row._replace(valid_until=was.valid_until)
    return row._replace(
        uses=was.uses,
        last_used=was.last_used,
        trust=row.trust or was.trust,
        supersedes=row.supersedes or was.supersedes,
    )


def append_history(
    partition: partition_writer.PartitionWriter,
    draft: Draft,
    old: ExistingRow,
    operation: str,
    default_ttl: float | None,
) -> None:
    """Store the revision that an "update" or "edit" overwrites, unless damaged."""
    if has_same_content(draft, old):
        return
    old_fields = {name: getattr(old.row, name) for name in records.COMPARED}
    if old.state == "quarantined":
        if not old.is_undamaged():
            return
        old_fields["state"] = old.state
    ttl = default_ttl if draft.revision_ttl is None else draft.revision_ttl
    expires_at = None if ttl is None else partition.expiry_now + ttl
    past = json.dumps({**old_fields, "updated_at": old.row.updated_at})
    own = (partition.id, draft.id, partition.seq, partition.now)
    partition.execute(
        "INSERT INTO hist (part, id, seq, at, op, old, expires_at) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        (*own, operation, past, expires_at),
    )


def corrected_digests(
    connection: Transaction, part: int, ids: Sequence[str]
) -> dict[str, set[str]]:
    """Return digests of the revisions that corrections overwrote, by memory id."""
    if not ids or connection.execute(ANY_CORRECTED, (part,)).fetchone() is None:
        return {}
    found: dict[str, set[str]] = {}
    query = "SELECT id, old FROM hist WHERE part = ? AND op = 'edit' AND id IN"
    for id_, old in sql.select_in(connection, query, [part], ids):
        found.setdefault(id_, set()).add(records.digest_of_revision(old))
    return found


def shorten_digests(connection: Transaction) -> None:
    """Shorten the digests of expired revisions, so that they identify no text."""
    # A short digest still prevents an older copy of a session from undoing a
    # correction. One in 65,536 other texts is refused with it.
    query = "SELECT part, id, seq, old FROM hist WHERE op = 'edit' AND old LIKE ?"
    rows = connection.execute(query, ('{"digest%',)).fetchall()
    for *key, old in rows:
        short = json.dumps({"digest": records.digest_of_revision(old)[: records.SHORT]})
        statement = "UPDATE hist SET old = ? WHERE part = ? AND id = ? AND seq = ?"
        connection.execute(statement, (short, *key))


# Leaves out the drafts of a call that are not stored.

Away = Literal["deleted", "expired", "evicted", "taken"]  # why a draft is not stored


def leave_out_deleted(
    partition: partition_writer.PartitionWriter,
    drafts: dict[str, Draft],
    keys: Sequence[bytes],
    restore: bool,
    again: bool,
) -> tuple[dict[str, Away], set[str]]:
    """Remove the drafts that stay deleted; return why, and the ids that come back."""
    # Re-ingesting a session does not bring back turns that were deleted, evicted or
    # expired. A fact that expired or was evicted is stored again. A fact that was
    # deleted is stored again only with `again`. With `restore`, every draft is stored.
    back: set[str] = set()
    left_out: dict[str, Away] = {}
    own = (partition.connection, partition.id)
    for id_, form, why in read_tombstones(*own, list(drafts), keys):
        draft = drafts.get(id_)
        if draft is None:
            continue
        if restore or (not draft.ordered and (again or why is not None)):
            query = "DELETE FROM tomb WHERE part = ? AND id = ?"
            partition.execute(query, (partition.id, form))
            back.add(id_)
        else:
            left_out[id_] = why or "deleted"
            del drafts[id_]
    if left_out:
        left_out |= leave_out_passages(drafts, left_out)
    return left_out, back


def leave_out_passages(
    drafts: dict[str, Draft], left_out: Mapping[str, Away]
) -> dict[str, Away]:
    """Remove the passages of turns that are left out; return why, by id."""
    gone = {
        id_: left_out[draft.passage_of]
        for id_, draft in drafts.items()
        if draft.passage_of is not None and draft.passage_of in left_out
    }
    for id_ in gone:
        del drafts[id_]
    return gone


# What becomes of a write whose id belongs to a memory that the caller does not see.


class HiddenRows(NamedTuple):
    """The stored memories of drafts that a caller does not see."""

    # Those that say what their draft says, by id. They stay as they are.
    same: dict[str, ExistingRow]
    # Quarantined ones whose draft is written as a new memory, by id. Their text stays
    # in the history.
    replaced: dict[str, ExistingRow]
    # The ids of those below the floor that say something else. They stay as they are,
    # so their drafts cannot be stored; nor are those of their passages.
    taken: list[str]
    deleted: list[int]  # the rows of expired ones


NOTHING_HIDDEN = HiddenRows({}, {}, [], [])


def set_hidden_aside(
    partition: partition_writer.PartitionWriter,
    drafts: dict[str, Draft],
    stored: dict[str, ExistingRow],
    rights: Rights,
    edit: bool,
    restore: bool,
) -> HiddenRows:
    """Remove the memories that a caller does not see, and drafts whose ids are taken.

    With `edit`, a hidden memory does not exist. With `restore`, expired turns return.
    """
    hidden = HiddenRows({}, {}, [], [])
    now = partition.expiry_now
    for id_, old in list(stored.items()):
        draft, row = drafts[id_], old.row
        if rights.sees(row.trust, old.state):
            continue
        if old.has_expired(now) and draft.ordered and not (edit or restore):
            continue  # it is left out as any expired turn is
        del stored[id_]
        if edit:
            continue
        if old.has_expired(now):
            hidden.deleted.extend(delete_memories(partition, [id_]))
        elif has_same_content(draft, old):
            hidden.same[id_] = old
        elif rights.trusts(row.trust):
            hidden.replaced[id_] = old
        else:
            hidden.taken.append(id_)
            del drafts[id_]
    gone = leave_out_passages(drafts, dict.fromkeys(hidden.taken, "taken"))
    hidden.taken.extend(gone)
    return hidden


def ids_taken_by_hidden(
    partition: partition_writer.PartitionWriter, ids: Sequence[str], rights: Rights
) -> list[str]:
    """Return those of `ids` that memories below the caller's floor have."""
    if not rights.has_floor:
        return []
    below = (
        " AND coalesce(expires_at, 9e99) > ? "
        f"AND NOT coalesce(1 = 1{sql.trust_condition(rights)}, 1 = 0)"
    )
    found = partition.select_memories("id", ids, below, partition.expiry_now)
    return [id_ for (id_,) in found]
