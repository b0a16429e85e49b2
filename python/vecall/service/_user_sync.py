"""Generated from UserMemory by .ci/generate_sync; do not edit."""

from __future__ import annotations

import builtins
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vecall.operations.consolidation_plan import SESSIONS, Fold
from vecall.ranking.options import Ranking
from vecall.reprs import shown
from vecall.scopes import Owner, Scope
from vecall.service._user_items_sync import SyncUserItems
from vecall.store import State
from vecall.summaries import SummaryProvider
from vecall.timestamps import Time
from vecall.types import (
    UNSET,
    AddedIds,
    Consolidation,
    Content,
    Event,
    FilterLike,
    ForgetProposal,
    MemoryEntry,
    OwnVectors,
    Page,
    Revision,
    SearchMemoryResponse,
    Unset,
)

if TYPE_CHECKING:
    from vecall.service._sync import SyncMemoryService


class SyncUserMemory:
    """The methods of `UserMemory` for callers without an event loop.

    Each does exactly what its namesake does, and blocks until it is done.
    """

    __slots__ = ("_owner", "_service")

    def __init__(
        self,
        service: SyncMemoryService,
        owner: Owner,
    ) -> None:
        """Share the parts of a service."""
        self._service = service
        self._owner = owner

    def __repr__(self) -> str:
        """Return both names."""
        return shown(self, **self._owner)

    @property
    def app_name(self) -> str:
        """The app."""
        return self._owner["app_name"]

    @property
    def user_id(self) -> str:
        """The user."""
        return self._owner["user_id"]

    @property
    def items(self) -> SyncUserItems:
        """The user's items: JSON documents under a namespace and a key."""
        return SyncUserItems(self._service.items, self._owner)

    def add(
        self,
        memories: Sequence[MemoryEntry | Content | object],
        *,
        custom_metadata: Mapping[str, Any] | None = None,
        restore: bool | None = None,
        idempotency_key: str | None = None,
        scope: Scope = "user",
        vectors: OwnVectors | None = None,
        if_absent: bool = False,
        ttl: float | timedelta | str | None = None,
        verbatim: bool = False,
    ) -> AddedIds:
        """Store facts, decisions or other memories, as strings or entries.

        See `MemoryService.add_memory`.
        """
        return self._service.add_memory(
            **self._owner,
            memories=memories,
            custom_metadata=custom_metadata,
            restore=restore,
            idempotency_key=idempotency_key,
            scope=scope,
            vectors=vectors,
            if_absent=if_absent,
            ttl=ttl,
            verbatim=verbatim,
        )

    def add_events(
        self,
        events: Sequence[Event | Mapping[str, Any] | object] | None = None,
        *,
        session_id: str | None = None,
        custom_metadata: Mapping[str, Any] | None = None,
        restore: bool = False,
        idempotency_key: str | None = None,
        messages: Sequence[Mapping[str, Any] | object] | None = None,
        ttl: float | timedelta | str | None = None,
        verbatim: bool = False,
    ) -> AddedIds:
        """Store some turns; see `MemoryService.add_events_to_memory`."""
        return self._service.add_events_to_memory(
            **self._owner,
            events=events,
            session_id=session_id,
            custom_metadata=custom_metadata,
            restore=restore,
            idempotency_key=idempotency_key,
            messages=messages,
            ttl=ttl,
            verbatim=verbatim,
        )

    def search(
        self,
        query: str,
        *,
        top_k: int | None = None,
        min_similarity: float | None = None,
        min_confidence: float | None = None,
        filter: FilterLike | None = None,
        ranking: Ranking | None = None,
        explain: bool = False,
        scopes: Sequence[Scope] | None = None,
        vector: Sequence[float] | NDArray[np.generic] | None = None,
        offset: int = 0,
    ) -> SearchMemoryResponse:
        """Return the user's memories that are relevant to a query.

        See `MemoryService.search_memory`.
        """
        return self._service.search_memory(
            **self._owner,
            query=query,
            top_k=top_k,
            min_similarity=min_similarity,
            min_confidence=min_confidence,
            filter=filter,
            ranking=ranking,
            explain=explain,
            scopes=scopes,
            vector=vector,
            offset=offset,
        )

    def get(self, memory_id: str, *, scope: Scope = "user") -> MemoryEntry:
        """Return one memory by its id; see `MemoryService.get_memory`."""
        return self._service.get_memory(**self._owner, memory_id=memory_id, scope=scope)

    def get_many(
        self,
        memory_ids: Sequence[str],
        *,
        scope: Scope = "user",
        include_expired: bool = False,
    ) -> builtins.list[MemoryEntry | None]:
        """Return several memories by their ids; see `MemoryService.get_memories`."""
        return self._service.get_memories(
            **self._owner,
            memory_ids=memory_ids,
            scope=scope,
            include_expired=include_expired,
        )

    def touch(
        self,
        memory_ids: Sequence[str],
        ttl: float | timedelta | str | None,
        *,
        scope: Scope = "user",
    ) -> int:
        """Move the expiry of memories; see `MemoryService.touch_memories`."""
        return self._service.touch_memories(
            **self._owner, memory_ids=memory_ids, ttl=ttl, scope=scope
        )

    def expand_session(
        self,
        memory_id: str,
        *,
        turns_before: int = 2,
        turns_after: int = 2,
    ) -> builtins.list[MemoryEntry]:
        """Return a memory with the turns before and after it.

        See `MemoryService.expand_session`.
        """
        return self._service.expand_session(
            **self._owner,
            memory_id=memory_id,
            turns_before=turns_before,
            turns_after=turns_after,
        )

    def list(
        self,
        *,
        state: State = "live",
        cursor: str | None = None,
        limit: int = 100,
        scope: Scope = "user",
        filter: FilterLike | None = None,
        include_expired: bool = False,
    ) -> Page[MemoryEntry]:
        """Return a page of memories in order of creation.

        See `MemoryService.list_memories`.
        """
        return self._service.list_memories(
            **self._owner,
            state=state,
            cursor=cursor,
            limit=limit,
            scope=scope,
            filter=filter,
            include_expired=include_expired,
        )

    def count(
        self,
        *,
        state: State = "live",
        filter: FilterLike | None = None,
        scope: Scope = "user",
        include_expired: bool = False,
    ) -> int:
        """Return the number of memories; see `MemoryService.count_memories`."""
        return self._service.count_memories(
            **self._owner,
            state=state,
            filter=filter,
            scope=scope,
            include_expired=include_expired,
        )

    def history(
        self, memory_id: str, *, scope: Scope = "user"
    ) -> builtins.list[Revision]:
        """Return all revisions of a memory, oldest first.

        See `MemoryService.memory_history`.
        """
        return self._service.memory_history(
            **self._owner, memory_id=memory_id, scope=scope
        )

    def update(
        self,
        memory_id: str,
        *,
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
        vector: Sequence[float] | NDArray[np.generic] | None = None,
        if_version: float | None = None,
        verbatim: bool = False,
    ) -> MemoryEntry:
        """Correct one memory; see `MemoryService.update_memory`."""
        return self._service.update_memory(
            **self._owner,
            memory_id=memory_id,
            scope=scope,
            max_trust=max_trust,
            content=content,
            author=author,
            timestamp=timestamp,
            kind=kind,
            source=source,
            custom_metadata=custom_metadata,
            importance=importance,
            valid_until=valid_until,
            vector=vector,
            if_version=if_version,
            verbatim=verbatim,
        )

    def archive(self, memory_id: str, *, scope: Scope = "user") -> None:
        """Hide a memory from searches; see `MemoryService.archive_memory`."""
        self._service.archive_memory(**self._owner, memory_id=memory_id, scope=scope)

    def restore(self, memory_id: str, *, scope: Scope = "user") -> builtins.list[str]:
        """Make an archived memory live; see `MemoryService.restore_memory`."""
        return self._service.restore_memory(
            **self._owner, memory_id=memory_id, scope=scope
        )

    def release(
        self,
        memory_id: str,
        *,
        updated_at: float | None = None,
        scope: Scope = "user",
    ) -> builtins.list[str]:
        """Make a quarantined memory live; see `MemoryService.release_memory`."""
        return self._service.release_memory(
            **self._owner, memory_id=memory_id, updated_at=updated_at, scope=scope
        )

    def mark_used(self, memory_ids: Sequence[str]) -> int:
        """Record that memories were used; return their number.

        See `MemoryService.mark_used`.
        """
        return self._service.mark_used(**self._owner, memory_ids=memory_ids)

    def delete(
        self,
        memory_id: str,
        *,
        scope: Scope = "user",
        if_version: float | None = None,
    ) -> bool:
        """Delete one memory permanently; return whether it was there.

        See `MemoryService.delete_memory`.
        """
        return self._service.delete_memory(
            **self._owner, memory_id=memory_id, scope=scope, if_version=if_version
        )

    def delete_many(
        self, memory_ids: Sequence[str], *, scope: Scope = "user"
    ) -> builtins.list[bool]:
        """Delete several memories permanently; see `MemoryService.delete_memories`."""
        return self._service.delete_memories(
            **self._owner, memory_ids=memory_ids, scope=scope
        )

    def delete_session(self, session_id: str) -> int:
        """Delete the memories of one session; return their number.

        See `MemoryService.delete_session`.
        """
        return self._service.delete_session(**self._owner, session_id=session_id)

    def delete_where(self, filter: FilterLike, *, scope: Scope = "user") -> int:
        """Delete the memories that match a filter; return their number.

        See `MemoryService.delete_where`.
        """
        return self._service.delete_where(**self._owner, filter=filter, scope=scope)

    def delete_all(self, *, forget: bool = False, scope: Scope = "user") -> int:
        """Delete all memories of the user; return their number.

        See `MemoryService.delete_user`.
        """
        return self._service.delete_user(**self._owner, forget=forget, scope=scope)

    def propose_forget(self, query: str, *, top_k: int = 5) -> ForgetProposal:
        """Search for memories to forget, without deleting them.

        See `MemoryService.propose_forget`.
        """
        return self._service.propose_forget(**self._owner, query=query, top_k=top_k)

    def confirm_forget(self, token: str, *, ids: Sequence[str] | None = None) -> int:
        """Delete memories that `propose_forget` returned; return their number.

        See `MemoryService.confirm_forget`.
        """
        return self._service.confirm_forget(**self._owner, token=token, ids=ids)

    def end_session(self, session_id: str) -> builtins.list[str]:
        """Make memories of all buffered turns of a session.

        See `MemoryService.end_session`.
        """
        return self._service.end_session(**self._owner, session_id=session_id)

    def consolidate(
        self,
        *,
        older_than: float | timedelta | str | None = None,
        summarizer: SummaryProvider | None = None,
        merge: bool = True,
        similarity: float | None = None,
        fold: Collection[Fold] = SESSIONS,
        dry_run: bool = False,
    ) -> Consolidation:
        """Merge duplicate memories and summarize the old ones.

        See `MemoryService.consolidate`.
        """
        return self._service.consolidate(
            **self._owner,
            older_than=older_than,
            summarizer=summarizer,
            merge=merge,
            similarity=similarity,
            fold=fold,
            dry_run=dry_run,
        )
