"""Searches, for the asynchronous and the blocking service.

`vecall.operations.writes` describes how an operation waits.
"""

from __future__ import annotations

import math
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import suppress
from dataclasses import fields, replace
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from vecall.clock import to_micros, to_seconds, ttl_seconds
from vecall.concurrency.join import Join
from vecall.concurrency.time_slices import in_slices
from vecall.content import as_list
from vecall.errors import (
    ConfigError,
    InvalidTypeError,
    LimitExceededError,
    NotFoundError,
)
from vecall.filters.metadata import (
    asks_times,
    has_labels,
    is_left_out,
    scan_of,
    with_times,
)
from vecall.filters.rights import FULL
from vecall.operations.runtime import Runtime
from vecall.ranking.options import CONTEXT, Ranking
from vecall.scalars import exact
from vecall.search.scores import merge_scopes
from vecall.search.search_index import (
    SearchIndex,
    left_out_rows,
    needs_rows,
    passing_rows,
)
from vecall.search.searcher import (
    FLOOR_OF_WORDS,
    NO_FLOOR,
    RetiredModelError,
    SearchRequest,
    checked_query_vector,
    entry_from_row,
)
from vecall.store import ALWAYS, Change, MarkUsed, TouchMemories
from vecall.telemetry import observed
from vecall.types import (
    Explanation,
    Filter,
    FilterLike,
    MemoryEntry,
    Outcome,
    SearchMemoryResponse,
    check_share,
    several,
)
from vecall.validation import (
    check_filter,
    check_min_similarity,
    check_name,
    check_offset,
    check_query,
    check_time_zone,
    check_top_k,
    check_turns,
    checked_bool,
    partition_key,
)

T = TypeVar("T")

ALONE = Ranking(weights=dict.fromkeys(CONTEXT, 0.0))
"""A ranking of matches alone, without their neighbours."""
ALONE_BY_WORDS = replace(ALONE, fusion="words")

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


def _found(response: SearchMemoryResponse) -> int:
    return len(response.memories)


class Searches(Runtime):
    """Searches one open file."""

    @observed("search", _found)
    async def search(
        self, arguments: SearchArguments, all_candidates: bool = False
    ) -> SearchMemoryResponse:
        """Return the best memories for a query, or all that it compares."""
        while True:  # `served` inlined: this is the hottest call
            with self.begin_use() as search_index:
                request = self._request(search_index, arguments)
                if all_candidates:
                    request = _of_all_candidates(request, self.limits.max_top_k)
                is_wider = arguments.scopes is not None or self.scopes.read
                others = self._other_keys(arguments) if is_wider else {}
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
            return found.with_memories(found.memories[offset:]) if offset else found

    @observed("explain")
    async def explain(
        self, arguments: SearchArguments, memory_id: str, scope: str
    ) -> Explanation:
        """Return why a search returns a memory, or does not."""
        key = self.key(arguments.app_name, arguments.user_id, scope, write=False)
        check_name(memory_id, "memory_id", self.limits)
        arguments = arguments._replace(explain=True)
        request = self._request(self.search_index, arguments)
        places = {"user", *self._other_keys(arguments)}
        kept: Explanation = await Join(
            self.search_index.partitions.submit_scan(
                key, self._kept_out, key, memory_id, scope, request.filter, places
            )
        )
        if kept.outcome != "no_candidate":
            return kept
        shown = (await self.search(arguments)).memories
        every = (await self.search(arguments, all_candidates=True)).memories
        floors = request.min_similarity, request.min_confidence
        return _explained(kept, shown, every, floors)

    def _kept_out(
        self,
        key: tuple[str, str],
        memory_id: str,
        scope: str,
        conditions: Filter | None,
        scopes: Collection[str],
    ) -> Explanation:
        """Return why no search with these conditions compares a memory.

        Raises:
            NotFoundError: The user has no such memory, or the caller does not see it.
        """
        with self.storage.read(*key) as reads:
            past = reads.history(*key, memory_id, ALWAYS, self.rights)
            now = self.storage.expiry_clock.now()
        own = [each for each in past if each.row.id == memory_id]
        if not own:
            raise NotFoundError("memory_id: this user has no such memory")
        row, state, _, why, by = own[-1]
        memory = entry_from_row(row, scope=scope)
        if state != "live":
            return Explanation(memory, cast("Any", state), why=why, by=by)
        if min(row.expires_at or math.inf, row.valid_until or math.inf) <= now:
            return Explanation(memory, "expired")
        failed = [] if scope in scopes else ["scopes"]
        failed += [] if conditions is None else _failed_conditions(memory, conditions)
        outcome: Outcome = "filtered" if failed else "no_candidate"
        return Explanation(memory, outcome, failed=tuple(failed))

    async def served(self, work: Callable[[SearchIndex], Awaitable[T]]) -> T:
        """Run work on the current search index; repeat it if the model changes."""
        while True:
            with self.begin_use() as search_index, suppress(RetiredModelError):
                return await work(search_index)

    def _request(
        self, search_index: SearchIndex, arguments: SearchArguments
    ) -> SearchRequest:
        """Return a checked search, with the service's defaults."""
        app = check_name(arguments.app_name, "app_name", self.limits)
        user = check_name(arguments.user_id, "user_id", self.limits)
        key = partition_key(self.scopes, "user", app, user, write=False)
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
            raise InvalidTypeError("ranking: expected a vecall.Ranking")
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
            return found.with_memories(
                _passing_memories(found.memories, filter_, _AT_ONCE)
            )
        except LimitExceededError:  # too long for an event loop
            return found.with_memories(
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
        return found.with_memories(
            [
                memory
                for memory in found.memories
                if not is_left_out(str(memory.id), memory.session_id, filter_)
            ]
        )

    def _other_keys(self, arguments: SearchArguments) -> dict[str, tuple[str, str]]:
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


def _of_all_candidates(request: SearchRequest, most: int) -> SearchRequest:
    """Return a search without floors for all that another one compares."""
    ranking, floor = request.ranking, request.min_similarity
    return request._replace(
        top_k=most if ranking.is_plain else max(request.top_k, ranking.depth),
        min_similarity=None if floor is None else -1.0,  # it still needs a cosine
        min_confidence=None,
        ranking=replace(ranking, collapse=None, diversity=0.0),
    )


def _explained(
    kept: Explanation,
    shown: Sequence[MemoryEntry],
    every: Sequence[MemoryEntry],
    floors: tuple[float | None, float | None],
) -> Explanation:
    """Return why a search returns a live memory, or does not.

    Args:
        kept: The memory.
        shown: The result of the search.
        every: All that it compared, best first.
        floors: Its floors on cosine and confidence.
    """
    place = kept.memory.scope, kept.memory.id
    by_place = {(each.scope, each.id): each for each in shown}
    ranks = {(each.scope, each.id): rank for rank, each in enumerate(every, 1)}
    last = shown[-1] if shown else None
    known = replace(kept, last=last, candidates=len(every), rank=ranks.get(place))
    if place in by_place:
        rest = (each for each in every if (each.scope, each.id) not in by_place)
        memory = by_place[place]
        margin = _margin(memory, next(rest, None))
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
    return replace(known, outcome="outranked", margin=_margin(memory, last))


def _margin(memory: MemoryEntry, other: MemoryEntry | None) -> float | None:
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
    return _passing_memories(in_slices(memories), filter_, None)


def _tested(memory: MemoryEntry, filter_: Filter) -> Mapping[str, object]:
    """Return the values of a found memory that conditions on metadata read."""
    if not asks_times(filter_.metadata):
        return memory.custom_metadata
    stored = memory.created_at or 0.0
    time = stored if memory.timestamp is None else memory.timestamp
    changed = stored if memory.updated_at is None else memory.updated_at
    return with_times(memory.custom_metadata, to_seconds(time, "timestamp"), changed)


# Selects the search results that are nearly as relevant as the best one.
#
# A search returns `top_k` memories even if the last ones are hardly relevant. A
# proposal to delete memories contains only those near the best match.


SHARE_OF_WORDS = 0.8
"""Least query coverage of a selected memory, as a share of the best coverage."""

WHOLE_BY_WORDS = 0.8
"""If the best query coverage is at least this, only words decide."""

HALF_BY_WORDS = 0.5
"""If the best query coverage is below this, cosines decide if memories have any."""

SHARE_OF_NEARNESS = 0.85
"""Least nearness of a selected memory, as a share of the best nearness."""

LEAST_COSINE = 0.3
"""Texts with a lower cosine are unrelated, for the models in common use."""


class Match(NamedTuple):
    """How well a memory matches a query.

    Attributes:
        covered: Query coverage: the share of the query's words that the memory
            contains, in [0, 1]. Rare words weigh more if word frequencies are known.
        cosine: The cosine of query and memory, in [-1, 1]; None without vectors.
        nearness: How far the cosine exceeds the usual cosine of this user's memories,
            at least 0. Comparable only within one search result.
    """

    covered: float = 0.0
    cosine: float | None = None
    nearness: float = 0.0


def near_best(matches: Sequence[Match]) -> list[bool]:
    """Return for each match whether it is near the best one.

    If the best memory covers the query, only words decide. Otherwise the cosine counts
    too. If word coverage is low and every cosine is low, no match is near.
    """
    covered = max((match.covered for match in matches), default=0.0)
    nearest = max((match.nearness for match in matches if _is_alike(match)), default=0)
    by_words = _by_words(matches, covered)
    if covered >= WHOLE_BY_WORDS or nearest <= 0.0:
        has_vectors = any(match.cosine is not None for match in matches)
        if has_vectors and covered < HALF_BY_WORDS:
            return [False] * len(matches)
        return by_words
    by_cosine = [
        _is_alike(match) and match.nearness >= SHARE_OF_NEARNESS * nearest
        for match in matches
    ]
    if covered < HALF_BY_WORDS:
        return by_cosine
    return [any(either) for either in zip(by_words, by_cosine, strict=True)]


def _is_alike(match: Match) -> bool:
    return match.cosine is not None and match.cosine >= LEAST_COSINE


def _by_words(matches: Sequence[Match], best: float) -> list[bool]:
    return [
        match.covered > 0.0 and match.covered >= SHARE_OF_WORDS * best
        for match in matches
    ]


# Reads memories by id, and records their use.


def _one(_: MemoryEntry) -> int:
    return 1


def found_count(entries: list[MemoryEntry | None]) -> int:
    """Return the number of memories that were found."""
    return sum(entry is not None for entry in entries)


class Reads:
    """Reads by id, and `mark_used`, of one open file."""

    def __init__(self, runtime: Runtime) -> None:
        """Use the runtime of an open file."""
        self._runtime = runtime
        self.telemetry = runtime.telemetry

    @observed("get", _one)
    async def get(
        self, app_name: str, user_id: str, memory_id: str, scope: str
    ) -> MemoryEntry:
        """Return one memory by id."""
        key = self._runtime.key(app_name, user_id, scope, write=False)
        check_name(memory_id, "memory_id", self._runtime.limits)
        found: MemoryEntry = await Join(
            self._runtime.search_index.partitions.submit(
                self._get, *key, memory_id, scope
            )
        )
        return found

    def _get(self, app: str, user: str, memory_id: str, scope: str) -> MemoryEntry:
        storage = self._runtime.storage
        with storage.read(app, user) as reads:
            row = reads.find(
                app,
                user,
                memory_id,
                storage.expiry_clock.now(),
                self._runtime.rights,
            )
        if row is None:
            raise NotFoundError("memory_id: this user has no such memory")
        return entry_from_row(row, scope=scope)

    @observed("get_many", found_count)
    async def get_many(
        self,
        app_name: str,
        user_id: str,
        memory_ids: object,
        scope: str,
        include_expired: object = False,
    ) -> list[MemoryEntry | None]:
        """Return the memory of each id; None for an id without one."""
        key = self._runtime.key(app_name, user_id, scope, write=False)
        ids = self._checked_ids(memory_ids)
        expired = checked_bool(include_expired, "include_expired")
        if not ids:
            return []
        partitions = self._runtime.search_index.partitions
        read = partial(self._get_many, *key, ids, expired, scope)
        found: list[MemoryEntry | None] = await Join(
            partitions.submit_page(key, len(ids), read)
        )
        return found

    def _get_many(
        self, app: str, user: str, ids: list[str], expired: bool, scope: str
    ) -> list[MemoryEntry | None]:
        storage = self._runtime.storage
        with storage.read(app, user) as reads:
            now = ALWAYS if expired else storage.expiry_clock.now()
            rows = reads.find_many(
                app, user, list(dict.fromkeys(ids)), now, self._runtime.rights
            )
        known = {row.id: entry_from_row(row, scope=scope) for row in in_slices(rows)}
        return [known.get(id_) for id_ in ids]

    def _checked_ids(self, memory_ids: object) -> list[str]:
        limits = self._runtime.limits
        ids = as_list(memory_ids, "memory_ids")
        return [check_name(id_, "memory_ids", limits) for id_ in ids]

    @observed("expand_session", len)
    async def expand_session(
        self,
        app_name: str,
        user_id: str,
        memory_id: str,
        turns_before: object,
        turns_after: object,
    ) -> list[MemoryEntry]:
        """Return a memory and the turns around it in its session."""
        key = self._runtime.key(app_name, user_id, write=False)
        limits = self._runtime.limits
        check_name(memory_id, "memory_id", limits)
        counts = (
            check_turns(turns_before, "turns_before", limits),
            check_turns(turns_after, "turns_after", limits),
        )
        found: list[MemoryEntry] = await Join(
            self._runtime.search_index.partitions.submit_page(
                key, sum(counts), self._expand, *key, memory_id, *counts
            )
        )
        return found

    def _expand(
        self, app: str, user: str, memory_id: str, before: int, after: int
    ) -> list[MemoryEntry]:
        now, rights = self._runtime.storage.expiry_clock.now(), self._runtime.rights
        with self._runtime.storage.read(app, user) as reads:
            row = reads.find(app, user, memory_id, now, rights)
            if row is None:
                raise NotFoundError("memory_id: this user has no such memory")
            turns = reads.turns_around(row, before, after, now, rights)
        return [entry_from_row(turn) for turn in in_slices(turns)]

    @observed("touch", int)
    async def touch(
        self, app_name: str, user_id: str, memory_ids: object, ttl: object, scope: str
    ) -> int:
        """Move the expiry of memories; return how many were found."""
        key = self._runtime.key(app_name, user_id, scope, write=True)
        ids = self._checked_ids(memory_ids)
        seconds = None if ttl is None else ttl_seconds(ttl)
        if not ids:
            return 0
        job = TouchMemories(*key, ids, seconds, self._runtime.rights)
        change: Change = await Join(self._runtime.storage.submit(job))
        return len(change.ids)

    @observed("mark_used", int)
    async def mark_used(self, app_name: str, user_id: str, memory_ids: object) -> int:
        """Count one use of each memory; return how many were found."""
        key = self._runtime.key(app_name, user_id, write=True)
        ids = self._checked_ids(memory_ids)
        if not ids:
            return 0
        job = MarkUsed(*key, ids, self._runtime.rights)
        change: Change = await Join(self._runtime.storage.submit(job))
        return len(change.marked)
