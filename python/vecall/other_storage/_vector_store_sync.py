"""Generated from VectorStoreMemoryService by .ci/generate_sync; do not edit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vecall.concurrency.closing import ClosesBlocking, ClosesOnExit
from vecall.concurrency.join import run_sync
from vecall.ingest.fields import GivenMetadata
from vecall.operations.searches import SearchArguments
from vecall.other_storage.vector_store_memory import VectorStoreMemory
from vecall.types import AddedIds, FilterLike, ForgetProposal, SearchMemoryResponse


class SyncVectorStoreAdmin:
    """The methods of `VectorStoreAdmin` for callers without an event loop.

    Each does exactly what its namesake does, and blocks until it is done.
    """

    def __init__(self, memory: VectorStoreMemory) -> None:
        """Share the parts of a service."""
        self._memory = memory

    def run_due(self) -> int:
        """Make memories of the sessions that are due; return the number of sessions."""
        return run_sync(self._memory.run_due())


class SyncVectorStoreMemoryService(ClosesBlocking):
    """The methods of `VectorStoreMemoryService` for callers without an event loop.

    Each does exactly what its namesake does, and blocks until it is done. Leaving a
    `with` block closes the service.
    """

    def __init__(
        self,
        service: ClosesOnExit,
        memory: VectorStoreMemory,
        admin: SyncVectorStoreAdmin,
    ) -> None:
        """Share the parts of a service."""
        super().__init__(service)
        self._memory = memory
        self._admin = admin

    @property
    def admin(self) -> SyncVectorStoreAdmin:
        """Operations on the whole store."""
        return self._admin

    def add_session_to_memory(self, session: Any) -> AddedIds:
        """Store the turns of a session; see `MemoryService`."""
        return run_sync(self._memory.add_session(session))

    def add_events_to_memory(
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
        return run_sync(
            self._memory.add_events(
                app_name, user_id, events, session_id, given, messages
            )
        )

    def add_memory(
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
        return run_sync(self._memory.add_entries(app_name, user_id, memories, given))

    def search_memory(
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
        return run_sync(
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

    def observe_session(self, session: Any) -> list[str]:
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
        return run_sync(self._memory.observe_session(session))

    def end_session(
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
        return run_sync(
            self._memory.end_session(session, app_name, user_id, session_id)
        )

    def delete_memory(
        self, *, app_name: str, user_id: str, memory_id: str | None = None
    ) -> None:
        """Delete one memory of this user. An unknown id, or None, deletes nothing.

        Raises:
            ConfigError: The store has no method `delete`.
        """
        run_sync(self._memory.delete(app_name, user_id, memory_id))

    def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> int:
        """Delete the memories and buffered turns of a session; return how many.

        Raises:
            ConfigError: The store has no method `delete_many`.
        """
        return run_sync(self._memory.delete_all(app_name, user_id, session_id))

    def delete_user(self, *, app_name: str, user_id: str) -> int:
        """Delete all memories and buffered turns of a user; return how many.

        Raises:
            ConfigError: The store has no method `delete_many`.
        """
        return run_sync(self._memory.delete_all(app_name, user_id, None))

    def propose_forget(
        self, *, app_name: str, user_id: str, query: str, top_k: int = 5
    ) -> ForgetProposal:
        """Search for memories to forget, without deleting them.

        Of what is found it keeps what matches about as well as the best one. The token
        counts once, for this app and user, for ten minutes, in this process.

        Raises:
            ConfigError: The store has no method `delete`.
            EmbedderError: The embedder failed.
        """
        return run_sync(self._memory.propose_forget(app_name, user_id, query, top_k))

    def confirm_forget(
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
        return run_sync(self._memory.confirm_forget(app_name, user_id, token, ids))
