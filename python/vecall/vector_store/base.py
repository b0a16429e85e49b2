"""The protocol of a vector store, its filter and its result."""

from __future__ import annotations

import asyncio
import json
import math
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from vecall import errors
from vecall.clock import Time, to_micros, to_seconds
from vecall.concurrency.executor import Pool as ThreadPool
from vecall.embedders.base import MAX_DIMENSIONS, PerProcess
from vecall.filters.metadata import asks_times, filter_leaves_out, passes
from vecall.limits import Limits
from vecall.scalars import exact
from vecall.types import Filter
from vecall.validation import check_filter, check_name, check_top_k

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


@dataclass(frozen=True, slots=True)
class PartitionScope:
    """A checked filter; times are in microseconds since 1970."""

    key: Key
    session: str | None = None
    after: int | None = None
    before: int | None = None
    where: Filter | None = None


def check_names(app_name: object, user_id: object, where: str, limits: Limits) -> Key:
    """Return the names of an app and a user; messages have `where` before them."""
    for value, name in ((app_name, "app_name"), (user_id, "user_id")):
        if value is None:
            msg = f"{where}{name}: required; no call reaches across users"
            raise errors.InvalidArgumentError(msg)
    return (
        check_name(app_name, f"{where}app_name", limits),
        check_name(user_id, f"{where}user_id", limits),
    )


def check_store_filter(wanted: object, limits: Limits) -> PartitionScope:
    """Return a checked filter."""
    if wanted is None:
        wanted = VectorStoreFilter()
    if not isinstance(wanted, VectorStoreFilter):
        raise errors.InvalidTypeError("filter: expected a VectorStoreFilter")
    session, after, before = wanted.session_id, wanted.after, wanted.before
    return PartitionScope(
        check_names(wanted.app_name, wanted.user_id, "filter.", limits),
        None if session is None else check_name(session, "filter.session_id", limits),
        None if after is None else to_micros(to_seconds(after, "filter.after")),
        None if before is None else to_micros(to_seconds(before, "filter.before")),
        None if wanted.where is None else _checked_row_conditions(wanted.where, limits),
    )


def _checked_row_conditions(given: object, limits: Limits) -> Filter:
    """Return conditions on labels and metadata."""
    if not isinstance(given, Filter):
        raise errors.InvalidTypeError("filter.where: expected a Filter")
    wanted = check_filter(given, limits, by_metadata=True)
    if asks_times(wanted.metadata):
        msg = "filter.where: a vector store has no $timestamp and no $updated_at"
        raise errors.InvalidArgumentError(msg)
    if (wanted.session_id, wanted.after, wanted.before) != (None, None, None):
        msg = "filter.where: session and times are fields of the VectorStoreFilter"
        raise errors.InvalidArgumentError(msg)
    return wanted


def check_metadata(given: object, limits: Limits) -> tuple[Key, str | None, int, str]:
    """Return a row's key, session and time, and its metadata as JSON for UTF-8."""
    if not isinstance(given, Mapping):
        raise errors.InvalidTypeError("metadata: expected a mapping")
    metadata = dict(given)
    key = check_names(
        metadata.get("app_name"), metadata.get("user_id"), "metadata.", limits
    )
    session, at = metadata.get("session_id"), metadata.get("timestamp")
    if session is not None:
        session = check_name(session, "metadata.session_id", limits)
    if at is None:
        at = time.time()
    else:
        metadata["timestamp"] = at = to_seconds(at, "metadata.timestamp")
    plain = _copy_json_value(metadata, limits.max_metadata_depth)
    try:
        text = json.dumps(plain, ensure_ascii=False)
    except ValueError:  # an integer of thousands of digits
        raise errors.InvalidArgumentError("metadata: a number is too long") from None
    if len(text.encode(errors="surrogatepass")) > limits.max_text_bytes:
        msg = f"metadata: at most max_text_bytes = {limits.max_text_bytes} bytes"
        raise errors.LimitExceededError(msg)
    try:
        text.encode()
    except UnicodeEncodeError:  # lone surrogates become escapes
        text = json.dumps(plain)
    return key, session, to_micros(at), text


def _copy_json_value(value: object, depth: int) -> object:
    """Return a copy made of JSON values; a cycle ends at the depth."""
    value = exact(value)
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise errors.InvalidArgumentError(
                "metadata: NaN and Inf are no JSON values"
            )
        return value
    if not isinstance(value, Mapping | list | tuple):
        raise errors.InvalidTypeError("metadata: expected JSON values")
    if depth < 1:
        raise errors.LimitExceededError(
            "metadata: nested deeper than max_metadata_depth"
        )
    if not isinstance(value, Mapping):
        return [_copy_json_value(item, depth - 1) for item in value]
    if not all(isinstance(name, str) for name in value):
        raise errors.InvalidTypeError("metadata: expected strings as keys")
    return {
        exact(name): _copy_json_value(item, depth - 1) for name, item in value.items()
    }


def unit_vector(embedding: object) -> NDArray[np.float32]:
    """Return an embedding as a new float32 vector of norm 1."""
    # Scaling uses float64, so length and magnitude do not affect the direction.
    try:
        given = np.asarray(embedding)
        if given.dtype.kind not in "fiu" or given.ndim != 1:
            raise TypeError
        values = given.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise errors.InvalidTypeError(
            "embedding: expected a vector of real numbers"
        ) from None
    if not 1 <= values.size <= MAX_DIMENSIONS:
        raise errors.InvalidArgumentError(
            f"embedding: expected 1 to {MAX_DIMENSIONS} numbers"
        )
    largest = np.abs(values).max()
    if not 0 < largest < np.inf:  # false for NaN
        raise errors.InvalidArgumentError("embedding: must be finite and not zero")
    values /= largest
    values /= np.linalg.norm(values)
    return values.astype(np.float32)


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
    return not filter_leaves_out("", session, where) and passes(
        labels, custom if isinstance(custom, dict) else {}, where
    )


# Rows, and stores that check the arguments of their calls.

T = TypeVar("T")
_WITH_WHERE = 4  # times as many rows, of which some are left out


class StoredRow(NamedTuple):
    """A row as it is stored; the time is in microseconds, the metadata is JSON."""

    id: str
    session: str | None
    micros: int
    metadata: str

    def passes_scope(self, scope: PartitionScope) -> bool:
        """Whether the row passes a filter."""
        return (
            (scope.after is None or scope.after <= self.micros)
            and (scope.before is None or self.micros < scope.before)
            and (scope.session is None or scope.session == self.session)
            and (scope.where is None or meets(json.loads(self.metadata), scope.where))
        )


class CheckedVectorStore(ABC):
    """Checks the arguments of a `DeletingVectorStore`; what it calls then may block."""

    applies_where = True
    """The store applies `VectorStoreFilter.where`."""

    _is_newest_first = False  # whether `_nearest_rows` orders equal scores so

    def __init__(self, limits: Limits | None) -> None:
        """Use these limits, or the default ones."""
        self._limits = limits or Limits()
        self._closed = False

    async def upsert(
        self, id: str, embedding: Embedding, metadata: Mapping[str, Any]
    ) -> None:
        """Insert a row, or replace this user's row with the same id.

        See `VectorStore.upsert`.

        Raises:
            StorageError: A server cannot be reached.
            BusyError: A server did not answer in time.
        """
        name = check_name(id, "id", self._limits)
        vector = unit_vector(embedding)
        key, session, micros, text = check_metadata(metadata, self._limits)
        row = StoredRow(name, session, micros, text)
        await self._call(key, partial(self._store_row, key, row, vector))

    async def search(
        self, embedding: Embedding, top_k: int, filter: VectorStoreFilter | None = None
    ) -> list[VectorSearchResult]:
        """Return the rows of one user that are nearest to a vector.

        See `VectorStore.search` and `upsert`.
        """
        vector = unit_vector(embedding)
        count = check_top_k(top_k, self._limits)
        scope = check_store_filter(filter, self._limits)
        # With `where` the metadata of every row is read.
        rows = count if scope.where is None else sys.maxsize
        work = partial(self._search_rows, vector, count, scope)
        return await self._call(scope.key, work, rows)

    def _search_rows(
        self, vector: NDArray[np.float32], top_k: int, scope: PartitionScope
    ) -> list[VectorSearchResult]:
        wanted = top_k + 1
        if scope.where is not None:
            wanted *= _WITH_WHERE
        while True:
            found = self._nearest_rows(vector, wanted, scope)
            hits = [
                # A server's rounding may put a cosine beyond 1.
                (min(1.0, max(-1.0, cosine)), row)
                for cosine, row in found
                if row.passes_scope(scope)
            ]
            # Rows that tie with the last one wanted may be missing.
            if len(found) < wanted or (
                len(hits) >= top_k
                and self._hit_order(hits[top_k - 1]) > self._hit_order(found[-1])
            ):
                break
            wanted *= 4
        hits.sort(key=lambda hit: (-hit[0], -hit[1].micros, hit[1].id))
        return [
            VectorSearchResult(row.id, score, json.loads(row.metadata))
            for score, row in hits[:top_k]
        ]

    def _hit_order(self, hit: tuple[float, StoredRow]) -> tuple[float, int]:
        return hit[0], hit[1].micros if self._is_newest_first else 0

    async def delete(self, id: str, *, app_name: str, user_id: str) -> bool:
        """Delete one row of one user; return whether it existed.

        See `DeletingVectorStore.delete` and `upsert`.
        """
        name = check_name(id, "id", self._limits)
        key = check_names(app_name, user_id, "", self._limits)
        return await self._call(key, partial(self._delete_row, key, name))

    async def delete_many(self, filter: VectorStoreFilter) -> int:
        """Delete the rows of one user that match a filter; return their number.

        See `DeletingVectorStore.delete_many` and `upsert`.
        """
        scope = check_store_filter(filter, self._limits)
        return await self._call(scope.key, partial(self._delete_rows, scope), None)

    def _check_open(self) -> None:
        if self._closed:
            raise closed_store_error()

    @abstractmethod
    async def _call(self, key: Key, work: Callable[[], T], rows: int | None = 0) -> T:
        """Run work that reads so many of a user's rows; None: on a thread anyway."""

    @abstractmethod
    def _store_row(self, key: Key, row: StoredRow, vector: NDArray[np.float32]) -> None:
        """Store a row."""

    @abstractmethod
    def _nearest_rows(
        self, vector: NDArray[np.float32], count: int, scope: PartitionScope
    ) -> list[tuple[float, StoredRow]]:
        """Return rows with cosines, best first, that pass a filter without `where`."""

    @abstractmethod
    def _delete_row(self, key: Key, id: str) -> bool:
        """Delete a row."""

    @abstractmethod
    def _delete_rows(self, scope: PartitionScope) -> int:
        """Delete the rows that pass a filter."""


# What vector stores on a server share: threads and time limits.


class RemoteVectorStore(CheckedVectorStore):
    """A `DeletingVectorStore` whose rows are on a server.

    The methods to define block; they run on threads of the store. Safe to share between
    threads and event loops; a forked child opens connections of its own.

    A call that is cancelled before its thread begins has no effect; later it may still
    take effect.
    """

    def __init__(
        self,
        dimensions: int | None,
        limits: Limits | None,
        *,
        connections: int,
        timeout: float,
        most_dimensions: int,
    ) -> None:
        """Check the options that stores share.

        Raises:
            ConfigError: An option is invalid.
        """
        super().__init__(limits)
        length = 1 if dimensions is None else dimensions
        check_store_option_count(length, "dimensions", most_dimensions)
        check_store_option_count(connections, "connections", 64)
        given: object = timeout
        if type(given) not in (int, float) or not 0.1 <= timeout <= 3600:
            raise errors.ConfigError("timeout: expected seconds from 0.1 to 3600")
        self._wanted = dimensions
        self._dimensions: int | None = None
        self._most = most_dimensions
        self._timeout = float(timeout)
        self._call_of_thread = threading.local()
        self._threads = PerProcess(
            lambda: ThreadPool(connections, thread_name_prefix="vecall-store")
        )

    def close(self) -> None:
        """Close the connections; later calls raise ClosedError. Idempotent."""
        self._closed = True
        self._threads().shutdown(wait=False)
        self._disconnect()

    async def _call(self, key: Key, work: Callable[[], T], rows: int | None = 0) -> T:
        """Run work on a thread of the store."""
        del key, rows
        deadline = monotonic() + self._timeout

        def run() -> T:
            self._call_of_thread.deadline = deadline
            if self._call_seconds_left() <= 0:
                msg = "all connections of the vector store were in use; try again"
                raise errors.BusyError(msg)
            return work()

        try:
            future = self._threads().submit(run)
        except RuntimeError:
            if not self._closed:
                raise
            raise closed_store_error() from None
        return await asyncio.wrap_future(future)

    def _call_seconds_left(self) -> float:
        """Return the seconds that the call on this thread has left."""
        left: float = self._call_of_thread.deadline - monotonic()
        return left

    def _require_dim(
        self, vector: NDArray[np.float32], read: Callable[[], int | None]
    ) -> bool:
        """Check a vector's length; return whether that of stored ones is known."""
        if self._dimensions != vector.size:
            self._dimensions = read()
        for expected in (self._wanted, self._dimensions):
            if expected is not None and expected != vector.size:
                msg = f"embedding: expected {expected} numbers, not {vector.size}"
                raise errors.DimensionError(msg)
        if vector.size > self._most:
            msg = f"embedding: the server stores at most {self._most} numbers"
            raise errors.DimensionError(msg)
        return self._dimensions is not None

    @abstractmethod
    def _disconnect(self) -> None:
        """Close the connections; those in use, when they come back."""


def check_store_option_count(given: object, name: str, most: int) -> None:
    """Check an option of a store that is a number from 1."""
    if type(given) is not int or not 1 <= given <= most:
        raise errors.ConfigError(f"{name}: expected an integer from 1 to {most}")


def closed_store_error() -> errors.ClosedError:
    """Return the error of a call after `close`."""
    return errors.ClosedError("the vector store is closed")


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
            raise errors.InvalidTypeError("summary: expected a text")
        if not summary.strip():
            raise errors.InvalidArgumentError("summary: must say something")
        for name in ("topics", "key_facts"):
            object.__setattr__(self, name, _metadata_texts(getattr(self, name), name))
        object.__setattr__(self, "timestamp", to_seconds(self.timestamp, "timestamp"))
        count: object = self.event_count
        if count is None:
            return
        if not isinstance(count, int) or isinstance(count, bool):
            raise errors.InvalidTypeError("event_count: expected an integer")
        if count < 0:
            raise errors.InvalidArgumentError("event_count: must not be negative")

    def to_metadata(self) -> dict[str, Any]:
        """Return all fields but the id as metadata of a row; omit empty ones.

        The id is the row's id.
        """
        metadata: dict[str, Any] = {name: getattr(self, name) for name in _REQUIRED}
        lists = {"topics": list(self.topics), "key_facts": list(self.key_facts)}
        metadata |= {name: found for name, found in lists.items() if found}
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
            raise errors.InvalidTypeError("metadata: expected a mapping")
        for name in _REQUIRED:
            if name not in metadata:
                raise errors.InvalidArgumentError(f"metadata.{name}: required")
        names = (*_REQUIRED, *(name for name in _OPTIONAL if name in metadata))
        return cls(id=id, **{name: metadata[name] for name in names})


def _metadata_texts(value: object, name: str) -> tuple[str, ...]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        texts = tuple(value)
        if all(isinstance(text, str) for text in texts):
            return texts
    raise errors.InvalidTypeError(f"{name}: expected a list of texts")


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
        raise errors.ConfigError(msg)
    return getattr(store, name)
