"""Confidence and importance of search results."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from vecall.errors import InvalidMemoryError
from vecall.ranking.calibration import LEAST_FACTOR, Calibration, Weights
from vecall.ranking.importance import DAY, DEFAULT_PRIOR, weight_of
from vecall.store import Row
from vecall.types import MemoryEntry

Scorer = Callable[[MemoryEntry, str], tuple[float | None, float]]
"""Takes a memory with its default scores and the query; returns its new confidence
(None: no confidence) and importance. It runs for every memory of every search on the
caller's thread, so it must be fast."""


_LOG_PLACES = tuple(math.log1p(place) for place in range(100))


class QueryStats(NamedTuple):
    """The engine's statistics of a query.

    Attributes:
        coverage: Share of the query's idf that the best row covers.
        trust: The weight of the vectors, in [0, 1], from their agreement with words.
        rows: The number of rows that passed the filter.
        best: The best score.
        has_vector: Whether the query had a vector that is not zero.
        scale: The factor that converts the vectors' parts of the scores to those of the
            default ranking.
    """

    coverage: float
    trust: float
    rows: float
    best: float
    has_vector: bool
    scale: float = 1.0


@dataclass(slots=True)
class Hit:
    """A row that the engine found, and its scores."""

    rid: int
    row: Row | None
    score: float
    similarity: float
    lexical: float
    parts: list[float]  # covered, words, vectors, neighbours, session, factor
    place: int  # in the engine's result, from 0
    engine_score: float
    ranked_by: dict[str, float] | None = None  # the parts that options added

    def explanation(self, answer: QueryStats) -> dict[str, float]:
        """Return the parts of the score, by name."""
        covered, words, vectors, neighbours, session, factor = self.parts
        parts = {
            "words": words,
            "vectors": vectors,
            "neighbours": neighbours,
            "session": session,
            "factor": factor,
            "bm25": self.lexical,
            "query_coverage": covered,
            "relative": self.relative(answer),
            "rank": float(self.place),
            "coverage": answer.coverage,
            "vector_weight": answer.trust,
            "rows": answer.rows,
        }
        return {**parts, **(self.ranked_by or {})}

    def relative(self, answer: QueryStats) -> float:
        """Return the engine's score as a share of its best one."""
        return self.engine_score / answer.best if answer.best > 0.0 else 0.0

    def signals(self, answer: QueryStats) -> tuple[float, ...]:
        """Return the values of `Signals` for the confidence, in their order."""
        relative = self.relative(answer)
        place, (covered, _, vectors, _, _, factor) = self.place, self.parts
        seen, similarity = covered > 0.0, self.similarity
        return (
            math.sqrt(covered),
            _LOG_PLACES[place] if place < len(_LOG_PLACES) else math.log1p(place),
            relative,
            1.0 if seen else 0.0,
            math.log(factor if factor > LEAST_FACTOR else LEAST_FACTOR),
            vectors * answer.scale if answer.has_vector else 0.0,
            0.0 if seen or math.isnan(similarity) else similarity,
        )


def prior_of(row: Row) -> float:
    """Return the importance that a memory was stored with; 0.5 if it has none."""
    return DEFAULT_PRIOR if row.importance is None else row.importance


def importance_of(row: Row, now: float) -> float:
    """Return the weight of a memory if it is used, in [0, 1]; see `weight_of`."""
    # From the middle of the day, so that rounding does not change the day.
    days = (now - row.time) // DAY
    return _weight_after(row.importance, row.uses, days)


@lru_cache(4_096)  # the memories of an answer are of few days, and were seldom used
def _weight_after(prior: float | None, uses: int | None, days: float) -> float:
    return weight_of(prior, uses, (days + 0.5) * DAY)


class Scoring:
    """Scores the hits of one embedding model, or of words alone."""

    def __init__(
        self, calibration: Calibration, model_id: str | None, scorer: Scorer | None
    ) -> None:
        """Find the weights of a model; None is words alone."""
        self._words = calibration.words
        self._matches = calibration.of_matches()
        self._hybrid: Weights | None = None
        if model_id is not None:
            self._hybrid = calibration.of_model(model_id)
        self._scorer = scorer

    def confidence(self, hit: Hit, answer: QueryStats) -> float:
        """Return the chance that a hit is relevant."""
        hybrid = self._hybrid if answer.has_vector else None
        weights = self._words if hybrid is None else hybrid
        return weights.probability(hit.signals(answer))

    def confidence_of_match(self, share: float, best: float, place: int) -> float:
        """Return the chance that a text which matches the query is relevant.

        Args:
            share: Share of the query's words that the text has, in (0, 1].
            best: The best share in the result.
            place: Place in the result, from 0.
        """
        relative = share / best
        signals = (math.sqrt(share), math.log1p(place), relative, 1.0, 0.0)
        return self._matches.probability(signals)

    def rescore(self, memory: MemoryEntry, query: str) -> MemoryEntry:
        """Return a memory with the scores of the user's scorer.

        Raises:
            InvalidMemoryError: The scorer did not return two scores.
        """
        if self._scorer is None:
            return memory
        try:
            scores: object = self._scorer(memory, query)
        except Exception as error:
            # The error's message may contain the memory's text; its type does not.
            msg = f"scorer: failed with {type(error).__name__}"
            raise InvalidMemoryError(msg) from None
        if not isinstance(scores, tuple) or len(scores) != 2:
            msg = "scorer: must return a pair (confidence, importance)"
            raise InvalidMemoryError(msg)
        confidence, importance = scores
        return replace(
            memory,
            confidence=None if confidence is None else _share(confidence),
            importance=_share(importance),
        )


def _share(value: Any) -> float:
    is_number = isinstance(value, float | int | np.floating)
    if not is_number or isinstance(value, bool) or not 0.0 <= value <= 1.0:
        msg = "scorer: confidence and importance must be numbers within [0, 1]"
        raise InvalidMemoryError(msg)
    return float(value)
