"""The blocking twin of VectorStoreMemoryService, for callers without an event loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vecall.concurrency.join import blocking, drive
from vecall.services.vector_store_operations import StoredOperations
from vecall.types import AddedIds, FilterLike, ForgetProposal, SearchMemoryResponse


class SyncVectorStoreMemoryService:
    """The methods of `VectorStoreMemoryService` for callers without an event loop.

    Each does exactly what its namesake does, and blocks until it is done.
    """

    def __init__(self, operations: StoredOperations) -> None:
        """Share a service's store, sessions and proposals."""
        self._operations = operations

    def add_session_to_memory(self, session: Any) -> AddedIds:
        """Remember the turns of a session."""
        return drive(self._operations.sessions.add_session(blocking, session))

    def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Any] | None = None,
        session_id: str | None = None,
        custom_metadata: Mapping[str, Any] | None = None,
        messages: Sequence[Any] | None = None,
    ) -> AddedIds:
        """Remember some turns."""
        return drive(
            self._operations.add_events(
                blocking,
                app_name,
                user_id,
                events,
                session_id,
                custom_metadata,
                messages,
            )
        )

    def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[Any],
        custom_metadata: Mapping[str, Any] | None = None,
    ) -> AddedIds:
        """Remember what was learned or decided."""
        return drive(
            self._operations.add_entries(
                blocking, app_name, user_id, memories, custom_metadata
            )
        )

    def search_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        query: str,
        top_k: int | None = None,
        min_score: float | None = None,
        filter: FilterLike | None = None,
        vector: Sequence[float] | NDArray[np.generic] | None = None,
    ) -> SearchMemoryResponse:
        """Find what this user's past says about a query."""
        return drive(
            self._operations.memory.search(
                blocking, app_name, user_id, query, top_k, min_score, filter, vector
            )
        )

    def observe_session(self, session: Any) -> list[str]:
        """Keep what is new in a session until the trigger says to remember it."""
        return drive(self._operations.sessions.observe(blocking, session))

    def end_session(
        self,
        session: Any = None,
        *,
        app_name: str | None = None,
        user_id: str | None = None,
        session_id: str | None = None,
    ) -> list[str]:
        """Remember all that is kept of a session."""
        return drive(
            self._operations.sessions.end(
                blocking, session, app_name, user_id, session_id
            )
        )

    def run_due(self) -> int:
        """Make memories of the sessions that are due; return of how many."""
        return drive(self._operations.sessions.run_due(blocking))

    def delete_memory(
        self, *, app_name: str, user_id: str, memory_id: str | None = None
    ) -> None:
        """Delete one memory of this user."""
        drive(self._operations.delete(blocking, app_name, user_id, memory_id))

    def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> int:
        """Delete what was remembered and what waits of a session; return how many."""
        return drive(
            self._operations.delete_all(blocking, app_name, user_id, session_id)
        )

    def delete_user(self, *, app_name: str, user_id: str) -> int:
        """Delete all memories of a user, and what waits; return how many."""
        return drive(self._operations.delete_all(blocking, app_name, user_id, None))

    def propose_forget(
        self, *, app_name: str, user_id: str, query: str, top_k: int = 5
    ) -> ForgetProposal:
        """Look for what is to be forgotten, and delete nothing."""
        return drive(
            self._operations.forgetting.propose(
                blocking, app_name, user_id, query, top_k
            )
        )

    def confirm_forget(
        self,
        *,
        app_name: str,
        user_id: str,
        token: str,
        ids: Sequence[str] | None = None,
    ) -> int:
        """Delete what was proposed, or those of it whose ids are given."""
        return drive(
            self._operations.confirm_forget(blocking, app_name, user_id, token, ids)
        )
