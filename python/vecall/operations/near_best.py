"""Selects the search results that are nearly as relevant as the best one.

A search returns `top_k` memories even if the last ones are hardly relevant. A proposal
to delete memories contains only those near the best match.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

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
