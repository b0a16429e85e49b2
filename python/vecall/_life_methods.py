"""The methods of `MemoryService` on the later life of memories."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any

from vecall.concurrency.event_loop import on_loop
from vecall.operations.consolidation import Asked
from vecall.operations.consolidation_plan import SESSIONS, Fold
from vecall.operations.corrections import Life
from vecall.operations.sessions import Observing
from vecall.scopes import Scope
from vecall.store import State
from vecall.summaries import SummaryProvider
from vecall.types import Consolidation, ForgetProposal, MemoryEntry, Revision, Session


class LivingMemoryService:
    """Observing sessions; correcting, archiving, consolidating, forgetting."""

    _life: Life
    _observing: Observing

    async def observe_session(
        self, session: Session | Mapping[str, Any] | object
    ) -> list[str]:
        """Keep what is new in a session until the trigger says to remember it.

        Call it after every turn. What was told before costs nothing. What is kept
        survives a restart, and is not found by a search yet.

        Args:
            session: As in `add_session_to_memory`.

        Returns:
            The ids of memories that were made at once, which only a `Compaction` does.

        Raises:
            InvalidArgumentError: A bad name, id, time or text; nothing was kept.
            StorageFullError: The disk is full; nothing was kept.
        """
        return await self._observing.observe(on_loop(), session)

    async def end_session(
        self,
        session: Session | Mapping[str, Any] | object | None = None,
        *,
        app_name: str | None = None,
        user_id: str | None = None,
        session_id: str | None = None,
    ) -> list[str]:
        """Remember all that is kept of a session, whatever the trigger.

        With a summarizer it is asked for summaries of what is not remembered yet, and
        not asked where nothing is left; without one turns are remembered as they are.

        Args:
            session: The session, with turns that were perhaps not observed yet. Without
                it, the three names say which one.
            app_name: The app.
            user_id: The user.
            session_id: The session's id.

        Returns:
            The ids of the memories.

        Raises:
            SummaryError: The summarizer failed; what is kept stays kept.
            EmbedderError: The embedder failed; what is kept stays kept.
        """
        return await self._observing.end(
            on_loop(), session, app_name, user_id, session_id
        )

    async def run_due(self) -> int:
        """Do now what else a thread does in the background.

        Make memories of sessions that are due, delete what has expired.

        Returns:
            How many memories were cleared away.
        """
        return await self._life.run_due(on_loop())

    async def update_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memory_id: str,
        scope: Scope = "user",
        max_trust: str | None = None,
        **changes: Any,
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
            **changes: New values of content, author, timestamp, kind, source,
                custom_metadata, importance or valid_until, as in `MemoryEntry`.

        Returns:
            The memory as it is now.

        Raises:
            NotFoundError: This user has no memory of that id.
            InvalidArgumentError: Nothing to change, or a value that cannot be.
        """
        return await self._life.update(
            on_loop(), app_name, user_id, memory_id, scope, changes, max_trust
        )

    async def memory_history(
        self, *, app_name: str, user_id: str, memory_id: str, scope: Scope = "user"
    ) -> list[Revision]:
        """Return what a memory was and is, and those that it replaced, oldest first.

        Raises:
            NotFoundError: This user has no memory of that id.
        """
        return await self._life.history(on_loop(), app_name, user_id, memory_id, scope)

    async def list_memories(
        self,
        *,
        app_name: str,
        user_id: str,
        state: State = "live",
        after: str | None = None,
        limit: int = 100,
        scope: Scope = "user",
    ) -> list[MemoryEntry]:
        """Return a user's memories in the order in which they were made.

        Args:
            app_name: The app.
            user_id: The user.
            state: "live", "archived" (kept, not found) or "quarantined" (held).
            after: The id of the last memory of the page before.
            limit: At most so many.
            scope: Where they are.

        Raises:
            NotFoundError: `after` is none of this user's memories, or not any more.
        """
        return await self._life.listed(
            on_loop(), app_name, user_id, state, after, limit, scope
        )

    async def archive_memory(
        self, *, app_name: str, user_id: str, memory_id: str, scope: Scope = "user"
    ) -> None:
        """Keep a memory, but find it no more.

        Raises:
            NotFoundError: This user has no live memory of that id.
        """
        await self._life.archive(on_loop(), app_name, user_id, memory_id, scope)

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
        return await self._life.restore(on_loop(), app_name, user_id, memory_id, scope)

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
        return await self._life.restore(
            on_loop(), app_name, user_id, memory_id, scope, "quarantined", updated_at
        )

    async def propose_forget(
        self, *, app_name: str, user_id: str, query: str, top_k: int = 5
    ) -> ForgetProposal:
        """Look for what somebody wants to be forgotten; delete nothing yet.

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
        return await self._life.forgetting.propose(
            on_loop(), app_name, user_id, query, top_k
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
        return await self._life.forgetting.confirm(
            on_loop(), app_name, user_id, token, ids
        )

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
        return await self._life.consolidating.consolidate(
            on_loop(),
            app_name,
            user_id,
            Asked(older_than, summarizer, merge, similarity, fold, dry_run),
        )
