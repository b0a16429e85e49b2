"""Selects the search results that are nearly as relevant as the best one.

A search returns the best `top_k` memories however far off the last ones are. A proposal
to delete must not: it keeps to what is near the best match.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

SHARE_OF_WORDS = 0.8
"""A memory is selected from this share of the best memory's query coverage on."""

WHOLE_BY_WORDS = 0.8
"""From this query coverage on, words alone decide, without cosines."""

HALF_BY_WORDS = 0.5
"""Below this query coverage, cosines decide."""

SHARE_OF_NEARNESS = 0.85
"""A memory is selected from this share of the best nearness on."""

LEAST_COSINE = 0.3
"""Below this cosine two texts are unrelated for the models in common use."""


class Match(NamedTuple):
    """How well a memory matches a query.

    Attributes:
        covered: Share of the query's words that it has, in [0, 1], rare words weighing
            more where that is known.
        cosine: Of query and memory, in [-1, 1]; None without vectors.
        nearness: The cosine above what is usual among this user's memories; at least 0,
            and comparable within one answer only.
    """

    covered: float = 0.0
    cosine: float | None = None
    nearness: float = 0.0


def near_best(matches: Sequence[Match]) -> list[bool]:
    """Return for each match whether it is near the best one.

    By words where the best memory covers the query; else by the cosine too. Nothing is
    near where the words say little and every cosine is low.
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
