"""The protocol of a vector store, its filter and its result."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from vecall._core import Engine
from vecall.clock import Time, to_micros, to_seconds
from vecall.errors import (
    ConfigError,
    InvalidArgumentError,
    InvalidTypeError,
    LimitExceededError,
)
from vecall.filters.metadata import asks_times, is_left_out, passes
from vecall.limits import Limits
from vecall.scalars import exact
from vecall.types import Filter
from vecall.validation import check_filter, check_name

Embedding = Sequence[float] | NDArray[np.floating[Any]] | NDArray[np.integer[Any]]
"""A vector: real numbers, finite, not all zero."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorStoreFilter:
    """A filter on the rows of a vector store.

    Attributes:
        user_id: Only this user. Every store refuses a filter without it.
        app_name: Only this app. Every store refuses a filter without it.
        session_id: Only this session.
        after: Only rows of this time or later.
        before: Only rows before this time.
        where: Only rows that meet the labels, prefixes, left-out sessions and metadata
            of this filter, which has no other field. Only stores whose attribute
            `applies_where` is True receive it. A row's metadata holds author, kind,
            source, trust and session_id under these names, and custom metadata as JSON
            under "meta". `meets` tests a row.

    The time of a row is its metadata's timestamp or, without one, when it was stored.
    Times are compared in whole microseconds.
    """

    user_id: str | None = None
    app_name: str | None = None
    session_id: str | None = None
    after: Time | None = None
    before: Time | None = None
    where: Filter | None = None


@dataclass(frozen=True, slots=True)
class VectorSearchResult:
    """One row that a search found.

    Attributes:
        id: The row's id, unique for its app and user.
        score: Cosine of the query and the row, finite and in [-1, 1].
        metadata: A copy of the stored metadata; a timestamp is in seconds since 1970.
    """

    id: str
    score: float
    metadata: dict[str, Any] = field(default_factory=dict)


@runtime_checkable
class VectorStore(Protocol):
    """Vectors with metadata, separated by app and user.

    Users are isolated: a row belongs to the app and user in its metadata, its id is
    unique for this pair, and every other call must name both. A call that fails changes
    nothing.

    A store whose attribute `applies_where` is True also applies
    `VectorStoreFilter.where`.

    Only these two methods are required. A store that can also delete is a
    `DeletingVectorStore`; it may have one or both of the methods to delete.
    """

    async def upsert(
        self, id: str, embedding: Embedding, metadata: Mapping[str, Any]
    ) -> None:
        """Insert a row, or replace this user's row with the same id.

        Args:
            id: The row's id, unique for its app and user.
            embedding: The vector. All vectors of a store have one length; only their
                direction matters.
            metadata: JSON values. `user_id` and `app_name` are required. Filters read
                `session_id` and `timestamp` (seconds, an aware datetime, or ISO 8601
                with an offset).

        Raises:
            InvalidArgumentError: An invalid value, or a name is missing.
            DimensionError: The vector's length differs from that of the store.
        """
        ...

    async def search(
        self, embedding: Embedding, top_k: int, filter: VectorStoreFilter | None = None
    ) -> list[VectorSearchResult]:
        """Return the rows of one user that are nearest to a vector.

        Args:
            embedding: The query vector.
            top_k: Number of rows, at least 1; fewer if fewer pass the filter.
            filter: Must name the app and the user.

        Returns:
            The rows, best first. Ties: newer rows first, then by id. Their metadata
            names the app and the user.

        Raises:
            InvalidArgumentError: An invalid value, or a name is missing.
            DimensionError: The vector's length differs from that of the store.
        """
        ...


@runtime_checkable
class DeletingVectorStore(VectorStore, Protocol):
    """A vector store with the optional methods: it can delete rows."""

    async def delete(self, id: str, *, app_name: str, user_id: str) -> bool:
        """Delete one row of one user; return whether it existed.

        Raises:
            InvalidArgumentError: An invalid value.
        """
        ...

    async def delete_many(self, filter: VectorStoreFilter) -> int:
        """Delete the rows of one user that match a filter; return their number.

        Args:
            filter: Must name the app and the user; these alone match all their rows.

        Raises:
            InvalidArgumentError: An invalid value, or a name is missing.
        """
        ...


# Checks of a vector store's arguments, for any store.

Key = tuple[str, str]
"""(app_name, user_id)."""

MAX_DIMENSIONS = 65_536


@dataclass(frozen=True, slots=True)
class PartitionScope:
    """A checked filter; times are in microseconds since 1970."""

    key: Key
    session: str | None = None
    after: int | None = None
    before: int | None = None
    where: Filter | None = None

    def lets_through(self, micros: int) -> bool:
        """Whether a row of this time passes."""
        return (self.after is None or self.after <= micros) and (
            self.before is None or micros < self.before
        )


@dataclass(frozen=True, slots=True)
class Described:
    """Checked metadata: as JSON, and the fields that filters read."""

    text: str
    key: Key
    session: str | None
    micros: int | None


def check_key(app_name: object, user_id: object, where: str, limits: Limits) -> Key:
    """Return the names of an app and a user; messages have `where` before them."""
    for value, name in ((app_name, "app_name"), (user_id, "user_id")):
        if value is None:
            msg = f"{where}{name}: required; no call reaches across users"
            raise InvalidArgumentError(msg)
    return (
        check_name(app_name, f"{where}app_name", limits),
        check_name(user_id, f"{where}user_id", limits),
    )


def check_scope(wanted: object, limits: Limits) -> PartitionScope:
    """Return a checked filter."""
    if wanted is None:
        wanted = VectorStoreFilter()
    if not isinstance(wanted, VectorStoreFilter):
        msg = "filter: expected a VectorStoreFilter"
        raise InvalidTypeError(msg)
    session, after, before = wanted.session_id, wanted.after, wanted.before
    return PartitionScope(
        check_key(wanted.app_name, wanted.user_id, "filter.", limits),
        None if session is None else check_name(session, "filter.session_id", limits),
        None if after is None else to_micros(to_seconds(after, "filter.after")),
        None if before is None else to_micros(to_seconds(before, "filter.before")),
        None if wanted.where is None else _checked_where(wanted.where, limits),
    )


def _checked_where(given: object, limits: Limits) -> Filter:
    """Return conditions on labels and metadata."""
    if not isinstance(given, Filter):
        msg = "filter.where: expected a Filter"
        raise InvalidTypeError(msg)
    wanted = check_filter(given, limits, by_metadata=True)
    if asks_times(wanted.metadata):
        msg = "filter.where: a vector store has no $timestamp and no $updated_at"
        raise InvalidArgumentError(msg)
    if (wanted.session_id, wanted.after, wanted.before) != (None, None, None):
        msg = "filter.where: session and times are fields of the VectorStoreFilter"
        raise InvalidArgumentError(msg)
    return wanted


def check_metadata(given: object, limits: Limits) -> Described:
    """Return metadata as JSON, with the fields that filters read."""
    if not isinstance(given, Mapping):
        msg = "metadata: expected a mapping"
        raise InvalidTypeError(msg)
    metadata = dict(given)
    key = check_key(
        metadata.get("app_name"), metadata.get("user_id"), "metadata.", limits
    )
    session, time = metadata.get("session_id"), metadata.get("timestamp")
    if session is not None:
        session = check_name(session, "metadata.session_id", limits)
    micros = None
    if time is not None:
        metadata["timestamp"] = to_seconds(time, "metadata.timestamp")
        micros = to_micros(metadata["timestamp"])
    plain = _copy_json_value(metadata, limits.max_metadata_depth)
    try:
        text = json.dumps(plain, ensure_ascii=False)
    except ValueError:  # an integer of thousands of digits
        msg = "metadata: a number is too long"
        raise InvalidArgumentError(msg) from None
    if len(text.encode(errors="surrogatepass")) > limits.max_text_bytes:
        msg = f"metadata: at most max_text_bytes = {limits.max_text_bytes} bytes"
        raise LimitExceededError(msg)
    return Described(text, key, session, micros)


def _copy_json_value(value: object, depth: int) -> object:
    """Return a copy made of JSON values; a cycle ends at the depth."""
    value = exact(value)
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            msg = "metadata: NaN and Inf are no JSON values"
            raise InvalidArgumentError(msg)
        return value
    if not isinstance(value, Mapping | list | tuple):
        msg = "metadata: expected JSON values"
        raise InvalidTypeError(msg)
    if depth < 1:
        msg = "metadata: nested deeper than max_metadata_depth"
        raise LimitExceededError(msg)
    if not isinstance(value, Mapping):
        return [_copy_json_value(item, depth - 1) for item in value]
    if not all(isinstance(name, str) for name in value):
        msg = "metadata: expected strings as keys"
        raise InvalidTypeError(msg)
    return {
        exact(name): _copy_json_value(item, depth - 1) for name, item in value.items()
    }


def unit_vector(embedding: object) -> NDArray[np.float32]:
    """Return an embedding as a new float32 vector of norm 1.

    Scaling uses float64, so length and magnitude do not affect the direction.
    """
    try:
        given = np.asarray(embedding)
        if given.dtype.kind not in "fiu" or given.ndim != 1:
            raise TypeError
        values = given.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        msg = "embedding: expected a vector of real numbers"
        raise InvalidTypeError(msg) from None
    if not 1 <= values.size <= MAX_DIMENSIONS:
        msg = f"embedding: expected 1 to {MAX_DIMENSIONS} numbers"
        raise InvalidArgumentError(msg)
    largest = np.abs(values).max()
    if not 0 < largest < np.inf:  # false for NaN
        msg = "embedding: must be finite and not zero"
        raise InvalidArgumentError(msg)
    values /= largest
    values /= np.linalg.norm(values)
    return values.astype(np.float32)


# Conditions on the labels and metadata of memories in a vector store.


class _Labels(NamedTuple):
    author: Any
    kind: Any
    source: Any
    trust: Any


def applies_where(store: object) -> bool:
    """Return whether a store applies `VectorStoreFilter.where`."""
    return getattr(store, "applies_where", False) is True


def meets(metadata: Mapping[str, Any], where: Filter) -> bool:
    """Whether the row of a memory meets the conditions of `VectorStoreFilter.where`.

    A store that can evaluate them only in Python may call this for each row.

    Args:
        metadata: The row's metadata.
        where: The conditions.
    """
    labels = _Labels(*map(metadata.get, _Labels._fields))
    custom: object = None
    if where.metadata is not None:
        try:
            custom = json.loads(metadata.get("meta", "{}"))
        except (TypeError, ValueError, RecursionError):  # not a row of a memory
            custom = None
    session = metadata.get("session_id")
    return not is_left_out("", session, where) and passes(
        labels, custom if isinstance(custom, dict) else {}, where
    )


# The rows of one user: vectors in the engine, other fields in dicts.

_NEVER = np.iinfo(np.int64).max
_NO_SESSION = 0

Hit = tuple[int, float]
"""Row number and cosine."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row without its vector; its metadata is JSON."""

    id: str
    session: str | None
    micros: int
    metadata: str


@dataclass(slots=True)
class _Session:
    """A session's number in the engine, and the numbers of its rows."""

    number: int
    rows: set[int] = field(default_factory=set)


class Partition:
    """One user's rows, by numbers that are never reused.

    The engine also knows sessions by numbers, not by hashes, so two sessions never
    collide. `find` needs no lock; all other methods need the caller's lock.
    """

    def __init__(self, engine: Engine, key: Key) -> None:
        """Create an empty partition."""
        self.rows: dict[int, Row] = {}
        self._engine = engine
        self._key = key
        self._numbers: dict[str, int] = {}  # of rows, by id
        self._sessions: dict[str, _Session] = {}

    def number_of(self, id: str) -> int | None:
        """Return the number of the row with this id."""
        return self._numbers.get(id)

    def candidates(self, scope: PartitionScope) -> list[tuple[int, Row]]:
        """Return the rows of the scope's session, or all rows; ignores times."""
        if scope.session is None:
            return list(self.rows.items())
        session = self._sessions.get(scope.session)
        numbers = () if session is None else session.rows
        return [(number, self.rows[number]) for number in numbers]

    def add(self, number: int, row: Row, vector: NDArray[np.float32]) -> None:
        """Add a row under a new number; an error changes nothing."""
        session = None
        if row.session is not None:
            session = self._sessions.get(row.session) or _Session(number)
        label = _NO_SESSION if session is None else session.number
        self._engine.add_rows(
            self._key,
            np.array([number], np.int64),
            np.array([row.micros], np.int64),
            np.array([_NEVER], np.int64),
            np.array([label], np.uint64),
            np.zeros(1, np.int32),
            np.zeros(0, np.uint64),
            np.zeros(2, np.int64),
            vector[None],
        )
        self.rows[number] = row
        self._numbers[row.id] = number
        if session is not None and row.session is not None:
            session.rows.add(number)
            self._sessions[row.session] = session

    def remove(self, numbers: Sequence[int]) -> None:
        """Remove rows; the engine removes all of them atomically."""
        self._engine.remove(self._key, np.array(numbers, np.int64))
        for number in numbers:
            row = self.rows.pop(number)
            if self._numbers[row.id] == number:  # else it was replaced
                del self._numbers[row.id]
            if row.session is None:
                continue
            session = self._sessions[row.session]
            session.rows.discard(number)
            if not session.rows:
                del self._sessions[row.session]

    def drop(self) -> None:
        """Free the partition's memory in the engine."""
        self._engine.drop(self._key)

    def options(self, scope: PartitionScope) -> dict[str, Any] | None:
        """Return the engine's options for a filter; None if no row passes it."""
        options: dict[str, Any] = {}
        if scope.session is not None:
            session = self._sessions.get(scope.session)
            if session is None:
                return None
            options["session"] = session.number
        if scope.after is not None:
            options["after"] = scope.after
        if scope.before is not None:
            options["before"] = scope.before
        return options

    def find(
        self, vector: NDArray[np.float32], top_k: int, options: Mapping[str, Any]
    ) -> list[Hit]:
        """Return the best rows, best first, and all that tie with the last one.

        The engine breaks ties of score and time by number, the store by id.
        """
        wanted = top_k + 1
        while True:
            ids, scores = self._engine.search(
                self._key, vector, wanted, exact=True, **options
            )
            hits: list[Hit] = list(zip(ids.tolist(), scores.tolist(), strict=True))
            if len(hits) < wanted or not self._are_tied(hits[top_k - 1], hits[-1]):
                return hits
            wanted *= 4

    def _are_tied(self, first_hit: Hit, second_hit: Hit) -> bool:
        """Whether two hits tie; False if one was removed, which the caller detects."""
        first, second = self.rows.get(first_hit[0]), self.rows.get(second_hit[0])
        if first is None or second is None:
            return False
        return first_hit[1] == second_hit[1] and first.micros == second.micros


# The summary of a session, as stored with its vector.

_LIMITS = Limits()
_REQUIRED = ("session_id", "user_id", "app_name", "summary", "timestamp")
_OPTIONAL = ("topics", "key_facts", "event_count")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySummary:
    """A summary of a session, or of a part of it.

    Attributes:
        id: Its id, unique for the app and the user.
        session_id: The session.
        user_id: The user.
        app_name: The app.
        summary: The text.
        topics: Its topics.
        key_facts: The facts that it states.
        timestamp: Seconds since 1970. A datetime with a time zone or an ISO 8601 string
            with an offset is converted.
        event_count: The number of events it covers; None if unknown.
    """

    id: str
    session_id: str
    user_id: str
    app_name: str
    summary: str
    topics: tuple[str, ...] = ()
    key_facts: tuple[str, ...] = ()
    timestamp: float
    event_count: int | None = None

    def __post_init__(self) -> None:
        """Check every value; convert the time and the lists.

        Raises:
            InvalidArgumentError: An invalid value.
        """
        for name in ("id", "session_id", "user_id", "app_name"):
            check_name(getattr(self, name), name, _LIMITS)
        summary: object = self.summary
        if not isinstance(summary, str):
            msg = "summary: expected a text"
            raise InvalidTypeError(msg)
        if not summary.strip():
            msg = "summary: must say something"
            raise InvalidArgumentError(msg)
        for name in ("topics", "key_facts"):
            object.__setattr__(self, name, _texts(getattr(self, name), name))
        object.__setattr__(self, "timestamp", to_seconds(self.timestamp, "timestamp"))
        count: object = self.event_count
        if count is None:
            return
        if not isinstance(count, int) or isinstance(count, bool):
            msg = "event_count: expected an integer"
            raise InvalidTypeError(msg)
        if count < 0:
            msg = "event_count: must not be negative"
            raise InvalidArgumentError(msg)

    def to_metadata(self) -> dict[str, Any]:
        """Return all fields but the id as metadata of a row; omit empty ones.

        The id is the row's id.
        """
        metadata: dict[str, Any] = {name: getattr(self, name) for name in _REQUIRED}
        if self.topics:
            metadata["topics"] = list(self.topics)
        if self.key_facts:
            metadata["key_facts"] = list(self.key_facts)
        if self.event_count is not None:
            metadata["event_count"] = self.event_count
        return metadata

    @classmethod
    def from_metadata(cls, id: str, metadata: Mapping[str, Any]) -> MemorySummary:
        """Return the summary that a row holds; other metadata is ignored.

        Args:
            id: The row's id.
            metadata: The row's metadata.

        Raises:
            InvalidArgumentError: A field is missing or invalid.
        """
        given: object = metadata
        if not isinstance(given, Mapping):
            msg = "metadata: expected a mapping"
            raise InvalidTypeError(msg)
        for name in _REQUIRED:
            if name not in metadata:
                msg = f"metadata.{name}: required"
                raise InvalidArgumentError(msg)
        names = (*_REQUIRED, *(name for name in _OPTIONAL if name in metadata))
        return cls(id=id, **{name: metadata[name] for name in names})


def _texts(value: object, name: str) -> tuple[str, ...]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        texts = tuple(value)
        if all(isinstance(text, str) for text in texts):
            return texts
    msg = f"{name}: expected a list of texts"
    raise InvalidTypeError(msg)


# Checks for the optional methods of a vector store.


def has_method(store: object, name: str) -> bool:
    """Return whether a store has a method of this name."""
    return callable(getattr(store, name, None))


def needed_method(store: object, name: str, who: str) -> Any:
    """Return a method that a call or an option needs.

    Args:
        store: The store.
        name: The method's name.
        who: The call or the option, for the message.

    Raises:
        ConfigError: The store has no such method.
    """
    if not has_method(store, name):
        msg = f"{who}: needs the method {name}, which this vector store does not have"
        raise ConfigError(msg)
    return getattr(store, name)
