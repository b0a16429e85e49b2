"""What a file knows of memories that are told, before they are embedded."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field

from vecall.store.batches import select_in
from vecall.store.hidden import part_of, tombstones
from vecall.store.rows import Draft
from vecall.store.upsert import corrected, was_overwritten


@dataclass(slots=True)
class Known:
    """What is known of some memories of one user.

    Attributes:
        texts: Hash of the text, and author, of those that have a vector.
        deleted: Those that stay away unless a fact is to be stored again.
        let_go: Those that stay away if they are turns of a session.
        corrected: Digests of what corrections have overwritten.
    """

    texts: dict[str, tuple[bytes, str | None]] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    let_go: set[str] = field(default_factory=set)
    corrected: dict[str, set[str]] = field(default_factory=dict)

    def needs_vector(self, draft: Draft, *, restore: bool, again: bool) -> bool:
        """Whether writing a draft takes a vector that the file does not have."""
        if not restore:
            fact = not draft.ordered
            if draft.id in self.deleted and not (fact and again):
                return False
            if draft.id in self.let_go and not fact:
                return False
            old = self.corrected.get(draft.id)
            if old is not None and was_overwritten(draft, old):
                return False
        return self.texts.get(draft.id) != (draft.hash, draft.author)


def known_of(
    connection: sqlite3.Connection,
    app: str,
    user: str,
    ids: Sequence[str],
    now: float,
) -> Known:
    """Return what is known of memories of a user.

    Args:
        connection: The file.
        app: The app.
        user: The user.
        ids: The memories' ids.
        now: The time by which memories expire.
    """
    known = Known()
    number = part_of(connection, app, user)
    if number is None:
        return known
    part = [number]
    for id_, _, why in tombstones(connection, number, ids):
        (known.deleted if why is None else known.let_go).add(id_)
    query = (
        "SELECT id, hash, author, vec IS NOT NULL, ifnull(expires_at, 9e99) FROM mem "
        "WHERE part = ? AND id IN"
    )
    for id_, text, author, embedded, expires_at in select_in(
        connection, query, part, ids
    ):
        if embedded:
            known.texts[id_] = (text, author)
        if expires_at <= now:
            known.let_go.add(id_)
    known.corrected = corrected(connection, number, ids)
    return known
