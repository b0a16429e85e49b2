"""The values that go into and come out of a memory service."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal

from vecall.errors import InvalidArgumentError, InvalidTypeError
from vecall.timestamps import Time, to_seconds

Content = str | Mapping[str, Any]
"""A text, or a mapping with "parts": [{"text": …}] as chat models exchange it."""

Scalar = str | int | float | bool | None
"""A JSON value that holds no other."""

Condition = Scalar | Mapping[str, Scalar | Collection[Scalar]]
"""A value, or operands by operator: {"$gte": 2025, "$lt": 2027}."""

Names = str | Collection[str]
"""One name, or several."""


@dataclass(frozen=True, slots=True)
class MemoryEntry:
    """One memory: what was said or learned, and where it comes from.

    Everything but the content is optional. A memory that a search returns carries its
    id, its provenance and its scores; a memory to be stored may set all but the scores.

    Attributes:
        content: The text, or a mapping with "parts" that holds it.
        id: Durable identity, unique for one user; derived when not given.
        author: "user" or the name of an agent.
        timestamp: Seconds since 1970 at which it was said. A datetime with a time zone
            or an ISO 8601 string with an offset is converted.
        session_id: The session in which it was said.
        event_id: The event of that session.
        kind: What it is, for example "episode", "fact", "preference", "decision".
        source: Where it was learned, for example a tool or a document.
        trust: How far its source is trusted; never raised by vecall.
        custom_metadata: Your own JSON values.
        importance: Weight in [0, 1] if it is used. What is stored is a hint, from
            which a search makes the weight by age and use.
        score: What a search ranked it by; comparable within one answer only.
        similarity: Cosine of query and memory in [-1, 1]; None without vectors.
        confidence: Calibrated probability that it is relevant to the query; None where
            nothing was searched for, or a vector store of your own was.
        explanation: The parts of the score, by name, if the search had
            `explain=True`.
        created_at: Seconds since 1970 at which it was first stored.
        updated_at: Seconds since 1970 at which it was last changed.
        valid_until: Seconds since 1970 from which on it is no longer true; it is then
            stored, but not found. Converted as the timestamp is.
        supersedes: The id of the memory of this user that this one contradicts, which
            is then stored, but not found.
        scope: Where it was found: "user", or "shared" or "app" as in `Scopes`.
    """

    content: Content
    id: str | None = field(default=None, kw_only=True)
    author: str | None = field(default=None, kw_only=True)
    timestamp: float | None = field(default=None, kw_only=True)
    session_id: str | None = field(default=None, kw_only=True)
    event_id: str | None = field(default=None, kw_only=True)
    kind: str | None = field(default=None, kw_only=True)
    source: str | None = field(default=None, kw_only=True)
    trust: str | None = field(default=None, kw_only=True)
    custom_metadata: dict[str, Any] = field(default_factory=dict, kw_only=True)
    importance: float | None = field(default=None, kw_only=True)
    score: float | None = field(default=None, kw_only=True)
    similarity: float | None = field(default=None, kw_only=True)
    confidence: float | None = field(default=None, kw_only=True)
    explanation: dict[str, float] | None = field(default=None, kw_only=True)
    created_at: float | None = field(default=None, kw_only=True)
    updated_at: float | None = field(default=None, kw_only=True)
    valid_until: float | None = field(default=None, kw_only=True)
    supersedes: str | None = field(default=None, kw_only=True)
    scope: str = field(default="user", kw_only=True)

    def __post_init__(self) -> None:
        """Convert the time; check the content and the importance."""
        content: object = self.content
        if not (isinstance(content, (str, Mapping)) or hasattr(content, "parts")):
            msg = "content: expected a text, or a content with parts"
            raise InvalidTypeError(msg)
        if self.timestamp is not None and type(self.timestamp) is not float:
            seconds = to_seconds(self.timestamp, "timestamp")
            object.__setattr__(self, "timestamp", seconds)
        if self.valid_until is not None and type(self.valid_until) is not float:
            seconds = to_seconds(self.valid_until, "valid_until")
            object.__setattr__(self, "valid_until", seconds)
        if self.importance is not None:
            check_share(self.importance, "importance")

    @property
    def text(self) -> str:
        """The content as plain text, its parts joined by newlines."""
        if isinstance(self.content, str):
            return self.content
        parts = self.content.get("parts")
        if not isinstance(parts, Sequence) or isinstance(parts, str):
            return ""
        texts = [part.get("text") for part in parts if isinstance(part, Mapping)]
        return "\n".join(text for text in texts if isinstance(text, str))

    def __str__(self) -> str:
        """Return the text."""
        return self.text


@dataclass(frozen=True, slots=True)
class Event:
    """One turn of a session.

    Attributes:
        content: What was said; an event without text is not remembered.
        author: "user" or the name of an agent.
        timestamp: When, as in `MemoryEntry`.
        id: Unique in its session; without one, author, time and text identify it.
        custom_metadata: Your own JSON values.
    """

    content: Content
    author: str | None = None
    timestamp: Time | None = None
    id: str | None = None
    custom_metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Session:
    """A conversation of one user with one app.

    Attributes:
        app_name: The app.
        user_id: The user.
        id: The session's id, unique for the user.
        events: Its turns in order.
    """

    app_name: str
    user_id: str
    id: str
    events: Sequence[Event] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which memories a search may return.

    Attributes:
        session_id: Only this session.
        after: Only memories of this time or later.
        before: Only memories before this time.
        author: Only memories by this author, or by one of 1 to 64.
        kind: Only memories of this kind, such as "episode" or "fact", or of one of 1 to
            64.
        not_kind: No memories of this kind, or of any of 1 to 64; memories without a
            kind pass.
        trust: Only memories that were stored with this trust, or with one of 1 to 64.
        source: Only memories with this source, or with one of 1 to 64.
        min_trust: Only memories of this tier of `vecall.TRUST_TIERS` or a higher
            one. "unknown" passes all, also those with a tier of your own or none; any
            other tier passes neither of these.
        metadata: Only memories whose custom_metadata has each of these 1 to 16 keys
            with this value, as JSON compares them: 1 is 1.0 and not true, and None is
            null, not a missing key. In place of a value, operators with their operands:
            $eq, $ne, $gt, $gte, $lt, $lte, $in. All of them must hold. $in takes 1 to
            64 values. The order is that of two numbers, or of two strings by code
            points; other values have no order and do not pass. A memory without the key
            passes $ne only.

    The time of a memory without timestamp is when it was stored. A memory without an
    author, a kind, a trust or a source does not pass a condition on it. Deleting by
    filter refuses metadata; services over other vector stores have session_id, after
    and before, and refuse the others unless the store applies them.
    """

    session_id: str | None = None
    after: Time | None = None
    before: Time | None = None
    author: Names | None = None
    kind: Names | None = None
    metadata: Mapping[str, Condition] | None = field(default=None, hash=False)
    not_kind: Names | None = None
    trust: Names | None = None
    source: Names | None = None
    min_trust: str | None = None


FilterLike = Filter | Mapping[str, Any]
"""A filter, or a mapping with the same fields."""


def several(names: Names | None) -> tuple[str, ...]:
    """Return one name, several or none as a tuple."""
    if names is None:
        return ()
    return (names,) if isinstance(names, str) else tuple(names)


@dataclass(frozen=True, slots=True)
class SearchMemoryResponse:
    """What a search found.

    Attributes:
        memories: At most top_k memories, best first.
    """

    memories: list[MemoryEntry] = field(default_factory=list)

    def __iter__(self) -> Iterator[MemoryEntry]:
        """Iterate over the memories, best first."""
        return iter(self.memories)

    def __len__(self) -> int:
        """Return how many memories were found; a response without any is false."""
        return len(self.memories)


class Unset(Enum):
    """The type of `UNSET`, the default of an argument that may also be None."""

    UNSET = "unset"


UNSET = Unset.UNSET


def without_unset(**given: object) -> dict[str, Any]:
    """Return the arguments that were given."""
    return {name: value for name, value in given.items() if value is not UNSET}


def check_share(value: object, name: str) -> float:
    """Return `value` if it is a number in [0, 1].

    Raises:
        InvalidTypeError: Not a number.
        InvalidArgumentError: NaN or outside [0, 1].
    """
    if type(value) is float and 0.0 < value <= 1.0:
        return value  # as in every memory that a search finds
    if not isinstance(value, float | int) or isinstance(value, bool):
        msg = f"{name}: expected a number"
        raise InvalidTypeError(msg)
    if not 0.0 <= value <= 1.0:
        msg = f"{name}: must be within [0, 1]"
        raise InvalidArgumentError(msg)
    return float(value) + 0.0  # SQLite gives -0.0 back as 0.0


@dataclass(frozen=True, slots=True)
class Revision:
    """A memory as it was at some time, or as it is.

    Attributes:
        memory: What it says.
        state: "live"; "archived", stored but not found; "quarantined", held until
            `release_memory`, or, with a time in `at`, held until it was overwritten; or
            "overwritten", by the revision that follows.
        at: Seconds since 1970 at which it was overwritten or archived; None for what
            stands.
        why: "update" by a later ingest or "edit" by `update_memory` for what was
            overwritten; "superseded", "merged", "folded", "lapsed" or "archived" for
            what was archived; None for what is live.
        by: The id of the memory that stands in its place, where there is one.
    """

    memory: MemoryEntry
    state: Literal["live", "archived", "quarantined", "overwritten"]
    at: float | None = None
    why: str | None = None
    by: str | None = None


@dataclass(frozen=True, slots=True)
class ForgetProposal:
    """A proposal of memories to forget, for a review by the user.

    Attributes:
        token: To be handed to `confirm_forget`; "" if there is nothing to forget.
        memories: Which memories it is about, best match first.
        expires_at: Seconds since 1970 until which the token counts.
    """

    token: str
    memories: list[MemoryEntry]
    expires_at: float


@dataclass(frozen=True, slots=True)
class DuplicateGroup:
    """Memories that say or mean the same.

    Attributes:
        kept: The id of the newest memory, which stays.
        merged: The ids of the others.
        similarity: The lowest cosine between one of the others and the newest; None
            where they are the same word for word, but for fillers.
    """

    kept: str
    merged: tuple[str, ...]
    similarity: float | None = None


@dataclass(frozen=True, slots=True)
class Consolidation:
    """What a consolidation did; of a dry run, what it would do.

    Attributes:
        merged: Memories that were archived because another one says the same.
        folded: Memories that were archived because a summary says it shorter. Of a dry
            run: memories that the summarizer would be given.
        summaries: The ids of the summaries; empty for a dry run.
        groups: What was merged with what.
        similarity: The threshold of the merge by meaning; None if there was none.
        dry_run: Whether nothing was changed.
    """

    merged: int = 0
    folded: int = 0
    summaries: tuple[str, ...] = ()
    groups: tuple[DuplicateGroup, ...] = field(default=(), compare=False)
    similarity: float | None = field(default=None, compare=False)
    dry_run: bool = field(default=False, compare=False)


LeftOutReason = Literal[
    "partial", "no_text", "rewound", "deleted", "expired", "evicted", "rejected"
]
"""Why an item of a call is not stored."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """One item that was given and is not stored.

    Attributes:
        index: Its place in the call, from 0.
        reason: "partial": a piece of a streamed turn, which follows as a whole;
            "no_text": it has no text of its own; "rewound": a later rewind of the
            session takes it back; "deleted": it was deleted, and
            `restore=True` stores it again; "expired": its time to live was over
            before; "evicted": it had to make room for others before; "rejected":
            `on_write` refused it.
    """

    index: int
    reason: LeftOutReason


class AddedIds(list["str | None"]):
    """The ids of what a call stored or found stored, aligned with what it was given.

    Attributes:
        left_out: What is not stored, in order; at these places the list has None.
    """

    left_out: tuple[LeftOut, ...]

    def __init__(
        self, ids: Iterable[str | None] = (), left_out: Iterable[LeftOut] = ()
    ) -> None:
        """Hold the ids, and why there are none for some items."""
        super().__init__(ids)
        self.left_out = tuple(left_out)

    @property
    def stored(self) -> list[str]:
        """The ids without the gaps, each once."""
        return list(dict.fromkeys(id_ for id_ in self if id_ is not None))


class Imported(int):
    """How many memories an import wrote.

    Attributes:
        rejected: Memories, former versions and waiting turns that `on_write` refused;
            0 unless the import was judged.
        quarantined: Those of them that it quarantined, and that were not before.
    """

    rejected: int
    quarantined: int

    def __new__(cls, written: int, rejected: int = 0, quarantined: int = 0) -> Imported:
        """Hold the counts."""
        made = super().__new__(cls, written)
        made.rejected, made.quarantined = rejected, quarantined
        return made
