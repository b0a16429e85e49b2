"""Searches, for the asynchronous and the blocking service.

`vecall.operations.writes` describes how an operation waits.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from vecall.concurrency.join import Join
from vecall.concurrency.time_slices import in_slices
from vecall.content import as_list
from vecall.errors import (
    ConfigError,
    InvalidTypeError,
    LimitExceededError,
)
from vecall.filters.labels import has_labels, is_left_out
from vecall.filters.metadata import asks_times, scan_of, with_times
from vecall.filters.rights import FULL
from vecall.operations.runtime import Runtime
from vecall.ranking.options import Ranking
from vecall.scalars import exact
from vecall.search.filtered_rows import left_out_rows, needs_rows, passing_rows
from vecall.search.merge import merge_scopes
from vecall.search.options import FLOOR_OF_WORDS, NO_FLOOR
from vecall.search.query_vector import checked_query_vector
from vecall.search.search_index import SearchIndex
from vecall.search.searcher import RetiredModelError, SearchRequest
from vecall.telemetry import observed
from vecall.timestamps import to_seconds
from vecall.types import (
    Filter,
    FilterLike,
    MemoryEntry,
    SearchMemoryResponse,
    check_share,
    several,
)
from vecall.validation import (
    check_filter,
    check_min_similarity,
    check_offset,
    check_query,
    check_top_k,
    checked_bool,
)

T = TypeVar("T")

_AT_ONCE = 5_000  # comparisons of metadata on an event loop, some milliseconds


class SearchArguments(NamedTuple):
    """The arguments of a search; None selects the service's default."""

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
    offset: int = 0


def _found(response: SearchMemoryResponse) -> int:
    return len(response.memories)


class Searches(Runtime):
    """Searches one open file."""

    @observed("search", _found)
    async def search(self, arguments: SearchArguments) -> SearchMemoryResponse:
        """Return the best memories for a query."""
        while True:  # `served` inlined: this is the hottest call
            with self.begin_use() as search_index:
                request = self._request(search_index, arguments)
                others = self._other_keys(arguments)
                try:
                    rewriter = request.ranking.rewriter
                    if rewriter is not None:
                        text = await search_index.recall.rewritten(
                            rewriter, request.query
                        )
                        text = text[: self.limits.max_query_chars]
                        request = request._replace(query=text)
                    if request.filter is None and self.rights is FULL:
                        found = await search_index.recall.search(request)
                    else:
                        found = await self.search_one(search_index, request)
                    if others:
                        found = await self._merged(search_index, request, found, others)
                except RetiredModelError:
                    continue
            offset = arguments.offset
            return SearchMemoryResponse(found.memories[offset:]) if offset else found

    async def served(self, work: Callable[[SearchIndex], Awaitable[T]]) -> T:
        """Run work on the current search index; repeat it if the model changes."""
        while True:
            with self.begin_use() as search_index, suppress(RetiredModelError):
                return await work(search_index)

    def _request(
        self, search_index: SearchIndex, arguments: SearchArguments
    ) -> SearchRequest:
        """Return a checked search, with the service's defaults."""
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
        if ranking.fusion == "words":  # a search by words has no cosine
            if arguments.min_similarity is not None:
                raise ConfigError(FLOOR_OF_WORDS)
            min_similarity = None
        top_k, limits = arguments.top_k, self.limits
        offset = check_offset(arguments.offset)
        query = arguments.query[: limits.max_query_chars]
        return SearchRequest(
            key,
            query,
            (self.top_k if top_k is None else check_top_k(top_k, limits)) + offset,
            min_similarity,
            min_confidence,
            None
            if arguments.filter is None
            else check_filter(arguments.filter, limits, by_metadata=True),
            ranking,
            checked_bool(arguments.explain, "explain"),
            vector=checked_query_vector(arguments.vector, search_index.model, ranking),
            authors=self.authors if ranking.authors is None else ranking.authors,
        )

    async def _merged(
        self,
        search_index: SearchIndex,
        request: SearchRequest,
        found: SearchMemoryResponse,
        others: Mapping[str, tuple[str, str]],
    ) -> SearchMemoryResponse:
        """Return what is found in the user's partition and in those of scopes."""
        responses = {"user": found}
        for scope, other in others.items():
            responses[scope] = await self.search_one(
                search_index, request._replace(key=other)
            )
        return merge_scopes(responses, request.top_k)

    async def search_one(
        self,
        search_index: SearchIndex,
        request: SearchRequest,
        find: Callable[[SearchRequest], Awaitable[SearchMemoryResponse]] | None = None,
    ) -> SearchMemoryResponse:
        """Search one partition; apply the conditions that the engine cannot apply.

        Args:
            search_index: The search index.
            request: The search.
            find: Executes it; default: `Searcher.search`.
        """
        find = find or search_index.recall.search
        filter_ = request.filter
        if self.rights is not FULL and self.rights.has_floor:
            filter_ = self.rights.narrowed(filter_)
            if filter_ is None:
                return SearchMemoryResponse()
            request = request._replace(filter=filter_)
        if filter_ is None:
            return await find(request)
        if not needs_rows(filter_):
            return await self._search_without(search_index, request, filter_)
        only: NDArray[np.int64] = await Join(
            search_index.partitions.submit_scan(
                request.key, passing_rows, self.storage, request.key, filter_
            )
        )
        if not len(only):
            return SearchMemoryResponse()
        found = await find(request._replace(only=only))
        # A row may have changed since its conditions were checked.
        try:
            return SearchMemoryResponse(_passing(found.memories, filter_, _AT_ONCE))
        except LimitExceededError:  # too long for an event loop
            return SearchMemoryResponse(
                await Join(
                    search_index.partitions.submit_scan(
                        request.key, _passing_in_slices, found.memories, filter_
                    )
                )
            )

    async def _search_without(
        self, search_index: SearchIndex, request: SearchRequest, filter_: Filter
    ) -> SearchMemoryResponse:
        """Search with conditions of the engine, without some ids."""
        if filter_.not_id is None:
            return await search_index.recall.search(request)
        without: NDArray[np.int64] = await Join(
            search_index.partitions.submit(
                left_out_rows, self.storage, request.key, several(filter_.not_id)
            )
        )
        found = await search_index.recall.search(request._replace(without=without))
        # A memory may have got another row since its row was looked up.
        return SearchMemoryResponse(
            [
                memory
                for memory in found.memories
                if not is_left_out(str(memory.id), memory.session_id, filter_)
            ]
        )

    def _other_keys(self, arguments: SearchArguments) -> dict[str, tuple[str, str]]:
        """Return the other partitions that a search reads, by scope."""
        scopes = self.scopes
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
            for scope in map(exact, named)
            if type(scope) is not str or scope != "user"
        }


def _passing(
    memories: Iterable[MemoryEntry], filter_: Filter, most: int | None
) -> list[MemoryEntry]:
    """Return the memories that pass a filter.

    Raises:
        LimitExceededError: It takes more than `most` comparisons of metadata.
    """
    test = None if filter_.metadata is None else scan_of(filter_.metadata, most)
    return [
        memory
        for memory in memories
        if has_labels(memory, filter_)
        and not is_left_out(str(memory.id), memory.session_id, filter_)
        and (test is None or test(_tested(memory, filter_)))
    ]


def _passing_in_slices(
    memories: Iterable[MemoryEntry], filter_: Filter
) -> list[MemoryEntry]:
    return _passing(in_slices(memories), filter_, None)


def _tested(memory: MemoryEntry, filter_: Filter) -> Mapping[str, object]:
    """Return the values of a found memory that conditions on metadata read."""
    if not asks_times(filter_.metadata):
        return memory.custom_metadata
    stored = memory.created_at or 0.0
    time = stored if memory.timestamp is None else memory.timestamp
    changed = stored if memory.updated_at is None else memory.updated_at
    return with_times(memory.custom_metadata, to_seconds(time, "timestamp"), changed)
