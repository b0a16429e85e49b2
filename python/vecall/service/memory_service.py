"""MemoryService: the asynchronous public class; `sync` is its blocking twin."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta, tzinfo
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vecall.clock import Time
from vecall.concurrency.closing import ClosesOnExit, close_at_exit
from vecall.concurrency.executor import PeriodicWorker
from vecall.concurrency.join import run_async, run_sync
from vecall.embedders.resolve import AUTO, EmbedderLike, resolve_embedder_later
from vecall.filters.rights import Rights, checked_rights
from vecall.ingest.drafts import events_or_messages
from vecall.ingest.fields import GivenMetadata
from vecall.limits import (
    Cosine,
    Count,
    Limits,
    Offset,
    Scope,
    Share,
    Trigger,
    session_trigger,
)
from vecall.operations import options
from vecall.operations.admin import Admin
from vecall.operations.consolidation import (
    SESSIONS,
    ConsolidationPlan,
    ConsolidationRequest,
    Consolidator,
    Fold,
)
from vecall.operations.items import ItemOperations
from vecall.operations.options import StorageOptions, WritePolicy
from vecall.operations.searches import SearchArguments
from vecall.operations.session_triggers import SessionObserver
from vecall.operations.stored_memories import StoredMemories
from vecall.operations.writes import WriteRequest, Writes, make_fact_request
from vecall.protocols import BaseMemoryService
from vecall.ranking.options import Ranking
from vecall.search.searcher import SearchOptions
from vecall.service._sync import SyncMemoryService
from vecall.service.admin import MemoryAdmin
from vecall.service.items import Items, bound_as
from vecall.service.user import UserMemory
from vecall.store import State
from vecall.summaries import SummaryProvider
from vecall.types import (
    UNSET,
    AddedIds,
    Conflict,
    Consolidation,
    Content,
    Event,
    Explanation,
    FilterLike,
    ForgetProposal,
    ListedSession,
    MemoryEntry,
    MemoryFigures,
    OwnVectors,
    Page,
    Revision,
    SearchMemoryResponse,
    Session,
    Unset,
    without_unset,
)
from vecall.validation import checked_owner


class MemoryService(ClosesOnExit, BaseMemoryService):
    """Long-term memory of AI agents in one file, isolated by app and user.

    Searches run in memory. Safe to share between threads and event loops. Every method
    has a blocking twin of the same name on `sync`.

    Args:
        path: The SQLite file that holds the whole state; created if it does not exist.
            With None or ":memory:" the state ends with the process.
        embedder: An `Embedder`, or a function from texts to vectors. "local" is the
            offline model of the extra vecall[local]. "auto" is "local" where that extra
            is installed; see `vecall.embedders.automatic` for existing files. None
            searches by words alone. A file stays with its first embedder.
        top_k: Default number of memories that a search returns, at least 1.
        min_confidence: Default minimum confidence in [0, 1], inclusive. A search omits
            memories below it. None omits none.
        summarizer: Summarizes sessions, such as an `LlmSummaryProvider`. The summaries
            are stored in place of the turns.
        trigger: When buffered turns of `observe_session` become memories: `SessionEnd`,
            `Inactivity`, `MessageCount`, `Compaction`, or their names.
        ttl: Default TTL of memories: seconds, a timedelta or "30d".
        read_only: Refuse every write.
        search: Minimum similarity, ranking, authors, calibration, scorer, time zone.
        storage: Durability, cache, free disk space, maintenance, clock.
        writes: Write hook, history TTL, quota per user, scopes, inner parts.
        limits: Maximum sizes of requests.
        consolidation: Which memories the maintenance thread merges and summarizes, and
            how often. One of the file's processes runs it. None disables it.

    Raises:
        ConfigError: An invalid argument, or the folder does not exist.
        EmbeddingMismatchError: The file's vectors come from another model.
        IncompatibleFileError: The file belongs to another program or a newer vecall.
        NetworkFilesystemError: The file is on a network filesystem.
        CorruptFileError: The file is damaged.
        StorageError: The file cannot be opened or written.
    """

    _memory_type = Writes
    _warns_of_raw_turns = True
    _memory: Writes
    _admin: MemoryAdmin
    _items: Items
    _sessions: SessionObserver
    _stored: StoredMemories
    _consolidator: Consolidator
    _whole: MemoryService | None = None  # of a restricted memory: what it restricts

    @options.refuse_unknown_options
    def __init__(
        self,
        path: str | Path | None = None,
        *,
        embedder: EmbedderLike = AUTO,
        top_k: int = 5,
        min_confidence: float | None = None,
        summarizer: SummaryProvider | None = None,
        trigger: Trigger | str | Mapping[str, Any] | None = None,
        ttl: float | timedelta | str | None = None,
        read_only: bool = False,
        search: SearchOptions | None = None,
        storage: StorageOptions | None = None,
        writes: WritePolicy | None = None,
        limits: Limits | None = None,
        consolidation: ConsolidationPlan | None = None,
    ) -> None:
        """Open the file, or create it."""
        chosen = resolve_embedder_later(embedder)
        when = session_trigger(trigger)
        provider = options.checked_summarizer(summarizer)
        if self._warns_of_raw_turns and chosen is not None:
            options.warn_of_raw_turns(provider, when)
        self._memory = self._memory_type(
            path,
            embedder=chosen,
            top_k=top_k,
            min_confidence=min_confidence,
            ttl=options.checked_seconds(ttl, "ttl"),
            read_only=options.checked_bool_option(read_only, "read_only"),
            search=options.checked_option_group(search, SearchOptions, "search"),
            storage=options.checked_option_group(storage, StorageOptions, "storage"),
            writes=options.checked_option_group(writes, WritePolicy, "writes"),
            limits=options.checked_option_group(limits, Limits, "limits"),
        )
        self._sessions = SessionObserver(self._memory, when, provider)
        self._consolidator = Consolidator(self._memory, self._sessions, consolidation)
        self._item_operations = ItemOperations(self._memory)
        self._views: dict[Rights, MemoryService] = {}
        self._make_operations()
        self._memory.after_fork = self._start_threads
        self._start_threads()
        close_at_exit(self)

    def _make_operations(self) -> None:
        """Create the operations without state, and the blocking twin."""
        memory, sessions, merger = self._memory, self._sessions, self._consolidator
        self._stored = stored = StoredMemories(memory)
        self._work = Admin(memory, sessions, merger)
        self._admin = admin = MemoryAdmin(self._work, stored)
        self._items = items = Items(self._item_operations)
        # A reference cycle; `after_fork` already makes one.
        self._sync = SyncMemoryService(
            self, memory, admin.sync, items.sync, sessions, stored, merger
        )

    def __repr__(self) -> str:
        """Return where the memories are."""
        state = "closed" if self._memory.closed else "open"
        return f"<{type(self).__name__} {self._memory.place}, {state}>"

    def restricted(self, rights: Rights) -> MemoryService:
        """Return the same memory for a caller with fewer rights.

        See `Rights`. Closing the result closes the service.

        Args:
            rights: The rights. They cannot exceed those of this memory.

        Raises:
            InvalidTypeError: Not a `Rights`.
        """
        if type(rights) is Rights and rights in self._views:
            return self._views[rights]
        own = self._memory.rights
        rights = own.with_limits_of(checked_rights(rights))
        if rights == own:
            return self
        if rights in self._views:
            return self._views[rights]
        view = self._views[rights] = copy.copy(self)
        memory = view._memory = self._memory.restricted_to_rights(rights)
        view._views = {}
        view._sessions = self._sessions.with_rights(memory)
        view._consolidator = self._consolidator.with_rights(memory)
        view._item_operations = self._item_operations.with_rights(memory)
        view._make_operations()
        view._whole = self
        return view

    def _start_threads(self) -> None:
        """Start the background threads; a forked child calls this again."""
        self._sessions.summarizing.restart_thread()
        memory = self._memory
        interval = None if memory.read_only else memory.maintenance_interval
        work = self._work.next_run
        self._worker = PeriodicWorker(lambda: run_sync(work()), interval)
        self._sessions.on_buffered = self._worker.wake_thread

    @property
    def sync(self) -> SyncMemoryService:
        """The same methods for callers without an event loop."""
        return self._sync

    @property
    def admin(self) -> MemoryAdmin:
        """Operations on the whole file: backup, export, purge and others."""
        return self._admin

    @property
    def items(self) -> Items:
        """JSON documents under a namespace and a key, next to the memories."""
        return self._items

    def user(self, app_name: str, user_id: str) -> UserMemory:
        """Return the memory of one user: the same methods with app and user bound.

        It holds no state and needs no `close`. Creating one takes about a microsecond.

        Args:
            app_name: The app.
            user_id: The user.

        Raises:
            InvalidArgumentError: An invalid name.
        """
        return UserMemory(self, checked_owner(app_name, user_id, self._memory.limits))

    @property
    def limits(self) -> Limits:
        """The maximum sizes of requests."""
        return self._memory.limits

    @property
    def ranking(self) -> Ranking:
        """The default ranking of searches."""
        return self._memory.ranking

    @property
    def min_confidence(self) -> float | None:
        """The default minimum confidence of searches; None if there is none."""
        return self._memory.min_confidence

    @property
    def authors(self) -> Sequence[str]:
        """The authors whose memories rank first by default."""
        return self._memory.authors

    @property
    def trigger(self) -> Trigger | None:
        """When buffered turns of `observe_session` become memories."""
        return self._sessions.trigger

    @property
    def summarizer(self) -> SummaryProvider | None:
        """The provider of session summaries."""
        return self._sessions.summarizer

    async def add_session_to_memory(
        self,
        session: Session | Mapping[str, Any] | object,
        *,
        restore: bool = False,
        replace: bool = False,
        idempotency_key: str | None = None,
    ) -> AddedIds:
        """Store the turns of a session.

        The call is an idempotent upsert. Stored turns cost nothing, changed turns are
        replaced, and stored turns that the session lacks stay. Turns without text and
        google-adk's sign-in requests are skipped. Turns that a rewind of the session
        took back are not stored, and are deleted if they were.

        Args:
            session: A `Session`, a google-adk session, or a dict with app_name,
                user_id, id and events (or messages), in snake_case or camelCase. An
                event may be a chat message with role and content.
            restore: Store deleted turns again.
            replace: Also delete stored turns of this session that the call lacks.
            idempotency_key: Another call with the same key within 30 days changes
                nothing and returns the first call's result.

        Returns:
            The id of each turn, in order. A turn that is not stored has None, and a
            reason in `left_out`. With a summarizer or a `Compaction`: the ids of the
            memories that were made.

        Raises:
            InvalidArgumentError: An invalid name, id, time or text, or an unknown
                field; nothing was written.
            ConflictError: The key was used for other memories.
            EmbedderError: The embedder failed; nothing was written.
            StorageFullError: The disk is full; nothing was written.
        """
        request = WriteRequest(restore, idempotency_key)
        return await run_async(
            self._sessions.add_session(session, request, replace=replace)
        )

    @bound_as("add_events", "events")
    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event | Mapping[str, Any] | object] | None = None,
        session_id: str | None = None,
        custom_metadata: Mapping[str, Any] | None = None,
        restore: bool = False,
        idempotency_key: str | None = None,
        messages: Sequence[Mapping[str, Any] | object] | None = None,
        ttl: float | timedelta | str | None = None,
        verbatim: bool = False,
    ) -> AddedIds:
        """Store some turns, such as the new ones since the last call.

        It stores the turns themselves, also with a summarizer or a trigger.

        Args:
            app_name: The app.
            user_id: The user.
            events: Turns in order, as in `add_session_to_memory`.
            session_id: Their session, if it is known.
            custom_metadata: JSON values stored with each turn, sorted by key. The key
                "ttl" is as the argument, "history_ttl" the TTL of former versions. The
                values of "metadata" are stored without it; "wait_for_completion" is
                not stored.
            restore: Store deleted turns again.
            idempotency_key: As in `add_session_to_memory`.
            messages: Another name for `events`.
            ttl: TTL of the memories: seconds, a timedelta or "30d"; None is the
                service's.
            verbatim: Store every custom_metadata as it is: all keys, in their order.

        Returns:
            The id of each turn, in order. A turn that is not stored has None, and a
            reason in `left_out`.

        Raises:
            InvalidArgumentError: An invalid name, id, time or text, or an unknown
                field; nothing was written.
            ConflictError: The key was used for other memories.
            EmbedderError: The embedder failed; nothing was written.
            StorageFullError: The disk is full; nothing was written.
        """
        return await run_async(
            self._memory.add_events(
                app_name,
                user_id,
                events_or_messages(events, messages),
                session_id,
                GivenMetadata(custom_metadata, verbatim, ttl),
                WriteRequest(restore, idempotency_key),
            )
        )

    @bound_as("add", "memories")
    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: MemoryEntry | Content | Sequence[MemoryEntry | Content | object],
        custom_metadata: Mapping[str, Any] | None = None,
        restore: bool | None = None,
        idempotency_key: str | None = None,
        scope: Scope = "user",
        vectors: OwnVectors | None = None,
        if_absent: bool = False,
        ttl: float | timedelta | str | None = None,
        verbatim: bool = False,
        supersedes: str | Sequence[str] | None = None,
        similar: bool = False,
    ) -> AddedIds:
        """Store facts, decisions or other memories, as strings or entries.

        Args:
            app_name: The app.
            user_id: The user.
            memories: Texts, `MemoryEntry` objects, or dicts with the same fields, or
                one of these. A dict may use aliases: text or memory (content), role
                (author), created_at (timestamp), metadata (custom_metadata).
            custom_metadata: As in `add_events_to_memory`.
            restore: None stores a deleted memory again. True also restores an archived
                or corrected one. False does neither.
            idempotency_key: As in `add_session_to_memory`. Without a key, equal texts
                added twice are one memory only if they have the same id.
            scope: The user's own memories, or a scope that the service's `scopes`
                allow writing.
            vectors: Vectors by the file's model, shape (n, dimensions), finite; in a
                list None stands for a memory without one. They are stored as given; the
                embedder is called for the other memories only. A zero vector is stored
                as none. A text that a write hook redacts loses its vector.
            if_absent: Store nothing if the user has a memory, in any state, with one of
                the ids.
            ttl: As in `add_events_to_memory`.
            verbatim: As in `add_events_to_memory`.
            supersedes: The ids of memories that the only memory of the call replaces,
                or one id. They stay stored, with their validity ended, are not found,
                and are in its history; `restore_memory` makes them live again.
            similar: Show which stored memories each new one may replace, without
                another embedding, for at most 100 memories. Nothing is replaced.

        Returns:
            The id of each memory, in order. A memory that is not stored has None, and a
            reason in `left_out`. `id` is the id of a single memory.

        Raises:
            InvalidArgumentError: A blank text, or an invalid or unknown field; nothing
                was written.
            NotFoundError: The user never had a memory that `supersedes` names; nothing
                was written.
            ConflictError: The key was used for other memories.
            EmbedderError: The embedder failed; nothing was written.
            StorageFullError: The disk is full; nothing was written.
        """
        return await run_async(
            self._memory.add_entries(
                app_name,
                user_id,
                memories,
                GivenMetadata(custom_metadata, verbatim, ttl),
                make_fact_request(restore, idempotency_key, scope, if_absent),
                vectors,
                supersedes,
                similar,
            )
        )

    @bound_as("search", "query")
    async def search_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        query: str,
        top_k: Count | None = None,
        min_similarity: Cosine | None = None,
        min_confidence: Share | None = None,
        filter: FilterLike | None = None,
        ranking: Ranking | None = None,
        explain: bool = False,
        scopes: Sequence[Scope] | None = None,
        vector: Sequence[float] | NDArray[np.generic] | None = None,
        offset: Offset = 0,
        time_zone: str | tzinfo | None = None,
    ) -> SearchMemoryResponse:
        """Return a user's memories that are relevant to a query.

        Args:
            app_name: The app. Only its memories are searched.
            user_id: The user. Only their memories are searched.
            query: Any text. Without a word and without `vector`, the search costs
                nothing and returns nothing.
            top_k: Maximum number of memories, at least 1; default: the service's.
            min_similarity: Minimum cosine similarity in [-1, 1], inclusive. The
                service's minimum does not apply to a ranking by words alone.
            min_confidence: Minimum confidence in [0, 1], inclusive. Memories below it
                are omitted.
            filter: Which memories may be returned: a `Filter`, or a mapping with its
                fields.
            ranking: The ranking, in place of the service's.
            explain: Whether each memory has the parts of its score.
            scopes: Scopes to search besides the user's own memories; default: all that
                the service's `scopes` allow reading.
            vector: The query's vector by the file's model: shape (dimensions,), finite
                and not zero. The embedder is not called. With query="" the search uses
                the vector alone.
            offset: Number of the best results to leave out, 0 to 10,000: the result is
                that of the same search with `top_k + offset`, without its first
                `offset` memories. A ranking that reorders more than `depth` results
                may order them differently for another offset.
            time_zone: Where the user is: an IANA name such as "Europe/Berlin", an
                offset such as "+02:00", or a tzinfo; default: the service's. The days
                that the query names, as in "yesterday", begin and end there.

        Returns:
            The memories, best first; none for an unknown user.

        Raises:
            InvalidArgumentError: top_k < 1, or an invalid name, filter or vector.
            DimensionError: The vector's length differs from that of the file's vectors.
            ConfigError: min_similarity or vector without an embedder, or in a search by
                words alone.
            EmbedderError: The embedder failed.
            RewriterError: The ranking's rewriter failed.
            RerankerError: The ranking's reranker failed.
            ScopeError: The service does not allow reading a scope.
            ClosedError: The service was closed.
        """
        arguments = SearchArguments(
            app_name,
            user_id,
            query,
            top_k,
            min_similarity,
            min_confidence,
            filter,
            ranking,
            explain,
            scopes,
            vector,
            offset,
            time_zone,
        )
        return await run_async(self._memory.search(arguments))

    @bound_as("explain", "query", "memory_id")
    async def explain_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        query: str,
        memory_id: str,
        scope: Scope = "user",
        top_k: Count | None = None,
        min_similarity: Cosine | None = None,
        min_confidence: Share | None = None,
        filter: FilterLike | None = None,
        ranking: Ranking | None = None,
        scopes: Sequence[Scope] | None = None,
        vector: Sequence[float] | NDArray[np.generic] | None = None,
        time_zone: str | tzinfo | None = None,
    ) -> Explanation:
        """Return why a search returns one memory, or does not, and by what margin.

        It searches twice: as `search_memory` with these arguments, and without floors
        for all candidates. It changes nothing.

        Args:
            app_name: The app.
            user_id: The user.
            query: The query. This and the following arguments, apart from the scope,
                are those of `search_memory`.
            memory_id: The memory's id.
            scope: The memory's scope.
            top_k: Maximum number of memories, at least 1; default: the service's.
            min_similarity: Minimum cosine similarity in [-1, 1], inclusive.
            min_confidence: Minimum confidence in [0, 1], inclusive.
            filter: Which memories may be returned: a `Filter`, or a mapping with its
                fields.
            ranking: The ranking, in place of the service's.
            scopes: Scopes to search besides the user's own memories.
            vector: The query's vector by the file's model, shape (dimensions,).
            time_zone: Where the user is.

        Raises:
            NotFoundError: The user has no memory with this id.
            InvalidArgumentError: As in `search_memory`.
        """
        arguments = SearchArguments(
            app_name,
            user_id,
            query,
            top_k,
            min_similarity,
            min_confidence,
            filter,
            ranking,
            True,
            scopes,
            vector,
            time_zone=time_zone,
        )
        return await run_async(self._memory.explain_search(arguments, memory_id, scope))

    @bound_as("get", "memory_id")
    async def get_memory(
        self, *, app_name: str, user_id: str, memory_id: str, scope: Scope = "user"
    ) -> MemoryEntry:
        """Return one memory by its id.

        Args:
            app_name: The app.
            user_id: The user.
            memory_id: Its id.
            scope: The memory's scope.

        Raises:
            NotFoundError: The user has no memory with this id.
        """
        return await run_async(self._stored.get(app_name, user_id, memory_id, scope))

    @bound_as("get_many", "memory_ids")
    async def get_memories(
        self,
        *,
        app_name: str,
        user_id: str,
        memory_ids: Sequence[str],
        scope: Scope = "user",
        include_expired: bool = False,
    ) -> list[MemoryEntry | None]:
        """Return several memories by their ids, as of one moment.

        Args:
            app_name: The app.
            user_id: The user.
            memory_ids: Their ids.
            scope: The memories' scope.
            include_expired: As in `list_memories`.

        Returns:
            The memory of each id, in order; None if the user has no memory with it.

        Raises:
            InvalidArgumentError: An invalid name or id.
        """
        return await run_async(
            self._stored.get_many(app_name, user_id, memory_ids, scope, include_expired)
        )

    @bound_as("touch", "memory_ids", "ttl")
    async def touch_memories(
        self,
        *,
        app_name: str,
        user_id: str,
        memory_ids: Sequence[str],
        ttl: float | timedelta | str | None,
        scope: Scope = "user",
    ) -> int:
        """Move the expiry of memories, without writing them again.

        Text, vector, version and history do not change. `valid_until` stays, too.

        Args:
            app_name: The app.
            user_id: The user.
            memory_ids: Their ids, in any state. Ids that the user does not have, or
                whose memories have expired, are ignored.
            ttl: How long they last from now: seconds, a timedelta or "30d"; None is
                for ever.
            scope: The memories' scope.

        Returns:
            The number of memories that were found.

        Raises:
            InvalidArgumentError: An invalid name, id or TTL; nothing was changed.
        """
        return await run_async(
            self._stored.touch(app_name, user_id, memory_ids, ttl, scope)
        )

    @bound_as("mark_used", "memory_ids")
    async def mark_used(
        self, *, app_name: str, user_id: str, memory_ids: Sequence[str]
    ) -> int:
        """Record that memories were used, for example in an answer.

        Adds one to each memory's use count and sets its time of last use to now.
        Correcting a memory or ingesting its session again resets neither.

        Args:
            app_name: The app.
            user_id: The user.
            memory_ids: Ids that a search returned. Duplicates count once. Ids that the
                user does not have are ignored.

        Returns:
            The number of memories that were marked.

        Raises:
            InvalidArgumentError: An invalid name or id; nothing was marked.
            StorageFullError: The disk is full; nothing was marked.
        """
        return await run_async(self._stored.mark_used(app_name, user_id, memory_ids))

    @bound_as("expand_session", "memory_id")
    async def expand_session(
        self,
        *,
        app_name: str,
        user_id: str,
        memory_id: str,
        turns_before: int = 2,
        turns_after: int = 2,
    ) -> list[MemoryEntry]:
        """Return a memory with the turns before and after it, in order.

        Args:
            app_name: The app.
            user_id: The user.
            memory_id: A memory that a search returned.
            turns_before: Maximum number of preceding turns of its session, at least 0.
            turns_after: Maximum number of following turns, at least 0.

        Returns:
            The turns; the memory alone if it is not a turn of a session.

        Raises:
            NotFoundError: The user has no memory with this id.
        """
        return await run_async(
            self._stored.expand_session(
                app_name, user_id, memory_id, turns_before, turns_after
            )
        )

    @bound_as("delete", "memory_id", required=True)
    async def delete_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memory_id: str | None = None,
        scope: Scope = "user",
        if_version: float | None = None,
    ) -> bool:
        """Delete one memory permanently; return whether it was there.

        Ingesting its turn again does not bring it back. An unknown id, or None, deletes
        nothing.

        Args:
            app_name: The app.
            user_id: The user.
            memory_id: Its id.
            scope: The memory's scope.
            if_version: Delete it only if this is its `version`.

        Raises:
            ConflictError: The memory has another version; nothing was deleted.
        """
        return bool(
            await run_async(
                self._stored.delete(app_name, user_id, memory_id, scope, if_version)
            )
        )

    @bound_as("delete_many", "memory_ids")
    async def delete_memories(
        self,
        *,
        app_name: str,
        user_id: str,
        memory_ids: Sequence[str],
        scope: Scope = "user",
    ) -> list[bool]:
        """Delete several memories permanently, in one transaction.

        Args:
            app_name: The app.
            user_id: The user.
            memory_ids: Their ids.
            scope: The memories' scope.

        Returns:
            For each id, in order, whether there was such a memory.

        Raises:
            InvalidArgumentError: An invalid name or id; nothing was deleted.
        """
        return await run_async(
            self._stored.delete_many(app_name, user_id, memory_ids, scope)
        )

    @bound_as("delete_session", "session_id")
    async def delete_session(
        self, *, app_name: str, user_id: str, session_id: str
    ) -> int:
        """Delete the memories of one session permanently; return their number.

        Ingesting the session again does not bring them back.

        Args:
            app_name: The app.
            user_id: The user.
            session_id: The session.
        """
        return await run_async(
            self._stored.delete_session(app_name, user_id, session_id)
        )

    @bound_as("delete_where", "filter")
    async def delete_where(
        self, *, app_name: str, user_id: str, filter: FilterLike, scope: Scope = "user"
    ) -> int:
        """Delete a user's memories that match a filter, permanently.

        Args:
            app_name: The app.
            user_id: The user.
            filter: A `Filter`, or a mapping with its fields.
            scope: The memories' scope.

        Returns:
            The number of deleted memories.

        Raises:
            InvalidArgumentError: An invalid filter, or one without a condition.
        """
        return await run_async(
            self._stored.delete_where(app_name, user_id, filter, scope)
        )

    @bound_as("delete_all")
    async def delete_user(
        self,
        *,
        app_name: str,
        user_id: str,
        forget: bool = False,
        scope: Scope = "user",
    ) -> int:
        """Delete all memories of a user; return their number.

        Args:
            app_name: The app.
            user_id: The user.
            forget: Also delete the user's name and tombstones. Ingesting their sessions
                again stores them again.
            scope: The scope whose memories are deleted.
        """
        return await run_async(
            self._stored.delete_user(app_name, user_id, forget, scope)
        )

    async def observe_session(
        self, session: Session | Mapping[str, Any] | object
    ) -> list[str]:
        """Buffer the new turns of a session until the trigger turns them into memories.

        Call it after every turn. It is idempotent. The buffer survives a restart.
        Searches do not find buffered turns.

        Args:
            session: As in `add_session_to_memory`.

        Returns:
            The ids of memories that this call made; only a `Compaction` makes any.

        Raises:
            InvalidArgumentError: An invalid name, id, time or text; nothing was
                buffered.
            StorageFullError: The disk is full; nothing was buffered.
        """
        return await run_async(self._sessions.observe_session(session))

    @bound_as("end_session", "session_id", required=True)
    async def end_session(
        self,
        session: Session | Mapping[str, Any] | object | None = None,
        *,
        app_name: str | None = None,
        user_id: str | None = None,
        session_id: str | None = None,
    ) -> list[str]:
        """Make memories of all buffered turns of a session now.

        The summarizer is called if there are new turns. Without a summarizer the turns
        themselves are stored.

        Args:
            session: The session; turns that were not observed yet are added. Without
                it, the three names identify the session.
            app_name: The app.
            user_id: The user.
            session_id: The session's id.

        Returns:
            The ids of the memories.

        Raises:
            SummaryError: The summarizer failed; the turns stay buffered.
            EmbedderError: The embedder failed; the turns stay buffered.
        """
        return await run_async(
            self._sessions.end(session, app_name, user_id, session_id)
        )

    @bound_as("update", "memory_id")
    async def update_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memory_id: str,
        scope: Scope = "user",
        max_trust: str | None = None,
        content: Content | Unset = UNSET,
        author: str | None | Unset = UNSET,
        timestamp: Time | None | Unset = UNSET,
        kind: str | None | Unset = UNSET,
        source: str | None | Unset = UNSET,
        custom_metadata: Mapping[str, Any] | None | Unset = UNSET,
        importance: Share | None | Unset = UNSET,
        valid_until: Time | None | Unset = UNSET,
        vector: Sequence[float] | NDArray[np.generic] | None = None,
        if_version: float | None = None,
        verbatim: bool = False,
    ) -> MemoryEntry:
        """Correct one memory; its history keeps the former version.

        Ingesting the former version again does not undo the correction.

        Args:
            app_name: The app.
            user_id: The user.
            memory_id: Its id, which does not change.
            scope: The memory's scope.
            max_trust: Upper bound of the memory's trust, one of `vecall.TRUST_TIERS`.
                Lowers the trust, never raises it.
            content: The new text. This and the following arguments are as in
                `MemoryEntry`. Omitted ones do not change.
            author: The new author.
            timestamp: The new time, in seconds since 1970.
            kind: The new kind.
            source: The new source.
            custom_metadata: The new metadata; replaces all of the old.
            importance: The new importance, in [0, 1].
            valid_until: The new end of its validity, in seconds since 1970.
            vector: The new vector, as in `add_memory`; replaces the embedder's. A
                service with `CallerVectors` needs it for a new content or author.
            if_version: Change the memory only if this is its `version`.
            verbatim: Store custom_metadata as they are, as in `add_events_to_memory`.

        Returns:
            The corrected memory.

        Raises:
            NotFoundError: The user has no memory with this id.
            ConflictError: The memory has another version; nothing was changed.
            InvalidArgumentError: Nothing to change, or an invalid value.
            DimensionError: The vector's length differs from that of the file's vectors.
        """
        changes = without_unset(
            content=content,
            author=author,
            timestamp=timestamp,
            kind=kind,
            source=source,
            custom_metadata=custom_metadata,
            importance=importance,
            valid_until=valid_until,
        )
        return await run_async(
            self._stored.update_memory(
                app_name,
                user_id,
                memory_id,
                scope,
                changes,
                max_trust,
                vector,
                if_version,
                verbatim,
            )
        )

    @bound_as("history", "memory_id")
    async def memory_history(
        self, *, app_name: str, user_id: str, memory_id: str, scope: Scope = "user"
    ) -> list[Revision]:
        """Return all revisions of a memory and of those it replaced, oldest first.

        Args:
            app_name: The app.
            user_id: The user.
            memory_id: Its id.
            scope: The memory's scope.

        Raises:
            NotFoundError: The user has no memory with this id.
        """
        return await run_async(
            self._stored.revisions_of(app_name, user_id, memory_id, scope)
        )

    @bound_as("list")
    async def list_memories(
        self,
        *,
        app_name: str,
        user_id: str,
        state: State = "live",
        cursor: str | None = None,
        limit: Count | None = None,
        scope: Scope = "user",
        filter: FilterLike | None = None,
        include_expired: bool = False,
    ) -> Page[MemoryEntry]:
        """Return a page of a user's memories in order of creation.

        Args:
            app_name: The app.
            user_id: The user.
            state: "live", "archived" (not searched) or "quarantined" (held for review).
            cursor: The `next` of the previous page, which is the id of its last memory.
            limit: Maximum number, 1 to `Limits.max_top_k`; the default is 100, or that.
            scope: The memories' scope.
            filter: Only memories that pass it: a `Filter`, or a mapping with its
                fields.
            include_expired: Also memories past their TTL or `valid_until` that the
                maintenance has not removed yet.

        Returns:
            A list with the attribute `next`, which is None at the end.

        Raises:
            NotFoundError: The user has no memory, or none any more, with the id
                `cursor`.
            InvalidArgumentError: An invalid name, state, limit or filter.
        """
        return await run_async(
            self._stored.list_memory_page(
                app_name, user_id, state, cursor, limit, scope, filter, include_expired
            )
        )

    @bound_as("count")
    async def count_memories(
        self,
        *,
        app_name: str,
        user_id: str,
        state: State = "live",
        filter: FilterLike | None = None,
        scope: Scope = "user",
        include_expired: bool = False,
    ) -> int:
        """Return the number of a user's memories that pass a filter.

        Args:
            app_name: The app.
            user_id: The user.
            state: As in `list_memories`.
            filter: A `Filter`, or a mapping with its fields; None counts all.
            scope: The memories' scope.
            include_expired: As in `list_memories`.

        Returns:
            As many as all pages of `list_memories` have.

        Raises:
            InvalidArgumentError: An invalid name, state or filter.
        """
        return await run_async(
            self._stored.count(app_name, user_id, state, filter, scope, include_expired)
        )

    @bound_as("figures")
    async def memory_figures(
        self,
        *,
        app_name: str,
        user_id: str,
        state: State = "live",
        scope: Scope = "user",
        include_expired: bool = False,
    ) -> MemoryFigures:
        """Return how many memories a user has, by day and by kind.

        Args:
            app_name: The app.
            user_id: The user.
            state: As in `list_memories`.
            scope: The memories' scope.
            include_expired: As in `list_memories`.

        Raises:
            InvalidArgumentError: An invalid name or state.
        """
        return await run_async(
            self._stored.memory_counts(app_name, user_id, state, scope, include_expired)
        )

    @bound_as("list_sessions")
    async def list_sessions(
        self,
        *,
        app_name: str,
        user_id: str,
        prefix: str = "",
        after: str | None = None,
        limit: Count | None = None,
        scope: Scope = "user",
        include_expired: bool = False,
    ) -> Page[ListedSession]:
        """Return a page of the user's sessions that have memories, in order of names.

        The order is that of Unicode code points. A session whose turns still wait to
        become memories is not listed before they do.

        Args:
            app_name: The app.
            user_id: The user.
            prefix: Only sessions whose ids begin with this text.
            after: Only sessions after this one: the `next` of the previous page.
            limit: Maximum number, 1 to `Limits.max_top_k`; the default is 100, or that.
            scope: The memories' scope.
            include_expired: As in `list_memories`.

        Returns:
            A list with the attribute `next`, which is None at the end.

        Raises:
            InvalidArgumentError: An invalid name or limit.
        """
        return await run_async(
            self._stored.list_sessions(
                app_name, user_id, prefix, after, limit, scope, include_expired
            )
        )

    @bound_as("archive", "memory_id")
    async def archive_memory(
        self, *, app_name: str, user_id: str, memory_id: str, scope: Scope = "user"
    ) -> None:
        """Exclude a memory from searches, but keep it stored.

        Args:
            app_name: The app.
            user_id: The user.
            memory_id: Its id.
            scope: The memory's scope.

        Raises:
            NotFoundError: The user has no live memory with this id.
        """
        await run_async(self._stored.archive(app_name, user_id, memory_id, scope))

    @bound_as("restore", "memory_id")
    async def restore_memory(
        self, *, app_name: str, user_id: str, memory_id: str, scope: Scope = "user"
    ) -> list[str]:
        """Make an archived memory live again.

        For a summary that replaced turns, the turns become live and the summary is
        removed. A quarantined memory stays quarantined: see `release_memory`.

        Args:
            app_name: The app.
            user_id: The user.
            memory_id: Its id.
            scope: The memory's scope.

        Returns:
            The ids of the restored memories.

        Raises:
            NotFoundError: The user has no archived memory with this id.
        """
        return await run_async(
            self._stored.restore(app_name, user_id, memory_id, scope)
        )

    @bound_as("release", "memory_id")
    async def release_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memory_id: str,
        updated_at: float | None = None,
        scope: Scope = "user",
    ) -> list[str]:
        """Make a quarantined memory live, after a review.

        The service does not check who calls: expose this method to reviewers only.
        Over HTTP it needs a token with the right "review".

        Args:
            app_name: The app.
            user_id: The user.
            memory_id: Its id.
            updated_at: The `updated_at` of the reviewed memory, as
                `list_memories(state="quarantined")` returned it. Without it, a text
                that was written after the review is released, too.
            scope: The memory's scope.

        Returns:
            The ids of the released memories.

        Raises:
            NotFoundError: The user has no quarantined memory with this id.
            ConflictError: The memory changed after `updated_at`.
        """
        return await run_async(
            self._stored.restore(
                app_name, user_id, memory_id, scope, "quarantined", updated_at
            )
        )

    @bound_as("propose_forget", "query")
    async def propose_forget(
        self, *, app_name: str, user_id: str, query: str, top_k: Count | None = None
    ) -> ForgetProposal:
        """Search for memories to forget, without deleting them.

        Args:
            app_name: The app.
            user_id: The user.
            query: What to forget.
            top_k: Maximum number, 1 to `Limits.max_top_k`; the default is 5, or that.

        Returns:
            The memories that match about as well as the best one, and a token that
            is valid for ten minutes. If the embedder fails, the search uses words
            alone. The service's minimum similarity and confidence do not apply.

        Raises:
            InvalidArgumentError: top_k < 1, or an invalid name.
        """
        return await run_async(
            self._stored.propose_forget(app_name, user_id, query, top_k)
        )

    @bound_as("confirm_forget", "token")
    async def confirm_forget(
        self,
        *,
        app_name: str,
        user_id: str,
        token: str,
        ids: Sequence[str] | None = None,
    ) -> int:
        """Delete memories of a proposal permanently; return their number.

        A token is valid for one deletion, of all or some of its memories.

        Args:
            app_name: The app.
            user_id: The user.
            token: The token that `propose_forget` returned.
            ids: The memories to delete; default: all of the proposal.

        Raises:
            NotFoundError: The token is unknown, used, expired, or another user's; or a
                memory to delete changed after the proposal. Nothing was deleted.
            InvalidArgumentError: No id, or one that the proposal lacks. Nothing was
                deleted, and the token stays valid.
        """
        return await run_async(
            self._stored.confirm_forget(app_name, user_id, token, ids)
        )

    @bound_as("consolidate")
    async def consolidate(
        self,
        *,
        app_name: str,
        user_id: str,
        older_than: float | timedelta | str | None = None,
        summarizer: SummaryProvider | None = None,
        merge: bool = True,
        similarity: Share | None = None,
        fold: Collection[Fold] = SESSIONS,
        dry_run: bool = False,
    ) -> Consolidation:
        """Merge a user's duplicate memories and summarize the old ones.

        The merged and summarized memories are archived; `restore_memory` makes them
        live again.

        Args:
            app_name: The app.
            user_id: The user.
            older_than: Summarize sessions whose last turn is at least this old:
                seconds, a timedelta or "30d". None summarizes nothing.
            summarizer: The summarizer; default: the service's.
            merge: Merge facts with the same words, apart from filler words.
            similarity: Also merge facts whose vectors have at least this cosine, in
                (0, 1]; None does not. Facts that differ in a number, in a negation or
                in being a question are never merged. Try a dry run first: the right
                cosine depends on the embedder.
            fold: What to summarize: some of "sessions" (turns of old sessions),
                "summaries" (old summaries, also of sessions) and "facts".
            dry_run: Change nothing, and return what would be done.

        Returns:
            What was done, with the merged groups.

        Raises:
            ConfigError: There is no summarizer, or there are no vectors to compare.
            InvalidArgumentError: An invalid threshold or name.
            SummaryError: The summarizer failed; earlier sessions are summarized.
        """
        return await run_async(
            self._consolidator.consolidate(
                app_name,
                user_id,
                ConsolidationRequest(
                    older_than, summarizer, merge, similarity, fold, dry_run
                ),
            )
        )

    @bound_as("conflicts")
    async def conflicts(
        self,
        *,
        app_name: str,
        user_id: str,
        limit: Count | None = None,
        scope: Scope = "user",
    ) -> list[Conflict]:
        """Propose pairs of statements that may contradict or update each other.

        Nothing is changed. `add_memory` with the later memory, which `supersedes` the
        id of the earlier one, accepts a proposal. The newest 5,000 facts are compared.

        Args:
            app_name: The app.
            user_id: The user.
            limit: Maximum number, 1 to `Limits.max_top_k`; the default is 20, or that.
            scope: The memories' scope.

        Returns:
            The pairs, the likeliest first.

        Raises:
            InvalidArgumentError: An invalid name or limit.
        """
        return await run_async(
            self._consolidator.conflicts(app_name, user_id, limit, scope)
        )

    def close(self) -> None:
        """Finish pending writes and close the file.

        A second call does nothing, or continues an interrupted first call. At the end
        of the process, open services are closed.

        Raises:
            ReentrantCallError: The caller is a callback of this service.
            BusyError: Another process held the file for too long; call again.
        """
        if self._whole is not None:
            self._whole.close()
        elif not (self._memory.is_finished or self._memory.is_foreign):
            self._memory.refuse_nested_call()
            self._sessions.summarizing.thread.refuse_nested_call()
            self._worker.close()
            self._sessions.summarizing.thread.close()
            self._item_operations.finish_item_writes()
        self._memory.close()
