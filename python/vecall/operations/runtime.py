"""One open file: its storage, threads and engine, from opening to closing."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeVar

from vecall import errors, store
from vecall.concurrency.closing import clean_up_dropped_service
from vecall.concurrency.executor import FairPool, PluginExecutor, Pool
from vecall.concurrency.join import Join
from vecall.concurrency.time_slices import in_slices
from vecall.content import to_valid_utf8
from vecall.embedders import Embedder, automatic
from vecall.embedders.base import is_async
from vecall.filters.rights import FULL, Rights, cap_trust_tier
from vecall.hooks import PendingWrite, Verdict, WriteHook
from vecall.index.embedding import Backfill, EmbeddingQueue, model_of_embedder
from vecall.index.item_index import ItemCache
from vecall.index.row_cache import NewestChanges, ReadThreads
from vecall.ingest.parts import checked_included_parts
from vecall.ingest.passages import each_draft, in_passages
from vecall.limits import Limits
from vecall.operations.options import StorageOptions, WritePolicy, checked_seconds
from vecall.ranking.options import Ranking
from vecall.scalars import shortened
from vecall.search.search_index import SearchIndex, Use
from vecall.search.searcher import (
    NO_FLOOR,
    SearchOptions,
    entry_of_draft,
    favoured_authors,
    make_scoring,
)
from vecall.store import Draft
from vecall.system import at_fork
from vecall.telemetry import Telemetry, warn_caller
from vecall.types import Page, check_share
from vecall.validation import (
    check_name,
    check_storage_path,
    check_time_zone,
    check_top_k,
    checked_bool,
    checked_name_page,
    partition_key,
)

Key = tuple[str, str]

_reopening = threading.Lock()  # of forked children, which reopen their parent's file
_inherited: list[object] = []  # objects of the parent process; never closed here


def _after_fork() -> None:
    global _reopening  # noqa: PLW0603
    _reopening = threading.Lock()


at_fork(after_in_child=_after_fork)


def keep_inherited(*parts: object) -> None:
    """Hold objects of the parent, so that this process never frees or closes them."""
    _inherited.extend(parts)


# Calls the write hook of a service with each memory before it is written.

_log = logging.getLogger("vecall")


class WriteReviewer:
    """The write hook of a service, and the thread that calls it."""

    def __init__(self, hook: WriteHook | None, limits: Limits) -> None:
        """Create a reviewer; without a hook every draft passes unchanged."""
        self._hook = hook
        self.is_open = hook is None
        """Whether the service has no hook; every draft then passes unchanged."""
        self._limits = limits
        self.thread = PluginExecutor("vecall-hook")

    async def review_drafts(
        self, key: Key, drafts: list[Draft], scope: str = "user", explicit: bool = False
    ) -> list[Draft]:
        """Return the accepted drafts, changed by the hook; see `review_each_draft`."""
        results = await self.review_each_draft(key, drafts, scope, explicit)
        if results is drafts:
            return drafts
        turns = {draft.passage_of for draft in drafts}
        passed = [
            in_passages(draft, self._limits, is_first=draft.id in turns)
            for draft in results
            if draft
        ]
        return each_draft(passed)

    async def review_each_draft(
        self, key: Key, drafts: list[Draft], scope: str, explicit: bool = False
    ) -> Sequence[Draft | None]:
        """Return each draft with the hook's changes; None for a rejected one."""
        # With `explicit`, rejecting a memory that is not a turn is an error.
        hook = self._hook
        if hook is None or not drafts:
            return drafts

        def judge(draft: Draft) -> object:
            memory = replace(entry_of_draft(draft), scope=scope)
            return hook(PendingWrite(*key, memory))

        concurrent = is_async(hook)
        verdicts = await self.thread.call_plugin(
            partial(
                _await_verdicts if concurrent else _collect_hook_verdicts, judge, drafts
            ),
            concurrent=concurrent,
            name="on_write",
            failed=errors.WriteHookError,
            nested="called its own memory service, which calls on_write; write from "
            "outside the hook, or to another service",
        )
        results = [
            _apply_verdict(draft, verdict, explicit=explicit)
            for draft, verdict in zip(drafts, verdicts, strict=True)
        ]
        if None in results:
            _log.info("on_write rejected %d memories", results.count(None))
        return results


Judge = Callable[[Draft], object]
"""Calls the hook with a draft; returns its verdict, or an awaitable of it."""


def _collect_hook_verdicts(judge: Judge, drafts: Iterable[Draft]) -> Any:
    verdicts: list[object] = []
    waiting = in_slices(drafts)
    for draft in waiting:
        verdict = judge(draft)
        if isinstance(verdict, Awaitable):
            return _await_verdicts(judge, waiting, [*verdicts, verdict])
        verdicts.append(verdict)
    return verdicts


async def _await_verdicts(
    judge: Judge, drafts: Iterable[Draft], before: Iterable[object] = ()
) -> list[object]:
    each = chain(before, map(judge, drafts))
    return [await one if isinstance(one, Awaitable) else one for one in each]


def _apply_verdict(draft: Draft, verdict: object, *, explicit: bool) -> Draft | None:
    if not isinstance(verdict, Verdict):
        raise errors.WriteHookError("on_write: must return a vecall.Verdict")
    draft = replace(draft, trust=cap_trust_tier(draft.trust, verdict.trust))
    if verdict.outcome == "quarantine":
        return replace(draft, quarantined=True)
    if verdict.outcome == "reject":
        if draft.ordered or not explicit:
            return None
        raise errors.WriteRejectedError(
            "on_write refused a memory; nothing was written"
        )
    if verdict.outcome == "redact":
        text = to_valid_utf8(verdict.text or "")
        # A vector belongs to the text before the redaction.
        redacted = replace(
            draft, text=text, content=None, vec=None, has_own_vector=False
        )
        return redacted if text.strip() else None
    return draft


T = TypeVar("T")

_CALLS_READ = 6  # at a time, in turn
INLINE_PARSE_LIMIT = 32  # turns: blocks the caller's event loop for under 1 ms


class Runtime:
    """One open file with its engine and threads."""

    rights: Rights = FULL  # `RestrictedRuntime` has others

    def __init__(
        self,
        path: str | Path | None,
        *,
        embedder: Embedder | Literal["auto"] | None,
        top_k: int,
        min_confidence: float | None,
        ttl: float | None,
        read_only: bool,
        search: SearchOptions,
        storage: StorageOptions,
        writes: WritePolicy,
        limits: Limits,
    ) -> None:
        """Open the file and start the threads; see `MemoryService`."""
        self.limits = limits
        self.checked_keys: dict[tuple[Any, ...], tuple[str, str]] = {}
        """The partitions of users whose names were checked."""
        self.top_k = check_top_k(top_k, limits)
        self.min_similarity = search.min_similarity
        self.ranking = search.ranking or Ranking()
        self.authors = favoured_authors(search)
        self.time_zone = check_time_zone(search.time_zone)
        self.read_only = read_only
        self.ttl = ttl
        self.history_ttl = checked_seconds(writes.history_ttl, "history_ttl")
        most = writes.quota
        self.quota: store.UserQuota | None = None
        if most.memories is not None or most.bytes is not None:
            self.quota = store.UserQuota(most.memories, most.bytes, most.eviction)
        self.scopes = writes.scopes
        self.include = checked_included_parts(writes.include)
        self._on_write = writes.on_write
        self.maintenance_interval = checked_seconds(
            storage.maintenance_interval, "maintenance_interval"
        )
        self._search_options = search
        self._storage_options = storage
        self._path = check_storage_path(path)
        self._embedder: Embedder | Literal["auto"] | None = embedder
        self.is_automatic = isinstance(embedder, str)
        self.closed = False
        self.is_finished = False  # whether `close` has finished
        self._closing = threading.RLock()  # reentrant: a signal handler may call close
        self.telemetry = Telemetry()
        self.file_model: str | None = None
        self.after_fork: Callable[[], None] = lambda: None
        self.min_confidence: float | None = None
        if min_confidence is not None:
            self.min_confidence = check_share(min_confidence, "min_confidence")
        is_new = isinstance(self._path, Path) and not os.access(self._path, os.F_OK)
        if self._path is None or is_new:
            self._embedder = automatic() if isinstance(embedder, str) else embedder
        self._check_floors()
        self._open_memory_file(warn=True)

    @property
    def place(self) -> str:
        """Where the memories are, in words. The URL of a database has a password."""
        if self._path is None:
            return "in memory"
        if isinstance(self._path, Path):
            return shortened(str(self._path))
        return "in a database"

    def _open_memory_file(self, *, warn: bool) -> None:
        """Open the file in this process; `warn` enables warnings."""
        options = self._storage_options
        self.storage = store.open_storage(
            self._path,
            options.durability,
            read_only=self.read_only,
            min_free_bytes=options.min_free_bytes,
            allow_network_filesystem=options.allow_network_filesystem,
            clock=options.clock,
            max_staleness=checked_seconds(options.max_staleness, "max_staleness")
            or 0.0,
        )
        self.threads = ReadThreads(in_memory=self._path is None)
        self.item_cache = ItemCache(options.cache_bytes)
        self._newest = NewestChanges() if self._path is None else None
        try:
            embedder = self._choose_embedder()
            model = self._agree_on_model(embedder, warn)
            embedding = None
            if embedder is not None and model is not None:
                embedding = EmbeddingQueue(embedder)
            self.search_index = self._make_search_index(model, embedding)
            self._start_backfill()
        except BaseException:
            self.storage.close()
            raise
        self._retired: dict[SearchIndex, threading.Thread] = {}
        self.reader = FairPool(_CALLS_READ, 1, thread_name_prefix="vecall-reader")
        self.care = Pool(1, thread_name_prefix="vecall-care")
        self.gate = WriteReviewer(self._on_write, self.limits)
        self._process = os.getpid()

    def _make_search_index(
        self, model: store.EmbeddingModel | None, embedding: EmbeddingQueue | None
    ) -> SearchIndex:
        search_index = SearchIndex(
            self.storage,
            self.threads,
            self._newest,
            model=model,
            embedding=embedding,
            scoring=make_scoring(
                self._search_options, None if embedding is None else embedding.embedder
            ),
            budget=self._storage_options.cache_bytes,
            items=self.item_cache,
        )
        self.storage.publish = search_index.partitions.publish_change
        return search_index

    def _open_in_child(self) -> None:
        """Reopen the file after a fork without touching the parent's handles."""
        with _reopening:
            if os.getpid() == self._process:
                return
            if self._path is None:
                msg = "a memory without a file does not cross a fork; make one here"
                raise errors.ClosedError(msg)
            if not self.storage.closed_before_fork:
                raise errors.ClosedError(
                    "the process was forked while the file was in use for long; fork "
                    "when it is idle, or start new processes instead"
                )
            keep_inherited(self.storage, self.search_index, self._retired, self.reader)
            keep_inherited(self.care, self.gate, self._backfill, self.threads)
            keep_inherited(self.item_cache)
            self._abandoned.detach()
            self._closing = threading.RLock()
            self._open_memory_file(warn=False)
            self.after_fork()

    @property
    def is_foreign(self) -> bool:
        """Whether this is a forked child that has not opened the file yet."""
        return os.getpid() != self._process

    def use_search_index(self) -> Use:
        """Return a context that keeps the current search index open."""
        self.check_open()
        while (use := self.search_index.begin_use()) is None:
            self.check_open()
        return use

    def switch_model(self, model: store.EmbeddingModel, embedder: Embedder) -> None:
        """Switch to another model; running searches finish with the old one."""
        old = self.search_index
        if old.model is None or old.model.id != model.id:
            self._embedder = embedder
            self.file_model = model.name
            self.search_index = self._make_search_index(model, EmbeddingQueue(embedder))
            old.partitions.retired = True
            retiring = old.retiring_thread(partial(self._retired.pop, old, None))
            self._retired[old] = retiring
            retiring.start()

    @property
    def servings(self) -> list[SearchIndex]:
        """Return the current search index, and the old ones still in use."""
        return [*tuple(self._retired), self.search_index]

    def restart_backfill(self) -> Backfill:
        """Start the backfill of rows without vectors."""
        self._backfill.close()
        self._abandoned.detach()
        self._start_backfill()
        return self._backfill

    def _start_backfill(self) -> None:
        model, filling = self.search_index.model, self.search_index.embedding
        if self.read_only or filling is None or not filling.can_embed:
            filling = None
        self._backfill = Backfill(
            self.storage, filling, None if model is None else model.id
        )
        self._abandoned = clean_up_dropped_service(
            self, self.storage.abandon(), self._backfill.stop
        )

    def _choose_embedder(self) -> Embedder | None:
        """Return the embedder; the file determines it for `embedder="auto"`."""
        if isinstance(self._embedder, str):
            with self.storage.read() as reads:
                stored, filled = reads.active_model(), reads.has_memories()
            name = None if stored is None else stored.name
            self._embedder = automatic(name, filled, read_only=self.read_only)
            self._check_floors()
        return self._embedder

    def _agree_on_model(
        self, embedder: Embedder | None, warn: bool
    ) -> store.EmbeddingModel | None:
        """Check the embedder against the file's model; a file without one adopts it."""
        with self.storage.read() as reads:
            stored = reads.active_model()
        self.file_model = None if stored is None else stored.name
        if embedder is None:
            if stored is not None and warn:
                warn_caller(
                    f"the file holds vectors of {stored}; opened without an embedder "
                    "it is searched by words alone"
                )
            return None
        given = model_of_embedder(embedder)
        if stored is None and self.read_only:
            return None  # a read-only file without vectors
        if stored is not None:
            store.require_same_model(stored, given)
            return stored
        self.file_model = given.name
        return self.storage.adopt_model(given)

    def refuse_nested_call(self) -> None:
        """Raise if a function that this service calls is the caller."""
        self.gate.thread.refuse_nested_call()
        for search_index in self.servings:
            search_index.refuse_nested_call()

    def close(self) -> None:
        """Finish pending writes and close the file; continue an interrupted call."""
        if self.is_foreign:
            self.closed = True
            return  # threads and connections belong to the parent
        self.refuse_nested_call()
        self.closed = True
        with self._closing:
            if self.is_finished:
                return
            self.reader.shutdown()
            self.gate.thread.close()
            self.care.shutdown(wait=True)
            self._backfill.close()
            servings, retiring = self.servings, list(self._retired.values())
            for search_index in servings:
                search_index.stop_waiting()
                search_index.close_snapshots()
            self.storage.end_writes()
            for search_index in servings:
                search_index.close()
            for thread in retiring:
                thread.join()
            self.threads.close()
            self.storage.close()
            self.is_finished = True
            self._abandoned.detach()

    def check_open(self) -> None:
        """Raise ClosedError after `close`; in a forked child, reopen the file."""
        if self.closed:
            raise errors.ClosedError("the memory service is closed")
        if os.getpid() != self._process:
            self._open_in_child()

    def _check_floors(self) -> None:
        """Raise ConfigError if a floor is set and searches do not have its score."""
        if isinstance(self._embedder, str):
            return  # the file determines the embedder
        if self._embedder is None and self.min_similarity is not None:
            raise errors.ConfigError(NO_FLOOR)

    @contextmanager
    def read_committed_state(
        self, key: Key | None, *, expired: bool = False
    ) -> Iterator[tuple[store.StorageReads, float]]:
        """Read a committed state; yield also the time by which memories expire."""
        # With `expired`, none has.
        with self.storage.read(*(key or ())) as reads:
            yield reads, store.ALWAYS if expired else self.storage.expiry_clock.now()

    async def read_storage(
        self,
        key: Key | None,
        read: Callable[[store.StorageReads, float], T],
        *,
        expired: bool = False,
        short: bool = False,
    ) -> T:
        """Read off the event loop, where others take turns unless the read is short."""
        checked_bool(expired, "include_expired")

        def work() -> T:
            with self.read_committed_state(key, expired=expired) as (reads, now):
                return read(reads, now)

        threads = self.threads
        return await Join(threads.short(work) if short else threads.long(key, work))

    async def read_page_of_names(
        self,
        key: Key | None,
        given: tuple[object, object, object],
        read: Callable[[store.StorageReads, float, str, str, int], list[T]],
        name: Callable[[T], str],
        *,
        expired: bool = False,
    ) -> Page[T]:
        """Return a page of names, `given` their prefix, the one before, the limit."""
        prefix, begin, count = checked_name_page(*given, self.limits)
        found = await self.read_storage(
            key,
            lambda reads, now: read(reads, now, prefix, begin, count + 1),
            expired=expired,
        )
        return Page.of(found, count, name)

    async def parse_items(
        self, work: Callable[..., T], items: list[Any], *args: object
    ) -> T:
        """Parse arguments: a few items on the event loop, many on another thread."""
        # The list is a copy, so the caller may change its own list. The items must not
        # change until the call returns.
        if len(items) <= INLINE_PARSE_LIMIT:
            return work(items, *args)
        try:
            one_call = object()
            future = self.reader.submit(one_call, work, items, *args, in_slices)
        except RuntimeError:
            raise errors.ClosedError("the memory service is closed") from None
        return await Join(future)

    def check_file_access(self, *, write: bool = False) -> None:
        """Check the access to all memories of the file."""
        self.check_open()
        self.rights.require_all()
        if write:
            self.check_writable()

    def check_embedder(self, embedder: Embedder) -> None:
        """Raise ConfigError if the file cannot be migrated to an embedder."""

    def key(
        self, app_name: str, user_id: str, scope: object = "user", *, write: bool
    ) -> Key:
        """Return the key of a partition; check the access to it."""
        self.check_open()
        if write:
            self.check_writable()
        app = check_name(app_name, "app_name", self.limits)
        user = check_name(user_id, "user_id", self.limits)
        return partition_key(self.scopes, scope, app, user, write=write)

    def check_writable(self) -> None:
        """Raise ReadOnlyError if the service is read-only."""
        if self.read_only:
            raise errors.ReadOnlyError(
                "this memory service was opened with read_only=True"
            )
