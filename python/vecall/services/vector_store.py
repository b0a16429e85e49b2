"""Memories in a vector store of your own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vecall.clock import Clock, ExpiryClock, checked_clock
from vecall.concurrency.at_exit import abandoned, close_at_exit
from vecall.concurrency.closing import ClosesOnExit
from vecall.concurrency.join import run_async
from vecall.concurrency.periodic import PeriodicWorker
from vecall.embedders.resolve import EmbedderLike, resolve
from vecall.errors import ConfigError
from vecall.index.embedding import EmbeddingQueue
from vecall.ingest.inner_parts import Inner, checked_include
from vecall.limits import Limits
from vecall.operations.known_options import known_options
from vecall.operations.options import checked_seconds, checked_summarizer
from vecall.protocols import BaseMemoryService
from vecall.services._vector_store_sync import SyncVectorStoreMemoryService
from vecall.services.vector_store_admin import VectorStoreAdmin
from vecall.services.vector_store_memory import VectorStoreMemory
from vecall.services.vector_store_operations import VectorStoreOperations
from vecall.services.vector_store_sessions import VectorStoreSessions
from vecall.summaries import SummaryProvider
from vecall.triggers import (
    Inactivity,
    MessageCount,
    Trigger,
    checked_trigger,
)
from vecall.types import AddedIds, FilterLike, ForgetProposal, SearchMemoryResponse
from vecall.vector_store import VectorStore, has_method, needed_method

_NEEDS = {
    "delete_memory": "delete",
    "propose_forget": "delete",
    "confirm_forget": "delete",
    "delete_session": "delete_many",
    "delete_user": "delete_many",
}
"""The methods of the service that need an optional one of the store."""


class VectorStoreMemoryService(ClosesOnExit, BaseMemoryService):
    """Long-term memory in any `VectorStore`, ranked by cosine similarity alone.

    A store has no transactions and keeps no record of deletions: after an error some
    turns of a call may be stored, and telling them again stores the rest; a turn that
    was deleted comes back when it is told again. What `observe_session` keeps, and what
    `propose_forget` proposed, is in the memory of this process: it is bounded, and gone
    with the process. `MemoryService` has none of these limits.

    A store needs the methods `upsert` and `search`. Without `delete` or `delete_many`,
    the methods that need them, and a `ttl`, raise a ConfigError that names it.

    Safe to share between threads and event loops. The store runs on an event loop of
    the service's own, so that a slow one keeps nobody's waiting. It stays the caller's
    to close, and all its rows must be this service's. Every method has a blocking twin
    of the same name on `sync`.

    Args:
        store: Where memories live.
        embedder: What embeds; see `MemoryService`.
        top_k: Memories in an answer, unless a search says otherwise.
        min_similarity: Floor on the cosine similarity in [-1, 1], inclusive; None is
            none.
        summarizer: Makes the summaries that are remembered of a session in place of its
            turns.
        trigger: When memories are made of what `observe_session` is told.
        ttl: How long memories live if nobody says: seconds, a timedelta or "3600s". The
            search that comes upon an expired memory deletes it.
        clock: Tells the time.
        sweep_interval: Seconds between two looks, in the background, for sessions that
            are due; None looks only when `admin.run_due` is called.
        include: What of a turn is remembered beside what was said: "thoughts", "calls".

    Raises:
        ConfigError: No store, no embedder, or an option that needs a method which the
            store does not have.
        InvalidArgumentError: top_k or min_similarity out of range.
    """

    _memory: VectorStoreMemory
    _sessions: VectorStoreSessions
    _operations: VectorStoreOperations
    _admin: VectorStoreAdmin

    @known_options
    def __init__(
        self,
        store: VectorStore,
        embedder: EmbedderLike,
        *,
        top_k: int = 5,
        min_similarity: float | None = None,
        summarizer: SummaryProvider | None = None,
        trigger: Trigger | str | Mapping[str, Any] | None = None,
        ttl: float | timedelta | str | None = None,
        clock: Clock | None = None,
        sweep_interval: float | None = 60.0,
        include: Sequence[Inner] = (),
    ) -> None:
        """Use a store."""
        given: object = store
        if not isinstance(given, VectorStore):
            msg = "store: expected a VectorStore, with the methods upsert and search"
            raise ConfigError(msg)
        chosen = resolve(embedder)
        if chosen is None:
            msg = "embedder: VectorStoreMemoryService needs one"
            raise ConfigError(msg)
        when = checked_trigger(trigger)
        provider = checked_summarizer(summarizer)
        time_to_live = checked_seconds(ttl, "ttl")
        interval = checked_seconds(sweep_interval, "sweep_interval")
        expiry_clock = ExpiryClock(checked_clock(clock))
        if time_to_live is not None:
            needed_method(store, "delete", "ttl")
        self._memory = VectorStoreMemory(
            store,
            EmbeddingQueue(chosen),
            expiry_clock,
            top_k=top_k,
            min_similarity=min_similarity,
            ttl=time_to_live,
            include=checked_include(include),
        )
        self._sessions = sessions = VectorStoreSessions(self._memory, when, provider)
        self._operations = VectorStoreOperations(self._memory, sessions)
        self._admin = VectorStoreAdmin(sessions)
        timed = isinstance(when, Inactivity | MessageCount)
        self._worker = PeriodicWorker(sessions.next_run, interval if timed else None)
        sessions.on_buffered = self._worker.wake
        self._abandoned = abandoned(self)
        close_at_exit(self)

    @property
    def sync(self) -> SyncVectorStoreMemoryService:
        """The same methods for callers without an event loop."""
        return SyncVectorStoreMemoryService(
            self, self._memory, self._sessions, self._operations, self._admin.sync
        )

    @property
    def admin(self) -> VectorStoreAdmin:
        """Operations on the whole store."""
        return self._admin

    @property
    def store(self) -> VectorStore:
        """Where memories are."""
        return self._memory.store

    @property
    def limits(self) -> Limits:
        """How large requests may be."""
        return self._memory.limits

    @property
    def trigger(self) -> Trigger | None:
        """When memories are made of what `observe_session` is told."""
        return self._sessions.trigger

    @property
    def summarizer(self) -> SummaryProvider | None:
        """What makes the summaries that are remembered of a session."""
        return self._sessions.summarizer

    @property
    def lacking(self) -> frozenset[str]:
        """The methods of this service that its store does not allow."""
        store = self._memory.store
        return frozenset(
            name for name, needed in _NEEDS.items() if not has_method(store, needed)
        )

    @property
    def capabilities(self) -> frozenset[str]:
        """The optional methods that this service has, with this store."""
        return super().capabilities - self.lacking

    async def add_session_to_memory(self, session: Any) -> AddedIds:
        """Remember the turns of a session; see `MemoryService`."""
        return await run_async(self._sessions.add_session(session))

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
        """Remember some turns; see `MemoryService`.

        Raises:
            ConfigError: A `ttl`, and the store cannot delete; nothing was stored.
        """
        return await run_async(
            self._operations.add_events(
                app_name, user_id, events, session_id, custom_metadata, messages
            )
        )

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[Any],
        custom_metadata: Mapping[str, Any] | None = None,
    ) -> AddedIds:
        """Remember what was learned or decided; see `MemoryService`.

        Raises:
            ConfigError: A `ttl`, and the store cannot delete; nothing was stored.
        """
        return await run_async(
            self._operations.add_entries(app_name, user_id, memories, custom_metadata)
        )

    async def search_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        query: str,
        top_k: int | None = None,
        min_similarity: float | None = None,
        filter: FilterLike | None = None,
        vector: Sequence[float] | NDArray[np.generic] | None = None,
    ) -> SearchMemoryResponse:
        """Find what this user's past says about a query; see `MemoryService`.

        Args:
            app_name: The app.
            user_id: The user.
            query: Any text; without a word and without a vector nothing is found.
            top_k: At most this many, instead of the service's default.
            min_similarity: Floor on the cosine, instead of the service's.
            filter: Which memories may be returned. Every store filters by session and
                time, one whose `applies_where` is True by all other fields, too.
            vector: The query's vector, shape (dimensions,), finite and not zero; the
                embedder is not called then.

        Raises:
            InvalidArgumentError: A condition that this store cannot apply, or another
                value that is not allowed.
            DimensionError: The vector has another length than the embedder's.
            EmbedderError: The embedder failed.
            InvalidMemoryError: A row that this service did not write.
            ClosedError: The service was closed.
        """
        return await run_async(
            self._memory.search(
                app_name, user_id, query, top_k, min_similarity, filter, vector
            )
        )

    async def observe_session(self, session: Any) -> list[str]:
        """Keep what is new in a session until the trigger says to remember it.

        Call it after every turn. What is kept is in the memory of this process: of one
        user at most 10,000 turns, and 16 MiB, at a time.

        Returns:
            The ids of memories that were made at once, which only a `Compaction` does.

        Raises:
            InvalidArgumentError: A bad name, id, time or text; nothing was kept.
            LimitExceededError: Too much waits already; nothing was kept.
            ConfigError: A `ttl`, and the store cannot delete; nothing was kept.
        """
        return await run_async(self._sessions.observe(session))

    async def end_session(
        self,
        session: Any = None,
        *,
        app_name: str | None = None,
        user_id: str | None = None,
        session_id: str | None = None,
    ) -> list[str]:
        """Remember all that is kept of a session; see `MemoryService.end_session`.

        A call that is cancelled stops nothing: the memories are made all the same.

        Raises:
            SummaryError: The summarizer failed; what is kept stays kept.
            EmbedderError: The embedder failed; what is kept stays kept.
        """
        return await run_async(
            self._sessions.end(session, app_name, user_id, session_id)
        )

    async def delete_memory(
        self, *, app_name: str, user_id: str, memory_id: str | None = None
    ) -> None:
        """Delete one memory of this user. An unknown id, or None, deletes nothing.

        Raises:
            ConfigError: The store has no method `delete`.
        """
        await run_async(self._operations.delete(app_name, user_id, memory_id))

    async def delete_session(
        self, *, app_name: str, user_id: str, session_id: str
    ) -> int:
        """Delete what was remembered and what waits of a session; return how many.

        Raises:
            ConfigError: The store has no method `delete_many`.
        """
        return await run_async(
            self._operations.delete_all(app_name, user_id, session_id)
        )

    async def delete_user(self, *, app_name: str, user_id: str) -> int:
        """Delete all memories of a user, and what waits; return how many.

        Raises:
            ConfigError: The store has no method `delete_many`.
        """
        return await run_async(self._operations.delete_all(app_name, user_id, None))

    async def propose_forget(
        self, *, app_name: str, user_id: str, query: str, top_k: int = 5
    ) -> ForgetProposal:
        """Look for what is to be forgotten, and delete nothing.

        Of what is found it keeps what matches about as well as the best one. The token
        counts once, for this app and user, for ten minutes, in this process.

        Raises:
            ConfigError: The store has no method `delete`.
            EmbedderError: The embedder failed.
        """
        return await run_async(
            self._operations.forgetting.propose(app_name, user_id, query, top_k)
        )

    async def confirm_forget(
        self,
        *,
        app_name: str,
        user_id: str,
        token: str,
        ids: Sequence[str] | None = None,
    ) -> int:
        """Delete what was proposed, or those of it whose ids are given; say how many.

        Raises:
            NotFoundError: No such token of this user, or not any more, or this process
                stored something else under an id since then.
            InvalidArgumentError: An id that was not proposed; the token still counts.
        """
        return await run_async(
            self._operations.confirm_forget(app_name, user_id, token, ids)
        )

    def close(self) -> None:
        """Finish what runs and end the threads. A second call does nothing.

        Turns that wait are gone; a warning in the log says how many.

        Raises:
            ReentrantCallError: The store, the embedder or the summarizer is the caller.
        """
        self._memory.refuse_nested()
        self._sessions.refuse_nested()
        was_closed, self._memory.closed = self._memory.closed, True
        self._worker.close()
        self._sessions.close(quiet=was_closed)
        self._memory.close()
        self._abandoned.detach()
