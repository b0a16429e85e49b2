"""The types of a memory service's arguments and results."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from vecall.clock import Period, Time, to_seconds
from vecall.errors import InvalidArgumentError, InvalidTypeError, NotFoundError
from vecall.scalars import Shown, exact, repr_of_object, shortened

Content = str | Mapping[str, Any]
"""A text, or a mapping with "parts": [{"text": …}], as in chat APIs."""

Scalar = str | int | float | bool | None
"""A JSON value that is neither an array nor an object."""

Condition = Scalar | Mapping[str, Any] | Collection[Any]
"""A scalar or a list of them, or operands by operator: {"$gte": 2025, "$lt": 2027}; or
conditions."""

OwnVectors = Sequence[Sequence[float] | NDArray[np.generic] | None] | NDArray[Any]
"""A vector for each memory, or None for one without."""

Names = str | Collection[str]
"""One name, or several."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class MemoryEntry:
    """One memory: its content, provenance and scores.

    Only the content is required. A search returns memories with an id, provenance and
    scores. A memory to be stored may set all fields except the scores.

    Attributes:
        content: The text, or a mapping with "parts" that holds it.
        id: Durable id, unique for one user; derived if not given.
        author: "user" or the name of an agent.
        timestamp: When it was said, in seconds since 1970. A datetime with a time zone
            or an ISO 8601 string with an offset is converted.
        session_id: The session in which it was said.
        event_id: The event of that session.
        kind: Its kind, for example "episode", "fact", "preference", "decision".
        source: Its origin, for example a tool or a document.
        trust: The trust tier of its source; vecall never raises it.
        custom_metadata: Your own JSON values.
        importance: Weight in [0, 1]. The stored value is a hint; a search returns the
            weight that it derives from the hint, age and use.
        score: The search's ranking score; comparable within one result only.
        similarity: Cosine of query and memory in [-1, 1]; None without vectors.
        confidence: Calibrated probability of relevance to the query; None without a
            search, and in a search of your own vector store.
        explanation: The parts of the score, by name, if the search had
            `explain=True`.
        created_at: When it was first stored, in seconds since 1970.
        updated_at: When it was last changed, in seconds since 1970.
        valid_until: End of its validity, in seconds since 1970. From then on it is
            stored, but not found. Converted like `timestamp`.
        supersedes: The id of this user's memory that it replaces. That memory stays
            stored, but is not found.
        scope: The scope it was found in: "user", "shared" or "app"; see `Scopes`.
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

    if TYPE_CHECKING:  # times are given as `Time` and read as float

        def __init__(
            self,
            content: Content,
            *,
            id: str | None = None,
            author: str | None = None,
            timestamp: Time | None = None,
            session_id: str | None = None,
            event_id: str | None = None,
            kind: str | None = None,
            source: str | None = None,
            trust: str | None = None,
            custom_metadata: dict[str, Any] = ...,
            importance: float | None = None,
            score: float | None = None,
            similarity: float | None = None,
            confidence: float | None = None,
            explanation: dict[str, float] | None = None,
            created_at: float | None = None,
            updated_at: float | None = None,
            valid_until: Time | None = None,
            supersedes: str | None = None,
            scope: str = "user",
        ) -> None:
            """Create a memory."""

    def __repr__(self) -> str:
        """Return the text, cut, and what tells memories apart."""
        return repr_of_object(
            self,
            content=self.content,
            id=self.id,
            author=self.author,
            kind=self.kind,
            confidence=self.confidence,
        )

    def __post_init__(self) -> None:
        """Convert the time; check the content and the importance."""
        content: object = self.content
        if not (isinstance(content, (str, Mapping)) or hasattr(content, "parts")):
            raise InvalidTypeError("content: expected a text, or a content with parts")
        if self.timestamp is not None and type(self.timestamp) is not float:
            seconds = to_seconds(self.timestamp, "timestamp")
            object.__setattr__(self, "timestamp", seconds)
        if self.valid_until is not None and type(self.valid_until) is not float:
            seconds = to_seconds(self.valid_until, "valid_until")
            object.__setattr__(self, "valid_until", seconds)
        if self.importance is not None:
            check_share(self.importance, "importance")

    @property
    def version(self) -> float | None:
        """What a later change replaces; see `update_memory(if_version=)`."""
        return self.updated_at

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


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Event(Shown):
    """One turn of a session.

    Attributes:
        content: What was said. An event without text is not stored.
        author: "user" or the name of an agent.
        timestamp: When it was said, as in `MemoryEntry`.
        id: Unique in its session. Without an id, author, time and text identify it.
        custom_metadata: Your own JSON values.
    """

    content: Content
    author: str | None = None
    timestamp: Time | None = None
    id: str | None = None
    custom_metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Session(Shown):
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


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Filter(Shown):
    """Which memories a search may return.

    Attributes:
        session_id: Only this session.
        after: Only memories of this time or later.
        before: Only memories before this time.
        author: Only memories by this author, or by one of 1 to 64.
        kind: Only memories of this kind, such as "fact", or of one of 1 to 64.
        not_kind: No memories of this kind, or of any of 1 to 64; memories without a
            kind pass.
        not_session_id: No memories of this session, or of any of 1 to 64; memories
            without a session pass.
        session_prefix: Only memories of a session whose id begins with this text, or
            with one of 1 to 64.
        kind_prefix: Only memories whose kind begins with this text, or with one of 1 to
            64.
        not_id: No memory with this id, or with any of 1 to 512.
        trust: Only memories that were stored with this trust, or with one of 1 to 64.
        source: Only memories with this source, or with one of 1 to 64.
        min_trust: Only memories of this tier of `vecall.TRUST_TIERS` or a higher one.
            "unknown" passes all memories. Any other tier excludes memories without a
            tier or with one of your own.
        metadata: Only memories whose custom_metadata has each of these 1 to 16 keys
            with this value. A key that the metadata lack is a path: dots separate the
            keys of nested mappings. Values compare as in JSON: 1 equals 1.0 but not
            true; None is null. A list equals a list with the same values in the same
            order. A value may be a mapping of operators to operands: $eq, $ne, $gt,
            $gte, $lt, $lte, $in, $nin, $contains, $all, $any, $exists, $not. All must
            hold. $in, $nin, $all and $any take 1 to 64 values. $contains, $all and $any
            ask for an element of a list, for all of several, or for one of them; of a
            stored text they ask for a part. Numbers are ordered by value, strings by
            code points, other values not at all. A missing key passes $ne, $nin and
            {"$exists": False}. In place of a key, $and and $or take 1 to 64 such
            mappings, and $not takes one; $timestamp and $updated_at are the time of the
            memory and that of its last change, with a time or operators that compare
            times.

    A memory without a timestamp has the time when it was stored. One without an author,
    kind, trust or source does not pass a condition on that field. Other vector stores
    have session_id, after and before, and refuse fields that they do not apply.
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
    not_session_id: Names | None = None
    not_id: Names | None = None
    session_prefix: Names | None = None
    kind_prefix: Names | None = None


FilterLike = Filter | Mapping[str, Any]
"""A filter, or a mapping with the same fields."""


def as_names(names: Names | None) -> tuple[str, ...]:
    """Return one name, several or none as a tuple."""
    if names is None:
        return ()
    return (names,) if isinstance(names, str) else tuple(names)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class SearchMemoryResponse(Shown):
    """The result of a search: at most top_k memories, best first.

    Attributes:
        memories: The memories.
        period: The period that the query names, whose memories come first; None if it
            names none.
        asked: Returns the relevance; None if it is not known.
    """

    memories: list[MemoryEntry] = field(default_factory=list)
    period: Period | None = None
    asked: Callable[[], float] | None = field(default=None, repr=False, compare=False)

    @property
    def relevance(self) -> float | None:
        """How sure it is, in (0, 1), that the query asks for what the memories hold.

        Thanks, orders, code and questions about the world are below 0.2. None if it is
        not known: the service does not rank, or has a scorer of your own.
        """
        return None if self.asked is None else self.asked()

    def __iter__(self) -> Iterator[MemoryEntry]:
        """Iterate over the memories, best first."""
        return iter(self.memories)

    def with_memories(self, memories: list[MemoryEntry]) -> SearchMemoryResponse:
        """Return a response to the same query with other memories."""
        return replace(self, memories=memories)

    def __len__(self) -> int:
        """Return the number of memories; an empty response is false."""
        return len(self.memories)

    @overload
    def __getitem__(self, index: int) -> MemoryEntry: ...

    @overload
    def __getitem__(self, index: slice) -> list[MemoryEntry]: ...

    def __getitem__(self, index: int | slice) -> MemoryEntry | list[MemoryEntry]:
        """Return one of the memories, best first, or several by a slice."""
        return self.memories[index]


class Unset(Enum):
    """The type of `UNSET`, the default of an argument that may also be None."""

    UNSET = "unset"


UNSET = Unset.UNSET


def without_unset(**arguments: object) -> dict[str, Any]:
    """Return the arguments that are not `UNSET`."""
    return {name: value for name, value in arguments.items() if value is not UNSET}


def check_share(value: object, name: str, least: int = 0) -> float:
    """Return `value` if it is a number in [`least`, 1]."""
    if type(value) is float and 0.0 < value <= 1.0:
        return value  # fast path: every memory of a search
    value = exact(value)
    if not isinstance(value, float | int) or isinstance(value, bool):
        raise InvalidTypeError(f"{name}: expected a number")
    if not least <= value <= 1:
        raise InvalidArgumentError(f"{name}: must be within [{least}, 1]")
    return float(value) + 0.0  # SQLite stores -0.0 as 0.0


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Revision(Shown):
    """A former or the current version of a memory.

    Attributes:
        memory: The version.
        state: "live"; "archived": stored but not found; "quarantined": held until
            `release_memory` or, with a time in `at`, until it was overwritten;
            "overwritten": replaced by the next revision.
        at: When it was overwritten or archived, in seconds since 1970; None for the
            current version.
        why: Of an overwritten revision: "update" (a later ingest) or "edit"
            (`update_memory`). Of an archived one: "superseded", "merged", "folded",
            "lapsed" or "archived". None for a live one.
        by: The id of the memory that replaced it, if any.
        uses: Of the current version: how often it was used; see `mark_used`.
        expires_at: Of the current version: when its TTL ends; None: never.
    """

    memory: MemoryEntry
    state: Literal["live", "archived", "quarantined", "overwritten"]
    at: float | None = None
    why: str | None = None
    by: str | None = None
    uses: int | None = None
    expires_at: float | None = None


Outcome = Literal[
    "found",
    "outranked",
    "below_min_confidence",
    "below_min_similarity",
    "no_candidate",
    "filtered",
    "expired",
    "archived",
    "quarantined",
]
"""What a search does with one memory."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Explanation(Shown):
    """Why a search returns a memory, or does not.

    Attributes:
        memory: The memory; with its scores and their parts if it is a candidate.
        outcome: "found": it is in the result. "outranked": others take all places.
            "below_min_confidence", "below_min_similarity": it is below that floor.
            "no_candidate": it has nothing in common with the query, or too many others
            have more. "filtered": it does not pass the conditions that `failed` names.
            "expired": its TTL or `valid_until` has passed. "archived", "quarantined":
            its state, which no search returns.
        rank: Its rank among all candidates, from 1; None if it is none.
        margin: What it has more than it needs, or less if negative. Below a floor:
            confidence or similarity less the floor. Else a score: of the found memory,
            less that of the best one not returned; of the outranked one, less that of
            `last`. None if there is nothing to compare with.
        last: The memory in the last place of the result. None if there is none, or if
            the outcome is one of the last four, for which nothing is searched.
        candidates: The number of memories that the search compared; at most
            `Limits.max_top_k`, or with a ranking that reorders them its `depth`.
        failed: The fields of the filter that exclude it; "scopes" if its scope is not
            searched.
        why: Why it is archived, as in `Revision`.
        by: The id of the memory that replaced it, if any.
    """

    memory: MemoryEntry
    outcome: Outcome
    rank: int | None = None
    margin: float | None = None
    last: MemoryEntry | None = None
    candidates: int = 0
    failed: tuple[str, ...] = ()
    why: str | None = None
    by: str | None = None


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class ForgetProposal(Shown):
    """A proposal of memories to forget, for a review by the user.

    Attributes:
        token: The argument of `confirm_forget`; "" if there is nothing to forget.
        memories: The proposed memories, best match first.
        expires_at: When the token expires, in seconds since 1970.
    """

    token: str
    memories: list[MemoryEntry]
    expires_at: float


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class SimilarMemory(Shown):
    """A stored memory that a new one may replace.

    Attributes:
        memory: The stored memory.
        score: The probability that both are versions of one statement, in [0, 1].
        says: "same": the new one says the same in other words; "update": it may be a
            later version, or contradict it.
    """

    memory: MemoryEntry
    score: float
    says: Literal["same", "update"]


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Conflict(Shown):
    """Two stored memories that may contradict or update each other.

    Attributes:
        earlier: The older one.
        later: The newer one.
        score: As in `SimilarMemory`.
        says: As in `SimilarMemory`, of the later one.
    """

    earlier: MemoryEntry
    later: MemoryEntry
    score: float
    says: Literal["same", "update"]


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class DuplicateGroup(Shown):
    """Duplicate memories.

    Attributes:
        kept: The id of the newest memory, which stays live.
        merged: The ids of the others.
        similarity: The lowest cosine between the newest memory and another one; None if
            they have the same words, apart from filler words.
    """

    kept: str
    merged: tuple[str, ...]
    similarity: float | None = None


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Consolidation(Shown):
    """The result of a consolidation; for a dry run, what it would do.

    Attributes:
        merged: Number of memories archived as duplicates.
        folded: Number of memories archived in favour of a summary. For a dry run: the
            number that the summarizer would receive.
        summaries: The ids of the summaries; empty for a dry run.
        groups: The merged groups.
        similarity: The cosine threshold of the merge; None without one.
        dry_run: Whether it was a dry run, which changes nothing.
        conflicts: Of a dry run: pairs that may contradict each other, as `conflicts`
            returns them. A consolidation never decides them.
    """

    merged: int = 0
    folded: int = 0
    summaries: tuple[str, ...] = ()
    groups: tuple[DuplicateGroup, ...] = field(default=(), compare=False)
    similarity: float | None = field(default=None, compare=False)
    dry_run: bool = field(default=False, compare=False)
    conflicts: tuple[Conflict, ...] = field(default=(), compare=False)


LeftOutReason = Literal[
    "partial",
    "no_text",
    "role",
    "invalid",
    "rewound",
    "deleted",
    "expired",
    "evicted",
    "rejected",
    "taken",
]
"""Why an item of a call is not stored."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class LeftOut(Shown):
    """An item of a call that was not stored.

    Attributes:
        index: Its index in the call, from 0.
        reason: "partial": a piece of a streamed turn; the whole turn follows.
            "no_text": it has no text of its own. "role": it is a message of a system, a
            developer or a tool, which `include` does not name. "invalid": a field of it
            cannot be stored; see `detail`. "rewound": a later rewind of the
            session takes it back. "deleted": it was deleted before; `restore=True`
            stores it again. "expired": its TTL had expired. "evicted": the quota
            evicted it before. "rejected": `on_write` refused it.
            "taken": a memory that the caller may not see has the id; see `Rights`.
        detail: What is wrong with an invalid item: the field and the rule.
    """

    index: int
    reason: LeftOutReason
    detail: str | None = None


class AddedIds(list["str | None"]):
    """The ids of the stored items of a call, aligned with its items.

    Items that were already stored count, too.

    Attributes:
        left_out: The items that are not stored, in order; their ids are None.
        similar: For each item the memories that it may replace, at most three, the
            likeliest first; empty without `similar=True`.
    """

    left_out: tuple[LeftOut, ...] = ()
    similar: tuple[tuple[SimilarMemory, ...], ...] = ()

    @property
    def id(self) -> str:
        """The id of the item of a call with one item.

        Raises:
            NotFoundError: It was not stored; `left_out` has the reason.
            InvalidArgumentError: The call had no item, or several.
        """
        if len(self) != 1:
            msg = f"id: the call had {len(self)} items; each has its id in this list"
            raise InvalidArgumentError(msg)
        id_ = self[0]
        if id_ is None:
            reason = self.left_out[0].reason if self.left_out else "unknown"
            raise NotFoundError(f"id: the item was not stored; the reason is {reason}")
        return id_

    @property
    def stored(self) -> list[str]:
        """The ids without None and duplicates."""
        return list(dict.fromkeys(id_ for id_ in self if id_ is not None))


class Page(list[T]):
    """A page of a list, which may have more than it returns: a list with a cursor.

    Attributes:
        next: The `cursor` (of apps and users: `after`) that returns the page after
            this one; None at the end of the list.
    """

    next: str | None

    def __init__(self, values: Iterable[T] = (), next: str | None = None) -> None:
        """Hold the values, and where the next page begins."""
        super().__init__(values)
        self.next = next

    def __repr__(self) -> str:
        """Return the first values, and the cursor."""
        return f"Page({shortened(list(self))}, next={self.next!r})"

    @classmethod
    def of(cls, read: list[T], limit: int, name: Callable[[T], str | None]) -> Page[T]:
        """Return the first `limit` values of a list that was read one further.

        Args:
            read: Up to `limit + 1` values.
            limit: Maximum number of values of the page.
            name: Returns the cursor of a value.
        """
        if len(read) <= limit:
            return cls(read)
        return cls(read[:limit], name(read[limit - 1]))


class Imported(int):
    """The number of memories that an import wrote.

    Attributes:
        rejected: Memories, former versions and buffered turns that `on_write` refused;
            0 without `gate=True`.
        quarantined: Those that `on_write` quarantined, and that were not before.
    """

    rejected: int
    quarantined: int

    def __new__(cls, written: int, rejected: int = 0, quarantined: int = 0) -> Imported:
        """Hold the counts."""
        imported = super().__new__(cls, written)
        imported.rejected, imported.quarantined = rejected, quarantined
        return imported


# The public values of items: JSON documents under a namespace and a key.

Namespace = Sequence[str]
"""The labels of a namespace, from the outermost to the innermost."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Put(Shown):
    """Writes one item: replaces the item of this namespace and key, if there is one.

    Attributes:
        namespace: Its namespace: a sequence of labels. A label is a non-empty string
            without NUL.
        key: Its key in the namespace, a non-empty string without NUL.
        value: A JSON value: None, a boolean, a string, a finite number, an integer of
            any size, or lists and mappings of these. Keys of mappings are strings, and
            their order is preserved. A tuple is stored as a list.
        vectors: Vectors that find the item: numbers (n, dim), or (dim,) for one. They
            are finite and not zero. All vectors of a user's items have one dimension.
        ttl: TTL: seconds, a timedelta or "30d". None is no expiry.
        if_version: Write only if the item is in this version, or with 0 only if there
            is no item. None writes always.
    """

    namespace: Namespace
    key: str
    value: Any
    vectors: Any = None
    ttl: float | timedelta | str | None = None
    if_version: int | None = None


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Drop(Shown):
    """Deletes one item. If there is none, it does nothing.

    Attributes:
        namespace: Its namespace.
        key: Its key.
        if_version: Delete only if the item is in this version. None deletes always.
    """

    namespace: Namespace
    key: str
    if_version: int | None = None


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Item(Shown):
    """A stored item.

    Attributes:
        namespace: Its namespace.
        key: Its key.
        value: Its value.
        version: The version that the last write gave it, at least 1. Versions of one
            user's items increase from write to write.
        created_at: When the item was first written, in seconds since 1970.
        updated_at: When this version was written, in seconds since 1970.
        ttl: Its TTL in seconds; None if it does not expire.
        expires_in: Seconds until it expires; None if it does not.
        score: In a search by vector: the cosine of its nearest vector, in [-1, 1]. None
            if it has no vector, or if no vector was given.
    """

    namespace: tuple[str, ...]
    key: str
    value: Any
    version: int
    created_at: float
    updated_at: float
    ttl: float | None = None
    expires_in: float | None = None
    score: float | None = None


# Counts and times of the apps and the users that have memories.


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class AppSummary(Shown):
    """An app that has memories.

    Attributes:
        app_name: The app.
        users: Number of its users who have memories.
        memories: Number of their live memories.
        text_bytes: UTF-8 bytes of their texts.
        items: Number of the app's items.
        created_at: When the first of these users was first written, in seconds since
            1970.
        updated_at: When a memory of one of them was last changed, in seconds since
            1970.
    """

    app_name: str
    users: int
    memories: int
    text_bytes: int = 0
    items: int = 0
    created_at: float = 0.0
    updated_at: float = 0.0


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class UserSummary(Shown):
    """A user who has memories.

    Attributes:
        user_id: The user.
        memories: Number of live memories.
        text_bytes: UTF-8 bytes of their texts.
        created_at: When the first of the stored memories was created, in seconds since
            1970.
        updated_at: When one of them was last changed, in seconds since 1970.
        sessions: Number of sessions that have a stored memory.
        items: Number of stored items.
    """

    user_id: str
    memories: int
    text_bytes: int
    created_at: float
    updated_at: float
    sessions: int = 0
    items: int = 0


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class MemoryFigures(Shown):
    """How many memories a user has, by day and by kind.

    Attributes:
        days: The numbers by UTC day of `timestamp`, else `created_at`; days since 1970.
        kinds: The numbers by kind; those without a kind are left out.
    """

    days: dict[int, int]
    kinds: dict[str, int]


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class ListedSession(Shown):
    """A session that has memories.

    Attributes:
        session_id: The session.
        memories: Number of its live memories.
        text_bytes: UTF-8 bytes of their texts.
        first_at: The earliest time of its memories in any state, in seconds since 1970.
        last_at: The latest time of them.
    """

    session_id: str
    memories: int
    text_bytes: int
    first_at: float
    last_at: float
