"""Writes to the partition of one (app, user), with sequence numbers of its changes.

Every change of a memory takes the partition's next sequence number. The change log
`chg` stores it for readers that have to catch up. The row number of a new memory is the
sequence number of its insertion, so it is never reused, not even after a deletion.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, nextafter
from operator import attrgetter
from typing import Any, Literal, NamedTuple

from vecall.clock import ExpiryClock
from vecall.concurrency.time_slices import in_slices
from vecall.errors import CorruptFileError, LimitExceededError, NotFoundError
from vecall.filters.rights import FULL, Rights
from vecall.store import rows as records
from vecall.store import transaction as sql
from vecall.store.names import read_tombstones
from vecall.store.queries.partition_reads import load_rows
from vecall.store.rows import Change, Row, RowWithVector
from vecall.store.transaction import Transaction
from vecall.store.values import NO_VALUE, WHOLE, parse_json_list, require_whole_numbers

_ROW_BITS = 32
_MIN_LOGGED = 2_048  # changes; a reader further behind reloads the partition
_LOGGED_SHARE = 2  # one change is logged per so many live memories, for snapshots
MAX_SEQ = (1 << _ROW_BITS) - 1
_CHANGE_BYTES = 200  # of a changed row, with its log entry

NEXT_VECTORS = (
    "SELECT (SELECT id FROM model WHERE state = 'migrating'), "
    "EXISTS (SELECT 1 FROM vec_next)"
)
"""The query of `PartitionWriter.write_change_log`."""


class PartitionWriter:
    """One partition inside one write transaction."""

    def __init__(
        self,
        connection: Transaction,
        app: str,
        user: str,
        *,
        create: bool,
        ahead: sql.ReadsAhead | None = None,
    ) -> None:
        """Find or create the partition."""
        # A user whose names a purge hid is found, too. The next write restores the
        # names. `ahead` are the reads that follow.
        self.connection = connection
        self.execute = connection.execute
        self.app = app
        self.user = user
        expiry_clock = ExpiryClock.expiry_clock_of(connection)
        self.now = expiry_clock.wall()  # for timestamps
        self.expiry_now = expiry_clock.now()  # for expiry
        self._changes: list[sql.LoggedChange] = []
        self._live = 0
        self._bytes = 0
        # Of new rows, unless one is written again; and of deleted ones, if counted.
        self.added: records.MemoryCounts | None = None
        self.gone: records.MemoryCounts | None = None
        self._new = 0
        known = sql.enter_partition(
            connection, app, user, create=create, now=self.now, ahead=ahead
        )
        if not WHOLE.issuperset(map(type, known[:5])):
            raise CorruptFileError(NO_VALUE)
        self.id = known.id
        self.seq = self.seq_before = known.seq
        self.head = self.head_before = known.head
        self._live_before, self._bytes_before = known.live, known.nbytes
        self._is_hidden = known.is_hidden

    def after(self, version: float | None) -> float:
        """Return the version of a memory that follows another one."""
        # A version is never used twice and never goes back, also if the clock does.
        return self.now if version is None else max(self.now, nextafter(version, inf))

    def reveal_user_names(self) -> None:
        """Restore the user's names if a purge hid them."""
        if self._is_hidden:
            names = (self.app, self.user)
            query = "UPDATE part SET app = ?, user = ?, crc = ? WHERE id = ?"
            self.execute(
                query, (*names, records.names_checksum(self.id, *names), self.id)
            )
            self._is_hidden = False

    def change(self, rid: int, op: str, *, live: int = 0, size: int = 0) -> int:
        """Take the next sequence number for a row, 0 for a new one; return the row."""
        # The operation is "u" for written, "d" for deleted, "m" if only the usage
        # changed. `live` and `size` are changes of the number of live memories and
        # their bytes.
        if self.seq >= MAX_SEQ:
            raise LimitExceededError("one user's memories: at most 2^32 - 1 changes")
        self.reveal_user_names()
        self.seq += 1
        if rid == 0:
            self._new += 1
            rid = (self.id << _ROW_BITS) | self.seq
        elif rid & MAX_SEQ > self.seq_before:
            self._new = -1  # `added` is not what there is any more
        self._changes.append((self.id, self.seq, rid, op))
        self._live += live
        self._bytes += size
        return rid

    @property
    def live(self) -> int:
        """The number of live memories, including the changes so far."""
        return self._live_before + self._live

    @property
    def nbytes(self) -> int:
        """The bytes of text of the live memories, including the changes so far."""
        return self._bytes_before + self._bytes

    def has_grown(self, count: int = 0, size: int = 0) -> bool:
        """Whether the number of memories or bytes, with buffered turns, has grown."""
        return self._live + count > 0 or self._bytes + size > 0

    def write_change_log(self) -> None:
        """Write the change log and the partition's row."""
        if self.seq == self.seq_before:
            return
        added = self.added or records.MemoryCounts()
        is_known = added.counts[0] == self._new
        counts = (self._live, self._bytes, added if is_known else None)
        self.head = sql.leave_partition(
            self.connection, self.id, self.seq, self._changes, *counts, self.gone
        )
        self._revise_next_vectors()
        if self.seq // _MIN_LOGGED != self.seq_before // _MIN_LOGGED:
            change_limit = max(_MIN_LOGGED, self.live // _LOGGED_SHARE)
            query = "DELETE FROM chg WHERE part = ? AND seq <= ?"
            self.execute(query, (self.id, self.seq - change_limit))

    def changed(
        self,
        stored: Sequence[RowWithVector] = (),
        removed: Sequence[int] = (),
        ids: Sequence[str] = (),
    ) -> Change:
        """Finish, and return the change of this transaction, for engine and caller."""
        # Stored rows that were removed afterwards are left out.
        self.write_change_log()
        if gone := set(removed):
            stored = [entry for entry in stored if entry.row.rid not in gone]
        own = (self.app, self.user, self.id, self.seq_before, self.seq)
        before, head = self.head_before, self.head
        return Change(*own, stored, removed, ids, head_before=before, head=head)

    def select_memories(
        self, columns: str, ids: Collection[str], condition: str = "", *values: object
    ) -> list[Any]:
        """Return columns of the memories with some ids that meet an "AND ..."."""
        query = f"SELECT {columns} FROM mem WHERE part = ?{condition} AND id IN"
        return list(
            sql.select_in(self.connection, query, [self.id, *values], list(ids))
        )

    def _revise_next_vectors(self) -> None:
        """Drop vectors that a model migration prepared for rows that have changed."""
        coming, any_left = self.execute(NEXT_VECTORS).fetchone()
        if coming is None and not any_left:
            return
        for _, _, rid, op in self._changes:
            if coming is None or op == "d":
                self.execute("DELETE FROM vec_next WHERE rid = ?", (rid,))
            elif op != "m":  # a usage change keeps the prepared vector
                # An entry without a vector: the row has to be embedded.
                self.execute(
                    "INSERT INTO vec_next (rid, model, vec) VALUES (?, ?, x'') "
                    "ON CONFLICT (rid) DO UPDATE SET model = excluded.model, "
                    "vec = excluded.vec, crc = NULL",
                    (rid, coming),
                )


NO_USER = Change("", "", 0, 0, 0)
"""The change of a job that changes no user's memories."""


@dataclass(slots=True, repr=False, eq=False)
class UserJob:
    """A write of one user's data; see `WriteJob`."""

    app: str
    user: str

    @property
    def estimated_bytes(self) -> int:
        """About how many bytes the file grows by; 0 for a job that frees space."""
        return 0

    def run(self, connection: Transaction) -> Change:
        """Do it inside a transaction."""
        partition = PartitionWriter(connection, self.app, self.user, create=False)
        return self._write_partition(partition)

    def _write_partition(self, partition: PartitionWriter) -> Change:
        """Do it in the user's partition, which may not exist."""
        raise NotImplementedError


@dataclass(slots=True, repr=False, eq=False)
class MemoriesJob(UserJob):
    """A write of some memories of one user, which changes no text."""

    ids: Sequence[str]  # their ids

    @property
    def estimated_bytes(self) -> int:
        """About how many bytes the file grows by, with the log."""
        return _CHANGE_BYTES * len(self.ids)


# Finds the passages of turns whose texts were too long for one memory.

_AT_ONCE = 400  # turns per statement, two values each
_FIND = (
    "SELECT mem.id FROM given CROSS JOIN mem "
    "WHERE mem.part = ? AND mem.id > given.low AND mem.id < given.high"
)


def ids_with_passages(partition: PartitionWriter, ids: Sequence[str]) -> list[str]:
    """Return ids of turns, and those of their other passages that are stored."""
    found = list(ids)
    bounds = [records.passage_id_bounds(id_) for id_ in ids]
    for start in range(0, len(bounds), _AT_ONCE):
        some = bounds[start : start + _AT_ONCE]
        rows, values = sql.given_rows(partition.connection, "given (low, high)", some)
        others = partition.execute(f"{rows} {_FIND}", (*values, partition.id))
        found += [id_ for (id_,) in others.fetchall()]
    return list(dict.fromkeys(found))


def passages_of_turns(waiting: Iterable[str], ids: Collection[str]) -> list[str]:
    """Return those of the waiting ids that are of passages of the turns."""
    starts = {records.passage_id_bounds(id_)[0] for id_ in ids}
    return [id_ for id_ in waiting if id_[: id_.find(".") + 1] in starts]


# Changes the state of memories: archives, supersedes and restores them.

State = Literal["live", "archived", "quarantined"]

Reason = Literal["superseded", "merged", "folded", "lapsed", "archived"]
"""Why a memory was archived: a newer one contradicts, duplicates or summarizes it; its
`valid_until` passed; or a caller archived it."""

_CHANGEABLE = (
    "pos uses last_used valid_until supersedes updated_at importance expires_at"
).split()
_changeable = attrgetter(*_CHANGEABLE)
_REWRITE = (
    "UPDATE mem SET pos = ?, uses = ?, last_used = ?, valid_until = ?, "
    "supersedes = ?, updated_at = ?, importance_prior = ?, expires_at = ?, "
    "state = ?, seq = ?, vec = ?, model = ?, crc = ? WHERE rid = ?"
)


def rewrite_row(
    partition: PartitionWriter,
    stored: RowWithVector,
    row: Row,
    *,
    was: State = "live",
    state: State = "live",
) -> RowWithVector:
    """Write a row whose text and vector do not change."""
    live = int(state == "live") - int(was == "live")
    size = len(row.text.encode()) * live
    partition.change(row.rid, "u", live=live, size=size)
    vec, model = stored.vec, stored.model
    values = (partition.seq, vec, model, records.checksum(row, vec), row.rid)
    partition.execute(_REWRITE, (*_changeable(row), state, *values))
    return RowWithVector(row, vec, model)


def rewrite_rows(
    partition: PartitionWriter,
    states: Mapping[int, State],
    change: Callable[[Row], Row],
) -> list[RowWithVector]:
    """Change rows, which keep their states; return the live ones that differ."""
    written = []
    for stored in in_slices(load_rows(partition.connection, states, any_state=True)):
        row, state = change(stored.row), states[stored.row.rid]
        if row != stored.row:
            entry = rewrite_row(partition, stored, row, was=state, state=state)
            written += [entry] if state == "live" else []
    return written


def archive(
    partition: PartitionWriter, rids: Iterable[int], why: Reason, by: str | None = None
) -> list[int]:
    """Archive live memories, which `by` replaces; return the rows that were live."""
    stored = load_rows(partition.connection, rids)
    for entry in stored:
        row = entry.row._replace(updated_at=partition.after(entry.row.updated_at))
        if why == "superseded" and row.valid_until is None:
            row = row._replace(valid_until=partition.now)
        rewrite_row(partition, entry, row, state="archived")
    sql.insert_many(
        partition.connection,
        "replaced (part, id, by, why, at)",
        [(partition.id, entry.row.id, by, why, partition.now) for entry in stored],
        "ON CONFLICT (part, id) DO UPDATE SET by = excluded.by, why = excluded.why, "
        "at = excluded.at",
    )
    return [entry.row.rid for entry in stored]


def supersede_rows(
    partition: PartitionWriter, newer: Mapping[str, str], rights: Rights = FULL
) -> list[int]:
    """Archive memories that newer ones supersede, by their ids; return the live rows.

    NotFoundError: the user never had a memory with an older id.
    """
    older, connection, seen = list(newer), partition.connection, sql.visible(rights)
    known = {id_ for (id_,) in partition.select_memories("id", older, seen)}
    known.update(id_ for id_, *_ in read_tombstones(connection, partition.id, older))
    if not known.issuperset(older):
        raise NotFoundError("supersedes: this user has no such memory")
    ids = ids_with_passages(partition, older)
    live = partition.select_memories("id, rid", ids, f" AND state = 'live'{seen}")
    turns = {records.passage_id_bounds(id_)[0]: id_ for id_ in older}
    removed = []
    for id_, rid in live:
        of = id_ if id_ in newer else turns[id_[: id_.find(".") + 1]]
        removed += archive(partition, [rid], "superseded", newer[of])
    return removed


def restore_rows(
    partition: PartitionWriter, ids: Sequence[str], state: State, rights: Rights = FULL
) -> list[RowWithVector]:
    """Make memories of one state live, but no damaged or hidden ones; oldest first."""
    lasting = f" AND state = ? AND coalesce(expires_at, 9e99) > ?{sql.visible(rights)}"
    found = partition.select_memories("rid", ids, lasting, state, partition.expiry_now)
    query = (
        "SELECT id FROM replaced WHERE part = ? AND why IN ('superseded', 'lapsed') "
        "AND id IN"
    )
    ended = sql.select_in(partition.connection, query, [partition.id], ids)
    over = {id_ for (id_,) in ended}
    rids = [rid for (rid,) in found]
    written = []
    loaded = load_rows(partition.connection, rids, any_state=True)
    for entry in sorted(loaded, key=lambda entry: entry.row.rid):
        row = entry.row._replace(updated_at=partition.after(entry.row.updated_at))
        end = row.valid_until
        if row.id in over or (end is not None and end <= partition.expiry_now):
            row = row._replace(valid_until=None)
        written.append(rewrite_row(partition, entry, row, was=state))
        own = (partition.id, row.id)
        partition.execute("DELETE FROM replaced WHERE part = ? AND id = ?", own)
    return written


def rewrite_positions(
    partition: PartitionWriter, moved: Mapping[str, float], but: Container[str]
) -> list[RowWithVector]:
    """Change only the positions of turns, but of some; return the live ones."""
    ids = [id_ for id_ in moved if id_ not in but]
    states = dict(partition.select_memories("rid, state", ids))
    return rewrite_rows(partition, states, lambda row: row._replace(pos=moved[row.id]))


def rows_to_fold(
    partition: PartitionWriter, fold: Mapping[str, bytes]
) -> list[int] | None:
    """Return the rows of live memories, by the hashes of their texts by id."""
    # None if one of them has changed or is not live any more.
    found = partition.select_memories("id, rid, hash", fold, " AND state = 'live'")
    same = all(fold[id_] == hash_ for id_, _, hash_ in found)
    return [rid for _, rid, _ in found] if same and len(found) >= len(fold) else None


# Counts of the buffered turns of one user.
#
# The counts are a row of `trig` without a session. They are computed when first needed
# and updated by each change. So the cost of a quota does not grow with the buffer.

_ROW = "part = ? AND session = '' AND kind = 'waits'"


class Waits(NamedTuple):
    """Counts of buffered turns, or a change of them."""

    turns: int = 0  # the number of turns
    nbytes: int = 0  # their bytes in the file, as JSON


def counts_of_buffered(partition: PartitionWriter) -> Waits:
    """Return the current counts of a user."""
    known = _read_buffered_counts(partition)
    if known is not None:
        return known
    counted = partition.execute(
        "SELECT count(*), coalesce(sum(length(CAST(event AS BLOB))), 0) FROM told "
        "WHERE part = ? AND event IS NOT NULL",
        (partition.id,),
    ).fetchone()
    waits = Waits(*counted)
    query = "INSERT INTO trig (part, session, kind, state) VALUES (?, '', 'waits', ?)"
    partition.execute(query, (partition.id, json.dumps(waits)))
    return waits


def add_buffered_counts(partition: PartitionWriter, more: Waits) -> None:
    """Add a change to the counts of a user."""
    known = _read_buffered_counts(partition)
    if known is not None and more.turns:
        now = json.dumps((known.turns + more.turns, known.nbytes + more.nbytes))
        query = f"UPDATE trig SET state = ? WHERE {_ROW}"
        partition.execute(query, (now, partition.id))


def forget_buffered_counts(connection: Transaction) -> None:
    """Delete the counts of all users; they are computed again when needed."""
    connection.execute("DELETE FROM trig WHERE kind = 'waits'")


def _read_buffered_counts(partition: PartitionWriter) -> Waits | None:
    query = f"SELECT state FROM trig WHERE {_ROW}"
    found = partition.execute(query, (partition.id,)).fetchone()
    if found is None:
        return None
    counts = parse_json_list(found[0])
    if len(counts) != len(Waits._fields):
        raise CorruptFileError(NO_VALUE)
    require_whole_numbers(*counts)
    return Waits(*counts)
