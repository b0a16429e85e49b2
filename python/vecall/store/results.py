"""Values that the read operations of a storage return, besides rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from vecall.store.digests import was_overwritten
from vecall.store.rows import Draft, Row

Version = tuple[int, int]
"""A partition's number and its newest change."""


class PartitionState(NamedTuple):
    """What the file says of a partition.

    Attributes:
        seq: Its newest change.
        snap: The nonce of its snapshot, if there is one.
        live: How many memories it has.
    """

    seq: int
    snap: bytes | None
    live: int


class ChangedRows(NamedTuple):
    """Rows that changed, by number.

    Attributes:
        written: Those that were written or deleted.
        marked: Those of which nothing changed but their use.
    """

    written: list[int]
    marked: list[int]


class RevisionRow(NamedTuple):
    """A memory as it was, or is.

    Attributes:
        row: What it says.
        state: "live", "archived" or "quarantined" as it is now; for what was
            overwritten "overwritten", or "quarantined" where it was so until then.
        at: When it was overwritten or archived, in seconds; None for the current one.
        why: The operation that did it, or the reason why it is archived.
        by: The id of the memory that replaces it.
    """

    row: Row
    state: str
    at: float | None
    why: str | None
    by: str | None


class BufferedTurn(NamedTuple):
    """A turn that waits.

    Attributes:
        id: What names it in its session.
        event: The turn as a mapping.
    """

    id: str
    event: dict[str, Any]


class DueSession(NamedTuple):
    """A session of which memories are to be made."""

    app: str
    user: str
    session: str


class EmbeddingModel(NamedTuple):
    """A model as the file knows it."""

    name: str
    dim: int
    id: int = 0
    fingerprint: bytes | None = None  # its vector of one known text, float32

    def __str__(self) -> str:
        """Return name and dimension, for messages."""
        return f"{self.name} ({self.dim} dimensions)"


Said = tuple[bytes, str | None]
"""The hash of a text, and its author: the embedder's input."""


@dataclass(slots=True)
class ExistingMemories:
    """What is known of some memories of one user.

    Attributes:
        texts: Hash of the text, and author, of those that have a vector.
        deleted: Those that stay away unless a fact is to be stored again.
        let_go: Those that stay away if they are turns of a session.
        corrected: Digests of what corrections have overwritten.
        vectors: Vectors of texts that other memories of the user say as well, by hash
            of the text, and author.
    """

    texts: dict[str, Said] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    let_go: set[str] = field(default_factory=set)
    corrected: dict[str, set[str]] = field(default_factory=dict)
    vectors: dict[Said, bytes] = field(default_factory=dict)

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
