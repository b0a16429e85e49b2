"""Leaves out the drafts of a call that are not stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from vecall.store.erased_names import tombstones
from vecall.store.rows import Draft
from vecall.store.writes.partition_writer import PartitionWriter

Away = Literal["deleted", "expired", "evicted", "taken"]
"""Why a draft is not stored."""


def leave_out_deleted(
    partition: PartitionWriter,
    drafts: dict[str, Draft],
    keys: Sequence[bytes],
    restore: bool,
    again: bool,
) -> tuple[dict[str, Away], set[str]]:
    """Remove the drafts that stay deleted.

    Re-ingesting a session does not bring back turns that were deleted, evicted or
    expired. A fact that expired or was evicted is stored again. A fact that was deleted
    is stored again only with `again`.

    Args:
        partition: Their partition.
        drafts: The drafts by id.
        keys: What `keys_of` returned in this transaction.
        restore: Store every draft.
        again: Also store facts that were deleted.

    Returns:
        Why drafts are left out, by id; and the ids of those that are stored again.
    """
    back: set[str] = set()
    left_out: dict[str, Away] = {}
    connection = partition.connection
    ids = list(drafts)
    for id_, form, why in tombstones(connection, partition.id, ids, keys):
        draft = drafts.get(id_)
        if draft is None:
            continue
        if restore or (not draft.ordered and (again or why is not None)):
            connection.execute(
                "DELETE FROM tomb WHERE part = ? AND id = ?", (partition.id, form)
            )
            back.add(id_)
        else:
            left_out[id_] = why or "deleted"
            del drafts[id_]
    return left_out | leave_out_passages(drafts, left_out), back


def leave_out_passages(
    drafts: dict[str, Draft], left_out: Mapping[str, Away]
) -> dict[str, Away]:
    """Remove the passages of turns that are left out; return why, by id."""
    if not left_out:
        return {}
    gone = {
        id_: left_out[draft.passage_of]
        for id_, draft in drafts.items()
        if draft.passage_of is not None and draft.passage_of in left_out
    }
    for id_ in gone:
        del drafts[id_]
    return gone
