"""Quotas of a user, and eviction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from vecall.errors import LimitExceededError
from vecall.limits import Eviction
from vecall.store.rows import RowWithVector
from vecall.store.sql import select_in
from vecall.store.writes.delete import RowToDelete, delete_rows, write_tombstones
from vecall.store.writes.expire import clear_away
from vecall.store.writes.lowest_value import lowest_value
from vecall.store.writes.partition_writer import PartitionWriter
from vecall.store.writes.waiting_counts import Waits, waits_of

_ALL = 1 << 62
_MORE = 16  # extra rows that are read when the byte limit is exceeded
_OLDEST = "coalesce(ts, created_at)"  # the expression of the index mem_old
_LAST_TOUCHED = "max(created_at, updated_at, coalesce(last_used, 0))"
_AT_ONCE = 100  # without an index, evict this fraction (1/100) of the quota in addition


class UserQuota(NamedTuple):
    """The quota of one user; None is no limit. Buffered turns count, too.

    Attributes:
        memories: Maximum number of memories and buffered turns.
        nbytes: Maximum bytes of text in UTF-8; of buffered turns, of their JSON.
        eviction: The eviction policy.
    """

    memories: int | None
    nbytes: int | None
    eviction: Eviction

    def exceeded_by(self, partition: PartitionWriter, waits: Waits) -> tuple[int, int]:
        """Return by how many memories and bytes the quota is exceeded."""
        live, nbytes = partition.live + waits.turns, partition.nbytes + waits.nbytes
        count = 0 if self.memories is None else live - self.memories
        size = 0 if self.nbytes is None else nbytes - self.nbytes
        return max(count, 0), max(size, 0)


def evict(
    partition: PartitionWriter,
    bounds: UserQuota,
    written: Sequence[RowWithVector],
    more: Waits = Waits(),  # noqa: B008 it cannot be changed
) -> list[int]:
    """Evict memories until the quota is met.

    Expired memories go first. Memories that were just written go last. Buffered turns
    are never evicted.

    Args:
        partition: The user's partition.
        bounds: The quota.
        written: The memories that were just written.
        more: The growth of the buffered turns; negative if they shrank.

    Returns:
        The evicted rows.

    Raises:
        LimitExceededError: The quota is exceeded, and eviction cannot meet it.
    """
    waits = waits_of(partition)
    if not any(bounds.exceeded_by(partition, waits)):
        return []
    _, over = clear_away(partition)
    count, size = bounds.exceeded_by(partition, waits)
    if not (count or size):
        return over
    if bounds.eviction == "reject" and not partition.has_grown(*more):
        return over  # there was no excess before
    if bounds.eviction == "reject":
        raise _exceeded(bounds, count, size, waits)
    new = {entry.row.rid for entry in written}
    doomed = _first(partition, bounds, new, count, size)
    delete_rows(partition, doomed)
    write_tombstones(partition, [row.id for row in doomed], "evicted")
    gone = [row.rid for row in doomed]
    left = bounds.exceeded_by(partition, waits)
    if waits.turns and (any(left) or not new.isdisjoint(gone)):
        # Buffered turns leave no room for the new memories.
        raise _exceeded(bounds, count, size, waits)
    return over + gone


def _exceeded(
    bounds: UserQuota, count: int, size: int, waits: Waits
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


def _first(
    partition: PartitionWriter, bounds: UserQuota, new: set[int], count: int, size: int
) -> list[RowToDelete]:
    """The rows to evict: at least `count` rows and `size` bytes, new ones last.

    Without an index on the order, every memory has to be read. To make that rare, a
    hundredth of the quota is evicted in addition, but no new memories.
    """
    more = larger = 0
    if bounds.eviction != "oldest":
        more = (bounds.memories or 0) // _AT_ONCE if count else 0
        larger = (bounds.nbytes or 0) // _AT_ONCE if size else 0
    limit = count + more + len(new) + _MORE
    if larger:  # the number of rows for these bytes is unknown: sort all, once
        limit = _ALL
    while True:
        order = _in_order(partition, bounds.eviction, limit)
        old = [rid for rid in order if rid not in new]
        going, left = _take(partition, old, count + more, size + larger)
        enough = len(going) >= count + more and left <= 0
        if enough or len(order) < limit:
            young = [rid for rid in order if rid in new]
            count, size = count - len(going), left - larger
            return going + _take(partition, young, count, size)[0]
        limit *= 8


def _take(
    partition: PartitionWriter, order: Sequence[int], count: int, size: int
) -> tuple[list[RowToDelete], int]:
    """The first rows of `order` that reach `count` rows and `size` bytes.

    Returns:
        The rows, and the bytes that are still missing; 0 or negative: none.
    """
    going: list[RowToDelete] = []
    at = 0
    while at < len(order) and (len(going) < count or size > 0):
        # The number of rows depends on their sizes: each slice doubles the rows read.
        end = at + max(count - len(going), max(at, _MORE) if size > 0 else 0)
        for row in _rows(partition, order[at:end]):
            if len(going) >= count and size <= 0:
                break
            going.append(row)
            size -= row.size
        at = end
    return going, size


def _in_order(partition: PartitionWriter, eviction: Eviction, limit: int) -> list[int]:
    """At most `limit` live rows of a user, in order of eviction."""
    execute = partition.connection.execute
    if eviction == "oldest":
        return [
            rid
            for (rid,) in execute(
                "SELECT rid FROM mem INDEXED BY mem_old WHERE part = ? AND "
                f"state = 'live' ORDER BY {_OLDEST}, rid LIMIT ?",
                (partition.id, limit),
            )
        ]
    if eviction == "lowest_value":
        return lowest_value(partition, limit)
    live = "FROM mem WHERE rid BETWEEN ? AND ? AND state = 'live'"
    own = (partition.id << 32, (partition.id << 32) | 0xFFFFFFFF)
    order = f"ORDER BY {_LAST_TOUCHED}, rid LIMIT ?"
    return [rid for (rid,) in execute(f"SELECT rid {live} {order}", (*own, limit))]


def _rows(partition: PartitionWriter, rids: Sequence[int]) -> list[RowToDelete]:
    found = select_in(
        partition.connection,
        "SELECT rid, id, length(CAST(text AS BLOB)), state FROM mem WHERE rid IN",
        [],
        rids,
    )
    rows = {rid: RowToDelete(rid, *rest) for rid, *rest in found}
    return [rows[rid] for rid in rids]
