"""MemoryService: the asynchronous public class; `sync` is its blocking twin."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vecall.concurrency.at_exit import close_at_exit
from vecall.concurrency.closing import ClosesOnExit
from vecall.concurrency.join import run_async, run_sync
from vecall.concurrency.periodic import PeriodicWorker
from vecall.embedders.resolve import AUTO, EmbedderLike, resolve_later
from vecall.ingest.drafts import events_of
from vecall.limits import Limits
from vecall.operations.admin import Admin
from vecall.operations.consolidation import (
    ConsolidationRequest,
    Consolidator,
    checked_consolidating,
)
from vecall.operations.consolidation_plan import SESSIONS, ConsolidationPlan, Fold
from vecall.operations.corrections import Corrections
from vecall.operations.deletion import Deletion
from vecall.operations.forgetting import Forgetting
from vecall.operations.housekeeping import Housekeeping
from vecall.operations.known_options import known_options
from vecall.operations.memory import Memory
from vecall.operations.options import (
    StorageOptions,
    WritePolicy,
    checked_flag,
    checked_group,
    checked_seconds,
    checked_summarizer,
    warn_of_raw_turns,
)
from vecall.operations.reads import Reads
from vecall.operations.searches import SearchArguments
from vecall.operations.session_triggers import SessionObserver
from vecall.operations.write_request import WriteRequest, fact_request
from vecall.protocols import BaseMemoryService
from vecall.ranking.options import Ranking
from vecall.scopes import Scope
from vecall.search.options import SearchOptions
from vecall.service._sync import SyncMemoryService
from vecall.service.admin import MemoryAdmin
from vecall.service.user import UserMemory
from vecall.store import State
from vecall.summaries import SummaryProvider
from vecall.timestamps import Time
from vecall.trigger_options import Trigger, checked_trigger
from vecall.types import (
    UNSET,
    AddedIds,
    Consolidation,
    Content,
    Event,
    FilterLike,
    ForgetProposal,
    MemoryEntry,
    Revision,
    SearchMemoryResponse,
    Session,
    Unset,
    without_unset,
)


class MemoryService(ClosesOnExit, BaseMemoryService):
    """Long-term memory: durable in one file, searched in memory, one wall a user.

    Safe to share between threads and event loops. Every method has a blocking twin of
    the same name on `sync`.

    Args:
        path: The SQLite file that is the whole state, made if it is not there. Without
            one, or with ":memory:", nothing outlives the process.
        embedder: None searches by words alone; "local" uses the offline model of the
            extra vecall[local]; or any `Embedder` or function from texts to vectors.
            The first embedder given to a file becomes the file's. "auto" is local where
            that is installed; see `vecall.embedders.automatic` for files that exist.
        top_k: Memories in an answer, unless a search says otherwise.
        min_confidence: Floor on the confidence in [0, 1], inclusive, so that a search
            where nothing seems relevant enough returns nothing.
        summarizer: Makes the summaries that are remembered of a session in place of its
            turns, such as an `LlmSummaryProvider`.
        trigger: When buffered turns of `observe_session` become memories: `SessionEnd`,
            `Inactivity`, `MessageCount`, `Compaction`, or their names.
        ttl: Default TTL of memories: seconds, a timedelta or "3600s".
        read_only: Refuse every write.
        search: Floor on the similarity, ranking, authors, calibration, scorer.
        storage: Durability, cache, free disk space, maintenance, clock.
        writes: Write hook, history, quota of each user, scopes, inner parts.
        limits: How large requests may be.
        consolidation: What is merged and summed up on a schedule, once for all
            processes on the file, by the maintenance thread; None is nothing.

    Raises:
        ConfigError: An argument that cannot be used, or a folder that does not exist.
        EmbeddingMismatchError: The file's vectors come from another model.
        IncompatibleFileError: Another program's file, or one of a newer vecall.
        NetworkFilesystemError: The file lies on another machine's disk.
        CorruptFileError: The file is damaged.
        StorageError: The file cannot be opened or written.
    """

    _memory_type = Memory
    _warns_of_raw_turns = True

    _memory: Memory
    _reads: Reads
    _deletion: Deletion
    _admin: MemoryAdmin
    _sessions: SessionObserver
    _corrections: Corrections
    _consolidator: Consolidator
    _forgetting: Forgetting

    @known_options
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
        """Open the file, or make it."""
        chosen = resolve_later(embedder)
        when = checked_trigger(trigger)
        provider = checked_summarizer(summarizer)
        if self._warns_of_raw_turns and chosen is not None:
            warn_of_raw_turns(provider, when)
        self._memory = self._memory_type(
            path,
            embedder=chosen,
            top_k=top_k,
            min_confidence=min_confidence,
            ttl=checked_seconds(ttl, "ttl"),
            read_only=checked_flag(read_only, "read_only"),
            search=checked_group(search, SearchOptions, "search"),
            storage=checked_group(storage, StorageOptions, "storage"),
            writes=checked_group(writes, WritePolicy, "writes"),
            limits=checked_group(limits, Limits, "limits"),
        )
        self._reads = Reads(self._memory)
        self._deletion = Deletion(self._memory)
        self._corrections = Corrections(self._memory)
        self._sessions = SessionObserver(self._memory, when, provider)
        self._consolidator = checked_consolidating(
            self._memory, self._sessions, consolidation
        )
        self._forgetting = Forgetting(self._memory, self._deletion)
        self._housekeeping = Housekeeping(
            self._memory, self._sessions, self._consolidator
        )
        self._admin = MemoryAdmin(
            Admin(self._memory), self._deletion, self._housekeeping
        )
        # A circle of references; `after_fork` is one already.
        self._sync = SyncMemoryService(
            self,
            self._memory,
            self._reads,
            self._deletion,
            self._admin.sync,
            self._sessions,
            self._corrections,
            self._consolidator,
            self._forgetting,
        )
        self._memory.after_fork = self._begin
        self._begin()
        close_at_exit(self)

    def _begin(self) -> None:
        """Start what goes on in the background; a forked child has to do it again."""
        self._sessions.restart()
        memory = self._memory
        interval = None if memory.read_only else memory.maintenance_interval
        work = self._housekeeping.next_run
        self._worker = PeriodicWorker(lambda: run_sync(work()), interval)
        self._sessions.on_buffered = self._worker.wake

    @property
    def sync(self) -> SyncMemoryService:
        """The same methods for callers without an event loop."""
        return self._sync

    @property
    def admin(self) -> MemoryAdmin:
        """Operations on the whole file: backup, export, purge and others."""
        return self._admin

    def user(self, app_name: str, user_id: str) -> UserMemory:
        """Return the memory of one user: methods that need no names.

        It holds no state and needs no `close`. Making one costs about a microsecond.

        Args:
            app_name: The app.
            user_id: The user.

        Raises:
            InvalidArgumentError: A bad name.
        """
        return UserMemory(self, self._memory.owner(app_name, user_id))

    @property
    def limits(self) -> Limits:
        """How large requests may be."""
        return self._memory.limits

    @property
    def ranking(self) -> Ranking:
        """How searches rank, unless they say otherwise."""
        return self._memory.ranking

    @property
    def authors(self) -> Sequence[str]:
        """Whose memories come first, unless a search's ranking says otherwise."""
        return self._memory.authors

    @property
    def trigger(self) -> Trigger | None:
        """When buffered turns of `observe_session` become memories."""
        return self._sessions.trigger

    @property
    def summarizer(self) -> SummaryProvider | None:
        """What makes the summaries that are remembered of a session."""
        return self._sessions.summarizer

    async def add_session_to_memory(
        self,
        session: Session | Mapping[str, Any] | object,
        *,
        restore: bool = False,
        replace: bool = False,
        idempotency_key: str | None = None,
    ) -> AddedIds:
        """Remember the turns of a session.

        An upsert: turns that are known already cost nothing, changed ones are replaced,
        and turns that are absent stay remembered. Turns without text are skipped, and
        so are google-adk's requests for a sign-in; what a rewind in the session took
        back is not remembered, and is deleted if it was.

        Args:
            session: A `Session`, a google-adk session, or a dict with app_name,
                user_id, id and events (or messages), in snake_case or camelCase. An
                event may be a chat message with role and content.
            restore: Bring back turns that were deleted.
            replace: Also delete remembered turns of this session that are absent.
            idempotency_key: A call with the same key, within 30 days, changes nothing
                and returns what the first one returned.

        Returns:
            An id for each turn, in order; None, and a reason in `left_out`, for a turn
            that is not stored. With a summarizer or a `Compaction`, the ids of the
            memories that were made.

        Raises:
            InvalidArgumentError: A bad name, id, time or text, or an unknown field;
                nothing was written.
            ConflictError: The key was used for other memories.
            EmbedderError: The embedder failed; nothing was written.
            StorageFullError: The disk is full; nothing was written.
        """
        request = WriteRequest(restore, idempotency_key)
        return await run_async(
            self._sessions.add_session(session, request, replace=replace)
        )

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
    ) -> AddedIds:
        """Remember some turns, such as those that are new since the last call.

        Args:
            app_name: The app.
            user_id: The user.
            events: Turns in order, as in `add_session_to_memory`.
            session_id: Their session, if it is known.
            custom_metadata: JSON values stored with each; "ttl" (seconds, a timedelta
                or "3600s") makes them expire.
            restore: Bring back turns that were deleted.
            idempotency_key: As in `add_session_to_memory`.
            messages: Another name for `events`.

        Returns:
            An id for each turn, in order; None, and a reason in `left_out`, for a turn
            that is not stored. With a summarizer or a `Compaction`, the ids of the
            memories that were made.

        Raises:
            InvalidArgumentError: A bad name, id, time or text, or an unknown field;
                nothing was written.
            ConflictError: The key was used for other memories.
            EmbedderError: The embedder failed; nothing was written.
            StorageFullError: The disk is full; nothing was written.
        """
        return await run_async(
            self._memory.add_events(
                app_name,
                user_id,
                events_of(events, messages),
                session_id,
                custom_metadata,
                WriteRequest(restore, idempotency_key),
            )
        )

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry | Content | object],
        custom_metadata: Mapping[str, Any] | None = None,
        restore: bool | None = None,
        idempotency_key: str | None = None,
        scope: Scope = "user",
    ) -> AddedIds:
        """Remember what was learned or decided, as strings or entries.

        Args:
            app_name: The app.
            user_id: The user.
            memories: Texts, or `MemoryEntry` objects or dicts that say more. A dict
                may also say text or memory for content, role for author, created_at
                for timestamp, and metadata for custom_metadata.
            custom_metadata: As in `add_events_to_memory`.
            restore: A memory that was deleted is stored again, unless this is False.
                True also brings back what is archived, or was corrected since.
            idempotency_key: As in `add_session_to_memory`; without one, equal texts
                added twice are one memory only if they have the same id.
            scope: Where to: the user's own memories, or a place that the service's
                `scopes` allow to be written.

        Returns:
            An id for each memory, in order; None, and a reason in `left_out`, for one
            that is not stored.

        Raises:
            InvalidArgumentError: A blank text, or a bad or unknown field; nothing was
                written.
            ConflictError: The key was used for other memories.
            EmbedderError: The embedder failed; nothing was written.
            StorageFullError: The disk is full; nothing was written.
        """
        return await run_async(
            self._memory.add_entries(
                app_name,
                user_id,
                memories,
                custom_metadata,
                fact_request(restore, idempotency_key, scope),
            )
        )

    async def search_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        query: str,
        top_k: int | None = None,
        min_similarity: float | None = None,
        min_confidence: float | None = None,
        filter: FilterLike | None = None,
        ranking: Ranking | None = None,
        explain: bool = False,
        scopes: Sequence[Scope] | None = None,
        vector: Sequence[float] | NDArray[np.generic] | None = None,
    ) -> SearchMemoryResponse:
        """Find what this user's past says about a query.

        Args:
            app_name: The app; results never cross it.
            user_id: The user; results never cross it.
            query: Any text; one without a word finds nothing and costs nothing, unless
                there is a vector.
            top_k: At most this many, instead of the service's default.
            min_similarity: Floor on the cosine similarity in [-1, 1], inclusive. The
                service's floor does not apply where the ranking goes by words alone.
            min_confidence: Floor on the confidence in [0, 1], inclusive: where nothing
                seems relevant enough, nothing is returned.
            filter: Which memories may be returned: a `Filter`, or a mapping with its
                fields.
            ranking: How to rank, instead of the service's way.
            explain: Whether each memory says what its score is made of.
            scopes: Where to look beside the user's own memories; without it, wherever
                the service's `scopes` allow reading.
            vector: The query's vector by the file's model, shape (dimensions,), finite
                and not zero; the embedder is not called then. With query="" the search
                goes by the vector alone.

        Returns:
            The memories, best first; an unknown user has none.

        Raises:
            InvalidArgumentError: top_k < 1, a bad name, filter or vector.
            DimensionError: The vector has another length than the file's vectors.
            ConfigError: min_similarity or vector without an embedder or in a search by
                words alone.
            EmbedderError: The embedder failed.
            RewriterError: The ranking's rewriter failed.
            RerankerError: The ranking's reranker failed.
            ScopeError: A scope that the service may not read.
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
        )
        return await run_async(self._memory.search(arguments))

    async def get_memory(
        self, *, app_name: str, user_id: str, memory_id: str, scope: Scope = "user"
    ) -> MemoryEntry:
        """Return one memory by its id.

        Raises:
            NotFoundError: This user has no memory of that id.
        """
        return await run_async(self._reads.get(app_name, user_id, memory_id, scope))

    async def mark_used(
        self, *, app_name: str, user_id: str, memory_ids: Sequence[str]
    ) -> int:
        """Count that memories were put to use, for example in an answer.

        Each counts one use more, and now as the time of its last use. A change of its
        text, or a session that is ingested again, keeps both.

        Args:
            app_name: The app.
            user_id: The user.
            memory_ids: Their ids, as a search gave them. One that comes twice counts
                once; what this user does not have, or no longer, is ignored.

        Returns:
            How many memories were marked.

        Raises:
            InvalidArgumentError: A bad name or id; nothing was marked.
            StorageFullError: The disk is full; nothing was marked.
        """
        return await run_async(self._reads.mark_used(app_name, user_id, memory_ids))

    async def expand_session(
        self,
        *,
        app_name: str,
        user_id: str,
        memory_id: str,
        turns_before: int = 2,
        turns_after: int = 2,
    ) -> list[MemoryEntry]:
        """Return a memory with the turns before and after it, in their order.

        Args:
            app_name: The app.
            user_id: The user.
            memory_id: A memory that a search returned.
            turns_before: At most so many turns of its session before it.
            turns_after: At most so many after it.

        Returns:
            The memory alone where it is not a turn of a session.

        Raises:
            NotFoundError: This user has no memory of that id.
        """
        return await run_async(
            self._reads.expand_session(
                app_name, user_id, memory_id, turns_before, turns_after
            )
        )

    async def delete_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memory_id: str | None = None,
        scope: Scope = "user",
    ) -> None:
        """Delete one memory of this user for good.

        A later ingest of the same turn does not bring it back. An unknown id, or None,
        deletes nothing.
        """
        await run_async(self._deletion.delete(app_name, user_id, memory_id, scope))

    async def delete_session(
        self, *, app_name: str, user_id: str, session_id: str
    ) -> int:
        """Delete for good what was remembered of one session; return how many.

        A later ingest of the session does not bring these memories back.
        """
        return await run_async(
            self._deletion.delete_session(app_name, user_id, session_id)
        )

    async def delete_where(
        self, *, app_name: str, user_id: str, filter: FilterLike, scope: Scope = "user"
    ) -> int:
        """Delete for good the memories of this user that a filter lets through.

        Returns:
            How many.

        Raises:
            InvalidArgumentError: A bad filter, or one without a condition.
        """
        return await run_async(
            self._deletion.delete_where(app_name, user_id, filter, scope)
        )

    async def delete_user(
        self,
        *,
        app_name: str,
        user_id: str,
        forget: bool = False,
        scope: Scope = "user",
    ) -> int:
        """Delete all memories of a user; return how many.

        Args:
            app_name: The app.
            user_id: The user.
            forget: Also forget that there was such a user, and which memories were
                deleted. Ingesting their sessions again stores them again.
            scope: Which memories: the user's own, or of a place beside them.
        """
        return await run_async(
            self._deletion.delete_user(app_name, user_id, forget, scope)
        )

    async def observe_session(
        self, session: Session | Mapping[str, Any] | object
    ) -> list[str]:
        """Buffer the new turns of a session until the trigger makes memories of them.

        Call it after every turn. Turns that were observed before cost nothing. The
        buffer survives a restart. A search does not find buffered turns.

        Args:
            session: As in `add_session_to_memory`.

        Returns:
            The ids of memories that were made at once, which only a `Compaction` does.

        Raises:
            InvalidArgumentError: A bad name, id, time or text; nothing was buffered.
            StorageFullError: The disk is full; nothing was buffered.
        """
        return await run_async(self._sessions.observe(session))

    async def end_session(
        self,
        session: Session | Mapping[str, Any] | object | None = None,
        *,
        app_name: str | None = None,
        user_id: str | None = None,
        session_id: str | None = None,
    ) -> list[str]:
        """Make memories of all buffered turns of a session now.

        A summarizer is called for the turns that are not memories yet, and
        not called where there are none. Without one, turns are stored as they are.

        Args:
            session: The session, with turns that were perhaps not observed yet. Without
                it, the three names say which one.
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
        importance: float | None | Unset = UNSET,
        valid_until: Time | None | Unset = UNSET,
    ) -> MemoryEntry:
        """Correct one memory; what it said before stays in its history.

        A later ingest of what was corrected does not undo the correction.

        Args:
            app_name: The app.
            user_id: The user.
            memory_id: Its id, which stays.
            scope: Where it is.
            max_trust: The highest tier, of `vecall.TRUST_TIERS`, that the memory
                has afterwards; its trust is lowered to it, and never raised.
            content: The new text. Each of these arguments is as in `MemoryEntry`; what
                is left out does not change.
            author: The new author.
            timestamp: The new time, in seconds since 1970.
            kind: The new kind.
            source: The new source.
            custom_metadata: The new metadata, in place of all that was there.
            importance: The new importance, in [0, 1].
            valid_until: The new end of its validity, in seconds since 1970.

        Returns:
            The memory as it is now.

        Raises:
            NotFoundError: This user has no memory of that id.
            InvalidArgumentError: Nothing to change, or a value that cannot be.
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
            self._corrections.update(
                app_name, user_id, memory_id, scope, changes, max_trust
            )
        )

    async def memory_history(
        self, *, app_name: str, user_id: str, memory_id: str, scope: Scope = "user"
    ) -> list[Revision]:
        """Return what a memory was and is, and those that it replaced, oldest first.

        Raises:
            NotFoundError: This user has no memory of that id.
        """
        return await run_async(
            self._corrections.history(app_name, user_id, memory_id, scope)
        )

    async def list_memories(
        self,
        *,
        app_name: str,
        user_id: str,
        state: State = "live",
        cursor: str | None = None,
        limit: int = 100,
        scope: Scope = "user",
    ) -> list[MemoryEntry]:
        """Return a user's memories in the order in which they were made.

        Args:
            app_name: The app.
            user_id: The user.
            state: "live", "archived" (not searched) or "quarantined" (held).
            cursor: The id of the last memory of the page before.
            limit: At most so many.
            scope: Where they are.

        Raises:
            NotFoundError: `cursor` is none of this user's memories, or not any more.
        """
        return await run_async(
            self._corrections.listed(app_name, user_id, state, cursor, limit, scope)
        )

    async def archive_memory(
        self, *, app_name: str, user_id: str, memory_id: str, scope: Scope = "user"
    ) -> None:
        """Keep a memory, but find it no more.

        Raises:
            NotFoundError: This user has no live memory of that id.
        """
        await run_async(self._corrections.archive(app_name, user_id, memory_id, scope))

    async def restore_memory(
        self, *, app_name: str, user_id: str, memory_id: str, scope: Scope = "user"
    ) -> list[str]:
        """Make an archived memory live again.

        Of a summary that took the place of turns, those turns come back and the summary
        goes. A quarantined memory stays quarantined: see `release_memory`.

        Returns:
            The ids of what is found again.

        Raises:
            NotFoundError: There is no archived memory of that id.
        """
        return await run_async(
            self._corrections.restore(app_name, user_id, memory_id, scope)
        )

    async def release_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memory_id: str,
        updated_at: float | None = None,
        scope: Scope = "user",
    ) -> list[str]:
        """Make a quarantined memory live: the act of a reviewer, not of its writer.

        The service does not know who calls: offer this method to reviewers alone. Over
        HTTP it needs a token with the right "review".

        Args:
            app_name: The app.
            user_id: The user.
            memory_id: Its id.
            updated_at: The `updated_at` of the memory that was reviewed, as
                `list_memories(state="quarantined")` returned it. Without it a text that
                was written after the review is released, too.
            scope: Where it is.

        Returns:
            The ids of what is found from now on.

        Raises:
            NotFoundError: There is no quarantined memory of that id.
            ConflictError: It was changed since `updated_at`.
        """
        return await run_async(
            self._corrections.restore(
                app_name, user_id, memory_id, scope, "quarantined", updated_at
            )
        )

    async def propose_forget(
        self, *, app_name: str, user_id: str, query: str, top_k: int = 5
    ) -> ForgetProposal:
        """Search for memories to forget, without deleting them.

        Args:
            app_name: The app.
            user_id: The user.
            query: What it is about.
            top_k: At most so many memories.

        Returns:
            The memories that match about as well as the best one, and a token that
            confirms it within ten minutes. Where the embedder fails, they are found by
            words. The service's floors on score and confidence do not count here.

        Raises:
            InvalidArgumentError: top_k < 1 or a bad name.
        """
        return await run_async(
            self._forgetting.propose(app_name, user_id, query, top_k)
        )

    async def confirm_forget(
        self,
        *,
        app_name: str,
        user_id: str,
        token: str,
        ids: Sequence[str] | None = None,
    ) -> int:
        """Delete for good what `propose_forget` returned; return how many.

        A token counts once, whether all of its memories are deleted or some.

        Args:
            app_name: The app.
            user_id: The user.
            token: The proposal's token.
            ids: Only these of its memories; without it, all of them.

        Raises:
            NotFoundError: The token is unknown, used, too old, or another user's; or
                one of the memories to delete says something else by now, and all stay.
            InvalidArgumentError: No id, or one that is not of this proposal; nothing
                was deleted, and the token still counts.
        """
        return await run_async(self._forgetting.confirm(app_name, user_id, token, ids))

    async def consolidate(
        self,
        *,
        app_name: str,
        user_id: str,
        older_than: float | timedelta | str | None = None,
        summarizer: SummaryProvider | None = None,
        merge: bool = True,
        similarity: float | None = None,
        fold: Collection[Fold] = SESSIONS,
        dry_run: bool = False,
    ) -> Consolidation:
        """Keep a user's memory small: merge what is said twice, sum up what is old.

        What is merged or summed up is archived; `restore_memory` brings it back.

        Args:
            app_name: The app.
            user_id: The user.
            older_than: Sum up sessions in which nothing was said for so long: seconds,
                a timedelta or "3600s". None sums up nothing.
            summarizer: Who does; the service's own, if not given.
            merge: Merge facts that say the same word for word, but for fillers.
            similarity: Merge facts, too, whose vectors have at least this cosine, above
                0 and at most 1; None does not. Facts that differ in a number, a
                negation or in whether they ask are never merged. Look at a dry run
                first: which cosine means "the same" depends on the embedder.
            fold: What is summed up: some of "sessions" (turns of old sessions),
                "summaries" (old summaries, also of sessions) and "facts".
            dry_run: Change nothing, and return what would be done.

        Returns:
            What was done, with the groups that were merged.

        Raises:
            ConfigError: Nobody to sum up, or no vectors to compare.
            InvalidArgumentError: A threshold or a name that is not allowed.
            SummaryError: The summarizer failed; sessions before it are summed up.
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

    def close(self) -> None:
        """Finish pending writes and close the file.

        A second call does nothing, or goes on where the first one was interrupted. The
        end of the process closes what is still open.

        Raises:
            ReentrantCallError: A function that this service calls is the caller.
            BusyError: Another process held the file for too long; call it again.
        """
        if not (self._memory.is_finished or self._memory.is_foreign):
            self._memory.refuse_nested()
            self._sessions.refuse_nested()
            self._worker.close()
            self._sessions.close()
        self._memory.close()
