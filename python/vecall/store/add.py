"""Writing memories: an upsert by id, in which absence never deletes."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from vecall.slices import in_slices
from vecall.store.batches import insert_many, select_in
from vecall.store.delete import delete_rows, doomed_of_session
from vecall.store.idempotency import Promise
from vecall.store.models import require_active
from vecall.store.partitions import PartitionWriter
from vecall.store.positions import Positions
from vecall.store.read import load_rows
from vecall.store.rows import (
    COLUMNS,
    Change,
    Draft,
    Row,
    StoredRow,
    checksum,
    is_whole,
)


class _Stored(NamedTuple):
    """What is there already under an id."""

    state: str
    rid: int
    pos: int | None
    created_at: float
    expires_at: float | None
    vec: bytes | None
    model: int | None
    session: str | None
    event: str | None
    ts: float | None
    author: str | None
    kind: str | None
    source: str | None
    trust: str | None
    text: str
    content: str | None
    meta: str | None
    importance: float | None
    uses: int | None
    last_used: float | None
    crc: int


_REST = "part, seq, updated_at, hash, vec, model, crc"
"""The columns of `mem` that a `Row` does not have, as `_rest` gives them."""

_ROW_BYTES = 500  # of a row beside its text and vector, with indexes and log

_COMPARED = (
    "session event ts author kind source trust text content meta importance"
).split()


@dataclass(slots=True)
class AddMemories:
    """Adds one call's memories to one user, all or none.

    Attributes:
        app: The app.
        user: The user.
        drafts: What to add; of equal ids the last wins.
        model: Number of the embedding model of the drafts' vectors.
        restore: Bring back memories that were deleted; otherwise they stay deleted.
        replace: Also delete the memories of this session that are not among the drafts.
        key: A second call with the same key changes nothing.
    """

    app: str
    user: str
    drafts: Sequence[Draft]
    model: int | None = None
    restore: bool = False
    replace: str | None = None
    key: str | None = None

    def run(self, connection: sqlite3.Connection) -> Change:
        """Do it inside a transaction."""
        require_active(connection, self.model)
        partition = PartitionWriter(connection, self.app, self.user, create=True)
        told = None if self.key is None else Promise(partition, self.key, self.drafts)
        if told is not None and (ids := told.kept()) is not None:
            return partition.unchanged(ids)
        drafts = self._wanted(partition)
        stored = _find(partition, list(drafts))
        removed = self._remove_others(partition, drafts)
        positions = _positions(partition, drafts, stored)
        written = _move(partition, positions.moved)
        inserts: list[tuple[Any, ...]] = []
        for id_, draft in in_slices(drafts.items()):
            known = stored.get(id_)
            if known is None:
                new = self._new(partition, draft, positions.of.get(id_), inserts)
                written.append(new)
            elif not _same(draft, known, partition.now):
                pos = positions.of.get(id_, positions.moved.get(id_, known.pos))
                written.append(self._update(partition, draft, known, pos))
        insert_many(connection, f"mem ({COLUMNS}, {_REST})", inserts)
        if told is not None:
            told.keep(list(drafts))
        partition.finish()
        return partition.changed(written, removed, list(drafts))

    @property
    def growth(self) -> int:
        """About how many bytes the file grows by."""
        return sum(
            _ROW_BYTES + len(draft.text) + len(draft.vec or b"")
            for draft in in_slices(self.drafts)
        )

    def _wanted(self, partition: PartitionWriter) -> dict[str, Draft]:
        """The drafts by id, without those that were deleted for good."""
        drafts = {draft.id: draft for draft in self.drafts}
        execute = partition.connection.execute
        none = "SELECT 1 FROM tomb WHERE part = ? LIMIT 1"
        if execute(none, (partition.id,)).fetchone() is None:
            return drafts
        buried = select_in(
            partition.connection,
            "SELECT id FROM tomb WHERE part = ? AND id IN",
            [partition.id],
            list(drafts),
        )
        for (id_,) in buried:
            if self.restore:
                execute(
                    "DELETE FROM tomb WHERE part = ? AND id = ?", (partition.id, id_)
                )
            else:
                del drafts[id_]
        return drafts

    def _remove_others(
        self, partition: PartitionWriter, drafts: dict[str, Draft]
    ) -> list[int]:
        if self.replace is None:
            return []
        turns = doomed_of_session(partition, self.replace)
        gone = [turn for turn in turns if turn.id not in drafts]
        delete_rows(partition, gone)
        return [turn.rid for turn in gone]

    def _new(
        self,
        partition: PartitionWriter,
        draft: Draft,
        pos: int | None,
        inserts: list[tuple[Any, ...]],
    ) -> StoredRow:
        """Make a row that `inserts` brings into the file later."""
        rid = partition.change(0, "u", live=1, size=len(draft.text.encode()))
        row = _row(draft, rid, pos, partition.now, draft.expires_at)
        inserts.append((*row, *_rest(partition, row, draft, draft.vec, self.model)))
        return StoredRow(row, draft.vec, self.model)

    def _update(
        self, partition: PartitionWriter, draft: Draft, old: _Stored, pos: int | None
    ) -> StoredRow:
        size = len(draft.text.encode())
        if old.state == "live":
            partition.change(old.rid, "u", size=size - len(old.text.encode()))
        else:
            partition.change(old.rid, "u", live=1, size=size)
        if old.state != "quarantined" and any(
            getattr(draft, name) != getattr(old, name) for name in _COMPARED
        ):
            _remember(partition, draft.id, old)
        vec, model = draft.vec, self.model
        if vec is None and (draft.author, draft.text) == (old.author, old.text):
            vec, model = old.vec, old.model
        expires_at = _expiry(draft, old, partition.now)
        row = _row(draft, old.rid, pos, old.created_at, expires_at)
        if _is_whole(draft.id, old):  # else nobody knows how often it was used
            row = row._replace(uses=old.uses, last_used=old.last_used)
        partition.connection.execute(
            "UPDATE mem SET id = ?, session = ?, event = ?, pos = ?, ts = ?, "
            "created_at = ?, expires_at = ?, author = ?, kind = ?, source = ?, "
            "trust = ?, text = ?, content = ?, meta = ?, importance_prior = ?, "
            "uses = ?, last_used = ?, "
            "part = ?, seq = ?, updated_at = ?, hash = ?, vec = ?, model = ?, crc = ?, "
            "state = 'live' WHERE rid = ?",
            (*row[1:], *_rest(partition, row, draft, vec, model), old.rid),
        )
        return StoredRow(row, vec, model)


def _rest(
    partition: PartitionWriter,
    row: Row,
    draft: Draft,
    vec: bytes | None,
    model: int | None,
) -> tuple[object, ...]:
    """The values of the columns named by `_REST`."""
    return (
        partition.id,
        partition.seq,
        partition.now,
        draft.hash,
        vec,
        None if vec is None else model,
        checksum(row, vec),
    )


def _find(partition: PartitionWriter, ids: Sequence[str]) -> dict[str, _Stored]:
    """What is there already, by id."""
    # Right after a file changed its model, the new vectors are still in vec_next.
    found = select_in(
        partition.connection,
        "SELECT id, state, mem.rid, pos, created_at, expires_at, "
        "coalesce(next.vec, mem.vec), coalesce(next.model, mem.model), session, event, "
        "ts, author, kind, source, trust, text, content, meta, importance_prior, "
        "uses, last_used, CASE WHEN next.rid IS NULL THEN mem.crc ELSE next.crc END "
        "FROM mem LEFT JOIN vec_next AS next ON next.rid = mem.rid AND next.model = "
        "(SELECT id FROM model WHERE state = 'active') WHERE part = ? AND id IN",
        [partition.id],
        ids,
    )
    return {values[0]: _Stored(*values[1:]) for values in found}


def _is_whole(id_: str, old: _Stored) -> bool:
    """Whether what is there has its checksum."""
    told = {name: getattr(old, name) for name in Row._fields if name != "id"}
    return is_whole(Row(id=id_, **told), old.vec, old.crc)


def _expiry(draft: Draft, old: _Stored, now: float) -> float | None:
    """When the memory expires once the draft is written.

    A time to live that is given counts. Without one the old time stays, except that a
    fact which has expired and is told again lives on; an expired turn of a session that
    is merely ingested again does not.
    """
    if draft.expires_at is not None:
        return draft.expires_at
    expired = old.expires_at is not None and old.expires_at <= now
    return None if expired and not draft.ordered else old.expires_at


def _same(draft: Draft, old: _Stored, now: float) -> bool:
    """Whether writing the draft would change nothing.

    An archived memory that is told again as it was stays archived; what was set aside
    as damaged is written anew.
    """
    if old.state == "quarantined":
        return False
    if draft.vec is not None and old.vec is None:
        return False
    if draft.ordered and old.pos is None:
        return False
    if _expiry(draft, old, now) != old.expires_at:
        return False
    return all(getattr(draft, name) == getattr(old, name) for name in _COMPARED)


def _row(
    draft: Draft,
    rid: int,
    pos: int | None,
    created_at: float,
    expires_at: float | None,
) -> Row:
    return Row(
        rid,
        draft.id,
        draft.session,
        draft.event,
        pos,
        draft.ts,
        created_at,
        expires_at,
        draft.author,
        draft.kind,
        draft.source,
        draft.trust,
        draft.text,
        draft.content,
        draft.meta,
        draft.importance,
    )


def _remember(partition: PartitionWriter, id_: str, old: _Stored) -> None:
    """Keep what an update overwrites."""
    kept = {name: getattr(old, name) for name in _COMPARED}
    partition.connection.execute(
        "INSERT INTO hist (part, id, seq, at, op, old) "
        "VALUES (?, ?, ?, ?, 'update', ?)",
        (partition.id, id_, partition.seq, partition.now, json.dumps(kept)),
    )


def _positions(
    partition: PartitionWriter, drafts: dict[str, Draft], stored: dict[str, _Stored]
) -> Positions:
    told = [draft for draft in drafts.values() if draft.ordered]
    session = told[0].session if told else None
    known = {
        id_: old.pos
        for id_, old in stored.items()
        if old.pos is not None and old.session == session
    }
    return Positions(partition, session, [draft.id for draft in told], known)


def _move(partition: PartitionWriter, moved: dict[str, int]) -> list[StoredRow]:
    """Give turns that stay as they are another position in their session."""
    stored = _find(partition, list(moved))
    numbers = {stored[id_].rid: position for id_, position in moved.items()}
    found = []
    for row, vec, model in load_rows(partition.connection, numbers):
        moved_row = row._replace(pos=numbers[row.rid])
        partition.change(row.rid, "u")
        crc = checksum(moved_row, vec)
        partition.connection.execute(
            "UPDATE mem SET pos = ?, seq = ?, vec = ?, model = ?, crc = ? "
            "WHERE rid = ?",
            (moved_row.pos, partition.seq, vec, model, crc, row.rid),
        )
        found.append(StoredRow(moved_row, vec, model))
    return found
