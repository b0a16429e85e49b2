"""Brings partitions from the file into the engine, and keeps them in step with it.

A partition is loaded when it is first searched. Afterwards every search compares the
partition's newest change in the file with the newest that the engine has: a write of
this process is applied as it is committed, a write of another process is read from the
change log before the search goes on. Reading and text analysis run on the loader's own
thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from typing import ParamSpec, TypeVar

import numpy as np

from vecall._core import Engine
from vecall._row_cache import RowCache
from vecall.errors import ClosedError
from vecall.lexical import memory_terms
from vecall.store import (
    Change,
    Database,
    Row,
    StoredRow,
    changed_since,
    load_partition,
    load_rows,
    newest_change,
)
from vecall.timestamps import to_micros

P = ParamSpec("P")
T = TypeVar("T")

Key = tuple[str, str]

_NEVER = np.iinfo(np.int64).max
_SLICE = 64  # rows analysed before other threads are let in
_UNKNOWN_SESSION = 1  # turns told without a session are neighbours of their call's


@dataclass(slots=True)
class _Loaded:
    """How far the engine is for one partition."""

    part: int
    seq: int
    lock: threading.Lock = field(default_factory=threading.Lock)


class Loader:
    """Keeps the engine in step with the file."""

    def __init__(self, database: Database, engine: Engine, cache: RowCache) -> None:
        """Start with nothing loaded."""
        self._database = database
        self._engine = engine
        self._cache = cache
        self._in_memory = database.path is None
        self._loaded: dict[Key, _Loaded] = {}
        self._broken: set[Key] = set()  # to be loaded though nothing is new
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="vecall-loader")

    def submit(
        self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> Future[T]:
        """Run something that reads the file on the loader's thread.

        Raises:
            ClosedError: The service was closed.
        """
        try:
            return self._thread.submit(work, *args, **kwargs)
        except RuntimeError:
            msg = "the memory service is closed"
            raise ClosedError(msg) from None

    def stale(self, key: Key) -> Future[None] | None:
        """Say whether a partition must be read before it is searched.

        Returns:
            None if the engine has the newest change, or if there is no such partition;
            else what to wait for.
        """
        if self._in_memory and key not in self._broken:
            return None  # every change is published, nobody else writes
        found = self._database.partition(*key)
        if found is None:
            return None
        part, seq = found
        loaded = self._loaded.get(key)
        if loaded is not None and loaded.part == part and loaded.seq >= seq:
            return None
        return self.submit(self._catch_up, key, part)

    def publish(self, change: Change) -> None:
        """Apply a change of this process, right after its commit."""
        self._cache.forget(change.removed)
        self._cache.forget(row.rid for row in change.rows)
        key = (change.app, change.user)
        loaded = self._loaded.get(key)
        if loaded is None and self._in_memory and change.part and not change.seq_before:
            # Without a file there is nothing to be lazy about, and a load would hold
            # the only connection while it analyses texts.
            loaded = self._loaded[key] = _Loaded(change.part, 0)
        if loaded is None:
            return
        with loaded.lock:
            # Where another process wrote in between, the next search reads both.
            if loaded.seq != change.seq_before:
                return
            stored = map(StoredRow, change.rows, change.vectors)
            try:
                self._apply(key, stored, change.removed)
            except BaseException:
                # Half applied is not known: the next search loads it afresh.
                self._loaded.pop(key, None)
                self._broken.add(key)
                raise
            loaded.seq = change.seq

    def rows(self, rids: Sequence[int]) -> list[Row]:
        """Read rows from the file into the cache, without those that are gone."""
        read_at = self._cache.now()
        with self._database.snapshot() as connection:
            rows = [stored.row for stored in load_rows(connection, rids)]
        self._cache.put(rows, read_at)
        return rows

    def close(self) -> None:
        """Finish what waits and end the thread."""
        self._thread.shutdown(wait=True)

    def _catch_up(self, key: Key, part: int) -> None:
        loaded = self._loaded.get(key)
        if loaded is None or loaded.part != part:
            self._load(key, part)
            return
        with loaded.lock:
            with self._database.snapshot() as connection:
                seq = newest_change(connection, part)
                rids = changed_since(connection, part, loaded.seq)
                stored = load_rows(connection, rids or ())
            if rids is None:  # the log no longer reaches back that far
                self._load(key, part)
                return
            there = {entry.row.rid for entry in stored}
            removed = [rid for rid in rids if rid not in there]
            self._cache.forget(rids)
            self._apply(key, stored, removed)
            loaded.seq = max(loaded.seq, seq)

    def _load(self, key: Key, part: int) -> None:
        self._engine.drop(key)
        with self._database.snapshot() as connection:
            seq = newest_change(connection, part)
            self._apply(key, load_partition(connection, part), ())
        self._loaded[key] = _Loaded(part, seq)
        self._broken.discard(key)

    def _apply(
        self, key: Key, stored: Iterable[StoredRow], removed: Sequence[int]
    ) -> None:
        if removed:
            self._engine.remove(key, np.fromiter(removed, np.int64, len(removed)))
        entries = iter(stored)
        while some := list(islice(entries, _SLICE)):
            add_rows(self._engine, key, some)
            self._cache.put(entry.row for entry in some)
            # A bare yield: whoever waits for the interpreter, the event loop above all,
            # gets it between slices and not after the whole partition.
            time.sleep(0)


def session_key(session: str) -> int:
    """Return the 64-bit number by which the engine knows a session."""
    digest = blake2b(session.encode(), digest_size=8).digest()
    return max(int.from_bytes(digest, "little"), _UNKNOWN_SESSION + 1)


def _engine_session(row: Row) -> int:
    if row.session is not None:
        return session_key(row.session)
    return 0 if row.pos is None else _UNKNOWN_SESSION


def add_rows(engine: Engine, key: Key, stored: Sequence[StoredRow]) -> None:
    """Put rows into the engine, with their words and, where it keeps them, vectors."""
    rows = [entry.row for entry in stored]
    terms = [memory_terms(row.text, row.author, row.ts) for row in rows]
    offsets = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([len(found) for found in terms], out=offsets[1:])
    expires = [
        _NEVER if row.expires_at is None else to_micros(row.expires_at) for row in rows
    ]
    dim = engine.dim
    vectors = has_vector = None
    if dim:
        vectors = np.zeros((len(rows), dim), np.float32)
        has_vector = np.zeros(len(rows), np.uint8)
        for i, entry in enumerate(stored):
            if entry.vec is not None and len(entry.vec) == 4 * dim:
                vectors[i] = np.frombuffer(entry.vec, "<f4")
                has_vector[i] = 1
    engine.add_rows(
        key,
        np.array([row.rid for row in rows], np.int64),
        np.array([to_micros(row.time) for row in rows], np.int64),
        np.array(expires, np.int64),
        np.array([_engine_session(row) for row in rows], np.uint64),
        np.array([row.pos or 0 for row in rows], np.int32),
        np.array([term for found in terms for term in found], np.uint64),
        offsets,
        vectors,
        has_vector,
    )
