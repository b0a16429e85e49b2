"""Values that the read operations of a storage return, besides rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from vecall.clock import DAY_S, Clock, ClockCheckpoint, ExpiryClock
from vecall.store.rows import Draft, Row, was_overwritten

Version = tuple[int, int, int]
"""(part, seq, head): a partition's number, the number of its newest change, and random
bits of that change. A change of a lost history may have the same number, and has other
bits. `head` is 0 before the first change."""


class PartitionState(NamedTuple):
    """The state of a partition."""

    seq: int  # its newest change
    snap: bytes | None  # the record of its snapshot; None if it has no snapshot
    live: int  # the number of its live memories
    head: int  # random bits of its newest change; 0 before the first one


class ChangedRows(NamedTuple):
    """The numbers of changed rows."""

    written: list[int]  # rows that were written or deleted
    marked: list[int]  # rows of which only the usage counters changed


class RevisionRow(NamedTuple):
    """One revision of a memory: the current one, or an overwritten one."""

    row: Row  # the content of the revision
    # Of the current revision "live", "archived" or "quarantined". Of an older one
    # "overwritten", or "quarantined" if it was so when overwritten.
    state: str
    # When the revision was overwritten or archived, in seconds; otherwise None.
    at: float | None
    why: str | None  # the operation that overwrote it, or the reason for its archiving
    by: str | None  # the id of the memory that replaced it

    @property
    def is_current(self) -> bool:
        """Whether it is the current revision of its memory."""
        return self.state in ("live", "archived") or self.at is None


class BufferedTurn(NamedTuple):
    """A turn in a session's buffer, which is not a memory yet."""

    id: str  # its id, unique in its session
    event: dict[str, Any]  # the turn as a mapping


class DueSession(NamedTuple):
    """A session whose buffered turns are due to become memories."""

    app: str
    user: str
    session: str


class EmbeddingModel(NamedTuple):
    """An embedding model on record; `id` is its number in the storage."""

    name: str
    dim: int
    id: int = 0
    fingerprint: bytes | None = None  # its vector of a fixed text, float32

    def __str__(self) -> str:
        """Return name and dimension, for error messages."""
        return f"{self.name} ({self.dim} dimensions)"


Said = tuple[bytes, str | None]
"""(hash, author) of a text: equal pairs get the same vector from the embedder."""


class DraftLookup(NamedTuple):
    """What to look up before some drafts are embedded."""

    app: str
    user: str
    ids: Sequence[str]  # the ids of the memories to add
    texts: Sequence[Said]  # (hash, author) of each of them
    model: int  # only vectors of the model with this number are returned
    key: str | None = None  # the call's idempotency key
    # The number of the user's partition, as far as it is known. If it is right, a
    # database is asked once and not twice.
    likely_part: int | None = None


@dataclass(slots=True)
class ExistingMemories:
    """What a storage has on record about the ids and texts of some drafts."""

    # The number of the user's partition; None if the user has none.
    part: int | None = None
    # (hash, author) of each stored memory that has a vector, by id.
    texts: dict[str, Said] = field(default_factory=dict)
    # Ids that a caller deleted. Only a fact that is added again comes back.
    deleted: set[str] = field(default_factory=set)
    # Ids that expired or were evicted. A turn with such an id is skipped.
    let_go: set[str] = field(default_factory=set)
    # Digests of the revisions that corrections overwrote, by id.
    corrected: dict[str, set[str]] = field(default_factory=dict)
    # Vectors of equal texts in other memories of the user, by (hash, author).
    vectors: dict[Said, bytes] = field(default_factory=dict)

    def needs_vector(self, draft: Draft, *, restore: bool, again: bool) -> bool:
        """Whether the draft will be written and needs a vector that is not stored."""
        if not restore:
            fact = not draft.ordered
            if draft.id in self.deleted and not (fact and again):
                return False
            if draft.id in self.let_go and not fact:
                return False
            old = self.corrected.get(draft.id)
            if old is not None and was_overwritten(draft, old):
                return False
        stored = self.texts.get(draft.id)
        return stored is None or stored != (draft.hash, draft.author)


# The result of one check of a file or a database.


Level = Literal["ok", "note", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    # The severity; "error": data is damaged or unreadable, or users are not held apart.
    level: Level
    about: str
    message: str  # the result, and the action to take


def checksums_finding(
    about: str,
    found: tuple[int, Sequence[object], Sequence[object]],
    remedy: str,
    aside: int = 0,
) -> Finding:
    """Say what a check of all rows found, and how many were set aside before."""
    checked, damaged, old = found
    if damaged:
        message = f"{len(damaged)} of {checked} fail their checksum; {remedy}"
        return Finding("error", about, message)
    message = f"{checked} pass their checksum"
    if old:
        message += f", {len(old)} of them one of an earlier release"
    if aside:
        return Finding("warning", about, f"{message}, {aside} damaged are set aside")
    return Finding("note" if old else "ok", about, message)


def vectors_finding(model: object, memories: int, lacking: int) -> Finding:
    """Return how many memories are searched by words alone, and why."""
    if not lacking:
        message = f"all {memories} memories have one" if memories else "no memories"
        return Finding("ok", "vectors", message)
    if model is None:
        message = (
            f"none: {memories} memories are searched by words alone, as no service "
            "with an embedder wrote here. One adds the vectors in the background, as "
            '"auto" does with vecall[local]; or use `vecall reembed`'
        )
    else:
        message = (
            f"{lacking} of {memories} memories have none and are found by words alone; "
            f"they get one when a service with the embedder of {model} is opened"
        )
    return Finding("note", "vectors", message)


def clock_finding(name: str, checkpoint: ClockCheckpoint, advice: str = "") -> Finding:
    """Say how far the time by which memories expire is from the wall clock."""
    clock = Clock()
    ahead = ExpiryClock(clock, checkpoint).now() - clock.wall()
    if abs(ahead) <= DAY_S:
        return Finding("ok", name, "as the wall clock says")
    where = "ahead of" if ahead > 0 else "behind"
    message = (
        f"the time by which memories expire is {abs(ahead) / DAY_S:.1f} days {where} "
        f"the wall clock{advice}"
    )
    return Finding("warning", name, message)
