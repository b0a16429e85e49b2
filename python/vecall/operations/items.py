"""Items of one open file: writes, reads, searches, and the refresh of TTLs."""

from __future__ import annotations

import math
import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import nullcontext, suppress
from functools import partial
from time import monotonic
from typing import Any, NamedTuple, TypeVar

import numpy as np

from vecall import errors, store
from vecall.concurrency.join import Join, in_event_loop
from vecall.concurrency.time_slices import Paced, in_slices
from vecall.filters.metadata import Test, compile_conditions
from vecall.ingest.item_arguments import (
    ItemBatch,
    TooLongError,
    check_item_embedder,
    checked_item_batch,
    checked_item_count,
    checked_item_list,
    checked_item_places,
    checked_item_vectors,
    checked_namespace,
)
from vecall.operations.runtime import INLINE_PARSE_LIMIT, keep_inherited
from vecall.operations.writes import OperationGroup, Writes
from vecall.store import Change, ItemRow, StorageReads
from vecall.telemetry import observed
from vecall.types import Item, Page
from vecall.validation import checked_bool

# Makes items of the rows that a storage returned.

_CURSOR = re.compile(r"(?:(-?\d(?:\.\d+)?(?:e-\d+)?):)?(\d{1,10})", re.ASCII)


class Place(NamedTuple):
    """The place of an item in a list: after better scores and later versions.

    Items without a vector have no score, nor do those of a list without scores.
    """

    score: float | None
    version: int

    @property
    def cursor(self) -> str:
        """The cursor of the page that begins after the place."""
        number = str(self.version)
        return number if self.score is None else f"{self.score!r}:{number}"


def checked_item_cursor(cursor: object, *, scored: bool) -> Place | None:
    """Return the place that a cursor names; None for none."""
    if cursor is None:
        return None
    if not isinstance(cursor, str):
        raise errors.InvalidTypeError("cursor: expected the `next` of a page")
    found = _CURSOR.fullmatch(cursor)
    if found is None or (found[1] and not scored):
        msg = "cursor: expected the `next` of a page of the same list"
        raise errors.InvalidArgumentError(msg)
    return Place(float(found[1]) if found[1] else None, int(found[2]))


def value_of_item_row(row: ItemRow) -> Any:
    """Return the value of a row."""
    return store.parse_item_value(row.value, row.pieces)


def item_of_row(
    row: ItemRow, now: float, score: float | None = None, *, value: Any
) -> Item:
    """Return the item of a row; `value_of_item_row` has its value."""
    return Item(
        store.decode_namespace(row.ns),
        row.key,
        value,
        row.version,
        row.created_at,
        row.updated_at,
        row.ttl,
        None if row.expires_at is None else max(0.0, row.expires_at - now),
        score,
    )


def require_query_fit(state: store.ItemState, query: Any, embedder: str | None) -> None:
    """Check that a query fits the vectors of a user's items."""
    if None not in (state.embedder, embedder) and state.embedder != embedder:
        raise errors.EmbeddingMismatchError(
            f"the items' vectors come from {state.embedder}, not from {embedder}; "
            "search with the same embedder"
        )
    if len(query) != state.dim:
        msg = f"vector: expected {state.dim} numbers, as in the user's items"
        raise errors.DimensionError(msg)


# Refreshes the TTL of items that are read, without a reader waiting for a write.

Key = tuple[str, str]
Names = tuple[str, str | None]
"""A range of namespaces, from the first to before the second."""
Found = tuple[float | None, ItemRow, Any]
"""The score of an item, its row and its value."""

_TOUCH_S = 1.0  # an expiry is moved at most this often
_READ_S = 60.0  # no read takes longer

_NONE: dict[int, float] = {}


class ItemRefresh:
    """New expiries that are still to be written. Thread-safe."""

    def __init__(self, submit: Callable[[store.TouchItems], Future[Change]]) -> None:
        """Write by `submit`."""
        self._submit = submit
        self._lock = threading.Lock()
        self._touched: dict[Key, dict[int, float]] = {}
        self._in_flight: dict[Key, dict[int, float]] = {}
        # A reader may have read a row before its new expiry was written, and look here
        # afterwards. So what was written stays for one to two periods.
        self._written_now: dict[Key, dict[int, float]] = {}
        self._written_before: dict[Key, dict[int, float]] = {}
        self._period_began = monotonic()
        self._futures: dict[Key, Future[Change]] = {}
        self._is_refused = False

    def current_item(self, key: Key, row: ItemRow, now: float) -> ItemRow | None:
        """Return an item with its newest expiry; None if it has expired."""
        if row.expires_at is None:
            return row
        for place in (  # in the order in which an expiry passes through them
            self._touched,
            self._in_flight,
            self._written_now,
            self._written_before,
        ):
            expiry = place.get(key, _NONE).get(row.rid, 0.0)
            if expiry > (row.expires_at or 0.0):
                row = row._replace(expires_at=expiry)
        return None if (row.expires_at or 0.0) <= now else row

    def refresh_item_ttls(self, key: Key, rows: Sequence[ItemRow], now: float) -> None:
        """Begin the TTL of items again."""
        # The write is on its way when the call returns. An item is touched at most once
        # a second, and at most ten times in its TTL.
        new: dict[int, float] = {}
        for row in rows:
            if row.ttl is None:
                continue
            known = self.current_item(key, row, now)
            late = now + row.ttl - min(_TOUCH_S, row.ttl / 10)
            if known is not None and (known.expires_at or 0.0) < late:
                new[row.rid] = now + row.ttl
        if new:
            with self._lock:
                self._touched.setdefault(key, {}).update(new)
            self.flush_expiries(key)

    def flush_expiries(self, key: Key) -> Future[Change] | None:
        """Write the new expiries of a user, unless such a write is on its way."""
        # What comes meanwhile is written after it.
        with self._lock:
            if key in self._in_flight or key not in self._touched:
                return None
            # A reader without the lock finds the expiries in one place or the other.
            self._in_flight[key] = self._touched[key]
            del self._touched[key]
            job = store.TouchItems(*key, dict(self._in_flight[key]))
        try:
            future = self._submit(job)
        except errors.VecallError:
            self._is_refused = True
            with self._lock:
                self._in_flight.pop(key, None)
            raise
        with self._lock:
            self._futures[key] = future
        future.add_done_callback(lambda done: self._note_written_expiries(key, done))
        return future

    def write_waiting_expiries(self) -> None:
        """Wait until all new expiries are written."""
        while True:
            with self._lock:
                keys = list(self._touched)
                writing = list(self._futures.values())
            if not keys and not writing:
                return
            with suppress(errors.VecallError):
                for future in writing:
                    future.result()
                for key in keys:
                    self.flush_expiries(key)
            if self._is_refused:
                return

    def _note_written_expiries(self, key: Key, future: Future[Change]) -> None:
        with self._lock:
            if monotonic() - self._period_began > _READ_S:
                self._written_before, self._written_now = self._written_now, {}
                self._period_began = monotonic()
            written = self._in_flight.get(key)
            if written is not None and future.exception() is None:
                self._written_now.setdefault(key, {}).update(written)
            self._in_flight.pop(key, None)
            self._futures.pop(key, None)
        with suppress(errors.VecallError):  # the service is being closed
            self.flush_expiries(key)


T = TypeVar("T")

_INLINE = 4  # items that a call on an event loop reads without another thread
_INLINE_CHARACTERS = 65_536  # of values that it parses without another thread
_INLINE_WRITTEN = 32_768  # characters of values that it encodes without another thread
_READ_AT_ONCE = 200
_DROPS_AT_ONCE = 1_000


class ItemOperations(OperationGroup):
    """The items of one open file."""

    def __init__(self, memory: Writes) -> None:
        """Use an open file."""
        super().__init__(memory)
        self._start_refreshing()

    def _start_refreshing(self) -> None:
        self._process = os.getpid()
        self._refreshing = ItemRefresh(lambda job: self.memory.storage.submit(job))

    def _checked_item_owner(self, app: str, user: str, *, write: bool) -> Key:
        key = self.memory.key(app, user, write=write)
        if self._process != os.getpid():
            keep_inherited(self._refreshing)
            self._start_refreshing()
        return key

    @observed("items_write", len)
    async def write(
        self, app: str, user: str, operations: object, embedder: str | None
    ) -> list[int]:
        """Write and delete items in one transaction; return their versions."""
        key = self._checked_item_owner(app, user, write=True)
        given = checked_item_list(operations, "operations", "Put and Drop")
        if embedder is not None:
            check_item_embedder(embedder)
        batch = await self._check_item_batch(given)
        if not batch.operations:
            return []
        job = store.WriteItems(*key, batch.operations, batch.dim, embedder)
        await Join(self.memory.storage.submit(job))
        if store.ItemDrop in map(type, job.operations):
            self._free_vectors(job)
        return job.versions

    def _free_vectors(self, job: store.WriteItems) -> None:
        """Free the vectors of the deleted items."""
        deleted = [
            (drop.namespace, drop.key, version)
            for drop, version in zip(job.operations, job.versions, strict=True)
            if version and isinstance(drop, store.ItemDrop)
        ]
        self.memory.item_cache.forget_items((job.app, job.user), deleted)

    @observed("items_get", len)
    async def get_items(
        self, app: str, user: str, keys: object, refresh: bool
    ) -> list[Item | None]:
        """Return items by namespace and key."""
        key = self._checked_item_owner(app, user, write=False)
        given = checked_item_list(keys, "keys", "pairs (namespace, key)")
        checked_bool(refresh, "refresh")
        limits = self.memory.limits
        places = await self.memory.parse_items(checked_item_places, given, limits)
        is_fast = len(places) <= _INLINE and self.memory.storage.is_local
        threads = self.memory.threads
        is_page = len(places) <= _READ_AT_ONCE
        run: Any = threads.short if is_page else partial(threads.long, key)
        rows = self._read_unexpired_rows(key, places, pieces=False) if is_fast else []
        is_small = is_fast and not _has_large_item(rows)
        if not is_small:
            rows = await self._run_off_loop(run, self._read_unexpired_rows, key, places)
        if is_page and (is_small or not _has_large_item(rows)):
            size = sum(len(row.value) for row in rows if row)
            if size <= _INLINE_CHARACTERS:
                return self._make_items(key, rows, refresh)
        return await self._run_off_loop(
            run, self._make_items, key, rows, refresh, in_slices
        )

    async def _check_item_batch(self, given: list[Any]) -> ItemBatch:
        """Return checked operations; an event loop checks few and small ones."""
        runtime = self.memory
        if not in_event_loop() or len(given) > INLINE_PARSE_LIMIT:
            return await runtime.parse_items(checked_item_batch, given, runtime.limits)
        try:
            return checked_item_batch(given, runtime.limits, most=_INLINE_WRITTEN)
        except TooLongError:
            short, limits = runtime.threads.short, runtime.limits
            return await self._run_off_loop(
                short, checked_item_batch, given, limits, in_slices
            )

    def _make_items(
        self,
        key: Key,
        rows: Sequence[ItemRow | None],
        refresh: bool,
        paced: Paced[ItemRow | None] = iter,
    ) -> list[Item | None]:
        now = self._expiry_now()
        if refresh:
            self._refresh_item_ttls(key, [row for row in rows if row is not None], now)
        return [
            item_of_row(row, now, value=value_of_item_row(row)) if row else None
            for row in paced(rows)
        ]

    async def _run_off_loop(
        self, run: Callable[..., Future[T]], work: Callable[..., T], *args: Any
    ) -> T:
        """Read on another thread if an event loop waits, else on the caller's."""
        if not in_event_loop():
            return work(*args)
        return await Join(run(work, *args))

    def _read_unexpired_rows(
        self, key: Key, places: Sequence[tuple[str, str]], pieces: bool = True
    ) -> list[ItemRow | None]:
        storage = self.memory.storage
        if len(places) == 1 and not pieces:
            rows = [storage.item_at(*key, *places[0])]
        else:
            with storage.read(*key) as reads:
                state = reads.item_state(*key)
                if state is None:
                    return [None] * len(places)
                rows = reads.items_at(state.part, places, pieces=pieces)
        now = self._expiry_now()
        return [self._current_item(key, row, now) if row else None for row in rows]

    @observed("items_find", len)
    async def find_items(
        self,
        app: str,
        user: str,
        namespace: object,
        vector: object,
        where: object,
        limit: object,
        offset: object,
        embedder: str | None,
        refresh: bool,
        only_with_vector: bool,
        cursor: object = None,
    ) -> Page[Item]:
        """Return a page of the items of a namespace and all below it."""
        runtime = self.memory
        key = self._checked_item_owner(app, user, write=False)
        labels = checked_namespace(namespace, "namespace", runtime.limits)
        low, high = store.namespace_range(labels)
        test = compile_conditions(where)
        most = checked_item_count(limit, "limit", 1)
        skipped = checked_item_count(offset, "offset", 0)
        wanted = most + skipped
        if embedder is not None:
            check_item_embedder(embedder)
        checked_bool(refresh, "refresh")
        checked_bool(only_with_vector, "only_with_vector")
        after = checked_item_cursor(cursor, scored=vector is not None)
        query = _checked_query(vector)
        keep = runtime.search_index.partitions.keep_to_budget
        is_scored = query is not None
        held: Any = runtime.item_cache.held(key, keep) if is_scored else nullcontext()

        def read() -> list[Found]:  # up to `wanted`, and one further if there is one
            values: dict[int, Any] = {}
            now = self._expiry_now()

            def accepts(row: ItemRow) -> bool:
                if (
                    row.expires_at is not None
                    and self._current_item(key, row, now) is None
                ):
                    return False
                value = value_of_item_row(row)
                if not test(value):
                    return False
                values[row.rid] = value
                return True

            found: list[Found] = []
            with held as search, runtime.storage.read(*key) as reads:
                state = reads.item_state(*key)
                if state is None:
                    return []
                if search is not None and state.dim:
                    require_query_fit(state, query, embedder)
                    names = search.namespaces_between(reads, state, low, high)
                    nearest = search.nearest_items(
                        reads, state, names, query, wanted, accepts, _place_score(after)
                    )
                    found = [(score, row, values[row.rid]) for score, row in nearest]
                if len(found) > wanted or (search is not None and only_with_vector):
                    return found
                seen = set(values)  # all that have a vector
                first = min(wanted + 1, _READ_AT_ONCE)
                before = after.version if after and after.score is None else None
                newest = reads.newest_items(state.part, low, high, first, before)
                for row in in_slices(newest):
                    if row.rid not in seen and accepts(row):
                        found.append((None, row, values[row.rid]))
                        if len(found) > wanted:
                            break
            return found

        long = partial(runtime.threads.long, key)
        run: Any = long if is_scored or where is not None else runtime.threads.short
        found: list[Found] = await self._run_off_loop(run, read)
        is_more = len(found) > wanted
        found = found[skipped:wanted]
        if len(found) <= _READ_AT_ONCE:
            return self._make_item_page(key, found, refresh, is_more)
        return await self._run_off_loop(
            long, self._make_item_page, key, found, refresh, is_more
        )

    def _make_item_page(
        self, key: Key, found: Sequence[Found], refresh: bool, is_more: bool
    ) -> Page[Item]:
        now = self._expiry_now()
        if refresh:
            self._refresh_item_ttls(key, [row for _, row, _ in found], now)
        items = [
            item_of_row(row, now, score, value=value)
            for score, row, value in in_slices(found)
        ]
        if not is_more:
            return Page(items)
        score, last, _ = found[-1]
        return Page(items, Place(score, last.version).cursor)

    async def _read_items_below(
        self, key: Key, namespace: object, read: Callable[[StorageReads, int, Names], T]
    ) -> T | None:
        """Read a namespace and all below it; None if there never was an item."""
        # `read` gets the reads, the number of the partition, and the range of names.
        labels = checked_namespace(namespace, "namespace", self.memory.limits)

        def work() -> T | None:
            with self.memory.storage.read(*key) as reads:
                state = reads.item_state(*key)
                if state is None:
                    return None
                return read(reads, state.part, store.namespace_range(labels))

        return await self._run_off_loop(partial(self.memory.threads.long, key), work)

    @observed("items_find", len)
    async def find_all_items(
        self, app: str, user: str, namespace: object, where: object
    ) -> list[Item]:
        """Return all items of a namespace and below it, of one state."""
        key = self._checked_item_owner(app, user, write=False)
        test = compile_conditions(where)

        def read(reads: StorageReads, part: int, names: Names) -> list[Item]:
            now = self._expiry_now()
            found = self._matching(key, test, reads, part, names)
            return [item_of_row(row, now, value=value) for row, value in found]

        return await self._read_items_below(key, namespace, read) or []

    @observed("items_namespaces", len)
    async def namespaces(
        self, app: str, user: str, namespace: object
    ) -> list[tuple[str, ...]]:
        """Return the namespaces that have items."""
        key = self._checked_item_owner(app, user, write=False)

        def read(reads: StorageReads, part: int, names: Names) -> list[tuple[str, ...]]:
            found = reads.item_namespaces(part, *names, self._expiry_now())
            return [store.decode_namespace(name) for name in in_slices(found)]

        return await self._read_items_below(key, namespace, read) or []

    @observed("items_count", int)
    async def count(self, app: str, user: str, namespace: object, where: object) -> int:
        """Return the number of items in a namespace and all below it."""
        key = self._checked_item_owner(app, user, write=False)
        test = compile_conditions(where)

        def read(reads: StorageReads, part: int, names: Names) -> int:
            if where:
                return sum(1 for _ in self._matching(key, test, reads, part, names))
            # None and {} are met by every item.
            return reads.count_items(part, *names, self._expiry_now())

        return await self._read_items_below(key, namespace, read) or 0

    @observed("items_delete", int)
    async def delete(
        self, app: str, user: str, namespace: object, where: object
    ) -> int:
        """Delete the items of a namespace and all below it; return their number."""
        key = self._checked_item_owner(app, user, write=True)
        test = compile_conditions(where)

        def read(reads: StorageReads, part: int, names: Names) -> list[ItemRow]:
            return [row for row, _ in self._matching(key, test, reads, part, names)]

        rows = await self._read_items_below(key, namespace, read) or []
        gone = 0
        for start in range(0, len(rows), _DROPS_AT_ONCE):
            drops = [
                store.ItemDrop(row.ns, row.key, row.version, is_optional=True)
                for row in rows[start : start + _DROPS_AT_ONCE]
            ]
            job = store.WriteItems(*key, drops)
            await Join(self.memory.storage.submit(job))
            self._free_vectors(job)
            gone += sum(version > 0 for version in job.versions)
        return gone

    def _matching(
        self, key: Key, test: Test, reads: StorageReads, part: int, names: Names
    ) -> Iterator[tuple[ItemRow, Any]]:
        """Yield the items in a range of namespaces that pass a test, with values."""
        now = self._expiry_now()
        for row in in_slices(reads.newest_items(part, *names)):
            if self._current_item(key, row, now):
                value = value_of_item_row(row)
                if test(value):
                    yield row, value

    @observed("items_sweep", int)
    async def sweep_items(self, app: str, user: str) -> int:
        """Delete the expired items of a user; return their number."""
        key = self._checked_item_owner(app, user, write=True)
        waiting = self._refreshing.flush_expiries(key)
        if waiting is not None:
            await Join(waiting)
        job = store.SweepItems(*key)
        await Join(self.memory.storage.submit(job))
        return job.swept

    def finish_item_writes(self) -> None:
        """Write the refreshed TTLs, before the file is closed."""
        if self._process == os.getpid():
            self._refreshing.write_waiting_expiries()

    def _expiry_now(self) -> float:
        return self.memory.storage.expiry_clock.now()

    def _current_item(self, key: Key, row: ItemRow, now: float) -> ItemRow | None:
        return self._refreshing.current_item(key, row, now)

    def _refresh_item_ttls(self, key: Key, rows: Sequence[ItemRow], now: float) -> None:
        if not self.memory.read_only:
            self._refreshing.refresh_item_ttls(key, rows, now)


def _checked_query(vector: object) -> Any:
    """Return the vector of a query with length 1; None stays None."""
    if vector is None:
        return None
    given = checked_item_vectors(vector, "vector")
    if len(given) != 1:
        raise errors.InvalidArgumentError("vector: expected numbers (dim,)")
    norm = np.linalg.norm(given[0].astype(np.float64))
    return (given[0] / norm).astype(np.float32)


def _place_score(place: Place | None) -> tuple[float, int] | None:
    """Return the cosine and version of a place, which is behind all that have one."""
    if place is None:
        return None
    return (-math.inf, 0) if place.score is None else (place.score, place.version)


def _has_large_item(rows: Sequence[ItemRow | None]) -> bool:
    return any(row is not None and store.count_value_pieces(row.value) for row in rows)
