"""Quotas of a user, and eviction."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from typing import NamedTuple

from vecall.concurrency.time_slices import Slices, in_slices
from vecall.errors import LimitExceededError
from vecall.filters.rights import FULL, Rights
from vecall.limits import Eviction
from vecall.ranking.options import DAY, DEFAULT_PRIOR, importance_weight
from vecall.store.queries.partition_reads import END, TIME, load_rows
from vecall.store.rows import Change, Row, RowWithVector, checksum, is_undamaged_row
from vecall.store.transaction import select_in, visible
from vecall.store.writes import partition_writer
from vecall.store.writes.delete import (
    TO_DELETE,
    RowToDelete,
    delete_expired_memories,
    delete_rows,
    write_tombstones,
)

# Finds the memories of a user with the lowest importance, reading few of them.
#
# The importance of a memory falls with its age and rises with its prior and its uses.
# So once enough unimportant memories are found, all memories with at least a certain
# prior and below a certain age are more important. SQL excludes them.

_IN_A_SLICE = 500  # rows that are weighed: half a millisecond at most
_LEVELS = 3  # of priors, each with its own age limit, besides one that has none
_DAYS = 4_000_000  # more than from the year 1 to the year 9999
_KNOWN = 10_000  # cached weights
_PRIOR = f"coalesce(importance_prior, {DEFAULT_PRIOR})"


class _Lightest:
    """Collects the `limit` rows of lowest weight; of equal ones, the first.

    Rows must arrive in order of row number.
    """

    def __init__(self, now: float, limit: int) -> None:
        self._now = now
        self._limit = limit
        self._weights: dict[tuple[float, int | None, float], float] = {}
        self._rows: list[tuple[float, int]] = []
        self._bound = math.inf  # a later row of this weight is not among the lightest

    def weigh_rows(self, rows: Iterable[tuple[int, float, int | None, float]]) -> None:
        """Weigh rows: number, prior, uses and time of each."""
        weights, found, bound, now = self._weights, self._rows, self._bound, self._now
        for rid, prior, uses, time in rows:
            alike = prior, uses, (now - time) // DAY
            weight = weights.get(alike)
            if weight is None:
                weight = importance_weight(prior, uses, now - time)
                if len(weights) < _KNOWN:
                    weights[alike] = weight
            if weight < bound:
                found.append((weight, rid))
        if len(found) >= 2 * self._limit:
            self._rows = nsmallest(self._limit, found)
            self._bound = self._rows[-1][0]

    def bounds_of_rows_to_skip(self) -> list[tuple[float, float]]:
        """Return (prior, time) pairs that bound the rows to skip."""
        # A row with at least this prior and at least this time weighs no less than the
        # heaviest row collected so far, and sorts after it.
        if self._bound == math.inf:
            return []
        priors = sorted({prior for prior, _, _ in self._weights})
        at = bisect_left(
            priors, True, key=lambda prior: not self._is_light(prior, _DAYS)
        )
        light = priors[:at]
        step = max(1, math.ceil(len(light) / _LEVELS))
        bounds = light[::step] + priors[at : at + 1]
        return [
            # One second is more than the rounding error.
            (prior, self._now - days * DAY + 1.0)
            for prior in bounds
            if (days := self._days_until_light(prior)) > 0
        ]

    def _days_until_light(self, prior: float) -> int:
        """The age in days from which a memory that was never used is light."""
        return bisect_left(
            range(_DAYS), True, key=lambda days: self._is_light(prior, days)
        )

    def _is_light(self, prior: float, days: int) -> bool:
        """Whether a memory that was never used weighs less than the collected rows."""
        return importance_weight(prior, None, (days + 0.5) * DAY) < self._bound

    def lightest_rows(self) -> list[int]:
        """Return their numbers, the lightest first."""
        return [rid for _, rid in nsmallest(self._limit, self._rows)]


_LIVE = "FROM mem WHERE rid BETWEEN ? AND ? AND state = 'live'"


def _counted_rids(partition: partition_writer.PartitionWriter) -> tuple[int, int]:
    return partition.id << 32, (partition.id << 32) | 0xFFFFFFFF


def lowest_value(partition: partition_writer.PartitionWriter, limit: int) -> list[int]:
    """Return the `limit` live rows of a user of lowest importance, in that order."""
    execute, own, live = partition.execute, _counted_rids(partition), _LIVE
    (begin,) = execute(f"SELECT min(rid) {live}", own).fetchone()
    (last,) = execute(f"SELECT max(rid) {live}", own).fetchone()
    lightest = _Lightest(partition.now, limit)
    slices = Slices()
    span = 2 * limit
    while begin is not None and begin <= last:
        # As many rows again as were looked at so far: then what is left out is known
        # better.
        end = min(begin + span - 1, last)
        heavier = lightest.bounds_of_rows_to_skip()
        found = execute(
            f"SELECT rid, {_PRIOR}, uses, {TIME} {live}"
            + f" AND NOT ({_PRIOR} >= ? AND {TIME} >= ?)" * len(heavier),
            (begin, end, *(value for pair in heavier for value in pair)),
        )
        while rows := found.fetchmany(_IN_A_SLICE):
            lightest.weigh_rows(rows)
            slices.pause_if_due()
        begin, span = end + 1, 2 * span
    return lightest.lightest_rows()


_ALL = 1 << 62
_MORE = 16  # extra rows that are read when the byte limit is exceeded
_LAST_TOUCHED = "max(created_at, updated_at, coalesce(last_used, 0))"
_AT_ONCE = 100  # without an index, evict this fraction (1/100) of the quota in addition


class UserQuota(NamedTuple):
    """The quota of one user; None is no limit. Buffered turns count, too."""

    memories: int | None  # maximum number of memories and buffered turns
    # Maximum bytes of text in UTF-8; of buffered turns, of their JSON.
    nbytes: int | None
    eviction: Eviction

    def quota_exceeded_by(
        self, partition: partition_writer.PartitionWriter, waits: partition_writer.Waits
    ) -> tuple[int, int]:
        """Return by how many memories and bytes the quota is exceeded."""
        live, nbytes = partition.live + waits.turns, partition.nbytes + waits.nbytes
        count = 0 if self.memories is None else live - self.memories
        size = 0 if self.nbytes is None else nbytes - self.nbytes
        return max(count, 0), max(size, 0)


def evict_over_quota(
    partition: partition_writer.PartitionWriter,
    bounds: UserQuota | None,
    written: Sequence[RowWithVector],
    more: partition_writer.Waits = partition_writer.Waits(),  # noqa: B008 it cannot be changed
) -> list[int]:
    """Evict memories until the quota is met; return their rows."""
    # Expired memories go first. Memories that were just written go last. Buffered turns
    # are never evicted; `more` is their growth, negative if they shrank.
    # LimitExceededError: the quota is exceeded, and eviction cannot meet it.
    if bounds is None:
        return []
    waits = partition_writer.counts_of_buffered(partition)
    if not any(bounds.quota_exceeded_by(partition, waits)):
        return []
    _, over = delete_expired_memories(partition)
    count, size = bounds.quota_exceeded_by(partition, waits)
    if not (count or size):
        return over
    if bounds.eviction == "reject" and not partition.has_grown(*more):
        return over  # there was no excess before
    if bounds.eviction == "reject":
        raise _quota_exceeded_error(bounds, count, size, waits)
    new = {entry.row.rid for entry in written}
    doomed = _rows_to_evict(partition, bounds, new, count, size)
    gone = delete_rows(partition, doomed)
    write_tombstones(partition, [row.id for row in doomed], "evicted")
    left = bounds.quota_exceeded_by(partition, waits)
    if waits.turns and (any(left) or not new.isdisjoint(gone)):
        # Buffered turns leave no room for the new memories.
        raise _quota_exceeded_error(bounds, count, size, waits)
    return over + gone


def _quota_exceeded_error(
    bounds: UserQuota, count: int, size: int, waits: partition_writer.Waits
) -> LimitExceededError:
    limits = [f"quota.memories = {bounds.memories}"] if count else []
    limits += [f"quota.bytes = {bounds.nbytes} of text"] if size else []
    msg = f"a user's memories: at most {', '.join(limits)}; nothing was written"
    if waits.turns:
        msg += (
            f"; {waits.turns} turns that wait count, too: end_session makes memories "
            "of them, delete_session deletes them"
        )
    return LimitExceededError(msg)


def _rows_to_evict(
    partition: partition_writer.PartitionWriter,
    bounds: UserQuota,
    new: set[int],
    count: int,
    size: int,
) -> list[RowToDelete]:
    """The rows to evict: at least `count` rows and `size` bytes, new ones last."""
    # Without an index every memory is read; so that it is rare, a hundredth more goes.
    more = larger = 0
    if bounds.eviction != "oldest":
        more = (bounds.memories or 0) // _AT_ONCE if count else 0
        larger = (bounds.nbytes or 0) // _AT_ONCE if size else 0
    limit = count + more + len(new) + _MORE
    if larger:  # the number of rows for these bytes is unknown: sort all, once
        limit = _ALL
    while True:
        order = _order_of_eviction(partition, bounds.eviction, limit)
        old = [rid for rid in order if rid not in new]
        going, left = _take_rows_to_evict(partition, old, count + more, size + larger)
        enough = len(going) >= count + more and left <= 0
        if enough or len(order) < limit:
            young = [rid for rid in order if rid in new]
            rest = (count - len(going), left - larger)
            return going + _take_rows_to_evict(partition, young, *rest)[0]
        limit *= 8


def _take_rows_to_evict(
    partition: partition_writer.PartitionWriter,
    order: Sequence[int],
    count: int,
    size: int,
) -> tuple[list[RowToDelete], int]:
    """The first rows of `order` that reach `count` rows and `size` bytes."""
    # The second value are the bytes still missing; 0 or negative: none.
    going: list[RowToDelete] = []
    at = 0
    while at < len(order) and (len(going) < count or size > 0):
        # The number of rows depends on their sizes: each slice doubles the rows read.
        end = at + max(count - len(going), max(at, _MORE) if size > 0 else 0)
        query = f"SELECT {TO_DELETE} FROM mem WHERE rid IN"
        found = select_in(partition.connection, query, [], order[at:end])
        rows = {row[0]: RowToDelete(*row) for row in found}
        for rid in order[at:end]:
            if len(going) >= count and size <= 0:
                break
            going.append(rows[rid])
            size -= rows[rid].size
        at = end
    return going, size


def _order_of_eviction(
    partition: partition_writer.PartitionWriter, eviction: Eviction, limit: int
) -> list[int]:
    """At most `limit` live rows of a user, in order of eviction."""
    if eviction == "lowest_value":
        return lowest_value(partition, limit)
    if eviction == "oldest":
        values = [partition.id, limit]
        query = (
            "SELECT rid FROM mem INDEXED BY mem_old WHERE part = ? AND "
            f"state = 'live' ORDER BY {TIME}, rid LIMIT ?"
        )
    else:
        values = [*_counted_rids(partition), limit]
        query = f"SELECT rid {_LIVE} ORDER BY {_LAST_TOUCHED}, rid LIMIT ?"
    return [rid for (rid,) in partition.execute(query, values)]


# Counts the uses of memories.

_MOST_USES = 2**31 - 1  # also the limit of an import
_MARK_USED = (
    "UPDATE mem SET uses = ?, last_used = ?, seq = ?, vec = ?, model = ?, crc = ? "
    "WHERE rid = ?"
)
_PREPARED = (
    "SELECT rid, vec, crc FROM vec_next WHERE model = "
    "(SELECT id FROM model WHERE state = 'migrating') AND vec <> x'' AND rid IN"
)
_PREPARE = "UPDATE vec_next SET vec = ?, crc = ? WHERE rid = ?"


@dataclass(slots=True, repr=False, eq=False)
class MarkUsed(partition_writer.MemoriesJob):
    """Counts one use of each given live memory of one user, also if given twice.

    Unknown and expired ids are ignored. `updated_at` does not change, so uses do not
    affect which version an import takes.
    """

    rights: Rights = FULL  # other memories than those that the caller sees are unknown

    def _write_partition(self, partition: partition_writer.PartitionWriter) -> Change:
        connection = partition.connection
        live = f" AND state = 'live' AND {END} > ?{visible(self.rights)}"
        ids = dict.fromkeys(self.ids)
        found = partition.select_memories("rid", ids, live, partition.expiry_now)
        stored = load_rows(connection, [rid for (rid,) in found])
        # The vectors that a model migration has prepared for the rows.
        rids = [entry.row.rid for entry in stored]
        prepared = {
            row[0]: row[1:] for row in select_in(connection, _PREPARED, [], rids)
        }
        marked = []
        for old, vec, model in in_slices(stored):
            uses = min((old.uses or 0) + 1, _MOST_USES)
            row = old._replace(uses=uses, last_used=partition.now)
            partition.change(row.rid, "m")
            # Right after a model switch, the vector is still in vec_next and moves to
            # the row.
            new = (uses, row.last_used, partition.seq, vec, model, checksum(row, vec))
            partition.execute(_MARK_USED, (*new, row.rid))
            if row.rid in prepared:
                ahead, crc = prepared[row.rid]
                is_kept = isinstance(ahead, bytes) and is_undamaged_row(old, ahead, crc)
                ahead, crc = (ahead, checksum(row, ahead)) if is_kept else (b"", None)
                partition.execute(_PREPARE, (ahead, crc, row.rid))
            marked.append(row)
        change = partition.changed(ids=[row.id for row in marked])
        change.marked = marked
        return change


# Moves the expiry of memories.


@dataclass(slots=True, repr=False, eq=False)
class TouchMemories(partition_writer.MemoriesJob):
    """Moves the expiry of one user's memories, and nothing else of them.

    Unknown ids are ignored, and memories whose time is over. `updated_at` does not
    change, and the history gets no revision.
    """

    ttl: float | None  # the time that they last from now, in seconds; None is for ever
    rights: Rights = FULL  # other memories than those that the caller sees are unknown

    def _write_partition(self, partition: partition_writer.PartitionWriter) -> Change:
        now, ids = partition.expiry_now, dict.fromkeys(self.ids)
        lasting = (
            f" AND (state <> 'live' OR {END} > ?) "
            f"AND coalesce(expires_at, 9e99) > ?{visible(self.rights)}"
        )
        found = partition.select_memories("rid, state", ids, lasting, now, now)
        expires_at = None if self.ttl is None else now + self.ttl
        touched: list[str] = []

        def touch(row: Row) -> Row:
            touched.append(row.id)
            return row._replace(expires_at=expires_at)

        written = partition_writer.rewrite_rows(partition, dict(found), touch)
        return partition.changed(written, ids=touched)
