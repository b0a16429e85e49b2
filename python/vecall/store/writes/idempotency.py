"""Idempotency keys: a repeated call is executed once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from hashlib import blake2b

from vecall.errors import ConflictError, VecallError
from vecall.store.names import forms_of, is_hidden, keys_statement, tombstones
from vecall.store.rows import Draft
from vecall.store.transaction import Statement, Transaction
from vecall.store.writes.partition_writer import PartitionWriter

_DROPPED = b""  # a purge leaves no digest of the call
_LIFETIME_S = 30 * 86_400.0
_FIND = "SELECT hash, ids FROM idem WHERE part = ? AND key = ?"


class ForgottenKeyError(VecallError):
    """A call was expected to be a repeat, but its idempotency key is unknown."""


class IdempotencyRecord:
    """One user's key and the memories of its call."""

    def __init__(
        self, partition: PartitionWriter, key: str, drafts: Sequence[Draft]
    ) -> None:
        """Take a call inside its transaction."""
        self._partition = partition
        self._key = key
        self._hash = _drafts_hash(drafts)
        self._drafts = {draft.id: draft for draft in drafts}

    def earlier_ids(self, keys: Sequence[bytes]) -> list[str] | None:
        """Return the ids of the first call with this key; None if this is the first.

        Args:
            keys: The keys of the user's digests.

        Raises:
            ConflictError: The key was used for a call with other memories.
        """
        connection, part = self._partition.connection, self._partition.id
        found = _find_hash_and_ids(connection, part, self._key, keys)
        if found is None:
            return None
        stored_ids: list[str] = json.loads(found[1])
        if found[0] == self._hash and not any(map(is_hidden, stored_ids)):
            return stored_ids
        forms = forms_of(connection, part, self._drafts, keys)
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
        # The first call left out deleted memories and expired turns.
        missing = self._drafts.keys() - set(ids)
        facts = [id_ for id_ in missing if not self._drafts[id_].ordered]
        connection, part = self._partition.connection, self._partition.id
        gone = {id_ for id_, *_ in tombstones(connection, part, facts)}
        return gone.issuperset(facts)

    def store(self, ids: Sequence[str]) -> None:
        """Record the call, and delete records older than 30 days."""
        self._partition.reveal()
        part, now = self._partition.id, self._partition.expiry_now
        execute = self._partition.connection.execute
        execute("DELETE FROM idem WHERE part = ? AND at < ?", (part, now - _LIFETIME_S))
        execute(
            "INSERT INTO idem (part, key, at, hash, ids) VALUES (?, ?, ?, ?, ?)",
            (part, self._key, now, self._hash, json.dumps(list(ids))),
        )


def is_used(
    connection: Transaction, part: int, key: str, keys: Sequence[bytes]
) -> bool:
    """Whether a call of this user has used this key, with any memories.

    Args:
        connection: The file.
        part: The user's partition.
        key: The idempotency key.
        keys: The keys of the user's digests.
    """
    return _find_hash_and_ids(connection, part, key, keys) is not None


def first_reads(part: int, key: str) -> Iterator[Statement]:
    """Yield what `is_used` reads if no purge has hidden an id of the user."""
    yield keys_statement(part)
    yield _FIND, (part, key)


def _find_hash_and_ids(
    connection: Transaction, part: int, key: str, keys: Sequence[bytes]
) -> tuple[bytes, str] | None:
    """Return the hash and the ids of a key, None if it is unknown."""
    for form in forms_of(connection, part, [key], keys):
        found: tuple[bytes, str] | None
        found = connection.execute(_FIND, (part, form)).fetchone()
        if found is not None:
            return found
    return None


def drop_digests(connection: Transaction) -> None:
    """Delete the digests of texts from all keys, and keep the ids.

    A repeat of such a call is still recognised, by its ids. Proposals to forget are
    deleted with their digests.
    """
    connection.execute("DELETE FROM idem WHERE hash IS NULL")
    connection.execute("UPDATE idem SET hash = ?", (_DROPPED,))


def _drafts_hash(drafts: Sequence[Draft]) -> bytes:
    """A digest of a call: of the ids and contents, but not of the TTLs."""
    digest = blake2b(digest_size=16)
    for draft in drafts:
        for part in (draft.id, draft.text, draft.content, draft.meta, draft.author):
            data = b"" if part is None else part.encode()
            digest.update(b"%d:" % len(data))
            digest.update(data)
    return digest.digest()
