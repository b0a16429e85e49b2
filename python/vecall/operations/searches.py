"""Searches, for the asynchronous and the blocking service.

`vecall.operations.writes` describes how an operation waits.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from vecall import errors
from vecall.clock import to_micros, to_seconds
from vecall.concurrency.join import Join
from vecall.concurrency.time_slices import in_slices
from vecall.content import as_list
from vecall.filters.metadata import (
    asks_times,
    filter_leaves_out,
    metadata_test,
    passes_label_filter,
    with_times,
)
from vecall.filters.rights import FULL
from vecall.operations.runtime import Runtime
from vecall.ranking.options import CONTEXT, Ranking
from vecall.scalars import exact
from vecall.search.scores import merge_scope_responses
from vecall.search.search_index import (
    SearchIndex,
    find_left_out_rows,
    find_passing_rows,
    needs_passing_rows,
)
from vecall.search.searcher import (
    FLOOR_OF_WORDS,
    NO_FLOOR,
    RetiredModelError,
    SearchRequest,
    checked_query_vector,
    entry_of_row,
)
from vecall.store import ALWAYS
from vecall.telemetry import observed
from vecall.types import (
    Explanation,
    Filter,
    FilterLike,
    MemoryEntry,
    Outcome,
    SearchMemoryResponse,
    as_names,
    check_share,
)
from vecall.validation import (
    check_filter,
    check_min_similarity,
    check_name,
    check_offset,
    check_query,
    check_time_zone,
    check_top_k,
    checked_bool,
    partition_key,
)

T = TypeVar("T")

ALONE = Ranking(weights=dict.fromkeys(CONTEXT, 0.0))
"""A ranking of matches alone, without their neighbours."""
ALONE_BY_WORDS = replace(ALONE, fusion="words")

_MOST_KEYS = 256  # users whose names were checked
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
    time_zone: object = None


def _count_found(response: SearchMemoryResponse) -> int:
    return len(response.memories)


class Searches(Runtime):
    """Searches one open file."""

    @observed("search", _count_found)
    async def search(
        self, arguments: SearchArguments, all_candidates: bool = False
    ) -> SearchMemoryResponse:
        """Return the best memories for a query, or all that it compares."""
        while True:  # `repeat_if_retired` inlined: this is the hottest call
            use = self.use_search_index()
            search_index = use.serving
            try:
                request = self._checked_search_request(search_index, arguments)
                if all_candidates:
                    request = _request_all_candidates(request, self.limits.max_top_k)
                is_wider = arguments.scopes is not None or self.scopes.read
                others = self._keys_of_scopes(arguments) if is_wider else {}
                rewriter = request.ranking.rewriter
                if rewriter is not None:
                    text = await search_index.recall.rewrite_query(
                        rewriter, request.query
                    )
                    text = text[: self.limits.max_query_chars]
                    request = request._replace(query=text)
                if request.filter is None and self.rights is FULL:
                    found = await search_index.recall.search(request)
                else:
                    found = await self.search_partition(search_index, request)
                if others:
                    found = await self._merged(search_index, request, found, others)
            except RetiredModelError:
                continue
            finally:
                search_index.end_use(use)
            offset = arguments.offset
            return found.with_memories(found.memories[offset:]) if offset else found

    @observed("explain")
    async def explain_search(
        self, arguments: SearchArguments, memory_id: str, scope: str
    ) -> Explanation:
        """Return why a search returns a memory, or does not."""
        key = self.key(arguments.app_name, arguments.user_id, scope, write=False)
        check_name(memory_id, "memory_id", self.limits)
        arguments = arguments._replace(explain=True)
        request = self._checked_search_request(self.search_index, arguments)
        places = {"user", *self._keys_of_scopes(arguments)}
        kept = await Join(
            self.threads.long(
                key, self._why_left_out, key, memory_id, scope, request.filter, places
            )
        )
        if kept.outcome != "no_candidate":
            return kept
        shown = (await self.search(arguments)).memories
        every = (await self.search(arguments, all_candidates=True)).memories
        floors = request.min_similarity, request.min_confidence
        return _explain_compared(kept, shown, every, floors)

    def _why_left_out(
        self,
        key: tuple[str, str],
        memory_id: str,
        scope: str,
        conditions: Filter | None,
        scopes: Collection[str],
    ) -> Explanation:
        """Return why no search with these conditions compares a memory of the user."""
        with self.read_committed_state(key) as (reads, now):
            past = reads.history(*key, memory_id, ALWAYS, self.rights)
        own = [each for each in past if each.row.id == memory_id]
        if not own:
            raise errors.NotFoundError("memory_id: this user has no such memory")
        row, state, _, why, by = own[-1]
        memory = entry_of_row(row, scope=scope)
        if state != "live":
            return Explanation(memory, cast("Any", state), why=why, by=by)
        if min(row.expires_at or math.inf, row.valid_until or math.inf) <= now:
            return Explanation(memory, "expired")
        failed = [] if scope in scopes else ["scopes"]
        failed += [] if conditions is None else _failed_conditions(memory, conditions)
        outcome: Outcome = "filtered" if failed else "no_candidate"
        return Explanation(memory, outcome, failed=tuple(failed))

    async def repeat_if_retired(self, work: Callable[[SearchIndex], Awaitable[T]]) -> T:
        """Run work on the current search index; repeat it if the model changes."""
        while True:
            with self.use_search_index() as search_index, suppress(RetiredModelError):
                return await work(search_index)

    def _checked_search_request(
        self, search_index: SearchIndex, arguments: SearchArguments
    ) -> SearchRequest:
        """Return a checked search, with the service's defaults."""
        try:
            key = self.checked_keys[arguments[:2]]
        except (KeyError, TypeError):
            app = check_name(arguments.app_name, "app_name", self.limits)
            user = check_name(arguments.user_id, "user_id", self.limits)
            key = partition_key(self.scopes, "user", app, user, write=False)
            if len(self.checked_keys) >= _MOST_KEYS:
                self.checked_keys.clear()
            self.checked_keys[key] = key
        check_query(arguments.query)
        min_similarity, min_confidence = (
            arguments.min_similarity,
            arguments.min_confidence,
        )
        if min_similarity is None:
            min_similarity = self.min_similarity
        elif search_index.embedding is None:
            raise errors.ConfigError(NO_FLOOR)
        else:
            check_min_similarity(min_similarity)
        if min_confidence is None:
            min_confidence = self.min_confidence
        else:
            min_confidence = check_share(min_confidence, "min_confidence")
        ranking = self.ranking if arguments.ranking is None else arguments.ranking
        if not isinstance(ranking, Ranking):
            raise errors.InvalidTypeError("ranking: expected a vecall.Ranking")
        if ranking.fusion == "words":  # a search by words has no cosine
            if arguments.min_similarity is not None:
                raise errors.ConfigError(FLOOR_OF_WORDS)
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
            vector=None
            if arguments.vector is None
            else checked_query_vector(arguments.vector, search_index.model, ranking),
            authors=self.authors if ranking.authors is None else ranking.authors,
            time_zone=self.time_zone
            if arguments.time_zone is None
            else check_time_zone(arguments.time_zone),
            drops=min_confidence is None
            and min_similarity is None
            and arguments.vector is None
            and ranking.fusion == "convex",
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
            responses[scope] = await self.search_partition(
                search_index, request._replace(key=other)
            )
        return merge_scope_responses(responses, request.top_k)

    async def search_partition(
        self,
        search_index: SearchIndex,
        request: SearchRequest,
        find: Callable[[SearchRequest], Awaitable[SearchMemoryResponse]] | None = None,
    ) -> SearchMemoryResponse:
        """Search one partition; apply the conditions that the engine cannot apply."""
        find = find or search_index.recall.search
        filter_ = request.filter
        if self.rights is not FULL and self.rights.has_floor:
            filter_ = self.rights.narrowed(filter_)
            if filter_ is None:
                return SearchMemoryResponse()
            request = request._replace(filter=filter_)
        if filter_ is None:
            return await find(request)
        key = request.key
        if not needs_passing_rows(filter_):
            if filter_.not_id is None:
                return await find(request)
            left_out = self.threads.short(
                find_left_out_rows, self.storage, key, as_names(filter_.not_id)
            )
            without = await Join(left_out)
            found = await find(request._replace(without=without))
            # A memory may have got another row since its row was looked up.
            return found.with_memories(
                [
                    memory
                    for memory in found.memories
                    if not filter_leaves_out(str(memory.id), memory.session_id, filter_)
                ]
            )
        only: NDArray[np.int64] = await Join(
            self.threads.long(key, find_passing_rows, self.storage, key, filter_)
        )
        if not len(only):
            return SearchMemoryResponse()
        found = await find(request._replace(only=only))
        # A row may have changed since its conditions were checked.
        try:
            passing = _passing_memories(found.memories, filter_, _AT_ONCE)
        except errors.LimitExceededError:  # too long for an event loop
            memories = in_slices(found.memories)
            passing = await Join(
                self.threads.long(key, _passing_memories, memories, filter_, None)
            )
        return found.with_memories(passing)

    def _keys_of_scopes(self, arguments: SearchArguments) -> dict[str, tuple[str, str]]:
        """Return the other partitions that a search reads, by scope."""
        if arguments.scopes is None:
            named: Iterable[object] = sorted(self.scopes.read)
        else:
            named = as_list(arguments.scopes, "scopes")
        return {
            str(scope): self.key(
                arguments.app_name, arguments.user_id, scope, write=False
            )
            for scope in map(exact, named)
            if type(scope) is not str or scope != "user"
        }


def _request_all_candidates(request: SearchRequest, most: int) -> SearchRequest:
    """Return a search without floors for all that another one compares."""
    ranking, floor = request.ranking, request.min_similarity
    return request._replace(
        top_k=most if ranking.is_plain else max(request.top_k, ranking.depth),
        min_similarity=None if floor is None else -1.0,  # it still needs a cosine
        min_confidence=None,
        ranking=replace(ranking, collapse=None, diversity=0.0),
    )


def _explain_compared(
    kept: Explanation,  # the memory
    shown: Sequence[MemoryEntry],  # the result of the search
    every: Sequence[MemoryEntry],  # all that it compared, best first
    floors: tuple[float | None, float | None],  # its floors on cosine and confidence
) -> Explanation:
    """Return why a search returns a live memory, or does not."""
    place = kept.memory.scope, kept.memory.id
    by_place = {(each.scope, each.id): each for each in shown}
    ranks = {(each.scope, each.id): rank for rank, each in enumerate(every, 1)}
    last = shown[-1] if shown else None
    known = replace(kept, last=last, candidates=len(every), rank=ranks.get(place))
    if place in by_place:
        rest = (each for each in every if (each.scope, each.id) not in by_place)
        memory = by_place[place]
        margin = _margin_of_scores(memory, next(rest, None))
        return replace(known, memory=memory, outcome="found", margin=margin)
    if known.rank is None:
        return known
    memory = every[known.rank - 1]
    known = replace(known, memory=memory)
    similarity, confidence = memory.similarity, memory.confidence
    if floors[0] is not None and (similarity is None or similarity < floors[0]):
        less = None if similarity is None else similarity - floors[0]
        return replace(known, outcome="below_min_similarity", margin=less)
    if floors[1] and (confidence is None or confidence < floors[1]):
        less = None if confidence is None else confidence - floors[1]
        return replace(known, outcome="below_min_confidence", margin=less)
    return replace(known, outcome="outranked", margin=_margin_of_scores(memory, last))


def _margin_of_scores(memory: MemoryEntry, other: MemoryEntry | None) -> float | None:
    """Return the difference of two scores; None unless they are comparable."""
    if other is None or memory.scope != other.scope:
        return None
    return (memory.score or 0.0) - (other.score or 0.0)


def _failed_conditions(memory: MemoryEntry, filter_: Filter) -> list[str]:
    """Return the fields of a filter that exclude a memory."""
    time = memory.created_at if memory.timestamp is None else memory.timestamp
    micros = to_micros(time or 0.0)
    failed = []
    for name in (field.name for field in fields(filter_)):
        wanted: Any = getattr(filter_, name)
        if wanted is None:
            continue
        if name == "session_id":
            passes = memory.session_id == wanted
        elif name == "after":
            passes = micros >= to_micros(wanted)
        elif name == "before":
            passes = micros < to_micros(wanted)
        else:
            alone = Filter(**{name: wanted})
            passes = bool(_passing_memories([memory], alone, None))
        if not passes:
            failed.append(name)
    return failed


def _passing_memories(
    memories: Iterable[MemoryEntry], filter_: Filter, most: int | None
) -> list[MemoryEntry]:
    """Return the memories that pass a filter."""
    # LimitExceededError: it takes more than `most` comparisons of metadata.
    test = None if filter_.metadata is None else metadata_test(filter_.metadata, most)
    return [
        memory
        for memory in memories
        if passes_label_filter(memory, filter_)
        and not filter_leaves_out(str(memory.id), memory.session_id, filter_)
        and (test is None or test(_values_to_test(memory, filter_)))
    ]


def _values_to_test(memory: MemoryEntry, filter_: Filter) -> Mapping[str, object]:
    """Return the values of a found memory that conditions on metadata read."""
    if not asks_times(filter_.metadata):
        return memory.custom_metadata
    stored = memory.created_at or 0.0
    time = stored if memory.timestamp is None else memory.timestamp
    changed = stored if memory.updated_at is None else memory.updated_at
    return with_times(memory.custom_metadata, to_seconds(time, "timestamp"), changed)
