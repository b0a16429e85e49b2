"""A cache of rows, bounded in bytes.

A row that was loaded and not used yet is kept as a plain tuple of strings and numbers,
which the garbage collector does not visit. It visits each `Row` in every full
collection, and nothing else runs meanwhile: 100 ms for 60,000 of them.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import Future
from functools import partial
from hashlib import blake2b
from operator import itemgetter
from typing import Any, ParamSpec, TypeVar

from vecall._core import Engine, row_columns
from vecall.concurrency.executor import FairPool, Pool, freeing_error_frames
from vecall.errors import ClosedError, InvalidArgumentError
from vecall.lexical import terms_of_memories
from vecall.store import Change, Row, RowWithVector, Version

_FORGOTTEN_KEPT = 10_000  # changes; rows of a slower reader are not cached
_PARTITIONS_KEPT = 10_000  # loaded last; rows put before are dropped
_USED = 2  # values in the entry of a row that was used
_ROW_OVERHEAD = 700  # bytes of a row's objects besides its strings' characters


class _Moments(OrderedDict[int, int]):
    """Since when the rows of a partition are valid; the newest moment is the last.

    Too late a moment costs a read; too early a one returns an outdated text.
    """

    before = 0  # of partitions that were dropped

    def __missing__(self, part: int) -> int:
        return self.before


class RowCache:
    """An LRU cache of rows by number. Thread-safe."""

    def __init__(self, budget: int) -> None:
        """Hold at most `budget` bytes."""
        self._budget = budget
        # The values of a row, or a `Row`; last the moment when it was put.
        self._rows: OrderedDict[int, tuple[Any, ...]] = OrderedDict()
        self.nbytes = 0
        """The estimated memory of the rows, in bytes."""
        self._moment = 0
        self._forgotten: OrderedDict[int, int] = OrderedDict()  # row to moment
        self._forgets_before = 0
        self._valid_from = _Moments()
        self._lock = threading.Lock()

    def get_rows(self, rids: Iterable[int]) -> list[Row | None]:
        """Return rows, None for those not in the cache, and mark them as used."""
        found: list[Row | None] = []
        part, valid_since = -1, 0
        rows, mark_used = self._rows, self._rows.move_to_end
        with self._lock:
            for rid in rids:
                if rid >> 32 != part:  # most answers are of one partition
                    part = rid >> 32
                    valid_since = self._valid_from[part]
                entry = rows.get(rid)
                if entry is None or entry[-1] < valid_since:
                    found.append(None)
                    continue
                if entry[0].__class__ is int:  # its number: not used before
                    entry = rows[rid] = (Row._make(entry[:-1]), entry[-1])
                mark_used(rid)
                found.append(entry[0])
        return found

    def moment_of_read(self) -> int:
        """Return the moment to pass to `put_rows`; call it before reading the rows."""
        with self._lock:
            return self._moment

    def put_rows(self, rows: Iterable[Row], read_at: int | None = None) -> None:
        """Cache rows, and evict the least recently used ones beyond the budget.

        Rows that changed since `read_at`, the moment before they were read, are not
        cached: the read may have returned their old content.
        """
        with self._lock:
            for row in rows:
                if read_at is not None and self._is_row_outdated(row.rid, read_at):
                    continue
                if row.rid in self._rows:
                    self._drop_row(row.rid)
                self._rows[row.rid] = (*row, self._moment)
                self.nbytes += _estimated_row_bytes(row)
            while self.nbytes > self._budget and self._rows:
                self._drop_row(next(iter(self._rows)))

    def forget_rows(self, rids: Iterable[int]) -> None:
        """Drop rows that were changed or deleted."""
        with self._lock:
            for rid in rids:
                if rid in self._rows:
                    self._drop_row(rid)
                self._moment += 1
                self._forgotten[rid] = self._moment
                self._forgotten.move_to_end(rid)
            while len(self._forgotten) > _FORGOTTEN_KEPT:
                self._forgets_before = self._forgotten.popitem(last=False)[1]

    def clear_rows(self) -> None:
        """Drop all rows."""
        with self._lock:
            self._rows.clear()
            self.nbytes = 0

    def forget_partition(self, part: int) -> None:
        """Drop all rows of a partition that is being reloaded.

        Changes by other processes are not tracked while a partition is not loaded.
        """
        with self._lock:
            self._moment += 1
            self._valid_from[part] = self._moment
            self._valid_from.move_to_end(part)
            if len(self._valid_from) > _PARTITIONS_KEPT:
                self._valid_from.before = self._valid_from.popitem(last=False)[1]

    def _is_row_outdated(self, rid: int, read_at: int) -> bool:
        if read_at < max(self._forgets_before, self._valid_from[rid >> 32]):
            return True
        return self._forgotten.get(rid, 0) > read_at

    def _drop_row(self, rid: int) -> None:
        entry = self._rows.pop(rid)
        row = entry if len(entry) > _USED else entry[0]
        self.nbytes -= _estimated_row_bytes(row)


_TEXTS = itemgetter(*map(Row._fields.index, ("text", "content", "meta")))


def _estimated_row_bytes(row: tuple[Any, ...]) -> int:
    text, content, meta = _TEXTS(row)
    return _ROW_OVERHEAD + len(text) + len(content or "") + len(meta or "")


# Converts rows to the engine's input: hashed words, names and sessions, vectors.

Key = tuple[str, str]

_FIRST_NAME = 2  # 0 is no name, and 1 the session of turns without one


def name_key(name: str) -> int:
    """Return the engine's 64-bit number of a session, author or kind."""
    digest = blake2b(name.encode(), digest_size=8).digest()
    return max(int.from_bytes(digest, "little"), _FIRST_NAME)


class _Names(dict[str, int]):
    """Caches the numbers of names within one batch."""

    def __missing__(self, name: str) -> int:
        self[name] = number = name_key(name)
        return number


def add_rows(
    engine: Engine, key: Key, stored: Sequence[RowWithVector], model: int | None
) -> int:
    """Add rows with their words and the vectors of one model; return how many failed.

    A row that the engine refuses costs no other row. It is added without its vector;
    if that is refused as well, by its number alone, so that no search finds it.
    """
    try:
        _add_to_engine(engine, key, stored, model)
        return 0
    except InvalidArgumentError:
        return sum(_add_accepted_rows(engine, key, entry, model) for entry in stored)


def _add_accepted_rows(
    engine: Engine, key: Key, entry: RowWithVector, model: int | None
) -> bool:
    bare = entry.row._replace(
        text="", author=None, kind=None, session=None, pos=None, ts=0.0
    )
    forms = (entry, entry._replace(vec=None), RowWithVector(bare, None))
    for form in forms:
        try:
            _add_to_engine(engine, key, [form], model)
            break
        except InvalidArgumentError:
            if form is forms[-1]:
                raise
    return form is not entry


def _add_to_engine(
    engine: Engine, key: Key, stored: Sequence[RowWithVector], model: int | None
) -> None:
    columns = row_columns(list(stored), _Names(), engine.dim, model)
    vectors, has_vector, authors, kinds = columns[6:]
    terms, offsets = terms_of_memories(columns[0])
    engine.add_rows(
        key, *columns[1:6], terms, offsets, vectors, has_vector, authors, kinds
    )


# The newest change of each partition of a database in memory.


class NewestChanges:
    """Returns what `Storage.version` would, without the database's only lock.

    A transaction may hold that lock for seconds, and a search on an event loop must not
    wait. The writer's thread records every commit before acknowledging it. Thread-safe.
    """

    def __init__(self) -> None:
        """Begin with an empty database."""
        self._found: dict[Key, Version] = {}

    def newest_version(self, key: Key) -> Version | None:
        """Return the version of a partition; None if there is none."""
        return self._found.get(key)

    def note_change(self, change: Change) -> None:
        """Record a commit."""
        key = (change.app, change.user)
        if change.forgotten:
            self._found.pop(key, None)
        elif change.part:
            self._found[key] = (change.part, change.seq, change.head)


# The threads that read a service's file: one pool per kind of work.
#
# With a pool per kind, a short read of one user does not wait for a scan or a load of
# another user's rows. Scans take turns by user. At most one large partition is loaded
# at a time.

P = ParamSpec("P")
T = TypeVar("T")

_SHORT = 2  # reads of single rows and pages: a millisecond each
_PAGE = 200  # rows of a short read
_LONG = 2  # scans at once: the rows of one user, or totals of the file
_USERS = 6  # whose scans are under way, in turn


class ReadThreads:
    """Runs work that reads the file. Threads start when they are needed."""

    def __init__(self, *, in_memory: bool = False) -> None:
        """Start with no thread.

        A database in memory has one connection: a scan that waits for its turn would
        keep it.
        """
        self._short = Pool(_SHORT, thread_name_prefix="vecall-reads")
        users = _LONG if in_memory else _USERS
        self._long = FairPool(users, _LONG, thread_name_prefix="vecall-scans")
        self._small = Pool(1, thread_name_prefix="vecall-loader-small")
        self._large = Pool(1, thread_name_prefix="vecall-loader-large")

    # Each of these raises ClosedError if the service was closed.

    def short(
        self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> Future[T]:
        """Run work that reads single rows or a page of them."""
        return _submit_read_unless_closed(self._short.submit, work, *args, **kwargs)

    def long(
        self, owner: Hashable, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> Future[T]:
        """Run work that may read all rows of a user, or of the file if `owner` is None.

        Users take turns. The work ends early if its future is cancelled; its loops must
        use `vecall.concurrency.time_slices`.
        """
        return _submit_read_unless_closed(
            partial(self._long.submit, owner), work, *args, **kwargs
        )

    def run_page_read(
        self,
        owner: Hashable,
        rows: int,
        work: Callable[P, T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Future[T]:
        """Run work that reads up to a number of a user's rows: `short` or `long`."""
        if rows <= _PAGE:
            return self.short(work, *args, **kwargs)
        return self.long(owner, work, *args, **kwargs)

    def run_small_load(
        self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> Future[T]:
        """Run work that loads a small partition into the engine."""
        return _submit_read_unless_closed(self._small.submit, work, *args, **kwargs)

    def run_large_load(
        self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> Future[T]:
        """Run work that loads a large partition into the engine, one at a time."""
        return _submit_read_unless_closed(self._large.submit, work, *args, **kwargs)

    def close(self) -> None:
        """Finish queued work and end the threads."""
        # A small load may hand itself over to the thread for large ones.
        for pool in (self._small, self._large):
            pool.shutdown(wait=True)
        self._long.shutdown()
        self._short.shutdown(wait=True)


def _submit_read_unless_closed(
    submit: Callable[..., Future[T]],
    work: Callable[P, T],
    *args: P.args,
    **kwargs: P.kwargs,
) -> Future[T]:
    try:
        return submit(freeing_error_frames(work), *args, **kwargs)
    except RuntimeError:
        raise ClosedError("the memory service is closed") from None
