"""Changes the state of memories: archives, supersedes and restores them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from vecall.errors import NotFoundError
from vecall.filters.rights import FULL, Rights
from vecall.store.erased_names import tombstones
from vecall.store.reads.partition_reads import load_rows
from vecall.store.rows import Row, RowWithVector, checksum, passages_from
from vecall.store.sql import insert_many, select_in
from vecall.store.visible import visible
from vecall.store.writes.partition_writer import PartitionWriter
from vecall.store.writes.passages import with_passages

State = Literal["live", "archived", "quarantined"]

Reason = Literal["superseded", "merged", "folded", "lapsed", "archived"]
"""Why a memory was archived: a newer one contradicts, duplicates or summarizes it; its
`valid_until` passed; or a caller archived it."""


def rewrite(
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
    partition.connection.execute(
        "UPDATE mem SET pos = ?, uses = ?, last_used = ?, valid_until = ?, "
        "supersedes = ?, updated_at = ?, importance_prior = ?, expires_at = ?, "
        "state = ?, seq = ?, vec = ?, model = ?, crc = ? WHERE rid = ?",
        (
            row.pos,
            row.uses,
            row.last_used,
            row.valid_until,
            row.supersedes,
            row.updated_at,
            row.importance,
            row.expires_at,
            state,
            partition.seq,
            stored.vec,
            stored.model,
            checksum(row, stored.vec),
            row.rid,
        ),
    )
    return RowWithVector(row, stored.vec, stored.model)


def archive(
    partition: PartitionWriter,
    rids: Iterable[int],
    why: Reason,
    by: str | None = None,
) -> list[int]:
    """Archive live memories, so that searches do not find them.

    Args:
        partition: Their partition.
        rids: Their rows.
        why: The reason.
        by: The id of the memory that replaces them.

    Returns:
        The rows that were live.
    """
    stored = load_rows(partition.connection, rids)
    for entry in stored:
        row = entry.row._replace(updated_at=partition.after(entry.row.updated_at))
        if why == "superseded" and row.valid_until is None:
            row = row._replace(valid_until=partition.now)
        rewrite(partition, entry, row, state="archived")
    insert_many(
        partition.connection,
        "replaced (part, id, by, why, at)",
        [(partition.id, entry.row.id, by, why, partition.now) for entry in stored],
        "ON CONFLICT (part, id) DO UPDATE SET by = excluded.by, why = excluded.why, "
        "at = excluded.at",
    )
    return [entry.row.rid for entry in stored]


def supersede(
    partition: PartitionWriter,
    newer: Mapping[str | None, str],
    rights: Rights = FULL,
) -> list[int]:
    """Archive memories that newer ones supersede.

    Args:
        partition: Their partition.
        newer: The id of the newer memory, by the id of the older one.
        rights: Other memories than those that the caller sees are unknown.

    Returns:
        The rows that were live.

    Raises:
        NotFoundError: The user never had a memory with an older id.
    """
    older = [id_ for id_ in newer if id_ is not None]
    if not older:
        return []
    connection = partition.connection
    seen = visible(rights)
    query = f"SELECT id FROM mem WHERE part = ?{seen} AND id IN"
    known = {id_ for (id_,) in select_in(connection, query, [partition.id], older)}
    known.update(id_ for id_, *_ in tombstones(connection, partition.id, older))
    if not known.issuperset(older):
        msg = "supersedes: this user has no such memory"
        raise NotFoundError(msg)
    query = f"SELECT id, rid FROM mem WHERE part = ? AND state = 'live'{seen} AND id IN"
    ids = with_passages(connection, partition.id, older)
    live = select_in(partition.connection, query, [partition.id], ids)
    turns = {passages_from(id_)[0]: id_ for id_ in older}
    removed = []
    for id_, rid in list(live):
        of = id_ if id_ in newer else turns[id_[: id_.find(".") + 1]]
        removed += archive(partition, [rid], "superseded", newer[of])
    return removed


def bring_back(
    partition: PartitionWriter,
    ids: Sequence[str],
    state: State,
    rights: Rights = FULL,
) -> list[RowWithVector]:
    """Make memories of one state live, except for damaged and hidden ones.

    A `valid_until` that has passed is removed. Their order is that of storing.
    """
    found = select_in(
        partition.connection,
        "SELECT rid, state FROM mem WHERE part = ? AND state = ? "
        f"AND coalesce(expires_at, 9e99) > ?{visible(rights)} AND id IN",
        [partition.id, state, partition.expiry_now],
        ids,
    )
    query = (
        "SELECT id FROM replaced WHERE part = ? AND why IN ('superseded', 'lapsed') "
        "AND id IN"
    )
    ended = select_in(partition.connection, query, [partition.id], ids)
    over = {id_ for (id_,) in ended}
    states: dict[int, State] = dict(found)
    written = []
    loaded = load_rows(partition.connection, states, any_state=True)
    for entry in sorted(loaded, key=lambda entry: entry.row.rid):
        row = entry.row._replace(updated_at=partition.after(entry.row.updated_at))
        end = row.valid_until
        if row.id in over or (end is not None and end <= partition.expiry_now):
            row = row._replace(valid_until=None)
        written.append(rewrite(partition, entry, row, was=states[row.rid]))
    for entry in written:
        partition.connection.execute(
            "DELETE FROM replaced WHERE part = ? AND id = ?",
            (partition.id, entry.row.id),
        )
    return written


def rewrite_positions(
    partition: PartitionWriter, moved: dict[str, float]
) -> list[RowWithVector]:
    """Change only the positions of turns; return the live ones."""
    if not moved:
        return []
    query = "SELECT rid, id, state FROM mem WHERE part = ? AND id IN"
    found = select_in(partition.connection, query, [partition.id], list(moved))
    known: dict[int, tuple[str, State]] = {
        rid: (id_, state) for rid, id_, state in found
    }
    written = []
    for entry in load_rows(partition.connection, known, any_state=True):
        id_, state = known[entry.row.rid]
        row = entry.row._replace(pos=moved[id_])
        row_written = rewrite(partition, entry, row, was=state, state=state)
        if state == "live":
            written.append(row_written)
    return written


def rows_to_fold(
    partition: PartitionWriter, fold: Mapping[str, bytes]
) -> list[int] | None:
    """Return the rows of live memories, by the hashes of their texts by id.

    Returns:
        None if one of them has changed or is not live any more.
    """
    if not fold:
        return []
    query = "SELECT id, rid, hash FROM mem WHERE part = ? AND state = 'live' AND id IN"
    found = list(select_in(partition.connection, query, [partition.id], list(fold)))
    same = all(fold[id_] == hash_ for id_, _, hash_ in found)
    return [rid for _, rid, _ in found] if same and len(found) >= len(fold) else None
