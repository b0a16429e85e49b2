"""Idempotency keys: a call that is sent again is carried out once."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from hashlib import blake2b

from vecall.errors import ConflictError, VecallError
from vecall.store.erased_names import forms_of, is_hidden, part_of, tombstones
from vecall.store.rows import Draft
from vecall.store.writes.partition_writer import PartitionWriter

_DROPPED = b""  # a purge leaves no digest of the call
_LIFETIME_S = 30 * 86_400.0


class ForgottenKeyError(VecallError):
    """The key of a call that was to be answered, and not carried out, is unknown."""


class IdempotencyRecord:
    """One user's key and the memories of its call."""

    def __init__(
        self, partition: PartitionWriter, key: str, drafts: Sequence[Draft]
    ) -> None:
        """Take a call inside its transaction."""
        self._partition = partition
        self._key = key
        self._hash = _hash(drafts)
        self._drafts = {draft.id: draft for draft in drafts}

    def earlier_ids(self) -> list[str] | None:
        """Return the ids of the call that came first; None if this one does.

        Raises:
            ConflictError: The key was used for something else.
        """
        connection, part = self._partition.connection, self._partition.id
        found = _find(connection, part, self._key)
        if found is None:
            return None
        stored_ids: list[str] = json.loads(found[1])
        if found[0] == self._hash and not any(map(is_hidden, stored_ids)):
            return stored_ids
        forms = forms_of(connection, part, self._drafts)
        ids = [forms[id_] for id_ in stored_ids if id_ in forms]
        same = found[0] == self._hash
        if not same and (
            found[0] != _DROPPED or not self._may_have_given(stored_ids, ids)
        ):
            msg = "idempotency_key: was used for other memories of this user"
            raise ConflictError(msg)
        return ids

    def _may_have_given(self, stored_ids: Sequence[str], ids: Sequence[str]) -> bool:
        """Whether a call with these memories may have stored those ids.

        Args:
            stored_ids: The ids that the file has.
            ids: Those of them that this call has.
        """
        if len(ids) < len(stored_ids):
            return False
        # The first call left out what was gone, and turns that had expired.
        missing = self._drafts.keys() - set(ids)
        facts = [id_ for id_ in missing if not self._drafts[id_].ordered]
        connection, part = self._partition.connection, self._partition.id
        gone = {id_ for id_, *_ in tombstones(connection, part, facts)}
        return gone.issuperset(facts)

    def store(self, ids: Sequence[str]) -> None:
        """Remember the call, and forget those of more than 30 days ago."""
        self._partition.reveal()
        part, now = self._partition.id, self._partition.expiry_now
        execute = self._partition.connection.execute
        execute("DELETE FROM idem WHERE part = ? AND at < ?", (part, now - _LIFETIME_S))
        execute(
            "INSERT INTO idem (part, key, at, hash, ids) VALUES (?, ?, ?, ?, ?)",
            (part, self._key, now, self._hash, json.dumps(list(ids))),
        )


def is_used(connection: sqlite3.Connection, app: str, user: str, key: str) -> bool:
    """Whether a call of this user had this key, with any memories."""
    part = part_of(connection, app, user)
    return part is not None and _find(connection, part, key) is not None


def _find(
    connection: sqlite3.Connection, part: int, key: str
) -> tuple[bytes, str] | None:
    """Return the hash and the ids of a key, None if it is unknown."""
    query = "SELECT hash, ids FROM idem WHERE part = ? AND key = ?"
    for form in forms_of(connection, part, [key]):
        found: tuple[bytes, str] | None
        found = connection.execute(query, (part, form)).fetchone()
        if found is not None:
            return found
    return None


def drop_digests(connection: sqlite3.Connection) -> None:
    """Leave of every key the ids that it gave, and no digest of the texts.

    A call with such a key is still carried out once, and known by its ids. Proposals,
    which have no hash, go with the digests of what they show.
    """
    connection.execute("DELETE FROM idem WHERE hash IS NULL")
    connection.execute("UPDATE idem SET hash = ?", (_DROPPED,))


def _hash(drafts: Sequence[Draft]) -> bytes:
    """What makes two calls the same: ids and contents, not when they expire."""
    digest = blake2b(digest_size=16)
    for draft in drafts:
        for part in (draft.id, draft.text, draft.content, draft.meta, draft.author):
            data = b"" if part is None else part.encode()
            digest.update(b"%d:" % len(data))
            digest.update(data)
    return digest.digest()
