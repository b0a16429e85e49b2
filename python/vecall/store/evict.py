"""How much one user may have, and what goes when it is more."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nsmallest
from typing import NamedTuple

from vecall.config import Eviction
from vecall.errors import LimitExceededError
from vecall.importance import weight_of
from vecall.slices import in_slices
from vecall.store.batches import select_in
from vecall.store.delete import Doomed, bury, delete_rows
from vecall.store.partitions import PartitionWriter
from vecall.store.rows import StoredRow
from vecall.store.sweep import clear_away

_MORE = 16  # rows looked at beside those that must go, for where their size counts
_TIME = "coalesce(ts, created_at)"
_VALUES = {
    "oldest": _TIME,
    "lru": "max(created_at, updated_at, ifnull(last_used, 0))",
}


class Bounds(NamedTuple):
    """How much one user may have; None is as much as they like.

    Attributes:
        memories: How many.
        nbytes: How many bytes of text, in UTF-8.
        eviction: What goes when it is more.
    """

    memories: int | None
    nbytes: int | None
    eviction: Eviction

    def exceeded_by(self, partition: PartitionWriter) -> tuple[int, int]:
        """Return how many memories and bytes there are too many."""
        count = 0 if self.memories is None else partition.live - self.memories
        size = 0 if self.nbytes is None else partition.nbytes - self.nbytes
        return max(count, 0), max(size, 0)


def evict(
    partition: PartitionWriter, bounds: Bounds, written: Sequence[StoredRow]
) -> list[int]:
    """Make room; what has just been written goes only if nothing else is left.

    What is over already, and was not cleared away yet, goes before all else.

    Returns:
        The rows that went.

    Raises:
        LimitExceededError: There is no room, and nothing may go.
    """
    if not any(bounds.exceeded_by(partition)):
        return []
    _, over = clear_away(partition)
    count, size = bounds.exceeded_by(partition)
    if not (count or size):
        return over
    if bounds.eviction == "reject" and not partition.has_grown:
        return over  # nothing is asked for that was not there
    if bounds.eviction == "reject":
        limits = [f"max_user_memories = {bounds.memories}"] if count else []
        limits += [f"max_user_bytes = {bounds.nbytes} of text"] if size else []
        msg = f"a user's memories: at most {', '.join(limits)}; nothing was written"
        raise LimitExceededError(msg)
    new = {entry.row.rid for entry in written}
    doomed = _first_to_go(partition, bounds.eviction, new, count, size)
    delete_rows(partition, doomed)
    bury(partition, [row.id for row in doomed], "evicted")
    return over + [row.rid for row in doomed]


def _first_to_go(
    partition: PartitionWriter, eviction: Eviction, new: set[int], count: int, size: int
) -> list[Doomed]:
    """At least so many memories and bytes; what is new only after all else."""
    most = count + len(new) + _MORE
    while True:
        order = _in_order(partition, eviction, most)
        is_all = len(order) < most
        chosen = [rid for rid in order if rid not in new]
        if is_all:
            chosen += [rid for rid in order if rid in new]
        going: list[Doomed] = []
        left = size
        for row in _rows(partition, chosen if size else chosen[:count]):
            if len(going) >= count and left <= 0:
                break
            going.append(row)
            left -= row.size
        if is_all or (len(going) >= count and left <= 0):
            return going
        most *= 8


def _in_order(partition: PartitionWriter, eviction: Eviction, most: int) -> list[int]:
    """The live rows of a user that go first."""
    live = "FROM mem WHERE rid BETWEEN ? AND ? AND state = 'live'"
    own = (partition.id << 32, (partition.id << 32) | 0xFFFFFFFF)
    execute = partition.connection.execute
    if eviction != "lowest_value":
        # SQLite looks at all of them too, but keeps no more than are asked for.
        order = f"ORDER BY {_VALUES[eviction]}, rid LIMIT ?"
        return [rid for (rid,) in execute(f"SELECT rid {live} {order}", (*own, most))]
    found = execute(
        f"SELECT rid, importance_prior, uses, {_TIME} {live}", own
    ).fetchall()
    weighed = (
        (weight_of(prior, uses, partition.now - time), rid)
        for rid, prior, uses, time in in_slices(found)
    )
    return [rid for _, rid in nsmallest(most, weighed)]


def _rows(partition: PartitionWriter, rids: Sequence[int]) -> list[Doomed]:
    found = select_in(
        partition.connection,
        "SELECT rid, id, length(CAST(text AS BLOB)), state FROM mem WHERE rid IN",
        [],
        rids,
    )
    rows = {rid: Doomed(rid, *rest) for rid, *rest in found}
    return [rows[rid] for rid in rids]
