"""What becomes of a write whose id belongs to a memory that the caller does not see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from vecall.filters.rights import Rights
from vecall.store.rows import Draft
from vecall.store.sql import select_in
from vecall.store.visible import above_floor
from vecall.store.writes.delete import RowToDelete, delete_rows
from vecall.store.writes.left_out import leave_out_passages
from vecall.store.writes.partition_writer import PartitionWriter
from vecall.store.writes.row_diff import ExistingRow, same_content


class HiddenRows(NamedTuple):
    """The stored memories of drafts that a caller does not see.

    Attributes:
        same: Those that say what their draft says, by id. They stay as they are.
        replaced: Quarantined ones whose draft is written as a new memory, by id. Their
            text stays in the history.
        taken: The ids of those below the floor that say something else. They stay as
            they are, so their drafts cannot be stored; nor are those of their passages.
        deleted: The rows of expired ones.
    """

    same: dict[str, ExistingRow]
    replaced: dict[str, ExistingRow]
    taken: list[str]
    deleted: list[int]


NONE = HiddenRows({}, {}, [], [])


def set_aside(
    partition: PartitionWriter,
    drafts: dict[str, Draft],
    stored: dict[str, ExistingRow],
    rights: Rights,
    edit: bool,
    restore: bool,
) -> HiddenRows:
    """Remove the memories that a caller does not see from `stored`.

    Drafts whose ids are taken are removed from `drafts`.

    Args:
        partition: Their partition.
        drafts: The drafts by id.
        stored: The stored rows by id.
        rights: What the caller sees.
        edit: The drafts correct memories: a hidden one does not exist.
        restore: Turns that have expired are stored again.
    """
    hidden = HiddenRows({}, {}, [], [])
    now = partition.expiry_now
    for id_, old in list(stored.items()):
        draft = drafts[id_]
        if rights.sees(old.trust, old.state):
            continue
        if old.has_expired(now) and draft.ordered and not (edit or restore):
            continue  # it is left out as any expired turn is
        del stored[id_]
        if edit:
            continue
        if old.has_expired(now):
            size = len(old.text.encode())
            delete_rows(partition, [RowToDelete(old.rid, id_, size, old.state)])
            hidden.deleted.append(old.rid)
        elif same_content(draft, old):
            hidden.same[id_] = old
        elif rights.trusts(old.trust):
            hidden.replaced[id_] = old
        else:
            hidden.taken.append(id_)
            del drafts[id_]
    gone = leave_out_passages(drafts, dict.fromkeys(hidden.taken, "taken"))
    hidden.taken.extend(gone)
    return hidden


def taken_ids(
    partition: PartitionWriter, ids: Sequence[str], rights: Rights
) -> list[str]:
    """Return those of `ids` that memories below the caller's floor have."""
    if not rights.has_floor:
        return []
    found = select_in(
        partition.connection,
        "SELECT id FROM mem WHERE part = ? AND coalesce(expires_at, 9e99) > ? "
        f"AND NOT coalesce(1 = 1{above_floor(rights)}, 1 = 0) AND id IN",
        [partition.id, partition.expiry_now],
        ids,
    )
    return [id_ for (id_,) in found]
