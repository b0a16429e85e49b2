"""The blocking twins of the methods on the later life of memories."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any

from vecall.concurrency.join import blocking, drive
from vecall.operations.consolidation import Asked
from vecall.operations.consolidation_plan import SESSIONS, Fold
from vecall.operations.corrections import Life
from vecall.operations.sessions import Observing
from vecall.scopes import Scope
from vecall.store import State
from vecall.summaries import SummaryProvider
from vecall.types import Consolidation, ForgetProposal, MemoryEntry, Revision, Session


class SyncLivingMemoryService:
    """Each does exactly what its namesake of `MemoryService` does, and blocks."""

    _life: Life
    _observing: Observing

    def observe_session(
        self, session: Session | Mapping[str, Any] | object
    ) -> list[str]:
        """Keep what is new in a session until the trigger says to remember it."""
        return drive(self._observing.observe(blocking, session))

    def end_session(
        self,
        session: Session | Mapping[str, Any] | object | None = None,
        *,
        app_name: str | None = None,
        user_id: str | None = None,
        session_id: str | None = None,
    ) -> list[str]:
        """Remember all that is kept of a session, whatever the trigger."""
        return drive(
            self._observing.end(blocking, session, app_name, user_id, session_id)
        )

    def run_due(self) -> int:
        """Do now what else a thread does in the background."""
        return drive(self._life.run_due(blocking))

    def update_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memory_id: str,
        scope: Scope = "user",
        max_trust: str | None = None,
        **changes: Any,
    ) -> MemoryEntry:
        """Correct one memory; what it said before stays in its history."""
        return drive(
            self._life.update(
                blocking, app_name, user_id, memory_id, scope, changes, max_trust
            )
        )

    def memory_history(
        self, *, app_name: str, user_id: str, memory_id: str, scope: Scope = "user"
    ) -> list[Revision]:
        """Return what a memory was and is, and those that it replaced, oldest first."""
        return drive(self._life.history(blocking, app_name, user_id, memory_id, scope))

    def list_memories(
        self,
        *,
        app_name: str,
        user_id: str,
        state: State = "live",
        after: str | None = None,
        limit: int = 100,
        scope: Scope = "user",
    ) -> list[MemoryEntry]:
        """Return a user's memories in the order in which they were made."""
        return drive(
            self._life.listed(blocking, app_name, user_id, state, after, limit, scope)
        )

    def archive_memory(
        self, *, app_name: str, user_id: str, memory_id: str, scope: Scope = "user"
    ) -> None:
        """Keep a memory, but find it no more."""
        drive(self._life.archive(blocking, app_name, user_id, memory_id, scope))

    def restore_memory(
        self, *, app_name: str, user_id: str, memory_id: str, scope: Scope = "user"
    ) -> list[str]:
        """Make an archived memory live again."""
        return drive(self._life.restore(blocking, app_name, user_id, memory_id, scope))

    def release_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memory_id: str,
        updated_at: float | None = None,
        scope: Scope = "user",
    ) -> list[str]:
        """Make a quarantined memory live: the act of a reviewer."""
        return drive(
            self._life.restore(
                blocking,
                app_name,
                user_id,
                memory_id,
                scope,
                "quarantined",
                updated_at,
            )
        )

    def propose_forget(
        self, *, app_name: str, user_id: str, query: str, top_k: int = 5
    ) -> ForgetProposal:
        """Look for what somebody wants to be forgotten; delete nothing yet."""
        return drive(
            self._life.forgetting.propose(blocking, app_name, user_id, query, top_k)
        )

    def confirm_forget(
        self,
        *,
        app_name: str,
        user_id: str,
        token: str,
        ids: Sequence[str] | None = None,
    ) -> int:
        """Delete for good what `propose_forget` returned; return how many."""
        return drive(
            self._life.forgetting.confirm(blocking, app_name, user_id, token, ids)
        )

    def consolidate(
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
        """Keep a user's memory small: merge what is said twice, sum up what is old."""
        return drive(
            self._life.consolidating.consolidate(
                blocking,
                app_name,
                user_id,
                Asked(older_than, summarizer, merge, similarity, fold, dry_run),
            )
        )
