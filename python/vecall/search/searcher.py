"""Executes a search: query to terms and vector, one engine call, hits to entries."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import tzinfo
from functools import lru_cache, partial
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from vecall import errors
from vecall._core import Engine, EntryMaker
from vecall._core import Found as FoundRows
from vecall.clock import ExpiryClock, Period, to_micros, to_seconds
from vecall.concurrency.executor import PluginExecutor
from vecall.concurrency.join import Join
from vecall.concurrency.time_slices import in_slices
from vecall.content import to_valid_utf8
from vecall.embedders import Embedder, Vectors
from vecall.index.embedding import EmbeddingQueue
from vecall.index.partition_cache import PartitionCache
from vecall.index.row_cache import Key, RowCache, name_key
from vecall.lexical import DATED, QUESTION, query_terms
from vecall.lexical.features import query_message
from vecall.lexical.tokenizer import has_word_or_emoji
from vecall.ranking.calibration import Calibration
from vecall.ranking.options import (
    DAY,
    DEFAULT_AUTHORS,
    DEFAULT_PRIOR,
    DENSE,
    OF_MESSAGES,
    OF_STATEMENTS,
    Ranking,
    Rewriter,
    checked_favoured_authors,
)
from vecall.ranking.relevance import Asked
from vecall.scalars import Shown, make_fields_exact
from vecall.search import scores as _reorder
from vecall.search.scores import (
    Hit,
    QueryStats,
    Scorer,
    Scoring,
    call_ranking_function,
    importance_after_days,
)
from vecall.store import Draft, EmbeddingModel, Row, Version, parse_stored_object
from vecall.types import (
    Filter,
    MemoryEntry,
    SearchMemoryResponse,
    as_names,
    check_share,
)
from vecall.validation import check_min_similarity, check_time_zone

# The default search options of a service: floor, ranking, scoring.

NO_FLOOR = (
    "min_similarity: is a floor on the cosine similarity and needs an embedder; the "
    "floor that works without one is min_confidence"
)

FLOOR_OF_WORDS = (
    "min_similarity: is a floor on the cosine similarity, which a search by words "
    "alone (ranking.fusion) does not have; the floor that works there is min_confidence"
)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class SearchOptions(Shown):
    """How a service searches, unless a search says otherwise.

    Attributes:
        min_similarity: Floor on the cosine similarity in [-1, 1], inclusive; needs an
            embedder. None is no floor.
        ranking: How memories are ranked; None is the default `Ranking`.
        authors: At most 64 authors whose memories rank first among equal ones; ()
            favours none. None takes the ranking's authors, or else ("user",).
        calibration: Converts scores to confidence: a `Calibration`, or the path of a
            file that `Calibration.save` wrote. None is the built-in one. It covers
            searches by words, the local embedder, and, without their cosines, other
            embedders.
        scorer: Post-processes the confidence and importance of a memory.
        time_zone: Where users are: an IANA name such as "Europe/Berlin", an offset such
            as "+02:00", or a tzinfo. None is UTC. The days that a query names, as in
            "yesterday", begin and end there.

    Raises:
        ConfigError: A value is not allowed, or `authors` is set although the ranking
            sets authors or favours none.
    """

    min_similarity: float | None = None
    ranking: Ranking | None = None
    authors: Sequence[str] | None = None
    calibration: Calibration | str | Path | None = None
    scorer: Scorer | None = None
    time_zone: str | tzinfo | None = None

    def __post_init__(self) -> None:
        """Validate all values, and load the calibration if it is a path."""
        make_fields_exact(self)
        if self.min_similarity is not None:
            try:
                floor = check_min_similarity(self.min_similarity)
            except errors.InvalidArgumentError as error:
                raise errors.ConfigError(f"search.{error}") from None
            object.__setattr__(self, "min_similarity", floor)
        ranking: object = self.ranking
        if not isinstance(ranking, Ranking | None):
            raise errors.ConfigError("search.ranking: expected a vecall.Ranking")
        if self.authors is not None:
            own = ranking or Ranking()
            if own.authors is not None:
                msg = "search.authors: the ranking has authors already; give them once"
                raise errors.ConfigError(msg)
            if own.weights.get("favoured") == own.weights.get("reply") == 1.0:
                raise errors.ConfigError(
                    'search.authors: the ranking favours none; its weights "favoured" '
                    'and "reply" are 1'
                )
            authors = checked_favoured_authors(self.authors, "search.authors")
            object.__setattr__(self, "authors", authors)
        if isinstance(self.calibration, str | Path):
            loaded = Calibration.load(self.calibration)
            object.__setattr__(self, "calibration", loaded)
        calibration: object = self.calibration
        if not isinstance(calibration, Calibration | None):
            raise errors.ConfigError(
                "search.calibration: expected a vecall.Calibration or the name of its "
                "file"
            )
        scorer: object = self.scorer
        if scorer is not None and not callable(scorer):
            raise errors.ConfigError("search.scorer: expected a function")
        try:
            zone = check_time_zone(self.time_zone, "search.time_zone")
        except errors.InvalidArgumentError as error:
            raise errors.ConfigError(str(error)) from None
        object.__setattr__(self, "time_zone", zone)


def favoured_authors(options: SearchOptions) -> Sequence[str]:
    """Return the authors that a service favours."""
    if options.authors is not None:
        return options.authors
    own = None if options.ranking is None else options.ranking.authors
    return DEFAULT_AUTHORS if own is None else own


def make_scoring(options: SearchOptions, embedder: Embedder | None) -> Scoring:
    """Return the scoring for an embedder; None is searches by words only."""
    calibration = cast("Calibration | None", options.calibration)
    model_id = None if embedder is None else embedder.model_id
    return Scoring(calibration or Calibration.shipped(), model_id, options.scorer)


# Validates a query vector that the caller computed.


def checked_query_vector(
    given: object, model: EmbeddingModel | None, ranking: Ranking
) -> Vectors:
    """Return a copy of a query's vector, for a service and ranking that use vectors."""
    if model is None:
        raise errors.ConfigError(
            "vector: needs an embedder and a file that has its model"
        )
    if ranking.fusion == "words":
        raise errors.ConfigError(
            "vector: a search by words alone (ranking.fusion) uses none"
        )
    vector = checked_vector(given, model, "vector")
    if not vector.any():
        raise errors.InvalidArgumentError("vector: must have a number other than zero")
    return vector


def checked_vector(given: object, model: EmbeddingModel, name: str) -> Vectors:
    """Return a copy of the vector of an argument, float32 (dimensions,)."""
    expected = f"expected one vector of {model.dim} numbers"
    if isinstance(given, str | bytes) or not hasattr(given, "__len__"):
        raise errors.InvalidTypeError(f"{name}: {expected}")
    try:
        numbers = np.asarray(given)
    except (TypeError, ValueError):  # such as lists of different lengths
        raise errors.InvalidTypeError(f"{name}: {expected}") from None
    if numbers.shape != (model.dim,):
        raise errors.DimensionError(f"{name}: {expected}, got shape {numbers.shape}")
    if numbers.dtype.kind not in "fiu":
        raise errors.InvalidTypeError(f"{name}: {expected}")
    with np.errstate(over="ignore", under="ignore"):
        vector = np.array(numbers, dtype=np.float32, order="C")
    if not np.isfinite(vector).all():
        raise errors.InvalidArgumentError(
            f"{name}: every number must be finite in float32"
        )
    return vector


# Converts stored rows and drafts to entries.

_ENTRIES = EntryMaker(
    MemoryEntry,
    parse_stored_object,
    to_seconds,
    importance_after_days,
    check_share,
    DAY,
    DEFAULT_PRIOR,
)


def entry_of_row(
    row: Row,
    now: float | None = None,
    score: float | None = None,
    similarity: float = math.nan,
    confidence: float | None = None,
    explanation: dict[str, float] | None = None,
    scope: str = "user",
) -> MemoryEntry:
    """Return a stored row as a new entry, which shares no object with the cache.

    `now` is the time of its importance; None is the importance that is stored.
    """
    scores = (score, similarity, confidence, explanation)
    entry: MemoryEntry = _ENTRIES.make([row], [scores], now, scope)[0]
    return entry


def entry_of_draft(draft: Draft) -> MemoryEntry:
    """Return a draft as an entry."""
    return MemoryEntry(
        draft.text if draft.content is None else json.loads(draft.content),
        id=draft.id,
        author=draft.author,
        timestamp=draft.ts,
        session_id=draft.session,
        event_id=draft.event,
        kind=draft.kind,
        source=draft.source,
        trust=draft.trust,
        custom_metadata={} if draft.meta is None else json.loads(draft.meta),
        importance=draft.importance,
        valid_until=draft.valid_until,
        supersedes=draft.supersedes,
    )


_TRIES = 1_000
_INLINE = 400  # hits that the event loop makes entries of: some milliseconds
_FIRST = 5  # memories that tell whether a query asks for something
_AT_ONCE = 32  # hits that another thread makes entries of before it gives way

_PLAIN = Ranking()

T = TypeVar("T")

Found = list[tuple[Hit, Row]]
Answered = tuple[FoundRows, list[Any], QueryStats, float]  # with the `Row`s known


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
    by_period: bool = True  # whether a period that the query names counts
    time_zone: tzinfo | None = None  # of the days that the query names; None is UTC
    drops: bool = False  # whether it finds nothing if all is surely irrelevant


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

    def refuse_nested_call(self) -> None:
        """Raise ReentrantCallError if a rewriter or reranker is the caller."""
        self._slow.refuse_nested_call()
        self._rewriting.refuse_nested_call()

    def close(self) -> None:
        """End the threads of rewriters, rerankers and text comparisons."""
        self._rewriting.close()
        self._slow.close()

    async def rewrite_query(self, rewriter: Rewriter, query: str) -> str:
        """Return the rewriter's replacement for a query."""
        text: object = await call_ranking_function(
            self._rewriting, "ranking.rewriter", errors.RewriterError, rewriter, query
        )
        if not isinstance(text, str):
            raise errors.RewriterError("ranking.rewriter: must return a string")
        return text

    async def search(self, request: SearchRequest) -> SearchMemoryResponse:
        """Return the best memories."""
        vector = request.vector
        if vector is None and not has_word_or_emoji(request.query):
            return SearchMemoryResponse()
        embedding = self._embedding
        if (
            vector is None
            and embedding is not None
            and _needs_query_vector(embedding, request)
        ):
            query = to_valid_utf8(request.query)
            vector = embedding.cached_query_vector(*request.key, query)
            if vector is None:
                vector = await embedding.embed_query(*request.key, query)
        partitions, key = self._loader, request.key
        target = partitions.target(key)
        if isinstance(target, Future):
            target = partitions.current(key, await Join(target))
        answered = (
            self._query_engine(request, vector, target)
            if request.top_k <= _INLINE
            else await self._run_search_step(
                request.top_k, request, self._query_engine, request, vector, target
            )
        )
        if answered is None:
            answered = await self._query_engine_when_current(request, vector, target)
        if answered is None:
            return self._judged_response([], 0.0, 0.0, _NOTHING, request, vector)
        found, rows, answer, now = answered
        scoring = self._scoring
        is_usual = request.ranking.is_plain and not request.explain
        if is_usual and not scoring.is_custom and len(rows) <= _INLINE:
            law, scale = scoring.confidence_law(answer)
            made = _ENTRIES.answer(found, rows, request.top_k, law, scale, now, "user")
            if made is not None:
                return self._judged_response(*made, answer, request, vector)
        return await self._search_response_by_hits(request, vector, answered)

    async def _search_response_by_hits(
        self, request: SearchRequest, vector: Vectors | None, answered: Answered
    ) -> SearchMemoryResponse:
        """Return the best memories where each hit is looked at in Python."""
        found, rows, answer, now = answered
        is_plain = request.ranking.is_plain
        hits = _hits_of_rows(found, rows)
        if None in rows:
            await self._fetch_missing_rows(request.key, hits)
        # A row that is still missing was deleted after the engine call.
        pairs = [(hit, hit.row) for hit in hits if hit.row is not None]
        # The engine orders ties by row and returns all rows that tie with the last one.
        # Here the newer memory wins, then the smaller id, so the result does not depend
        # on the order of storing.
        if len(set(map(_SCORE, hits))) < len(hits):
            pairs.sort(key=_score_sort_key)
        if is_plain:
            pairs = pairs[: request.top_k]
        rate, respond = self._scoring.rate_hits, self._search_response_of_pairs
        await self._run_search_step(len(pairs), request, rate, pairs, answer)
        if not is_plain:
            pairs = await self._reordered_hits(request, pairs, answer, now)
        return await self._run_search_step(
            len(pairs), request, respond, pairs, answer, request, vector, now
        )

    async def _run_search_step(
        self, hits: int, request: SearchRequest, work: Callable[..., T], *args: Any
    ) -> T:
        """Run a step of a search; with many hits, on another thread."""
        if hits <= _INLINE:
            return work(*args)
        done: T = await Join(self._loader.submit_scan(request.key, work, *args))
        return done

    async def candidates(self, request: SearchRequest) -> SearchMemoryResponse:
        """Return candidates for deletion; a subclass may return more than a search."""
        return await self.search(request)

    async def _fetch_missing_rows(self, key: Key, hits: list[Hit]) -> None:
        """Read the rows that are not in memory."""
        missing = [hit.rid for hit in hits if hit.row is None]
        rows = await Join(self._loader.submit(self._loader.read_rows, key, missing))
        fetched = {row.rid: row for row in rows}
        for hit in hits:
            if hit.row is None:
                hit.row = fetched.get(hit.rid)

    async def _reordered_hits(
        self, request: SearchRequest, found: Found, answer: QueryStats, now: float
    ) -> Found:
        """Return the best hits in the order of the ranking's options."""
        ranking = request.ranking
        hits = [hit for hit, _ in found]
        rows = [row for _, row in found]
        if ranking.fusion == "rrf":
            _reorder.fuse_by_rank(found)
            if answer.period is not None and answer.inside:
                _reorder.lower_outside_period(found, answer.period, ranking.outside)
        if ranking.half_life is not None:
            _reorder.decay(hits, rows, cast("float", ranking.half_life), now)
        if ranking.reranker is not None and found:
            numbers = await call_ranking_function(
                self._slow,
                "ranking.reranker",
                errors.RerankerError,
                ranking.reranker,
                request.query,
                [row.text for row in rows],
            )
            _reorder.apply_reranker(hits, numbers)
        floor = request.min_confidence
        if floor and not self._scoring.is_custom:
            # Before the cut: what is below the floor takes no place in the result.
            found = [(hit, row) for hit, row in found if hit.confidence >= floor]
        found.sort(key=_score_sort_key)
        if ranking.compares_texts:
            work = partial(_reorder.choose_top_hits, found, ranking, request.top_k)
            found = await Join(self._slow.run(work, concurrent=False))
        return found[: request.top_k]

    async def _query_engine_when_current(
        self, request: SearchRequest, vector: Vectors | None, target: Version | None
    ) -> Answered | None:
        """Query the engine once it has all changes from before the search began.

        None if the user was deleted.
        """
        partitions, key = self._loader, request.key
        with partitions.pinned(key):
            for attempt in range(_TRIES):
                if target is None:
                    return None
                if not partitions.retired:
                    await Join(partitions.synchronize_partition(key))
                if partitions.retired:
                    raise RetiredModelError
                if attempt:
                    # The first run may have begun before this search, as others share
                    # it. This one did not: what it has loaded is new enough, whatever
                    # an earlier check said.
                    target = partitions.version_of(key) or target
                answer = await self._run_search_step(
                    request.top_k, request, self._query_engine, request, vector, target
                )
                if answer is not None:
                    return answer
                now = partitions.target(key)
                if isinstance(now, Future):
                    now = partitions.current(key, await Join(now))
                if now is None or now[0] != target[0] or now[2]:
                    target = now  # the user was deleted, or history went back
        raise errors.BusyError(
            "a user's memories changed faster than they could be read"
        )

    def _query_engine(
        self, request: SearchRequest, vector: Vectors | None, target: Version | None
    ) -> Answered | None:
        """Query the engine; None unless the partition is at `target` throughout."""
        partitions, key, ranking = self._loader, request.key, request.ranking
        entry = partitions.loaded(key, target)
        if entry is None:
            return None
        steps = entry.steps
        top_k = request.top_k
        if not ranking.is_plain:
            top_k = max(top_k, ranking.depth)
        by_words = ranking.fusion != "vectors"
        kind, weights = query_message(request.query), ranking
        if kind == "message" and not ranking.weights:
            weights = OF_MESSAGES
        elif kind and not ranking.weights and vector is not None:
            weights = OF_STATEMENTS if self._scoring.known_model else ranking
        now, expiry_now = self._expiry_clock.wall_and_expiry_times()
        terms, marks = query_terms(
            request.query,
            now=now,
            zone=request.time_zone,
            by_period=request.by_period and (by_words or vector is not None),
        )
        is_free = request.filter is None and request.min_similarity is None
        is_free = is_free and request.only is None and request.without is None
        period, options = marks.period, {} if is_free else _engine_options(request)
        periods = [] if period is None else [period, *marks.earlier]
        while True:
            if periods:
                period = periods.pop(0)
                options |= _period_options(period)
            found, rids, summary = self._engine.recall_found(
                key,
                vector,
                [*terms, *marks.optional] if by_words else [],
                top_k,
                to_micros(expiry_now),
                QUESTION,
                marks.time,
                list(marks.authors),
                _engine_keys_of_authors(tuple(request.authors)),
                weights.engine_ranking,
                self._scoring.known_model,
                **options,
            )
            if summary[5] or marks.period is None:
                break
            if not periods:  # nothing lies in any: their words are looked for
                period, options = marks.period, _engine_options(request)
                terms, marks = query_terms(request.query, by_period=False)
        known_rows = self._cache.get_rows(rids)
        if not partitions.holds_unchanged(key, entry, steps):
            return None
        part = entry.part
        for rid in rids:
            if rid >> 32 != part:  # a row number begins with its partition's number
                partitions.distrust_partition(entry)
                return None
        coverage, vector_weight, mean, deviation, rows, inside, best = summary
        has_vector = vector is not None and (mean != 0.0 or deviation != 0.0)
        dense = weights.weights.get("dense", DENSE)
        scale = 1.0 if dense == DENSE else DENSE / max(dense, DENSE / 10.0)
        answer = QueryStats(
            *(coverage, vector_weight, rows, best, has_vector),
            *(scale, period, inside, kind != ""),
        )
        return found, known_rows, answer, now

    def _search_response_of_pairs(
        self,
        found: Found,
        answer: QueryStats,
        request: SearchRequest,
        vector: Vectors | None,
        now: float,
    ) -> SearchMemoryResponse:
        memories: list[MemoryEntry] = []
        scoring = self._scoring
        step = _INLINE if len(found) <= _INLINE else _AT_ONCE
        for begin in in_slices(range(0, len(found), step)):
            part = found[begin : begin + step]
            memories += _ENTRIES.make(
                [row for _, row in part],
                [
                    (
                        hit.score,
                        hit.similarity,
                        hit.confidence,
                        hit.explanation(answer) if request.explain else None,
                    )
                    for hit, _ in part
                ],
                now,
                "user",
            )
        if scoring.is_custom:
            sliced = memories if len(memories) <= _INLINE else in_slices(memories)
            memories = [scoring.rescore(memory, request.query) for memory in sliced]
        confidence = max((hit.confidence for hit, _ in found[:_FIRST]), default=0.0)
        covered = max((hit.score_parts[0] for hit, _ in found[:_FIRST]), default=0.0)
        return self._judged_response(
            memories, confidence, covered, answer, request, vector
        )

    def _judged_response(
        self,
        memories: list[MemoryEntry],
        confidence: float,
        covered: float,
        answer: QueryStats,
        request: SearchRequest,
        vector: Vectors | None,
    ) -> SearchMemoryResponse:
        """Return the memories that are sure enough, with what their relevance needs."""
        scoring, floor = self._scoring, request.min_confidence
        asked = None  # a scorer of one's own decides alone
        if not scoring.is_custom:
            asked = Asked(
                request.query,
                confidence,
                covered,
                answer.coverage,
                vector if answer.has_vector else None,
                scoring.model_id,
            )
            if request.drops and answer.has_vector and asked.is_surely_irrelevant():
                memories = []
        if floor:
            # A floor of 0 lets a memory pass for which the scorer knows none.
            memories = [each for each in memories if (each.confidence or 0.0) >= floor]
        return SearchMemoryResponse(memories, answer.period, asked)


def _hits_of_rows(found: FoundRows, rows: Sequence[Row | None]) -> list[Hit]:
    rids, scores, cosines, lexical, parts = found.lists()
    places = range(len(rids))
    return list(map(Hit, rids, rows, scores, cosines, lexical, parts, places, scores))


def _needs_query_vector(embedding: EmbeddingQueue, request: SearchRequest) -> bool:
    """Whether the search needs the query's vector.

    It does not if the query's letters are outside the model's scripts: the cosine
    would be noise. A search that requires the cosine gets it anyway.
    """
    fusion = request.ranking.fusion
    if fusion == "words":
        return False
    if not embedding.can_embed:
        if request.min_similarity is not None or fusion == "vectors":
            msg = "vector: this service has no embedder; give the query's vector"
            raise errors.ConfigError(msg)
        return False
    if request.min_similarity is not None or fusion == "vectors":
        return True
    return embedding.knows_letters(request.query)


_SCORE = attrgetter("score")


def _score_sort_key(pair: tuple[Hit, Row]) -> tuple[float, float, str]:
    hit, row = pair
    time = row.created_at if row.ts is None else row.ts  # Row.time, without its call
    return -hit.score, -time, row.id


@lru_cache(64)
def _engine_keys_of_authors(names: tuple[str, ...]) -> list[int]:
    return [name_key(name) for name in names]


_NOTHING = QueryStats(0.0, 0.0, 0.0, 0.0, has_vector=False)


def _period_options(period: Period) -> dict[str, Any]:
    start, end = period.start, period.end
    return {
        "period_from": None if start is None else to_micros(start),
        "period_until": None if end is None else to_micros(end),
        "dated_mark": DATED,
    }


def _engine_options(request: SearchRequest) -> dict[str, Any]:
    options: dict[str, Any] = {}
    conditions = request.filter
    if conditions is not None:
        if conditions.session_id is not None:
            options["session"] = name_key(conditions.session_id)
        if conditions.not_session_id is not None:
            names = as_names(conditions.not_session_id)
            options["without_sessions"] = list(map(name_key, names))
        for name in ("author", "kind"):
            if isinstance(value := getattr(conditions, name), str):
                options[name] = name_key(value)
        for name in ("after", "before"):
            if (moment := getattr(conditions, name)) is not None:
                options[name] = to_micros(to_seconds(moment, f"filter.{name}"))
    for name in ("min_similarity", "only", "without"):
        if (value := getattr(request, name)) is not None:
            options[name] = value
    return options
