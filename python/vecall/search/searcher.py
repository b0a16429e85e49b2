"""Executes a search: query to terms and vector, one engine call, hits to entries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from vecall._core import Engine
from vecall.clock import ExpiryClock
from vecall.concurrency.executor import PluginExecutor
from vecall.concurrency.join import Join
from vecall.concurrency.time_slices import in_slices
from vecall.content import to_valid_utf8
from vecall.embedders import Vectors
from vecall.errors import BusyError, ConfigError, RerankerError, RewriterError
from vecall.index.embedding import EmbeddingQueue
from vecall.index.partition_cache import PartitionCache
from vecall.index.row_cache import RowCache
from vecall.index.rows import Key, name_key
from vecall.lexical import QUESTION, query_terms
from vecall.lexical.tokenizer import has_word
from vecall.ranking.options import DEFAULT_AUTHORS, DENSE, Ranking, Rewriter
from vecall.search import reranking as _reorder
from vecall.search.confidence import Hit, QueryStats, Scoring, importance_of
from vecall.search.entries import entry_from_row
from vecall.search.ranking_calls import call_of_ranking
from vecall.store import Row, Version
from vecall.timestamps import to_micros, to_seconds
from vecall.types import Filter, SearchMemoryResponse, several

_TRIES = 1_000
_INLINE = 400  # hits that the event loop makes entries of: some milliseconds

_PLAIN = Ranking()

T = TypeVar("T")

Found = list[tuple[Hit, Row]]


class RetiredModelError(Exception):
    """The file was migrated to another model; the search must restart with it."""


class SearchRequest(NamedTuple):
    """A search with validated arguments."""

    key: Key
    query: str
    top_k: int
    min_similarity: float | None = None
    min_confidence: float | None = None
    filter: Filter | None = None
    ranking: Ranking = _PLAIN
    explain: bool = False
    only: NDArray[np.int64] | None = None  # rows whose labels and metadata pass
    without: NDArray[np.int64] | None = None  # rows that are left out
    vector: Vectors | None = None  # replaces the embedder's
    authors: Sequence[str] = DEFAULT_AUTHORS  # the favoured authors


class Searcher:
    """Executes searches, on the caller's thread if everything needed is in memory."""

    def __init__(
        self,
        engine: Engine,
        partitions: PartitionCache,
        cache: RowCache,
        embedding: EmbeddingQueue | None,
        scoring: Scoring,
        expiry_clock: ExpiryClock,
    ) -> None:
        """Search an engine that the partition cache keeps in sync with the file."""
        self._expiry_clock = expiry_clock
        self._engine = engine
        self._loader = partitions
        self._cache = cache
        self._embedding = embedding
        self._scoring = scoring
        self._slow = PluginExecutor("vecall-reranker")
        self._rewriting = PluginExecutor("vecall-rewriter")

    def refuse_nested(self) -> None:
        """Raise ReentrantCallError if a rewriter or reranker is the caller."""
        self._slow.refuse_nested()
        self._rewriting.refuse_nested()

    def close(self) -> None:
        """End the threads of rewriters, rerankers and text comparisons."""
        self._rewriting.close()
        self._slow.close()

    async def rewritten(self, rewriter: Rewriter, query: str) -> str:
        """Return the rewriter's replacement for a query.

        Raises:
            RewriterError: The rewriter failed or did not return a string.
        """
        text: object = await call_of_ranking(
            self._rewriting, "ranking.rewriter", RewriterError, rewriter, query
        )
        if not isinstance(text, str):
            msg = "ranking.rewriter: must return a string"
            raise RewriterError(msg)
        return text

    async def search(self, request: SearchRequest) -> SearchMemoryResponse:
        """Return the best memories.

        Args:
            request: The query and its options.
        """
        vector = request.vector
        if vector is None and not has_word(request.query):
            return SearchMemoryResponse()
        if vector is None and self._embeds(request):
            assert self._embedding is not None
            query = to_valid_utf8(request.query)
            vector = self._embedding.known_query(*request.key, query)
            if vector is None:
                vector = await self._embedding.embed_query(*request.key, query)
        partitions, key = self._loader, request.key
        target = partitions.target(key)
        if isinstance(target, Future):
            target = partitions.current(key, await Join(target))
        answered = (
            self._answer(request, vector, target)
            if request.top_k <= _INLINE
            else await self._apart(request, self._answer, request, vector, target)
        )
        if answered is None:
            answered = await self._answer_when_current(request, vector, target)
        hits, answer = answered
        found = [(hit, hit.row) for hit in hits if hit.row is not None]
        if len(found) < len(hits):
            await self._fetch(request.key, hits)
            # A row that is still missing was deleted after the engine call.
            found = [(hit, hit.row) for hit in hits if hit.row is not None]
        now = self._expiry_clock.wall()
        # The engine orders ties by row and returns all rows that tie with the last one.
        # Here the newer memory wins, then the smaller id, so the result does not depend
        # on the order of storing.
        if len({hit.score for hit in hits}) < len(hits):
            found.sort(key=_by_score)
        ranking = request.ranking
        is_plain = ranking.is_plain
        if is_plain:
            found = found[: request.top_k]
        if len(found) <= _INLINE:
            self._scoring.rate(found, answer)
        else:
            await self._apart(request, self._scoring.rate, found, answer)
        if not is_plain:
            found = await self._reordered(request, found, now)
        if len(found) <= _INLINE:
            return self._response(found, answer, request, now)
        return await self._apart(request, self._response, found, answer, request, now)

    async def _apart(
        self, request: SearchRequest, work: Callable[..., T], *args: Any
    ) -> T:
        """Run a step of a search with many hits on another thread."""
        done: T = await Join(self._loader.submit_scan(request.key, work, *args))
        return done

    def _embeds(self, request: SearchRequest) -> bool:
        """Whether the search needs the query's vector.

        It does not if the query's letters are outside the model's scripts: the cosine
        would be noise. A search that requires the cosine gets it anyway.
        """
        fusion = request.ranking.fusion
        if self._embedding is None or fusion == "words":
            return False
        if not self._embedding.can_embed:
            if request.min_similarity is not None or fusion == "vectors":
                msg = "vector: this service has no embedder; give the query's vector"
                raise ConfigError(msg)
            return False
        if request.min_similarity is not None or fusion == "vectors":
            return True
        return self._embedding.knows_letters(request.query)

    async def candidates(self, request: SearchRequest) -> SearchMemoryResponse:
        """Return candidates for deletion, with explanations."""
        return await self.search(request)

    async def _fetch(self, key: Key, hits: list[Hit]) -> None:
        """Read the rows that are not in memory."""
        missing = [hit.rid for hit in hits if hit.row is None]
        rows = await Join(self._loader.submit(self._loader.rows, key, missing))
        fetched = {row.rid: row for row in rows}
        for hit in hits:
            if hit.row is None:
                hit.row = fetched.get(hit.rid)

    async def _reordered(
        self, request: SearchRequest, found: Found, now: float
    ) -> Found:
        """Return the best hits in the order of the ranking's options."""
        ranking = request.ranking
        hits = [hit for hit, _ in found]
        rows = [row for _, row in found]
        if ranking.fusion == "rrf":
            _reorder.fuse_by_rank(found)
        if ranking.half_life is not None:
            _reorder.decay(hits, rows, ranking.seconds_to_half, now)
        if ranking.reranker is not None and found:
            numbers = await call_of_ranking(
                self._slow,
                "ranking.reranker",
                RerankerError,
                ranking.reranker,
                request.query,
                [row.text for row in rows],
            )
            _reorder.apply_reranker(hits, numbers)
        floor = request.min_confidence
        if floor and not self._scoring.is_custom:
            # Before the cut: what is below the floor takes no place in the result.
            found = [(hit, row) for hit, row in found if hit.confidence >= floor]
        found.sort(key=_by_score)
        if ranking.compares_texts:
            work = partial(_reorder.choose, found, ranking, request.top_k)
            found = await Join(self._slow.run(work, concurrent=False))
        return found[: request.top_k]

    async def _answer_when_current(
        self, request: SearchRequest, vector: Vectors | None, target: Version | None
    ) -> tuple[list[Hit], QueryStats]:
        """Query the engine once it has all changes from before the search began."""
        partitions, key = self._loader, request.key
        with partitions.pinned(key):
            for attempt in range(_TRIES):
                if target is None:
                    return [], _NOTHING
                if not partitions.retired:
                    await Join(partitions.synchronize(key))
                if partitions.retired:
                    raise RetiredModelError
                if attempt:
                    # The first run may have begun before this search, as others share
                    # it. This one did not: what it has loaded is new enough, whatever
                    # an earlier check said.
                    target = partitions.version_of(key) or target
                if request.top_k <= _INLINE:
                    answer = self._answer(request, vector, target)
                else:
                    answer = await self._apart(
                        request, self._answer, request, vector, target
                    )
                if answer is not None:
                    return answer
                now = partitions.target(key)
                if isinstance(now, Future):
                    now = partitions.current(key, await Join(now))
                if now is None or now[0] != target[0] or now[2]:
                    target = now  # the user was deleted, or history went back
        msg = "a user's memories changed faster than they could be read"
        raise BusyError(msg)

    def _answer(
        self,
        request: SearchRequest,
        vector: Vectors | None,
        target: Version | None,
    ) -> tuple[list[Hit], QueryStats] | None:
        """Query the engine; None unless the partition is at `target` throughout."""
        partitions, key, ranking = self._loader, request.key, request.ranking
        entry = partitions.loaded(key, target)
        if entry is None:
            return None
        steps = entry.steps
        top_k = request.top_k
        if not ranking.is_plain:
            top_k = max(top_k, ranking.depth)
        terms, marks = query_terms(request.query)
        searched_terms = (
            [] if ranking.fusion == "vectors" else [*terms, *marks.optional]
        )
        rids, by_score, similarities, lexical, parts, summary = (
            self._engine.recall_lists(
                key,
                vector,
                searched_terms,
                top_k,
                to_micros(self._expiry_clock.now()),
                QUESTION,
                marks.time,
                list(marks.authors),
                _author_keys(tuple(request.authors)),
                ranking.engine_ranking,
                self._scoring.known_model,
                **_options(request),
            )
        )
        texts = self._cache.get(rids)
        if not partitions.holds(key, entry, steps):
            return None
        part = entry.part
        for rid in rids:
            if rid >> 32 != part:  # a row number begins with its partition's number
                partitions.distrust(entry)
                return None
        hits = list(
            map(
                Hit,
                rids,
                texts,
                by_score,
                similarities,
                lexical,
                parts,
                range(len(rids)),
                by_score,
            )
        )
        coverage, vector_weight, mean, deviation, rows = summary
        has_vector = vector is not None and (mean != 0.0 or deviation != 0.0)
        dense = ranking.weights.get("dense", DENSE)
        scale = 1.0 if dense == DENSE else DENSE / max(dense, DENSE / 10.0)
        best = by_score[0] if by_score else 0.0
        return hits, QueryStats(coverage, vector_weight, rows, best, has_vector, scale)

    def _response(
        self, found: Found, answer: QueryStats, request: SearchRequest, now: float
    ) -> SearchMemoryResponse:
        memories = []
        scoring, floor = self._scoring, request.min_confidence
        for hit, row in found if len(found) <= _INLINE else in_slices(found):
            memory = entry_from_row(
                row,
                importance_of(row, now),
                hit.score,
                hit.similarity,
                hit.confidence,
                hit.explanation(answer) if request.explain else None,
            )
            if scoring.is_custom:
                memory = scoring.rescore(memory, request.query)
            # A floor of 0 lets a memory pass for which the scorer knows none.
            if floor and (memory.confidence is None or memory.confidence < floor):
                continue
            memories.append(memory)
        return SearchMemoryResponse(memories)


def _by_score(pair: tuple[Hit, Row]) -> tuple[float, float, str]:
    hit, row = pair
    return -hit.score, -row.time, row.id


@lru_cache(64)
def _author_keys(names: tuple[str, ...]) -> list[int]:
    return [name_key(name) for name in names]


_NOTHING = QueryStats(0.0, 0.0, 0.0, 0.0, has_vector=False)


def _options(request: SearchRequest) -> dict[str, Any]:
    options: dict[str, Any] = {}
    conditions = request.filter
    if conditions is not None:
        if conditions.session_id is not None:
            options["session"] = name_key(conditions.session_id)
        if conditions.not_session_id is not None:
            names = several(conditions.not_session_id)
            options["without_sessions"] = list(map(name_key, names))
        if isinstance(conditions.author, str):
            options["author"] = name_key(conditions.author)
        if isinstance(conditions.kind, str):
            options["kind"] = name_key(conditions.kind)
        if conditions.after is not None:
            options["after"] = to_micros(to_seconds(conditions.after, "filter.after"))
        if conditions.before is not None:
            options["before"] = to_micros(
                to_seconds(conditions.before, "filter.before")
            )
    if request.min_similarity is not None:
        options["min_similarity"] = request.min_similarity
    if request.only is not None:
        options["only"] = request.only
    if request.without is not None:
        options["without"] = request.without
    return options
