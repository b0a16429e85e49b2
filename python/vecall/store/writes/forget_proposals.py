"""Proposals to delete memories, which take effect when confirmed."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from vecall.errors import InvalidArgumentError, NotFoundError
from vecall.filters.rights import FULL, Rights
from vecall.store.rows import Change, text_hash
from vecall.store.sql import select_in
from vecall.store.transaction import Transaction
from vecall.store.visible import visible
from vecall.store.writes.partition_writer import PartitionWriter

LASTS_S = 600.0
"""TTL of a proposal, in seconds."""

_PREFIX = "\0forget:"  # no idempotency key of a caller has a NUL
_ROW_BYTES = 1_000


@dataclass(slots=True)
class ProposeForget:
    """Stores a proposal to delete memories of one user.

    Attributes:
        app: The app.
        user: The user.
        shown: The texts that the user is shown, by id.
        token: The secret that confirms the proposal.
    """

    app: str
    user: str
    shown: Mapping[str, str]
    token: str = field(default_factory=lambda: secrets.token_urlsafe(9))
    estimated_bytes: int = _ROW_BYTES

    def run(self, connection: Transaction) -> Change:
        """Do it inside a transaction."""
        partition = PartitionWriter(connection, self.app, self.user, create=False)
        part, now = partition.id, partition.expiry_now
        seen = {id_: text_hash(text).hex() for id_, text in self.shown.items()}
        connection.execute(
            "DELETE FROM idem WHERE part = ? AND hash IS NULL AND at < ?",
            (part, now - LASTS_S),
        )
        connection.execute(
            "INSERT INTO idem (part, key, at, hash, ids) VALUES (?, ?, ?, NULL, ?)",
            (part, _PREFIX + self.token, now, json.dumps(seen)),
        )
        return partition.unchanged(list(seen))


def take_proposal(
    partition: PartitionWriter,
    token: str,
    chosen: Sequence[str] | None = None,
    rights: Rights = FULL,
) -> list[str]:
    """Return the ids that a proposal of this user deletes, and remove the proposal.

    Args:
        partition: The user's partition.
        token: The proposal's token.
        chosen: Only these of its ids; None is all.
        rights: Other memories than those that the caller sees are unknown.

    Raises:
        NotFoundError: The token is unknown or expired, or the text of a memory to
            delete has changed.
        InvalidArgumentError: A chosen id is not of this proposal.
    """
    own = (partition.id, _PREFIX + token)
    row = partition.connection.execute(
        "SELECT ids FROM idem WHERE part = ? AND key = ? AND at >= ?",
        (*own, partition.expiry_now - LASTS_S),
    ).fetchone()
    seen: dict[str, str] = {} if row is None else json.loads(row[0])
    if seen and chosen is not None:
        if not seen.keys() >= set(chosen):
            msg = "ids: expected ids of the memories that were proposed"
            raise InvalidArgumentError(msg)
        seen = {id_: seen[id_] for id_ in chosen}
    hashes = f"SELECT id, hash FROM mem WHERE part = ?{visible(rights)} AND id IN"
    now = select_in(partition.connection, hashes, [partition.id], list(seen))
    if not seen or any(hash_.hex() != seen[id_] for id_, hash_ in now):
        msg = "token: confirms nothing, or no longer; propose it again"
        raise NotFoundError(msg)
    partition.connection.execute("DELETE FROM idem WHERE part = ? AND key = ?", own)
    return list(seen)
