"""MemoryService: the front door, on an event loop or blocking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from vecall.service._sync import SyncMemoryService
from vecall._life_methods import LivingMemoryService
from vecall._search_methods import SearchingMemoryService
from vecall._upkeep_methods import MaintainedMemoryService
from vecall.clock import Clock
from vecall.concurrency.at_exit import close_at_exit
from vecall.concurrency.closing import Closing
from vecall.concurrency.event_loop import on_loop
from vecall.concurrency.join import blocking, drive
from vecall.concurrency.periodic import Housekeeper
from vecall.embedders.resolve import AUTO, EmbedderLike, resolve_later
from vecall.hooks import WriteHook
from vecall.ingest.drafts import events_of
from vecall.ingest.inner_parts import Inner
from vecall.operations.admin import Maintenance
from vecall.operations.consolidation import checked_consolidating
from vecall.operations.consolidation_plan import ConsolidationPlan
from vecall.operations.corrections import Life
from vecall.operations.known_options import known_options
from vecall.operations.options import (
    checked_rules,
    checked_summarizer,
    warn_of_raw_turns,
)
from vecall.operations.sessions import Observing
from vecall.operations.write_options import How, fact_how
from vecall.operations.writes import Memory
from vecall.protocols import BaseMemoryService
from vecall.ranking.calibration import Calibration
from vecall.ranking.options import Ranking
from vecall.scopes import Scope, Scopes
from vecall.search.confidence import Scorer
from vecall.search.ranking_options import recall_options
from vecall.store import Durability
from vecall.summaries import SummaryProvider
from vecall.triggers import Trigger, checked_trigger
from vecall.types import (
    AddedIds,
    Content,
    Event,
    MemoryEntry,
    Session,
)
from vecall.validation import Limits

DEFAULT_MEMORY_BUDGET = 256 * 1024 * 1024


class MemoryService(
    SearchingMemoryService,
    MaintainedMemoryService,
    LivingMemoryService,
    Closing,
    BaseMemoryService,
):
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
        min_score: Floor on the cosine similarity in [-1, 1], inclusive; needs an
            embedder.
        min_confidence: Floor on the confidence in [0, 1], inclusive, so that a search
            where nothing seems relevant enough returns nothing.
        ranking: How memories are ranked.
        authors: Whose memories come first where several say the same: at most 64 names
            of authors, () for none. None is the ranking's, else ("user",).
        calibration: What turns scores to confidence, or a file that
            `Calibration.save` wrote; what comes with vecall knows searches by words,
            the local embedder, and other embedders without looking at their cosines.
        scorer: Has the last word on a memory's confidence and importance.
        durability: "full" syncs every write, so that it survives a power cut; "process"
            syncs at checkpoints, so that a write survives the end of the process but a
            power cut may take back the newest.
        memory_budget: Bytes of memory for users' partitions and texts. What nobody
            asked lately is dropped and loaded again when it is asked for; users who are
            being searched may exceed it. Not for a memory without a file.
        limits: How large requests may be.
        allow_network_filesystem: Open a file on another machine's disk, where one
            process at a time may be safe and two are not.
        warn_raw: Warn where turns are embedded as they are, not as summaries.
        summarizer: Makes the summaries that are remembered of a session in place of its
            turns, such as an `LlmSummaryProvider`.
        trigger: When memories are made of what `observe_session` is told: `SessionEnd`,
            `Inactivity`, `MessageCount`, `Compaction`, or their names.
        ttl: How long memories live if nobody says: seconds, a timedelta or "3600s".
        history_ttl: How long what an update overwrites is kept; for ever without it.
        read_only: Refuse every write.
        on_write: Judges every memory but imported ones; see `vecall.hooks`.
        scopes: Places beside a user's own memories that may be read and written.
        clock: Tells the time.
        sweep_interval: Seconds between two looks, in the background, for what has
            expired or is due; None looks only when `run_due` is called.
        consolidation: What is merged and summed up on a schedule, once for all
            processes on the file, at the looks of `sweep_interval`; None is nothing.
        include: What of a turn is remembered beside what was said: "thoughts", and
            "calls" for function calls and responses, each cut to 1,000 characters.

    Raises:
        ConfigError: An argument that cannot be used, or a folder that does not exist.
        EmbeddingMismatchError: The file's vectors come from another model.
        IncompatibleFileError: Another program's file, or one of a newer vecall.
        NetworkFilesystemError: The file lies on another machine's disk.
        CorruptFileError: The file is damaged.
        StorageError: The file cannot be opened or written.
    """

    _memory_type = Memory

    @known_options
    def __init__(
        self,
        path: str | Path | None = None,
        *,
        embedder: EmbedderLike = AUTO,
        top_k: int = 5,
        min_score: float | None = None,
        min_confidence: float | None = None,
        ranking: Ranking | None = None,
        calibration: Calibration | str | Path | None = None,
        scorer: Scorer | None = None,
        durability: Durability = "full",
        memory_budget: int = DEFAULT_MEMORY_BUDGET,
        limits: Limits | None = None,
        allow_network_filesystem: bool = False,
        warn_raw: bool = False,
        summarizer: SummaryProvider | None = None,
        trigger: Trigger | str | Mapping[str, Any] | None = None,
        ttl: float | timedelta | str | None = None,
        history_ttl: float | timedelta | str | None = None,
        read_only: bool = False,
        on_write: WriteHook | None = None,
        scopes: Scopes | None = None,
        clock: Clock | None = None,
        sweep_interval: float | None = 60.0,
        consolidation: ConsolidationPlan | None = None,
        include: Sequence[Inner] = (),
        authors: Sequence[str] | None = None,
    ) -> None:
        """Open the file, or make it."""
        chosen = resolve_later(embedder)
        when = checked_trigger(trigger)
        provider = checked_summarizer(summarizer)
        if warn_raw and chosen is not None:
            warn_of_raw_turns(provider, when)
        rules = checked_rules(
            clock=clock,
            ttl=ttl,
            history_ttl=history_ttl,
            read_only=read_only,
            on_write=on_write,
            scopes=scopes,
            sweep_interval=sweep_interval,
            include=include,
        )
        self._memory = self._memory_type(
            path,
            embedder=chosen,
            top_k=top_k,
            min_score=min_score,
            min_confidence=min_confidence,
            recall=recall_options(ranking, calibration, scorer, authors),
            rules=rules,
            durability=durability,
            memory_budget=memory_budget,
            limits=limits or Limits(),
            allow_network_filesystem=allow_network_filesystem,
        )
        self._maintenance = Maintenance(self._memory)
        self._observing = Observing(self._memory, when, provider)
        care = checked_consolidating(self._memory, self._observing, consolidation)
        self._life = Life(self._memory, self._maintenance, self._observing, care)
        self.sync = SyncMemoryService(
            self._memory, self._maintenance, self._observing, self._life
        )
        self._memory.after_fork = self._begin
        self._begin()
        close_at_exit(self)

    def _begin(self) -> None:
        """Start what goes on in the background; a forked child has to do it again."""
        rules = self._memory.rules
        self._observing.restart()
        interval = None if rules.read_only else rules.sweep_interval
        work = self._life.next_run
        self._housekeeper = Housekeeper(lambda: drive(work(blocking)), interval)
        self._observing.kept = self._housekeeper.wake

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
        """When memories are made of what `observe_session` is told."""
        return self._observing.trigger

    @property
    def summarizer(self) -> SummaryProvider | None:
        """What makes the summaries that are remembered of a session."""
        return self._observing.summarizer

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
        how = How(restore, idempotency_key)
        return await self._observing.add_session(
            on_loop(), session, how, replace=replace
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
        return await self._memory.add_events(
            on_loop(),
            app_name,
            user_id,
            events_of(events, messages),
            session_id,
            custom_metadata,
            How(restore, idempotency_key),
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
                told twice are one memory only if they carry the same id.
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
        return await self._memory.add_entries(
            on_loop(),
            app_name,
            user_id,
            memories,
            custom_metadata,
            fact_how(restore, idempotency_key, scope),
        )

    def close(self) -> None:
        """Finish pending writes and close the file.

        A second call does nothing, or goes on where the first one was interrupted. The
        end of the process closes what is still open.

        Raises:
            ReentrantCallError: A function that this service calls is the caller.
            BusyError: Another process kept the file for too long; call it once more.
        """
        if not (self._memory.is_finished or self._memory.is_foreign):
            self._memory.refuse_nested()
            self._observing.refuse_nested()
            self._housekeeper.close()
            self._observing.close()
        self._memory.close()
