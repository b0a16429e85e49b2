"""Applies the options of `Ranking` to the engine's hits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from vecall.concurrency.time_slices import in_slices
from vecall.errors import RerankerError
from vecall.lexical import content_words
from vecall.ranking.options import Ranking
from vecall.search.confidence import Hit
from vecall.store import Row

_RRF = 60.0  # Cormack et al., "Reciprocal rank fusion …", 2009


def fuse_by_rank(found: Sequence[tuple[Hit, Row]]) -> None:
    """Score by reciprocal rank fusion of the ranking by words and that by vectors."""
    scores = dict.fromkeys([hit.rid for hit, _ in found], 0.0)
    for side in (_by_words, _by_vectors):
        known = [(hit, row) for hit, row in found if side(hit) is not None]
        # Ties, as everywhere: the newer memory, then the smaller id.
        known.sort(key=partial(_order, side))
        for rank, (hit, _) in enumerate(known, 1):
            scores[hit.rid] += 1.0 / (_RRF + rank)
    for hit, _ in found:
        hit.score = scores[hit.rid]
        _note(hit, "rrf", hit.score)


def _order(
    side: Callable[[Hit], float | None], pair: tuple[Hit, Row]
) -> tuple[float, float, str]:
    hit, row = pair
    return (-(side(hit) or 0.0), -row.time, row.id)


def _by_words(hit: Hit) -> float | None:
    return hit.lexical or None  # no rank without a common word


def _by_vectors(hit: Hit) -> float | None:
    return None if math.isnan(hit.similarity) else hit.similarity


def decay(hits: list[Hit], rows: Sequence[Row], half_life: float, now: float) -> None:
    """Halve scores per half-life of age. A timestamp in the future counts as now."""
    for hit, row in zip(hits, rows, strict=True):
        factor = 0.5 ** (max(now - row.time, 0.0) / half_life)
        hit.score *= factor
        _note(hit, "decay", factor)


def apply_reranker(hits: list[Hit], numbers: object) -> None:
    """Replace the scores by the reranker's.

    Raises:
        RerankerError: The result is not one finite number per hit.
    """
    try:
        scores = [float(number) for number in numbers]  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        scores = []
    if len(scores) != len(hits) or not all(map(math.isfinite, scores)):
        msg = f"ranking.reranker: must return {len(hits)} finite numbers, one per text"
        raise RerankerError(msg)
    for hit, score in zip(hits, scores, strict=True):
        hit.score = score
        _note(hit, "reranker", score)


def choose(
    ordered: Sequence[tuple[Hit, Row]], ranking: Ranking, top_k: int
) -> list[tuple[Hit, Row]]:
    """Return the first top_k hits after collapsing duplicates, or diversified."""
    words = {
        hit.rid: frozenset(content_words(row.text)) for hit, row in in_slices(ordered)
    }
    left = list(ordered)
    if ranking.collapse is not None:
        left = _collapsed(left, words, ranking.collapse)
    if ranking.diversity:
        return _diverse(left, words, ranking.diversity, top_k)
    return left[:top_k]


def _collapsed(
    ordered: list[tuple[Hit, Row]], words: dict[int, frozenset[int]], share: float
) -> list[tuple[Hit, Row]]:
    distinct: list[tuple[Hit, Row]] = []
    for hit, row in in_slices(ordered):
        mine = words[hit.rid]
        if all(_overlap(mine, words[other.rid]) < share for other, _ in distinct):
            distinct.append((hit, row))
    return distinct


def _diverse(
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
        _note(hit, "marginal_relevance", worth[at])
        chosen.append((hit, row))
        for other, _ in left:
            alike = _overlap(words[hit.rid], words[other.rid])
            likeness[other.rid] = max(likeness[other.rid], alike)
    return chosen


def _overlap(a: frozenset[int], b: frozenset[int]) -> float:
    """Jaccard similarity of two sets of words; 0 for two empty sets."""
    either = len(a | b)
    return len(a & b) / either if either else 0.0


def _note(hit: Hit, name: str, value: float) -> None:
    if hit.ranked_by is None:
        hit.ranked_by = {}
    hit.ranked_by[name] = value
