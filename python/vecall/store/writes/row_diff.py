"""Compares a draft with the stored row of its id, and merges the two."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from vecall.store.digests import COMPARED, SHORT, digest_of_old
from vecall.store.rows import Draft, Row, checksum, is_whole
from vecall.store.sql import select_in
from vecall.store.transaction import Transaction
from vecall.store.writes.partition_writer import PartitionWriter


class ExistingRow(NamedTuple):
    """The stored row of an id: the columns of a `Row`, and some more."""

    state: str
    rid: int
    pos: float | None
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
    valid_until: float | None
    supersedes: str | None
    updated_at: float
    crc: int

    def is_whole(self, id_: str) -> bool:
        """Whether the row passes its checksum."""
        return is_whole(self.row(id_), self.vec, self.crc)

    def row(self, id_: str) -> Row:
        """Return it as a `Row`."""
        fields = {name: getattr(self, name) for name in Row._fields if name != "id"}
        return Row(id=id_, **fields)

    def has_expired(self, now: float) -> bool:
        """Whether its TTL is over."""
        return self.expires_at is not None and self.expires_at <= now


REST = "part, seq, hash, vec, model, crc"
"""The columns of `mem` that a `Row` does not have, as `rest` gives them."""

_compared = attrgetter(*COMPARED)
_but_trust = attrgetter(*(name for name in COMPARED if name != "trust"))


def rest(
    partition: PartitionWriter,
    row: Row,
    draft: Draft,
    vec: bytes | None,
    model: int | None,
) -> tuple[object, ...]:
    """Return the values of the columns named by `REST`."""
    return (
        partition.id,
        partition.seq,
        draft.hash,
        vec,
        None if vec is None else model,
        checksum(row, vec),
    )


# Right after a file changed its model, the new vectors are still in vec_next.
STORED = (
    "SELECT id, state, mem.rid, pos, created_at, expires_at, "
    "coalesce(next.vec, mem.vec), coalesce(next.model, mem.model), session, event, "
    "ts, author, kind, source, trust, text, content, meta, importance_prior, "
    "uses, last_used, valid_until, supersedes, updated_at, "
    "CASE WHEN next.rid IS NULL THEN mem.crc ELSE next.crc END "
    "FROM mem LEFT JOIN vec_next AS next ON next.rid = mem.rid AND next.model = "
    "(SELECT id FROM model WHERE state = 'active') WHERE part = ? AND id IN"
)
"""The query of `find_stored`."""

ANY_CORRECTED = "SELECT 1 FROM hist WHERE part = ? AND op = 'edit' LIMIT 1"
"""The first query of `corrected`."""


def find_stored(
    partition: PartitionWriter, ids: Sequence[str]
) -> dict[str, ExistingRow]:
    """Return the stored rows of drafts, by id."""
    found = select_in(partition.connection, STORED, [partition.id], ids)
    return {values[0]: ExistingRow(*values[1:]) for values in found}


def changed_turns(
    drafts: Mapping[str, Draft], stored: Mapping[str, ExistingRow]
) -> set[str]:
    """Return the ids of those drafts whose turns may have fewer passages than stored.

    Args:
        drafts: The drafts of a call, by id.
        stored: Their stored rows, by id.
    """
    turns = {each.passage_of for each in drafts.values() if each.passage_of is not None}
    if stored:
        turns |= {
            id_
            for id_, old in stored.items()
            if id_ in drafts and drafts[id_].text != old.text
        }
    return turns


def expiry(
    draft: Draft, old: ExistingRow | None, now: float, default: float | None
) -> float | None:
    """Return when a memory expires once the draft is written.

    The draft's own TTL wins. Without one, a live memory keeps its expiry, and a new or
    expired one gets the default TTL.

    Args:
        draft: The new version.
        old: The stored row.
        now: The time, in seconds.
        default: TTL in seconds of memories without one of their own.
    """
    if draft.ttl is not None:
        return now + draft.ttl
    if old is None or old.has_expired(now):
        return None if default is None else now + default
    return old.expires_at


def same_content(draft: Draft, old: ExistingRow) -> bool:
    """Whether a draft has the stored content. A draft without trust matches any."""
    new, old_fields = _compared(draft), _compared(old)
    if new == old_fields:
        return True
    return draft.trust is None and _but_trust(draft) == _but_trust(old)


def is_noop(
    draft: Draft, old: ExistingRow, expires_at: float | None, *, exact: bool
) -> bool:
    """Whether writing the draft would change nothing.

    An archived memory that is added again unchanged stays archived, and a quarantined
    one stays quarantined. A damaged one is rewritten. With `exact`, a draft without
    `valid_until` removes the stored one.
    """
    if old.state == "quarantined" and not old.is_whole(draft.id):
        return False
    news = (
        draft.vec is not None and old.vec is None,
        draft.has_own_vector and draft.vec != old.vec,
        draft.ordered and old.pos is None,
        expires_at != old.expires_at,
        draft.valid_until not in (old.valid_until, *(() if exact else (None,))),
        draft.supersedes not in (old.supersedes, None),
    )
    return not any(news) and same_content(draft, old)


def row_of(
    draft: Draft, rid: int, pos: float | None, now: float, expires_at: float | None
) -> Row:
    """Return the row of a new memory."""
    return Row(
        rid,
        draft.id,
        draft.session,
        draft.event,
        pos,
        draft.ts,
        now,
        expires_at,
        draft.author,
        draft.kind,
        draft.source,
        draft.trust,
        draft.text,
        draft.content,
        draft.meta,
        draft.importance,
        valid_until=draft.valid_until,
        supersedes=draft.supersedes,
        updated_at=now,
    )


def row_merged(
    draft: Draft,
    old: ExistingRow,
    pos: float | None,
    now: float,
    expires_at: float | None,
) -> Row:
    """Return the row that results from writing a draft over a stored row."""
    row = row_of(draft, old.rid, pos, now, expires_at)
    row = row._replace(created_at=old.created_at)
    if not old.is_whole(draft.id):  # its use count is not reliable
        return row
    if row.valid_until is None and old.state != "archived":
        row = row._replace(valid_until=old.valid_until)
    return row._replace(
        uses=old.uses,
        last_used=old.last_used,
        trust=row.trust or old.trust,
        supersedes=row.supersedes or old.supersedes,
    )


def append_history(
    partition: PartitionWriter,
    draft: Draft,
    old: ExistingRow,
    operation: str,
    default_ttl: float | None,
) -> None:
    """Store the revision that an update overwrites, unless it is damaged.

    Args:
        partition: The partition.
        draft: The new version.
        old: The stored row.
        operation: "update" by a later ingest, or "edit" by a correction.
        default_ttl: TTL of the revision in seconds if the draft has none.
    """
    old_fields = {name: getattr(old, name) for name in COMPARED}
    if old.state == "quarantined":
        old_fields["state"] = old.state
    if same_content(draft, old):
        return
    if old.state == "quarantined" and not old.is_whole(draft.id):
        return
    ttl = default_ttl if draft.revision_ttl is None else draft.revision_ttl
    partition.connection.execute(
        "INSERT INTO hist (part, id, seq, at, op, old, expires_at) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            partition.id,
            draft.id,
            partition.seq,
            partition.now,
            operation,
            json.dumps({**old_fields, "updated_at": old.updated_at}),
            None if ttl is None else partition.expiry_now + ttl,
        ),
    )


def corrected(
    connection: Transaction, part: int, ids: Sequence[str]
) -> dict[str, set[str]]:
    """Return digests of the revisions that corrections overwrote, by memory id."""
    if not ids or connection.execute(ANY_CORRECTED, (part,)).fetchone() is None:
        return {}
    found: dict[str, set[str]] = {}
    query = "SELECT id, old FROM hist WHERE part = ? AND op = 'edit' AND id IN"
    for id_, old in select_in(connection, query, [part], ids):
        found.setdefault(id_, set()).add(digest_of_old(old))
    return found


def shorten_digests(connection: Transaction) -> None:
    """Shorten the digests of expired revisions, so that they identify no text.

    A short digest still prevents an older copy of a session from undoing a correction.
    One in 65,536 other texts is refused with it.
    """
    rows = connection.execute(
        "SELECT part, id, seq, old FROM hist WHERE op = 'edit' AND old LIKE ?",
        ('{"digest%',),
    ).fetchall()
    for *key, old in rows:
        short = json.dumps({"digest": digest_of_old(old)[:SHORT]})
        connection.execute(
            "UPDATE hist SET old = ? WHERE part = ? AND id = ? AND seq = ?",
            (short, *key),
        )
