"""Memories in a vector store of your own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from vecall._aligned import Written, aligned
from vecall._at_exit import abandoned, close_at_exit
from vecall._closing import Closing
from vecall._duck import as_list, clean
from vecall._embedding import Embedding, embedded_text
from vecall._ingest import (
    Scope,
    entry_drafts,
    event_drafts,
    events_of,
    scope_of,
    session_head,
)
from vecall._model_thread import ModelThread
from vecall._stored_rows import from_hit, is_expired, scope_of_filter, to_metadata
from vecall._upkeep_methods import on_loop
from vecall.added import AddedIds, LeftOutReason
from vecall.config import (
    Limits,
    check_filter,
    check_min_score,
    check_name,
    check_query,
    check_top_k,
)
from vecall.contract import BaseMemoryService
from vecall.embedders.resolve import EmbedderLike, resolve
from vecall.errors import ClosedError, ConfigError
from vecall.lexical.tokenizer import has_word
from vecall.slices import in_slices
from vecall.store import Draft
from vecall.types import Filter, FilterLike, SearchMemoryResponse
from vecall.vector_store import VectorSearchResult, VectorStore, VectorStoreFilter

T = TypeVar("T")


class VectorStoreMemoryService(Closing, BaseMemoryService):
    """Long-term memory in any `VectorStore`, ranked by cosine similarity alone.

    A store has no transactions and keeps no record of deletions: after an error some
    turns of a call may be stored, and telling them again stores the rest; a turn that
    was deleted comes back when it is told again. `MemoryService` has neither limit.

    Safe to share between threads and event loops. The store runs on an event loop of
    the service's own, so that a slow one keeps nobody's waiting. It stays the caller's
    to close, and all its rows must be this service's.

    Args:
        store: Where memories live.
        embedder: What embeds; see `MemoryService`.
        top_k: Memories in an answer, unless a search says otherwise.
        min_score: Floor on the cosine similarity in [-1, 1], inclusive; None is none.

    Raises:
        ConfigError: No store, or no embedder.
        InvalidArgumentError: top_k or min_score out of range.
    """

    def __init__(
        self,
        store: VectorStore,
        embedder: EmbedderLike,
        *,
        top_k: int = 5,
        min_score: float | None = None,
    ) -> None:
        """Use a store."""
        given: object = store
        if not isinstance(given, VectorStore):
            msg = "store: expected a VectorStore"
            raise ConfigError(msg)
        chosen = resolve(embedder)
        if chosen is None:
            msg = "embedder: VectorStoreMemoryService needs one"
            raise ConfigError(msg)
        self._limits = Limits()
        self._top_k = check_top_k(top_k, self._limits)
        self._min_score = None if min_score is None else check_min_score(min_score)
        self._store = store
        self._embedding = Embedding(chosen)
        self._thread = ModelThread("vecall-vector-store")
        self._closed = False
        self._abandoned = abandoned(self)
        close_at_exit(self)

    async def add_session_to_memory(self, session: Any) -> AddedIds:
        """Remember the turns of a session; see `MemoryService`."""
        head = session_head(session, self._limits)
        self._check(head.app, head.user)
        scope = Scope({}, app=head.app, user=head.user)
        return await self._add(
            head.app, head.user, event_drafts, head.events, head.id, scope
        )

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Any] | None = None,
        session_id: str | None = None,
        custom_metadata: Mapping[str, Any] | None = None,
        messages: Sequence[Any] | None = None,
    ) -> AddedIds:
        """Remember some turns; see `MemoryService`."""
        self._check(app_name, user_id)
        if session_id is not None:
            check_name(session_id, "session_id", self._limits)
        scope = scope_of(custom_metadata, app_name, user_id)
        told = as_list(events_of(events, messages), "events")
        return await self._add(app_name, user_id, event_drafts, told, session_id, scope)

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[Any],
        custom_metadata: Mapping[str, Any] | None = None,
    ) -> AddedIds:
        """Remember what was learned or decided; see `MemoryService`."""
        self._check(app_name, user_id)
        scope = scope_of(custom_metadata, app_name, user_id)
        told = as_list(memories, "memories")
        return await self._add(app_name, user_id, entry_drafts, told, scope)

    async def search_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        query: str,
        top_k: int | None = None,
        min_score: float | None = None,
        filter: FilterLike | None = None,
    ) -> SearchMemoryResponse:
        """Find what this user's past says about a query; see `MemoryService`.

        Raises:
            InvalidArgumentError: A filter by author, kind or metadata, which stores do
                not have, or another value that is not allowed.
            EmbedderError: The embedder failed.
            InvalidMemoryError: A row that this service did not write.
            ClosedError: The service was closed.
        """
        self._check(app_name, user_id)
        check_query(query)
        limits = self._limits
        count = self._top_k if top_k is None else check_top_k(top_k, limits)
        floor = self._min_score if min_score is None else check_min_score(min_score)
        scope = scope_of_filter(
            app_name, user_id, check_filter(filter or Filter(), limits)
        )
        query = clean(query[: limits.max_query_chars])
        if not has_word(query):
            return SearchMemoryResponse()
        vector = self._embedding.known_query(app_name, user_id, query)
        if vector is None:
            vector = await self._embedding.embed_query(
                on_loop, app_name, user_id, query
            )
        if not vector.any():
            return SearchMemoryResponse()  # near to nothing
        hits = await self._run(lambda: self._search(vector, count, scope))
        now = time.time()
        near = [hit for hit in hits if floor is None or hit.score >= floor]
        return SearchMemoryResponse([from_hit(hit, now) for hit in near])

    async def delete_memory(
        self, *, app_name: str, user_id: str, memory_id: str | None = None
    ) -> None:
        """Delete one memory of this user. An unknown id, or None, deletes nothing."""
        self._check(app_name, user_id)
        if memory_id is None:
            return
        id_ = check_name(memory_id, "memory_id", self._limits)
        self._embedding.forget_texts(app_name, user_id)
        await self._run(
            lambda: self._store.delete(id_, app_name=app_name, user_id=user_id)
        )

    def close(self) -> None:
        """Finish what runs and end the threads. A second call does nothing.

        Raises:
            ReentrantCallError: The store or the embedder is the caller.
        """
        self._embedding.thread.refuse_nested()
        self._thread.refuse_nested()
        self._closed = True
        self._embedding.close()
        self._thread.close()
        self._abandoned.detach()

    async def _add(
        self,
        app: str,
        user: str,
        read: Callable[..., Sequence[Draft | LeftOutReason]],
        told: list[Any],
        *args: object,
    ) -> AddedIds:
        given = await asyncio.to_thread(read, in_slices(told), *args, self._limits)
        drafts = [each for each in given if isinstance(each, Draft)]
        texts = [embedded_text(draft.author, draft.text) for draft in drafts]
        vectors = await self._embedding.embed_texts(on_loop, app, user, texts)

        async def store() -> None:
            for draft, vector in zip(drafts, vectors, strict=True):
                embedding = np.frombuffer(vector, "<f4")
                metadata = to_metadata(app, user, draft)
                await self._store.upsert(draft.id, embedding, metadata)

        await self._run(store)
        return aligned(given, Written([draft.id for draft in drafts], {}))

    async def _search(
        self, vector: Any, top_k: int, scope: VectorStoreFilter
    ) -> list[VectorSearchResult]:
        """Search until nothing is found that has expired; that is deleted."""
        while True:
            hits = await self._store.search(vector, top_k, scope)
            now = time.time()
            expired = [hit for hit in hits if is_expired(hit, now)]
            if not expired:
                return hits
            for hit in expired:
                await self._store.delete(
                    hit.id, app_name=str(scope.app_name), user_id=str(scope.user_id)
                )

    async def _run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        result: T = await on_loop(self._thread.run(work, concurrent=True))
        return result

    def _check(self, app_name: str, user_id: str) -> None:
        if self._closed:
            msg = "the memory service is closed"
            raise ClosedError(msg)
        check_name(app_name, "app_name", self._limits)
        check_name(user_id, "user_id", self._limits)
