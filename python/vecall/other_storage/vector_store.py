"""Memories in a vector store of your own, and the configuration of any service."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Unpack, cast

import numpy as np
from numpy.typing import NDArray

from vecall.clock import ExpiryClock, checked_clock
from vecall.concurrency.closing import (
    ClosesOnExit,
    clean_up_dropped_service,
    close_at_exit,
)
from vecall.concurrency.executor import PeriodicWorker
from vecall.concurrency.join import run_async
from vecall.embedders import Embedder
from vecall.embedders.resolve import EmbedderLike, resolve
from vecall.errors import ConfigError
from vecall.index.embedding import EmbeddingQueue
from vecall.ingest.fields import GivenMetadata
from vecall.ingest.parts import checked_included_parts
from vecall.limits import Inactivity, Limits, MessageCount, Trigger, session_trigger
from vecall.operations.options import (
    StorageOptions,
    WritePolicy,
    checked_seconds,
    checked_summarizer,
    only_known_options,
    refuse_unknown_options,
)
from vecall.operations.searches import SearchArguments
from vecall.other_storage._vector_store_sync import (
    SyncVectorStoreAdmin,
    SyncVectorStoreMemoryService,
)
from vecall.other_storage.vector_store_memory import VectorStoreMemory
from vecall.protocols import BaseMemoryService
from vecall.scalars import Shown, make_fields_exact
from vecall.search.searcher import SearchOptions
from vecall.service.items import BuildKeywords
from vecall.service.memory_service import MemoryService
from vecall.summaries import SummaryProvider
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


class VectorStoreAdmin:
    """Operations on the whole store of a service: `VectorStoreMemoryService.admin`.

    Every method has a blocking twin of the same name on `sync`.
    """

    _memory: VectorStoreMemory

    def __init__(self, memory: VectorStoreMemory) -> None:
        """Share the parts of a service."""
        self._memory = memory
        self._sync = SyncVectorStoreAdmin(memory)

    @property
    def sync(self) -> SyncVectorStoreAdmin:
        """The same methods for callers without an event loop."""
        return self._sync

    async def run_due(self) -> int:
        """Make memories of the sessions that are due; return the number of sessions."""
        return await run_async(self._memory.run_due())


class VectorStoreMemoryService(ClosesOnExit, BaseMemoryService):
    """Long-term memory in any `VectorStore`, ranked by cosine similarity alone.

    A store has no transactions and no record of deletions. After an error some turns of
    a call may be stored; repeating the call stores the rest. A deleted turn comes back
    when it is ingested again. Turns that `observe_session` buffers and proposals of
    `propose_forget` are in RAM: their number is limited, and they are lost when the
    process ends. `MemoryService` has none of these limits.

    A store needs the methods `upsert` and `search`. Without `delete` or `delete_many`,
    a `ttl` and the methods that need them raise a ConfigError that names the missing
    method.

    Safe to share between threads and event loops. The store runs on the service's own
    event loop, so a slow store does not block yours. You close the store. All its rows
    must belong to this service. Every method has a blocking twin of the same name on
    `sync`.

    Args:
        store: The vector store.
        embedder: The embedder; see `MemoryService`.
        top_k: The default number of memories that a search returns.
        summarizer: Makes summaries of a session, which are stored instead of its turns.
        trigger: When memories are made of the turns that `observe_session` buffers.
        ttl: The default TTL of memories: seconds, a timedelta or "30d". A search that
            finds an expired memory deletes it.
        search: Search options; only `min_similarity` may be set.
        storage: Storage options; only `clock` and `maintenance_interval` may be set.
            The background thread runs `admin.run_due`.
        writes: Write policy; only `include` may be set.

    Raises:
        ConfigError: No store, no embedder, an option that this service does not have,
            or one that needs a method that the store does not have.
        InvalidArgumentError: top_k out of range.
    """

    _memory: VectorStoreMemory
    _admin: VectorStoreAdmin

    @refuse_unknown_options
    def __init__(
        self,
        store: VectorStore,
        embedder: EmbedderLike,
        *,
        top_k: int = 5,
        summarizer: SummaryProvider | None = None,
        trigger: Trigger | str | Mapping[str, Any] | None = None,
        ttl: float | timedelta | str | None = None,
        search: SearchOptions | None = None,
        storage: StorageOptions | None = None,
        writes: WritePolicy | None = None,
    ) -> None:
        """Create a service over a store."""
        given: object = store
        if not isinstance(given, VectorStore):
            msg = "store: expected a VectorStore, with the methods upsert and search"
            raise ConfigError(msg)
        chosen = resolve(embedder)
        if chosen is None:
            raise ConfigError("embedder: VectorStoreMemoryService needs one")
        when = session_trigger(trigger)
        provider = checked_summarizer(summarizer)
        time_to_live = checked_seconds(ttl, "ttl")
        floor = only_known_options(search, SearchOptions, "search", {"min_similarity"})
        storage_options = only_known_options(
            storage, StorageOptions, "storage", {"clock", "maintenance_interval"}
        )
        policy = only_known_options(writes, WritePolicy, "writes", {"include"})
        interval = checked_seconds(storage_options.maintenance_interval, "storage")
        if time_to_live is not None:
            needed_method(store, "delete", "ttl")
        self._memory = memory = VectorStoreMemory(
            store,
            EmbeddingQueue(chosen),
            ExpiryClock(checked_clock(storage_options.clock)),
            top_k=top_k,
            min_similarity=floor.min_similarity,
            ttl=time_to_live,
            include=checked_included_parts(policy.include),
            trigger=when,
            summarizer=provider,
        )
        self._admin = VectorStoreAdmin(memory)
        timed = isinstance(when, Inactivity | MessageCount)
        self._worker = PeriodicWorker(memory.next_run, interval if timed else None)
        memory.on_buffered = self._worker.wake_thread
        self._abandoned = clean_up_dropped_service(self)
        close_at_exit(self)

    def __repr__(self) -> str:
        """Return the class of the store."""
        return f"<{type(self).__name__} over {type(self.store).__name__}>"

    @property
    def sync(self) -> SyncVectorStoreMemoryService:
        """The same methods for callers without an event loop."""
        return SyncVectorStoreMemoryService(self, self._memory, self._admin.sync)

    @property
    def admin(self) -> VectorStoreAdmin:
        """Operations on the whole store."""
        return self._admin

    @property
    def store(self) -> VectorStore:
        """The vector store."""
        return self._memory.store

    @property
    def limits(self) -> Limits:
        """The limits on requests."""
        return self._memory.limits

    @property
    def trigger(self) -> Trigger | None:
        """When memories are made of the turns that `observe_session` buffers."""
        return self._memory.trigger

    @property
    def summarizer(self) -> SummaryProvider | None:
        """The summarizer of sessions; None stores their turns."""
        return self._memory.summarizer

    @property
    def lacking(self) -> frozenset[str]:
        """The methods of this service that need a method its store lacks."""
        store = self._memory.store
        return frozenset(
            name for name, needed in _NEEDS.items() if not has_method(store, needed)
        )

    @property
    def capabilities(self) -> frozenset[str]:
        """The optional methods that this service has, with this store."""
        return super().capabilities - self.lacking

    async def add_session_to_memory(self, session: Any) -> AddedIds:
        """Store the turns of a session; see `MemoryService`."""
        return await run_async(self._memory.add_session(session))

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Any] | None = None,
        session_id: str | None = None,
        custom_metadata: Mapping[str, Any] | None = None,
        messages: Sequence[Any] | None = None,
        ttl: float | timedelta | str | None = None,
        verbatim: bool = False,
    ) -> AddedIds:
        """Store some turns; see `MemoryService`.

        Raises:
            ConfigError: A `ttl`, and the store cannot delete; nothing was stored.
        """
        given = GivenMetadata(custom_metadata, verbatim, ttl)
        return await run_async(
            self._memory.add_events(
                app_name, user_id, events, session_id, given, messages
            )
        )

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[Any],
        custom_metadata: Mapping[str, Any] | None = None,
        ttl: float | timedelta | str | None = None,
        verbatim: bool = False,
    ) -> AddedIds:
        """Store facts and decisions; see `MemoryService`.

        Raises:
            ConfigError: A `ttl`, and the store cannot delete; nothing was stored.
        """
        given = GivenMetadata(custom_metadata, verbatim, ttl)
        return await run_async(
            self._memory.add_entries(app_name, user_id, memories, given)
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
        offset: int = 0,
    ) -> SearchMemoryResponse:
        """Find this user's memories for a query; see `MemoryService`.

        Args:
            app_name: The app.
            user_id: The user.
            query: Any text; without a word and without a vector nothing is found.
            top_k: The number of memories, instead of the service's default.
            min_similarity: Floor on the cosine, instead of the service's default.
            filter: Which memories may be returned. Every store filters by session and
                time, one whose `applies_where` is True by all other fields, too.
            vector: The query's vector, shape (dimensions,), finite and not zero; the
                embedder is not called then.
            offset: Number of the best memories to leave out, 0 to 10,000.

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
                SearchArguments(
                    app_name,
                    user_id,
                    query,
                    top_k,
                    min_similarity,
                    filter=filter,
                    vector=vector,
                    offset=offset,
                )
            )
        )

    async def observe_session(self, session: Any) -> list[str]:
        """Buffer the new turns of a session until the trigger fires.

        Call it after every turn. The buffer is in RAM. It holds at most 10,000 turns
        and 16 MiB of a user.

        Returns:
            The ids of memories made at once; only a `Compaction` trigger makes some.

        Raises:
            InvalidArgumentError: A bad name, id, time or text; nothing was buffered.
            LimitExceededError: The buffer is full; nothing was buffered.
            ConfigError: A `ttl`, and the store cannot delete; nothing was buffered.
        """
        return await run_async(self._memory.observe_session(session))

    async def end_session(
        self,
        session: Any = None,
        *,
        app_name: str | None = None,
        user_id: str | None = None,
        session_id: str | None = None,
    ) -> list[str]:
        """Make memories of all buffered turns of a session.

        See `MemoryService.end_session`. Cancelling the call does not stop the work.

        Raises:
            SummaryError: The summarizer failed; the turns stay buffered.
            EmbedderError: The embedder failed; the turns stay buffered.
        """
        return await run_async(
            self._memory.end_session(session, app_name, user_id, session_id)
        )

    async def delete_memory(
        self, *, app_name: str, user_id: str, memory_id: str | None = None
    ) -> None:
        """Delete one memory of this user. An unknown id, or None, deletes nothing.

        Raises:
            ConfigError: The store has no method `delete`.
        """
        await run_async(self._memory.delete(app_name, user_id, memory_id))

    async def delete_session(
        self, *, app_name: str, user_id: str, session_id: str
    ) -> int:
        """Delete the memories and buffered turns of a session; return how many.

        Raises:
            ConfigError: The store has no method `delete_many`.
        """
        return await run_async(self._memory.delete_all(app_name, user_id, session_id))

    async def delete_user(self, *, app_name: str, user_id: str) -> int:
        """Delete all memories and buffered turns of a user; return how many.

        Raises:
            ConfigError: The store has no method `delete_many`.
        """
        return await run_async(self._memory.delete_all(app_name, user_id, None))

    async def propose_forget(
        self, *, app_name: str, user_id: str, query: str, top_k: int = 5
    ) -> ForgetProposal:
        """Search for memories to forget, without deleting them.

        Of what is found it keeps what matches about as well as the best one. The token
        counts once, for this app and user, for ten minutes, in this process.

        Raises:
            ConfigError: The store has no method `delete`.
            EmbedderError: The embedder failed.
        """
        return await run_async(
            self._memory.propose_forget(app_name, user_id, query, top_k)
        )

    async def confirm_forget(
        self,
        *,
        app_name: str,
        user_id: str,
        token: str,
        ids: Sequence[str] | None = None,
    ) -> int:
        """Delete the proposed memories, or those in `ids`; return how many.

        Raises:
            NotFoundError: No such token of this user, or not any more, or this process
                stored something else under an id since then.
            InvalidArgumentError: An id that was not proposed; the token still counts.
        """
        return await run_async(
            self._memory.confirm_forget(app_name, user_id, token, ids)
        )

    def close(self) -> None:
        """Finish the calls in progress and end the threads. Idempotent.

        Buffered turns are discarded; a log warning has their number.

        Raises:
            ReentrantCallError: The store, the embedder or the summarizer is the caller.
        """
        self._memory.refuse_nested_call()
        was_closed, self._memory.closed = self._memory.closed, True
        self._worker.close()
        self._memory.close(quiet=was_closed)
        self._abandoned.detach()


_FIELDS = {
    "path": "vector_store",
    "store": "vector_store",
    "embedder": "embedding",
    "summarizer": "summarization",
    "trigger": "trigger",
    "top_k": "search_top_k",
}
"""The fields of a configuration by the names of a service's options."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class MemoryConfig(Shown):
    """Configures when memories are made, what they contain, and how searches work.

    Every part is optional. Without a summarization and an embedding, the service stores
    turns unchanged and searches them by words.

    Attributes:
        trigger: When memories are made of observed sessions: `SessionEnd`,
            `Inactivity`, `MessageCount`, `Compaction`, a name or a mapping.
        summarization: A `SummaryProvider`, or {"provider": one}.
        embedding: An `Embedder`, a function from texts to vectors, or a name such as
            "local"; or {"provider": one of these, "model": its model}, where "model" is
            optional.
        vector_store: The path of the SQLite file, the URL of a PostgreSQL database,
            your own `VectorStore`, or None for memories that are lost when the process
            ends.
        search_top_k: The default number of memories that a search returns, at least 1.

    Raises:
        ConfigError: A part is invalid, or the parts are incompatible.
    """

    trigger: Trigger | str | Mapping[str, Any] | None = None
    summarization: SummaryProvider | Mapping[str, Any] | None = None
    embedding: EmbedderLike | Mapping[str, Any] = None
    # A URL may contain a password.
    vector_store: VectorStore | str | Path | None = field(default=None, repr=False)
    search_top_k: int = 5

    def __post_init__(self) -> None:
        """Check every part, and that the parts are compatible."""
        make_fields_exact(self)
        session_trigger(self.trigger)
        summarizer = self._make_summarizer()
        if summarizer is not None and not hasattr(summarizer, "get_summaries"):
            raise ConfigError("summarization: expected an object with get_summaries")
        embedder = self._embedder()
        if type(self.search_top_k) is not int or self.search_top_k < 1:
            raise ConfigError("search_top_k: expected an integer of at least 1")
        store: object = self.vector_store
        if isinstance(store, str | Path | None):
            return
        if not isinstance(store, VectorStore):
            raise ConfigError("vector_store: expected a path, a VectorStore, or None")
        if embedder is None:
            raise ConfigError("embedding: a vector_store of your own needs one")

    def build(
        self, **options: Unpack[BuildKeywords]
    ) -> MemoryService | VectorStoreMemoryService:
        """Return a new service with this configuration.

        Args:
            **options: Other options of the service, such as `storage`. A
                `VectorStoreMemoryService` has `ttl`, and some fields of `search`,
                `storage` and `writes`.

        Raises:
            ConfigError: An option is a part of the configuration, the service does not
                have it, or its value is invalid for the service.
        """
        own = isinstance(self.vector_store, str | Path | None)
        kind: Any = MemoryService if own else VectorStoreMemoryService
        known = [n for n in inspect.signature(kind).parameters if n not in _FIELDS]
        for option in options:
            if option in _FIELDS:
                msg = f"{option}: say it in the configuration, as {_FIELDS[option]}"
                raise ConfigError(msg)
            if option not in known:
                msg = f"{option}: {kind.__name__} has the options {', '.join(known)}"
                raise ConfigError(msg)
        made: MemoryService | VectorStoreMemoryService = kind(
            self.vector_store,
            embedder=self._embedder(),
            summarizer=self._make_summarizer(),
            trigger=self.trigger,
            top_k=self.search_top_k,
            **options,
        )
        return made

    def _make_summarizer(self) -> SummaryProvider | None:
        provider, _ = _provider_and_model(
            self.summarization, "summarization", {"provider"}
        )
        return cast("SummaryProvider | None", provider)

    def _embedder(self) -> EmbedderLike:
        given = self.embedding
        provider, model = _provider_and_model(given, "embedding", {"provider", "model"})
        if not isinstance(provider, str | Embedder | None) and not callable(provider):
            raise ConfigError("embedding: expected an Embedder, a function, or a name")
        if model is None:
            return cast("EmbedderLike", provider)
        if not isinstance(model, str) or not model:
            raise ConfigError("embedding: model must be a text")
        if isinstance(provider, str):
            return f"{provider}:{model}"
        own = getattr(provider, "model_id", None)
        if own is not None and own != model:
            raise ConfigError("embedding: model is not the provider's model_id")
        return cast("EmbedderLike", provider)


def _provider_and_model(
    given: object, name: str, keys: set[str]
) -> tuple[object, object]:
    """Return the provider and the model of a part; a part may be a provider."""
    if not isinstance(given, Mapping):
        return given, None
    if given.get("provider") is None or not given.keys() <= keys:
        msg = f"{name}: a mapping holds {' and '.join(sorted(keys, reverse=True))}"
        raise ConfigError(msg)
    return given["provider"], given.get("model")
