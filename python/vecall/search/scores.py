"""From the scores of the engine to probabilities and an order."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from vecall import errors
from vecall._core import Confidence
from vecall.clock import Period
from vecall.concurrency.executor import PluginExecutor
from vecall.concurrency.time_slices import in_slices
from vecall.embedders.base import is_async
from vecall.lexical import content_words
from vecall.ranking.calibration import Calibration
from vecall.ranking.options import DAY, Ranking, importance_weight
from vecall.ranking.relevance import highest_relevance
from vecall.store import Row
from vecall.types import MemoryEntry, SearchMemoryResponse

# Confidence and importance of search results.

Scorer = Callable[[MemoryEntry, str], tuple[float | None, float]]
"""(memory with default scores, query) -> (confidence or None, importance). It runs on
the caller's thread for every memory of every search, so it must be fast."""


class QueryStats(NamedTuple):
    """The engine's statistics of a query."""

    coverage: float  # share of the query's total IDF that the best row covers
    vector_weight: float  # in [0, 1]: how well the vectors agree with the words
    rows: float  # the number of rows that passed the filter
    best: float  # the best score
    has_vector: bool  # whether the query had a vector other than zero
    scale: float = 1.0  # converts the vector parts of scores to the default ranking's
    period: Period | None = None  # the period that the query names
    inside: float = 0.0  # the number of rows in it
    is_message: bool = False  # whether the query tells more than it asks


@dataclass(slots=True, repr=False, eq=False)
class Hit:
    """A row that the engine found, with its scores."""

    rid: int
    row: Row | None
    score: float
    similarity: float
    lexical: float
    score_parts: list[float]  # coverage, words, vectors, neighbours, session, factor
    rank: int  # in the engine's result, from 0
    engine_score: float
    ranked_by: dict[str, float] | None = None  # parts added by ranking options
    # Set by `rate_hits`:
    relative: float = 0.0  # the engine's score as a share of its best one
    place: float = 0.0  # see `Confidence.places`
    confidence: float = 0.0

    def explanation(self, answer: QueryStats) -> dict[str, float]:
        """Return the parts of the score, by name."""
        covered, words, vectors, neighbours, session, factor = self.score_parts
        parts = {
            "words": words,
            "vectors": vectors,
            "neighbours": neighbours,
            "session": session,
            "factor": factor,
            "bm25": self.lexical,
            "query_coverage": covered,
            "relative": self.relative,
            "rank": float(self.rank),
            "place": self.place,
            "coverage": answer.coverage,
            "vector_weight": answer.vector_weight,
            "vector_scale": answer.scale,
            "rows": answer.rows,
        }
        return {**parts, **(self.ranked_by or {})}


@lru_cache(4_096)  # few distinct ages in days and use counts occur
def importance_after_days(prior: float | None, uses: int | None, days: float) -> float:
    """Return the `importance_weight` of a memory after whole days."""
    # Age counts from the middle of the day, so rounding does not change the day.
    return importance_weight(prior, uses, (days + 0.5) * DAY)


class Scoring:
    """Scores the hits of searches with one embedding model, or with words only."""

    def __init__(
        self, calibration: Calibration, model_id: str | None, scorer: Scorer | None
    ) -> None:
        """Select the weights of a model; None selects those of words only."""
        self.model_id = model_id
        self._matches = calibration.of_matches().engine_law()
        self.known_model = False
        """Whether the model's vectors count in full."""
        words = hybrid = calibration.words
        if model_id is not None:
            self.known_model = calibration.counts_in_full(model_id)
            hybrid = calibration.of_model(model_id)
        # By whether the query has a vector, and whether it is a message.
        self._laws = [
            [weights.engine_law(), weights.engine_law(calibration.messages)]
            for weights in (words, hybrid)
        ]
        self._scorer = scorer
        self.is_custom = scorer is not None
        """Whether a scorer replaces the confidences."""

    def confidence_law(self, answer: QueryStats) -> tuple[Confidence, float]:
        """Return the law of a query's confidences, and its scale of vectors."""
        scale = answer.scale if answer.has_vector else 0.0
        return self._laws[answer.has_vector][answer.is_message], scale

    def rate_hits(self, found: Sequence[tuple[Hit, Row]], answer: QueryStats) -> None:
        """Set the confidences of hits that are in the engine's order."""
        law, scale = self.confidence_law(answer)
        hits = []
        for hit, row in found:
            covered, _, vectors, _, _, factor = hit.score_parts
            size = len(row.text)
            hits.append(
                (hit.engine_score, covered, vectors, factor, hit.similarity, size)
            )
        rated = law.rate(hits, answer.best, scale)
        for (hit, _), values in zip(found, rated, strict=True):
            hit.place, hit.relative, hit.confidence = values

    def rate_matches(
        self, found: Sequence[tuple[float, Row]]
    ) -> list[tuple[float, float, float]]:
        """Return place, relative score and confidence of texts that match the query.

        They are found, best first, by the share in (0, 1] of its words that they have.
        """
        hits = [
            (share, share, 0.0, 1.0, math.nan, len(row.text)) for share, row in found
        ]
        return self._matches.rate(hits, hits[0][0] if hits else 0.0, 0.0)

    def rescore(self, memory: MemoryEntry, query: str) -> MemoryEntry:
        """Return a memory with the scores of the user's scorer."""
        if self._scorer is None:
            return memory
        try:
            scores: object = self._scorer(memory, query)
        except Exception as error:
            # The error's message may contain the memory's text; its type does not.
            msg = f"scorer: failed with {type(error).__name__}"
            raise errors.InvalidMemoryError(msg) from None
        if not isinstance(scores, tuple) or len(scores) != 2:
            msg = "scorer: must return a pair (confidence, importance)"
            raise errors.InvalidMemoryError(msg)
        confidence, importance = scores
        return replace(
            memory,
            confidence=None if confidence is None else _reranker_share(confidence),
            importance=_reranker_share(importance),
        )


def _reranker_share(value: Any) -> float:
    is_number = isinstance(value, float | int | np.floating)
    if not is_number or isinstance(value, bool) or not 0.0 <= value <= 1.0:
        msg = "scorer: confidence and importance must be numbers within [0, 1]"
        raise errors.InvalidMemoryError(msg)
    return float(value)


# Calls the functions of a `Ranking`: query rewriters and rerankers.


async def call_ranking_function(
    thread: PluginExecutor,
    name: str,
    failed: type[errors.VecallError],
    function: Callable[..., Any],
    *arguments: object,
) -> Any:
    """Return what a function of the ranking does; see `PluginExecutor.call_plugin`."""
    return await thread.call_plugin(
        partial(function, *arguments),
        concurrent=is_async(function),
        name=name,
        failed=failed,
        nested="searched its own memory service with the same ranking; it can only "
        "search another service",
    )


# Applies the options of `Ranking` to the engine's hits.

_RRF = 60.0  # Cormack et al., "Reciprocal rank fusion …", 2009


def fuse_by_rank(found: Sequence[tuple[Hit, Row]]) -> None:
    """Score by reciprocal rank fusion of the ranking by words and that by vectors."""
    scores = dict.fromkeys([hit.rid for hit, _ in found], 0.0)
    by_words = [(hit.lexical, hit, row) for hit, row in found if hit.lexical]
    by_vectors = [(hit.similarity, hit, row) for hit, row in found]
    for side in (by_words, [one for one in by_vectors if not math.isnan(one[0])]):
        # Ties, as everywhere: the newer memory, then the smaller id.
        side.sort(key=lambda one: (-one[0], -one[2].time, one[2].id))
        for rank, (_, hit, _) in enumerate(side, 1):
            scores[hit.rid] += 1.0 / (_RRF + rank)
    for hit, _ in found:
        hit.score = scores[hit.rid]
        _note_score_part(hit, "rrf", hit.score)


def lower_outside_period(
    found: Sequence[tuple[Hit, Row]], period: Period, factor: float
) -> None:
    """Lower the scores of rows outside of a period, as the engine does."""
    start = -math.inf if period.start is None else period.start
    end = math.inf if period.end is None else period.end
    for hit, row in found:
        if not start <= row.time < end:
            lowered = math.sqrt(factor) if row.ts is None else factor
            hit.score *= lowered
            _note_score_part(hit, "outside", lowered)


def decay(hits: list[Hit], rows: Sequence[Row], half_life: float, now: float) -> None:
    """Halve scores per half-life of age. A timestamp in the future counts as now."""
    for hit, row in zip(hits, rows, strict=True):
        factor = 0.5 ** (max(now - row.time, 0.0) / half_life)
        hit.score *= factor
        _note_score_part(hit, "decay", factor)


def apply_reranker(hits: list[Hit], numbers: object) -> None:
    """Replace the scores by the reranker's: one finite number per hit, or an error."""
    try:
        scores = [float(number) for number in numbers]  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        scores = []
    if len(scores) != len(hits) or not all(map(math.isfinite, scores)):
        msg = f"ranking.reranker: must return {len(hits)} finite numbers, one per text"
        raise errors.RerankerError(msg)
    for hit, score in zip(hits, scores, strict=True):
        hit.score = score
        _note_score_part(hit, "reranker", score)


def choose_top_hits(
    ordered: Sequence[tuple[Hit, Row]], ranking: Ranking, top_k: int
) -> list[tuple[Hit, Row]]:
    """Return the first top_k hits after collapsing duplicates, or diversified."""
    words = {
        hit.rid: frozenset(content_words(row.text)) for hit, row in in_slices(ordered)
    }
    left = list(ordered)
    if ranking.collapse is not None:
        left = _collapsed_hits(left, words, ranking.collapse)
    if ranking.diversity:
        return _diversified_hits(left, words, ranking.diversity, top_k)
    return left[:top_k]


def _collapsed_hits(
    ordered: list[tuple[Hit, Row]], words: dict[int, frozenset[int]], share: float
) -> list[tuple[Hit, Row]]:
    distinct: list[tuple[Hit, Row]] = []
    for hit, row in in_slices(ordered):
        mine = words[hit.rid]
        if all(_word_overlap(mine, words[other.rid]) < share for other, _ in distinct):
            distinct.append((hit, row))
    return distinct


def _diversified_hits(
    ordered: list[tuple[Hit, Row]],
    words: dict[int, frozenset[int]],
    diversity: float,
    top_k: int,
) -> list[tuple[Hit, Row]]:
    scores = [hit.score for hit, _ in ordered]
    low = min(scores, default=0.0)
    width = (max(scores, default=0.0) - low) or 1.0
    left = list(ordered)
    likeness = dict.fromkeys(words, 0.0)
    chosen: list[tuple[Hit, Row]] = []
    for _ in in_slices(range(min(top_k, len(left)))):
        worth = [
            (1.0 - diversity) * (hit.score - low) / width
            - diversity * likeness[hit.rid]
            for hit, _ in left
        ]
        at = worth.index(max(worth))
        hit, row = left.pop(at)
        _note_score_part(hit, "marginal_relevance", worth[at])
        chosen.append((hit, row))
        for other, _ in left:
            alike = _word_overlap(words[hit.rid], words[other.rid])
            likeness[other.rid] = max(likeness[other.rid], alike)
    return chosen


def _word_overlap(a: frozenset[int], b: frozenset[int]) -> float:
    """Jaccard similarity of two sets of words; 0 for two empty sets."""
    either = len(a | b)
    return len(a & b) / either if either else 0.0


def _note_score_part(hit: Hit, name: str, value: float) -> None:
    if hit.ranked_by is None:
        hit.ranked_by = {}
    hit.ranked_by[name] = value


# Merges the results of several scopes.


def merge_scope_responses(
    answers: Mapping[str, SearchMemoryResponse], top_k: int
) -> SearchMemoryResponse:
    """Return the best memories of the responses by scope, the user's own first.

    Scores of different scopes are not comparable; confidences are. Memories without
    a confidence are ordered by their rank in their response.
    """
    ranked: list[tuple[float, int, int, MemoryEntry]] = []
    for turn, (scope, answer) in enumerate(answers.items()):
        for place, memory in enumerate(answer.memories):
            confidence = -1.0 if memory.confidence is None else memory.confidence
            ranked.append((-confidence, place, turn, replace(memory, scope=scope)))
    ranked.sort(key=lambda entry: entry[:3])
    period = next((answer.period for answer in answers.values()), None)
    asked = tuple(each.asked for each in answers.values() if each.asked is not None)
    return SearchMemoryResponse(
        [memory for *_, memory in ranked[:top_k]],
        period,
        partial(highest_relevance, asked) if asked else None,
    )
