"""Generated from UserMemory by .ci/generate_sync; do not edit."""

from __future__ import annotations

import builtins
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta, tzinfo
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vecall.clock import Time
from vecall.limits import Cosine, Count, Offset, Owner, Scope, Share
from vecall.operations.consolidation import SESSIONS, Fold
from vecall.ranking.options import Ranking
from vecall.scalars import repr_of_object
from vecall.service._user_items_sync import SyncUserItems
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
    Unset,
)

if TYPE_CHECKING:
    from vecall.service._sync import SyncMemoryService


class SyncUserMemory:
    """The methods of `UserMemory` for callers without an event loop.

    Each does exactly what its namesake does, and blocks until it is done.
    """

    __slots__ = ("_owner", "_service")

    def __init__(self, service: SyncMemoryService, owner: Owner) -> None:
        """Share the parts of a service."""
        self._service = service
        self._owner = owner

    def __repr__(self) -> str:
        """Return both names."""
        return repr_of_object(self, **self._owner)

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
        """Store some turns, such as the new ones since the last call.

        See `MemoryService.add_events_to_memory`.

        Args:
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

    def add(
        self,
        memories: MemoryEntry | Content | Sequence[MemoryEntry | Content | object],
        *,
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

        See `MemoryService.add_memory`.

        Args:
            memories: Texts, `MemoryEntry` objects, or dicts with the same fields, or
                one of these. A dict may use aliases: text or memory (content), role
                (author), created_at (timestamp), metadata (custom_metadata).
            custom_metadata: As in `add_events`.
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
            ttl: As in `add_events`.
            verbatim: As in `add_events`.
            supersedes: The ids of memories that the only memory of the call replaces,
                or one id. They stay stored, with their validity ended, are not found,
                and are in its history; `restore` makes them live again.
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
            supersedes=supersedes,
            similar=similar,
        )

    def search(
        self,
        query: str,
        *,
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
        """Return the user's memories that are relevant to a query.

        See `MemoryService.search_memory`.

        Args:
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
            time_zone=time_zone,
        )

    def explain(
        self,
        query: str,
        memory_id: str,
        *,
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

        See `MemoryService.explain_memory`.

        Args:
            query: The query. This and the following arguments, apart from the scope,
                are those of `search`.
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
            InvalidArgumentError: As in `search`.
        """
        return self._service.explain_memory(
            **self._owner,
            query=query,
            memory_id=memory_id,
            scope=scope,
            top_k=top_k,
            min_similarity=min_similarity,
            min_confidence=min_confidence,
            filter=filter,
            ranking=ranking,
            scopes=scopes,
            vector=vector,
            time_zone=time_zone,
        )

    def get(self, memory_id: str, *, scope: Scope = "user") -> MemoryEntry:
        """Return one memory by its id.

        See `MemoryService.get_memory`.

        Args:
            memory_id: Its id.
            scope: The memory's scope.

        Raises:
            NotFoundError: The user has no memory with this id.
        """
        return self._service.get_memory(**self._owner, memory_id=memory_id, scope=scope)

    def get_many(
        self,
        memory_ids: Sequence[str],
        *,
        scope: Scope = "user",
        include_expired: bool = False,
    ) -> builtins.list[MemoryEntry | None]:
        """Return several memories by their ids, as of one moment.

        See `MemoryService.get_memories`.

        Args:
            memory_ids: Their ids.
            scope: The memories' scope.
            include_expired: As in `list`.

        Returns:
            The memory of each id, in order; None if the user has no memory with it.

        Raises:
            InvalidArgumentError: An invalid name or id.
        """
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
        """Move the expiry of memories, without writing them again.

        See `MemoryService.touch_memories`.

        Args:
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
        return self._service.touch_memories(
            **self._owner, memory_ids=memory_ids, ttl=ttl, scope=scope
        )

    def mark_used(self, memory_ids: Sequence[str]) -> int:
        """Record that memories were used, for example in an answer.

        See `MemoryService.mark_used`.

        Args:
            memory_ids: Ids that a search returned. Duplicates count once. Ids that the
                user does not have are ignored.

        Returns:
            The number of memories that were marked.

        Raises:
            InvalidArgumentError: An invalid name or id; nothing was marked.
            StorageFullError: The disk is full; nothing was marked.
        """
        return self._service.mark_used(**self._owner, memory_ids=memory_ids)

    def expand_session(
        self, memory_id: str, *, turns_before: int = 2, turns_after: int = 2
    ) -> builtins.list[MemoryEntry]:
        """Return a memory with the turns before and after it, in order.

        See `MemoryService.expand_session`.

        Args:
            memory_id: A memory that a search returned.
            turns_before: Maximum number of preceding turns of its session, at least 0.
            turns_after: Maximum number of following turns, at least 0.

        Returns:
            The turns; the memory alone if it is not a turn of a session.

        Raises:
            NotFoundError: The user has no memory with this id.
        """
        return self._service.expand_session(
            **self._owner,
            memory_id=memory_id,
            turns_before=turns_before,
            turns_after=turns_after,
        )

    def delete(
        self, memory_id: str, *, scope: Scope = "user", if_version: float | None = None
    ) -> bool:
        """Delete one memory permanently; return whether it was there.

        See `MemoryService.delete_memory`.

        Args:
            memory_id: Its id.
            scope: The memory's scope.
            if_version: Delete it only if this is its `version`.

        Raises:
            ConflictError: The memory has another version; nothing was deleted.
        """
        return self._service.delete_memory(
            **self._owner, memory_id=memory_id, scope=scope, if_version=if_version
        )

    def delete_many(
        self, memory_ids: Sequence[str], *, scope: Scope = "user"
    ) -> builtins.list[bool]:
        """Delete several memories permanently, in one transaction.

        See `MemoryService.delete_memories`.

        Args:
            memory_ids: Their ids.
            scope: The memories' scope.

        Returns:
            For each id, in order, whether there was such a memory.

        Raises:
            InvalidArgumentError: An invalid name or id; nothing was deleted.
        """
        return self._service.delete_memories(
            **self._owner, memory_ids=memory_ids, scope=scope
        )

    def delete_session(self, session_id: str) -> int:
        """Delete the memories of one session permanently; return their number.

        See `MemoryService.delete_session`.

        Args:
            session_id: The session.
        """
        return self._service.delete_session(**self._owner, session_id=session_id)

    def delete_where(self, filter: FilterLike, *, scope: Scope = "user") -> int:
        """Delete the user's memories that match a filter, permanently.

        See `MemoryService.delete_where`.

        Args:
            filter: A `Filter`, or a mapping with its fields.
            scope: The memories' scope.

        Returns:
            The number of deleted memories.

        Raises:
            InvalidArgumentError: An invalid filter, or one without a condition.
        """
        return self._service.delete_where(**self._owner, filter=filter, scope=scope)

    def delete_all(self, *, forget: bool = False, scope: Scope = "user") -> int:
        """Delete all memories; return their number.

        See `MemoryService.delete_user`.

        Args:
            forget: Also delete the user's name and tombstones. Ingesting their sessions
                again stores them again.
            scope: The scope whose memories are deleted.
        """
        return self._service.delete_user(**self._owner, forget=forget, scope=scope)

    def end_session(self, session_id: str) -> builtins.list[str]:
        """Make memories of all buffered turns of a session now.

        See `MemoryService.end_session`.

        Args:
            session_id: The session's id.

        Returns:
            The ids of the memories.

        Raises:
            SummaryError: The summarizer failed; the turns stay buffered.
            EmbedderError: The embedder failed; the turns stay buffered.
        """
        return self._service.end_session(**self._owner, session_id=session_id)

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
        importance: Share | None | Unset = UNSET,
        valid_until: Time | None | Unset = UNSET,
        vector: Sequence[float] | NDArray[np.generic] | None = None,
        if_version: float | None = None,
        verbatim: bool = False,
    ) -> MemoryEntry:
        """Correct one memory; its history keeps the former version.

        See `MemoryService.update_memory`.

        Args:
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
            vector: The new vector, as in `add`; replaces the embedder's. A
                service with `CallerVectors` needs it for a new content or author.
            if_version: Change the memory only if this is its `version`.
            verbatim: Store custom_metadata as they are, as in `add_events`.

        Returns:
            The corrected memory.

        Raises:
            NotFoundError: The user has no memory with this id.
            ConflictError: The memory has another version; nothing was changed.
            InvalidArgumentError: Nothing to change, or an invalid value.
            DimensionError: The vector's length differs from that of the file's vectors.
        """
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

    def history(
        self, memory_id: str, *, scope: Scope = "user"
    ) -> builtins.list[Revision]:
        """Return all revisions of a memory and of those it replaced, oldest first.

        See `MemoryService.memory_history`.

        Args:
            memory_id: Its id.
            scope: The memory's scope.

        Raises:
            NotFoundError: The user has no memory with this id.
        """
        return self._service.memory_history(
            **self._owner, memory_id=memory_id, scope=scope
        )

    def list(
        self,
        *,
        state: State = "live",
        cursor: str | None = None,
        limit: Count | None = None,
        scope: Scope = "user",
        filter: FilterLike | None = None,
        include_expired: bool = False,
    ) -> Page[MemoryEntry]:
        """Return a page of the user's memories in order of creation.

        See `MemoryService.list_memories`.

        Args:
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
        """Return the number of the user's memories that pass a filter.

        See `MemoryService.count_memories`.

        Args:
            state: As in `list`.
            filter: A `Filter`, or a mapping with its fields; None counts all.
            scope: The memories' scope.
            include_expired: As in `list`.

        Returns:
            As many as all pages of `list` have.

        Raises:
            InvalidArgumentError: An invalid name, state or filter.
        """
        return self._service.count_memories(
            **self._owner,
            state=state,
            filter=filter,
            scope=scope,
            include_expired=include_expired,
        )

    def figures(
        self,
        *,
        state: State = "live",
        scope: Scope = "user",
        include_expired: bool = False,
    ) -> MemoryFigures:
        """Return how many memories a user has, by day and by kind.

        See `MemoryService.memory_figures`.

        Args:
            state: As in `list`.
            scope: The memories' scope.
            include_expired: As in `list`.

        Raises:
            InvalidArgumentError: An invalid name or state.
        """
        return self._service.memory_figures(
            **self._owner, state=state, scope=scope, include_expired=include_expired
        )

    def list_sessions(
        self,
        *,
        prefix: str = "",
        after: str | None = None,
        limit: Count | None = None,
        scope: Scope = "user",
        include_expired: bool = False,
    ) -> Page[ListedSession]:
        """Return a page of the user's sessions that have memories, in order of names.

        See `MemoryService.list_sessions`.

        Args:
            prefix: Only sessions whose ids begin with this text.
            after: Only sessions after this one: the `next` of the previous page.
            limit: Maximum number, 1 to `Limits.max_top_k`; the default is 100, or that.
            scope: The memories' scope.
            include_expired: As in `list`.

        Returns:
            A list with the attribute `next`, which is None at the end.

        Raises:
            InvalidArgumentError: An invalid name or limit.
        """
        return self._service.list_sessions(
            **self._owner,
            prefix=prefix,
            after=after,
            limit=limit,
            scope=scope,
            include_expired=include_expired,
        )

    def archive(self, memory_id: str, *, scope: Scope = "user") -> None:
        """Exclude a memory from searches, but keep it stored.

        See `MemoryService.archive_memory`.

        Args:
            memory_id: Its id.
            scope: The memory's scope.

        Raises:
            NotFoundError: The user has no live memory with this id.
        """
        self._service.archive_memory(**self._owner, memory_id=memory_id, scope=scope)

    def restore(self, memory_id: str, *, scope: Scope = "user") -> builtins.list[str]:
        """Make an archived memory live again.

        See `MemoryService.restore_memory`.

        Args:
            memory_id: Its id.
            scope: The memory's scope.

        Returns:
            The ids of the restored memories.

        Raises:
            NotFoundError: The user has no archived memory with this id.
        """
        return self._service.restore_memory(
            **self._owner, memory_id=memory_id, scope=scope
        )

    def release(
        self, memory_id: str, *, updated_at: float | None = None, scope: Scope = "user"
    ) -> builtins.list[str]:
        """Make a quarantined memory live, after a review.

        See `MemoryService.release_memory`.

        Args:
            memory_id: Its id.
            updated_at: The `updated_at` of the reviewed memory, as
                `list(state="quarantined")` returned it. Without it, a text
                that was written after the review is released, too.
            scope: The memory's scope.

        Returns:
            The ids of the released memories.

        Raises:
            NotFoundError: The user has no quarantined memory with this id.
            ConflictError: The memory changed after `updated_at`.
        """
        return self._service.release_memory(
            **self._owner, memory_id=memory_id, updated_at=updated_at, scope=scope
        )

    def propose_forget(
        self, query: str, *, top_k: Count | None = None
    ) -> ForgetProposal:
        """Search for memories to forget, without deleting them.

        See `MemoryService.propose_forget`.

        Args:
            query: What to forget.
            top_k: Maximum number, 1 to `Limits.max_top_k`; the default is 5, or that.

        Returns:
            The memories that match about as well as the best one, and a token that
            is valid for ten minutes. If the embedder fails, the search uses words
            alone. The service's minimum similarity and confidence do not apply.

        Raises:
            InvalidArgumentError: top_k < 1, or an invalid name.
        """
        return self._service.propose_forget(**self._owner, query=query, top_k=top_k)

    def confirm_forget(self, token: str, *, ids: Sequence[str] | None = None) -> int:
        """Delete memories of a proposal permanently; return their number.

        See `MemoryService.confirm_forget`.

        Args:
            token: The token that `propose_forget` returned.
            ids: The memories to delete; default: all of the proposal.

        Raises:
            NotFoundError: The token is unknown, used, expired, or another user's; or a
                memory to delete changed after the proposal. Nothing was deleted.
            InvalidArgumentError: No id, or one that the proposal lacks. Nothing was
                deleted, and the token stays valid.
        """
        return self._service.confirm_forget(**self._owner, token=token, ids=ids)

    def consolidate(
        self,
        *,
        older_than: float | timedelta | str | None = None,
        summarizer: SummaryProvider | None = None,
        merge: bool = True,
        similarity: Share | None = None,
        fold: Collection[Fold] = SESSIONS,
        dry_run: bool = False,
    ) -> Consolidation:
        """Merge the user's duplicate memories and summarize the old ones.

        See `MemoryService.consolidate`.

        Args:
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
        return self._service.consolidate(
            **self._owner,
            older_than=older_than,
            summarizer=summarizer,
            merge=merge,
            similarity=similarity,
            fold=fold,
            dry_run=dry_run,
        )

    def conflicts(
        self, *, limit: Count | None = None, scope: Scope = "user"
    ) -> builtins.list[Conflict]:
        """Propose pairs of statements that may contradict or update each other.

        See `MemoryService.conflicts`.

        Args:
            limit: Maximum number, 1 to `Limits.max_top_k`; the default is 20, or that.
            scope: The memories' scope.

        Returns:
            The pairs, the likeliest first.

        Raises:
            InvalidArgumentError: An invalid name or limit.
        """
        return self._service.conflicts(**self._owner, limit=limit, scope=scope)
