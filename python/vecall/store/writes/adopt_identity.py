"""Gives an empty storage the identity of another one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vecall.store.rows import Change
from vecall.store.transaction import Transaction

IDENTITY = ("uuid", "secret")
"""Facts of `meta`: the seed of the engines, and the key that hides names."""


@dataclass(slots=True)
class AdoptIdentity:
    """Writes the identity of another storage, unless a user or a model is there.

    With the same identity both storages give equal scores, to the last bit, and digests
    of names stay valid.

    Attributes:
        facts: The facts of `IDENTITY` that the other storage has.
        estimated_bytes: The file's growth.
        is_adopted: Whether a fact was changed.
    """

    facts: Mapping[str, str]
    estimated_bytes: int = 256
    is_adopted: bool = False

    def run(self, connection: Transaction) -> Change:
        """Do it inside a transaction."""
        self.is_adopted = False
        taken = "SELECT EXISTS (SELECT 1 FROM part), EXISTS (SELECT 1 FROM model)"
        if not any(connection.execute(taken).fetchone()):
            known = identity_facts(connection)
            for key, value in self.facts.items():
                if known.get(key) != value:
                    connection.execute(
                        "INSERT INTO meta (key, value) VALUES (?, ?) "
                        "ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                        (key, value),
                    )
                    self.is_adopted = True
        return Change("", "", 0, 0, 0)


def identity_facts(connection: Transaction) -> dict[str, str]:
    """Return the facts of `IDENTITY` that a storage has."""
    rows = connection.execute("SELECT key, value FROM meta").fetchall()
    return {key: value for key, value in rows if key in IDENTITY}
