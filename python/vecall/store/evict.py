"""How much one user may have, and what goes when it is more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from vecall.config import Eviction
from vecall.errors import LimitExceededError
from vecall.importance import weight_of
from vecall.slices import in_slices
from vecall.store.delete import Doomed, bury, delete_rows
from vecall.store.partitions import PartitionWriter
from vecall.store.rows import StoredRow
from vecall.store.sweep import clear_expired


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

    What has expired, and is not cleared away yet, is in nobody's way.

    Returns:
        The rows that went.

    Raises:
        LimitExceededError: There is no room, and nothing may go.
    """
    if not any(bounds.exceeded_by(partition)):
        return []
    expired = [row.rid for row in clear_expired(partition)]
    count, size = bounds.exceeded_by(partition)
    if not (count or size):
        return expired
    if bounds.eviction == "reject":
        msg = (
            f"a user's memories: at most max_user_memories = {bounds.memories} and "
            f"max_user_bytes = {bounds.nbytes} of text; nothing was written"
        )
        raise LimitExceededError(msg)
    doomed: list[Doomed] = []
    for row in _in_order(partition, bounds.eviction, written):
        if count <= 0 and size <= 0:
            break
        doomed.append(row)
        count, size = count - 1, size - row.size
    delete_rows(partition, doomed)
    bury(partition, [row.id for row in doomed], "evicted")
    return expired + [row.rid for row in doomed]


def _in_order(
    partition: PartitionWriter, eviction: Eviction, written: Sequence[StoredRow]
) -> list[Doomed]:
    """All live memories of a user, those first that go first."""
    found = partition.connection.execute(
        "SELECT rid, id, length(CAST(text AS BLOB)), coalesce(ts, created_at), "
        "max(created_at, updated_at, ifnull(last_used, 0)), importance_prior, uses "
        "FROM mem WHERE rid BETWEEN ? AND ? AND state = 'live'",
        (partition.id << 32, (partition.id << 32) | 0xFFFFFFFF),
    ).fetchall()
    new = {entry.row.rid for entry in written}
    order = []
    for rid, id_, size, time, touched, prior, uses in in_slices(found):
        if eviction == "oldest":
            value = time
        elif eviction == "lru":
            value = touched
        else:
            value = weight_of(prior, uses, partition.now - time)
        order.append((rid in new, value, rid, Doomed(rid, id_, size, "live")))
    order.sort(key=lambda entry: entry[:3])
    return [doomed for *_, doomed in order]
