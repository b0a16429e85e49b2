"""Adding and searching, written once.

Every operation is a coroutine that waits for other threads only through `Join`.
`MemoryService` waits on the running event loop; its blocking twin blocks. The
operations hold no state of an event loop.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from vecall.concurrency.join import Join
from vecall.content import as_list
from vecall.errors import (
    ClosedError,
    ConfigError,
    EmbeddingMismatchError,
    InvalidTypeError,
)
from vecall.filters.labels import passes
from vecall.ingest.aligned_ids import Written, aligned, stored_count
from vecall.ingest.conversation import parted_by_rewind
from vecall.ingest.drafts import (
    CallMetadata,
    GivenTurns,
    SessionHead,
    call_metadata,
    entry_drafts,
    memory_ids,
    session_head,
    turns_of,
)
from vecall.operations.draft_vectors import give_vectors
from vecall.operations.options import quota_of
from vecall.operations.runtime import Runtime
from vecall.operations.write_options import WriteOptions
from vecall.ranking.options import Ranking
from vecall.search.filtered_rows import needs_rows, passing_rows
from vecall.search.merge import merge_scopes
from vecall.search.query_vector import checked_query_vector
from vecall.search.ranking_options import FLOOR_OF_WORDS, NO_FLOOR
from vecall.search.search_index import SearchIndex
from vecall.search.searcher import RetiredModelError, SearchRequest
from vecall.store import (
    AddMemories,
    Change,
    DeleteMemories,
    Draft,
    ForgottenKeyError,
)
from vecall.telemetry import observed
from vecall.types import (
    AddedIds,
    FilterLike,
    LeftOutReason,
    SearchMemoryResponse,
    check_share,
)
from vecall.validation import (
    check_filter,
    check_min_similarity,
    check_name,
    check_query,
    check_top_k,
)

T = TypeVar("T")


class SearchArguments(NamedTuple):
    """A search as the caller asks it; None is the service's default."""

    app_name: str
    user_id: str
    query: str
    top_k: int | None = None
    min_similarity: float | None = None
    min_confidence: float | None = None
    filter: FilterLike | None = None
    ranking: object = None
    explain: bool = False
    scopes: object = None
    vector: object = None


def _found(response: SearchMemoryResponse) -> int:
    return len(response.memories)


class Memory(Runtime):
    """What goes into one file, and what is recalled from it."""

    @observed("add_session", stored_count)
    async def add_session(
        self, session: object, how: WriteOptions, *, replace: bool
    ) -> AddedIds:
        """Remember the turns of a session."""
        self.check_open()
        head = session_head(session, self.limits)
        key = self.key(head.app, head.user, write=True)
        scope = CallMetadata({}, app=head.app, user=head.user)
        given, taken_back = turns = await self._turns(head.events, head.id, scope)
        await self.take_back(key, taken_back)
        if replace:
            how = how._replace(replace_session=head.id)
        written = await self._added(*key, turns.drafts, how)
        return await self._aligned(given, written)

    @observed("add_events", stored_count)
    async def add_events(
        self,
        app_name: str,
        user_id: str,
        events: object,
        session_id: str | None,
        custom_metadata: object,
        how: WriteOptions,
    ) -> AddedIds:
        """Remember some turns."""
        key = self.key(app_name, user_id, how.scope, write=True)
        if session_id is not None:
            check_name(session_id, "session_id", self.limits)
        scope = call_metadata(custom_metadata, app_name, user_id)
        raw = as_list(events, "events")
        given, taken_back = turns = await self._turns(raw, session_id, scope)
        await self.take_back(key, taken_back)
        how = how._replace(requested_by=(app_name, user_id))
        written = await self._added(*key, turns.drafts, how)
        return await self._aligned(given, written)

    @observed("add_entries", stored_count)
    async def add_entries(
        self,
        app_name: str,
        user_id: str,
        memories: object,
        custom_metadata: object,
        how: WriteOptions,
    ) -> AddedIds:
        """Remember explicit entries."""
        key = self.key(app_name, user_id, how.scope, write=True)
        scope = call_metadata(custom_metadata, app_name, user_id)
        raw = as_list(memories, "memories")
        drafts = await self.read_through(entry_drafts, raw, scope, self.limits)
        how = how._replace(requested_by=(app_name, user_id))
        written = await self._added(*key, drafts, how)
        return await self._aligned(drafts, written)

    async def read_turns(self, raw_turns: list[Any], head: SessionHead) -> list[Draft]:
        """Return the drafts of a session's turns, of which none is taken back."""
        scope = CallMetadata({}, app=head.app, user=head.user)
        return (await self._turns(raw_turns, head.id, scope)).drafts

    async def counted(
        self, key: tuple[str, str], events: list[Any], session_id: str
    ) -> list[Any]:
        """Return the events that count; forget those that a rewind took back."""
        parted = await self.read_through(parted_by_rewind, events)
        await self.take_back(key, memory_ids(parted.taken_back, session_id))
        return parted.counted

    async def take_back(self, key: tuple[str, str], ids: Sequence[str]) -> None:
        """Delete stored turns that a rewind of the session took back."""
        if not ids:
            return
        embedding = self.search_index.embedding
        if embedding is not None:
            embedding.forget_texts(*key)
        await Join(self.storage.submit(DeleteMemories(*key, ids)))

    async def _turns(
        self, raw_turns: list[Any], session_id: str | None, scope: CallMetadata
    ) -> GivenTurns:
        scope = scope._replace(include=self.rules.include)
        return await self.read_through(
            turns_of, raw_turns, session_id, scope, self.limits
        )

    async def add_drafts(
        self, app: str, user: str, drafts: list[Draft], how: WriteOptions
    ) -> list[str]:
        """Judge, embed and write what was read; return the ids of what is stored."""
        return (await self._added(app, user, drafts, how)).ids

    async def _added(
        self, app: str, user: str, drafts: list[Draft], how: WriteOptions
    ) -> Written:
        if how.key is not None:
            check_name(how.key, "idempotency_key", self.limits)
        refused: dict[str, LeftOutReason] = {}
        if not how.reviewed:
            given = drafts
            drafts = await self.gate.judged(
                *(how.requested_by or (app, user)),
                drafts,
                scope=how.scope,
                explicit=how.done is None and not how.fold,
            )
            if drafts is not given:
                passed = {draft.id for draft in drafts}
                refused = {
                    draft.id: "rejected" for draft in given if draft.id not in passed
                }
        if not drafts and how.replace_session is None and how.done is None:
            return Written([], refused)
        while True:
            with self.begin_use() as search_index:
                try:
                    written = await self._write(search_index, app, user, drafts, how)
                    return Written(written.ids, {**refused, **written.left_out})
                except EmbeddingMismatchError:
                    if search_index is self.search_index:
                        raise
            # This service moved the file to another model meanwhile: once more.
            for draft in drafts:
                draft.vec = None

    async def _write(
        self,
        search_index: SearchIndex,
        app: str,
        user: str,
        drafts: list[Draft],
        how: WriteOptions,
        *,
        trusting: bool = True,
    ) -> Written:
        """Embed and write; with `trusting`, a call whose key was used embeds nothing.

        Such a call is only answered. Its key may be unknown once the transaction runs:
        then it begins again, without trusting what is read before.
        """
        answered = False
        model = None
        if search_index.embedding is not None and search_index.model is not None:
            anyway = how.restore or how.edit  # also what a correction had overwritten
            answered = await give_vectors(
                search_index,
                self.storage,
                app,
                user,
                drafts,
                anyway,
                how.again,
                how.key if trusting else None,
            )
            model = search_index.model.id
        job = AddMemories(
            app,
            user,
            drafts,
            model,
            how.restore,
            how.replace_session,
            how.key,
            self.rules.ttl,
            self.rules.history_ttl,
            quota_of(self.limits),
            how.edit,
            how.done,
            how.fold,
            how.again,
            answered,
        )
        try:
            change: Change = await Join(self.storage.submit(job))
        except ForgottenKeyError:
            return await self._write(
                search_index, app, user, drafts, how, trusting=False
            )
        return Written(list(change.ids), {**job.left_out})

    async def _aligned(self, given: list[Any], written: Written) -> AddedIds:
        try:
            return await self.read_through(aligned, given, written)
        except ClosedError:  # meanwhile; what was written stays written
            return aligned(given, written)

    @observed("search", _found)
    async def search(self, arguments: SearchArguments) -> SearchMemoryResponse:
        """Find the best memories for a query."""
        while True:  # as `served` does; it is called most often by far
            with self.begin_use() as search_index:
                try:
                    return await self._search(search_index, arguments)
                except RetiredModelError:
                    continue

    async def served(self, work: Callable[[SearchIndex], Awaitable[T]]) -> T:
        """Search with what answers now; again if the file moves to another model."""
        while True:
            with self.begin_use() as search_index, suppress(RetiredModelError):
                return await work(search_index)

    async def _search(
        self, search_index: SearchIndex, arguments: SearchArguments
    ) -> SearchMemoryResponse:
        key = self.key(arguments.app_name, arguments.user_id, write=False)
        check_query(arguments.query)
        min_similarity, min_confidence = (
            arguments.min_similarity,
            arguments.min_confidence,
        )
        if min_similarity is None:
            min_similarity = self.min_similarity
        elif search_index.embedding is None:
            raise ConfigError(NO_FLOOR)
        else:
            check_min_similarity(min_similarity)
        if min_confidence is None:
            min_confidence = self.min_confidence
        else:
            min_confidence = check_share(min_confidence, "min_confidence")
        ranking = self.ranking if arguments.ranking is None else arguments.ranking
        if not isinstance(ranking, Ranking):
            msg = "ranking: expected a vecall.Ranking"
            raise InvalidTypeError(msg)
        if ranking.fusion == "words":  # no memory has a cosine then
            if arguments.min_similarity is not None:
                raise ConfigError(FLOOR_OF_WORDS)
            min_similarity = None
        top_k, limits = arguments.top_k, self.limits
        query = arguments.query[: limits.max_query_chars]
        request = SearchRequest(
            key,
            query,
            self.top_k if top_k is None else check_top_k(top_k, limits),
            min_similarity,
            min_confidence,
            None
            if arguments.filter is None
            else check_filter(arguments.filter, limits, by_metadata=True),
            ranking,
            bool(arguments.explain),
            vector=checked_query_vector(arguments.vector, search_index.model, ranking),
            authors=self.authors if ranking.authors is None else ranking.authors,
        )
        others = self._other_keys(arguments)
        if ranking.rewriter is not None:
            text = await search_index.recall.rewritten(ranking.rewriter, query)
            request = request._replace(query=text[: limits.max_query_chars])
        found = await self._ask(search_index, request)
        if not others:
            return found
        answers = {"user": found}
        for scope, other in others.items():
            answers[scope] = await self._ask(search_index, request._replace(key=other))
        return merge_scopes(answers, request.top_k)

    async def _ask(
        self, search_index: SearchIndex, request: SearchRequest
    ) -> SearchMemoryResponse:
        """Search one partition, of it the rows that pass what the engine cannot see."""
        filter_ = request.filter
        if filter_ is None or not needs_rows(filter_):
            return await search_index.recall.search(request)
        only: NDArray[np.int64] = await Join(
            search_index.partitions.submit_scan(
                passing_rows, self.storage, request.key, filter_
            )
        )
        if not len(only):
            return SearchMemoryResponse()
        found = await search_index.recall.search(request._replace(only=only))
        # A row that was found may have been changed since it was looked at.
        return SearchMemoryResponse(
            [
                memory
                for memory in found.memories
                if passes(memory, memory.custom_metadata, filter_)
            ]
        )

    def _other_keys(self, arguments: SearchArguments) -> dict[str, tuple[str, str]]:
        """The other partitions that a search reads, by scope."""
        scopes = self.rules.scopes
        if arguments.scopes is None and not scopes.read:
            return {}
        if arguments.scopes is None:
            named: Iterable[object] = sorted(scopes.read)
        else:
            named = as_list(arguments.scopes, "scopes")
        return {
            str(scope): self.key(
                arguments.app_name, arguments.user_id, scope, write=False
            )
            for scope in named
            if scope != "user"
        }
