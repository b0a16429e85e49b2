"""The memory itself, written once.

Every operation is a coroutine that waits for other threads only through a `wait` that
its caller hands in. `MemoryService` hands in one that waits on the running event loop,
its blocking twin one that blocks; the operations hold nothing of any loop.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Concatenate, ParamSpec

from vecall._backfill import Backfill
from vecall._core import Engine
from vecall._duck import as_list
from vecall._embedding import Embedding, Wait, embedded_text
from vecall._ingest import Scope, entry_drafts, event_drafts, scope_of, session_head
from vecall._loader import Loader
from vecall._recall import Recall, Request, to_entry
from vecall._row_cache import RowCache
from vecall._writer import Writer
from vecall.config import (
    Limits,
    check_filter,
    check_min_score,
    check_name,
    check_path,
    check_query,
    check_top_k,
)
from vecall.embedders import Embedder
from vecall.errors import ClosedError, ConfigError, NotFoundError
from vecall.store import (
    AddMemories,
    Change,
    Database,
    DeleteMemories,
    Draft,
    Durability,
    EmbeddingModel,
    active_model,
    adopt,
    find,
    known_hashes,
    require_same,
    totals,
)
from vecall.types import Filter, MemoryEntry, SearchMemoryResponse

P = ParamSpec("P")

_READ_AT_ONCE = 100  # turns: under a millisecond of the caller's event loop


class Memory:
    """One open file with its engine and threads."""

    def __init__(
        self,
        path: str | Path | None,
        *,
        embedder: Embedder | None,
        top_k: int,
        min_score: float | None,
        durability: Durability,
        memory_budget: object,
        limits: object,
    ) -> None:
        """Open the file and start the threads; see `MemoryService`."""
        if not isinstance(limits, Limits):
            msg = "limits: expected vecall.Limits"
            raise ConfigError(msg)
        if type(memory_budget) is not int or memory_budget < 0:
            msg = "memory_budget: must be a number of bytes"
            raise ConfigError(msg)
        self.limits = limits
        self.top_k = check_top_k(top_k, limits)
        if durability not in ("full", "process"):
            msg = 'durability: must be "full" or "process"'
            raise ConfigError(msg)
        if min_score is not None:
            check_min_score(min_score)
            if embedder is None:
                raise ConfigError(_NO_FLOOR)
        self.min_score = min_score
        self._database = Database(check_path(path), durability)
        try:
            model = self._agree_on_model(embedder)
        except BaseException:
            self._database.close()
            raise
        self._model = model
        self._engine = Engine(0 if model is None else model.dim)
        self._cache = RowCache(memory_budget)
        self._loader = Loader(self._database, self._engine, self._cache)
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="vecall-reader")
        self._writer = Writer(self._database, self._loader.publish)
        self._embedding = None if embedder is None else Embedding(embedder)
        self._recall = Recall(self._engine, self._loader, self._cache, self._embedding)
        self._backfill: Backfill | None = None
        if self._embedding is not None and model is not None:
            self._backfill = Backfill(
                self._database, self._writer, self._embedding, model.id
            )
        self._closed = False
        self._process = os.getpid()

    def _agree_on_model(self, embedder: Embedder | None) -> EmbeddingModel | None:
        """Fit the embedder to the file's model; the first one to come is adopted."""
        with self._database.snapshot() as connection:
            stored = active_model(connection)
        self._file_model = None if stored is None else stored.name
        if embedder is None:
            if stored is not None:
                warnings.warn(
                    f"the file holds vectors of {stored}; opened without an embedder "
                    "it is searched by words alone",
                    UserWarning,
                    stacklevel=4,
                )
            return None
        probe = getattr(embedder, "probe", None)
        given = EmbeddingModel(
            embedder.model_id,
            embedder.dimensions,
            fingerprint=None if probe is None else probe.astype("<f4").tobytes(),
        )
        if stored is not None:
            require_same(stored, given)
            return stored
        self._file_model = given.name
        with self._database.transaction() as connection:
            return adopt(connection, given)

    async def add_session(
        self, wait: Wait, session: object, *, restore: bool, replace: bool
    ) -> list[str]:
        """Remember the turns of a session."""
        self._check_open()
        head = session_head(session, self.limits)
        drafts = await self._draft(
            wait, event_drafts, head.events, head.id, Scope({}, None), self.limits
        )
        replaced = head.id if replace else None
        return await self._add(wait, head.app, head.user, drafts, restore, replaced)

    async def add_events(
        self,
        wait: Wait,
        app_name: str,
        user_id: str,
        events: object,
        session_id: str | None,
        custom_metadata: object,
        *,
        restore: bool,
    ) -> list[str]:
        """Remember some turns."""
        self._check_open()
        self._check_names(app_name, user_id)
        if session_id is not None:
            check_name(session_id, "session_id", self.limits)
        scope = scope_of(custom_metadata)
        told = as_list(events, "events")
        drafts = await self._draft(
            wait, event_drafts, told, session_id, scope, self.limits
        )
        return await self._add(wait, app_name, user_id, drafts, restore, None)

    async def add_entries(
        self,
        wait: Wait,
        app_name: str,
        user_id: str,
        memories: object,
        custom_metadata: object,
        *,
        restore: bool,
    ) -> list[str]:
        """Remember explicit entries."""
        self._check_open()
        self._check_names(app_name, user_id)
        scope = scope_of(custom_metadata)
        told = as_list(memories, "memories")
        drafts = await self._draft(wait, entry_drafts, told, scope, self.limits)
        return await self._add(wait, app_name, user_id, drafts, restore, None)

    async def _draft(
        self,
        wait: Wait,
        work: Callable[Concatenate[list[Any], P], list[Draft]],
        told: list[Any],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> list[Draft]:
        """Read what was handed in: a little at once, much on another thread.

        The caller's list was copied, so it may grow meanwhile; its items must not
        change until the call returns.
        """
        if len(told) <= _READ_AT_ONCE:
            return work(told, *args, **kwargs)
        try:
            future = self._reader.submit(work, told, *args, **kwargs)
        except RuntimeError:
            msg = "the memory service is closed"
            raise ClosedError(msg) from None
        drafts: list[Draft] = await wait(future)
        return drafts

    async def _add(
        self,
        wait: Wait,
        app: str,
        user: str,
        drafts: list[Draft],
        restore: bool,
        replace: str | None,
    ) -> list[str]:
        if not drafts and replace is None:
            return []
        model = None
        if self._embedding is not None and self._model is not None:
            await self._embed(wait, app, user, drafts, restore)
            model = self._model.id
        job = AddMemories(app, user, drafts, model, restore, replace)
        change: Change = await wait(self._writer.submit(job))
        return list(change.ids)

    async def _embed(
        self, wait: Wait, app: str, user: str, drafts: Sequence[Draft], restore: bool
    ) -> None:
        """Give vectors to those drafts whose text the file has no vector for."""
        assert self._embedding is not None
        known = await wait(
            self._loader.submit(self._known, app, user, [d.id for d in drafts])
        )
        fresh = []
        for draft in drafts:
            if draft.id in known and known[draft.id] is None and not restore:
                continue  # deleted; it will not be written
            if known.get(draft.id) != (draft.hash, draft.author):
                fresh.append(draft)
        texts = [embedded_text(draft.author, draft.text) for draft in fresh]
        vectors = await self._embedding.embed_texts(wait, texts)
        for draft, vec in zip(fresh, vectors, strict=True):
            draft.vec = vec

    def _known(
        self, app: str, user: str, ids: Sequence[str]
    ) -> dict[str, tuple[bytes, str | None] | None]:
        with self._database.snapshot() as connection:
            return known_hashes(connection, app, user, ids)

    async def search(
        self,
        wait: Wait,
        app_name: str,
        user_id: str,
        query: str,
        top_k: int | None,
        min_score: float | None,
        min_confidence: float | None,
        filter_: Filter | None,
    ) -> SearchMemoryResponse:
        """Find the best memories for a query."""
        self._check_open()
        self._check_names(app_name, user_id)
        check_query(query)
        if min_confidence is not None:
            raise ConfigError(_NO_CONFIDENCE)
        if min_score is None:
            min_score = self.min_score
        elif self._embedding is None:
            raise ConfigError(_NO_FLOOR)
        else:
            check_min_score(min_score)
        request = Request(
            (app_name, user_id),
            query[: self.limits.max_query_chars],
            self.top_k if top_k is None else check_top_k(top_k, self.limits),
            min_score,
            None if filter_ is None else check_filter(filter_, self.limits),
        )
        return await self._recall.search(wait, request)

    async def get(
        self, wait: Wait, app_name: str, user_id: str, memory_id: str
    ) -> MemoryEntry:
        """Return one memory."""
        self._check_open()
        self._check_names(app_name, user_id)
        check_name(memory_id, "memory_id", self.limits)
        found: MemoryEntry = await wait(
            self._loader.submit(self._get, app_name, user_id, memory_id)
        )
        return found

    def _get(self, app: str, user: str, memory_id: str) -> MemoryEntry:
        with self._database.snapshot() as connection:
            row = find(connection, app, user, memory_id, time.time())
        if row is None:
            msg = "memory_id: this user has no such memory"
            raise NotFoundError(msg)
        return to_entry(row)

    async def delete(
        self, wait: Wait, app_name: str, user_id: str, memory_id: str | None
    ) -> None:
        """Delete one memory for good."""
        self._check_open()
        self._check_names(app_name, user_id)
        if memory_id is None:
            return
        check_name(memory_id, "memory_id", self.limits)
        await wait(self._writer.submit(DeleteMemories(app_name, user_id, [memory_id])))

    async def stats(self, wait: Wait) -> dict[str, Any]:
        """Return counts over the whole file."""
        self._check_open()
        counts: dict[str, int] = await wait(self._loader.submit(self._totals))
        return {
            **counts,
            "file_bytes": self._database.nbytes(),
            "engine_bytes": self._engine.nbytes,
            "loaded_users": len(self._engine),
            "model": self._file_model,
        }

    def _totals(self) -> dict[str, int]:
        with self._database.snapshot() as connection:
            return totals(connection)

    async def warm(self, wait: Wait, app_name: str, user_id: str) -> None:
        """Load a user's memories ahead of the first search."""
        self._check_open()
        self._check_names(app_name, user_id)
        reading = self._loader.stale((app_name, user_id))
        if reading is not None:
            await wait(reading)

    def close(self) -> None:
        """Finish pending writes and close the file; a second call does nothing."""
        if self._closed:
            return
        self._closed = True
        if os.getpid() != self._process:
            return  # threads and connections are the parent's
        self._reader.shutdown(wait=True)
        if self._backfill is not None:
            self._backfill.close()
        self._writer.close()
        self._loader.close()
        if self._embedding is not None:
            self._embedding.close()
        self._database.close()

    def _check_open(self) -> None:
        if self._closed:
            msg = "the memory service is closed"
            raise ClosedError(msg)
        if os.getpid() != self._process:
            msg = "the memory service was opened before a fork; open it anew here"
            raise ClosedError(msg)

    def _check_names(self, app_name: str, user_id: str) -> None:
        check_name(app_name, "app_name", self.limits)
        check_name(user_id, "user_id", self.limits)


_NO_FLOOR = (
    "min_score: is a floor on the cosine similarity and needs an embedder; the floor "
    "that works without one is min_confidence"
)
_NO_CONFIDENCE = (
    "min_confidence: is a floor on the calibrated confidence, and no embedder is "
    "calibrated yet; with an embedder, min_score is a floor on the cosine"
)
