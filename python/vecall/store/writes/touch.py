"""Moves the expiry of memories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vecall.concurrency.time_slices import in_slices
from vecall.filters.rights import FULL, Rights
from vecall.store.reads.partition_reads import END, load_rows
from vecall.store.rows import Change
from vecall.store.sql import select_in
from vecall.store.transaction import Transaction
from vecall.store.visible import visible
from vecall.store.writes.partition_writer import PartitionWriter
from vecall.store.writes.row_state import State, rewrite

_ROW_BYTES = 100  # of a change, with its log entry


@dataclass(slots=True)
class TouchMemories:
    """Moves the expiry of one user's memories, and nothing else of them.

    Unknown ids are ignored, and memories whose time is over. `updated_at` does not
    change, and the history gets no revision.

    Attributes:
        app: The app.
        user: The user.
        ids: The ids of the memories.
        ttl: The time that they last from now, in seconds; None is for ever.
        rights: Other memories than those that the caller sees are unknown.
    """

    app: str
    user: str
    ids: Sequence[str]
    ttl: float | None
    rights: Rights = FULL

    def run(self, connection: Transaction) -> Change:
        """Do it inside a transaction."""
        partition = PartitionWriter(connection, self.app, self.user, create=False)
        now = partition.expiry_now
        found = select_in(
            connection,
            f"SELECT rid, state FROM mem WHERE part = ? AND (state <> 'live' OR "
            f"{END} > ?) AND coalesce(expires_at, 9e99) > ?{visible(self.rights)} "
            "AND id IN",
            [partition.id, now, now],
            list(dict.fromkeys(self.ids)),
        )
        states: dict[int, State] = dict(found)
        expires_at = None if self.ttl is None else now + self.ttl
        written, ids = [], []
        for stored in in_slices(load_rows(connection, states, any_state=True)):
            state = states[stored.row.rid]
            row = stored.row._replace(expires_at=expires_at)
            ids.append(row.id)
            if row != stored.row:
                moved = rewrite(partition, stored, row, was=state, state=state)
                if state == "live":
                    written.append(moved)
        partition.finish()
        return partition.changed(written, ids=ids)

    @property
    def estimated_bytes(self) -> int:
        """About how many bytes the file grows by."""
        return _ROW_BYTES * len(self.ids)
