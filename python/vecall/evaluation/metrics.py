"""Figures of recall and of confidence, from ranked ids and from probabilities.

Pure functions. A figure without data is None, not zero.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

BINS = 10


Pieces = Sequence[Collection[str]]
"""The pieces of a question's evidence. Any id of a piece is enough."""


def recall_at(ranked: Sequence[str], pieces: Pieces, depth: int) -> float:
    """Return the share of the pieces among the first `depth` ids; needs one piece."""
    first = set(ranked[:depth])
    return sum(not first.isdisjoint(piece) for piece in pieces) / len(pieces)


def reciprocal_rank(ranked: Sequence[str], pieces: Pieces) -> float:
    """Return 1 / rank of the first evidence; 0 if no evidence was found."""
    for rank, name in enumerate(ranked, 1):
        if any(name in piece for piece in pieces):
            return 1.0 / rank
    return 0.0


def ndcg_at(ranked: Sequence[str], pieces: Pieces, depth: int) -> float:
    """Return the normalised discounted cumulative gain.

    The first id of a piece gains 1. Everything else gains 0.
    """
    left = list(pieces)
    gained = 0.0
    for rank, name in enumerate(ranked[:depth], 1):
        missing = [piece for piece in left if name not in piece]
        gained += (len(missing) < len(left)) / math.log2(rank + 1)
        left = missing
    limit = min(len(pieces), depth)
    return gained / sum(1.0 / math.log2(rank + 1) for rank in range(1, limit + 1))


@dataclass(frozen=True, slots=True)
class Bin:
    """The hits of one range of confidences.

    Attributes:
        low: The lower end of the range; the upper end is that of the next bin.
        hits: The number of hits.
        confidence: Their mean confidence.
        relevant: The share that was relevant.
    """

    low: float
    hits: int
    confidence: float
    relevant: float


def reliability(
    confidences: Sequence[float], relevant: Sequence[int], bins: int = BINS
) -> list[Bin]:
    """Return the non-empty bins of equal width in [0, 1]; the last bin includes 1."""
    held: dict[int, list[tuple[float, int]]] = {}
    for confidence, right in zip(confidences, relevant, strict=True):
        held.setdefault(min(int(confidence * bins), bins - 1), []).append(
            (confidence, right)
        )
    return [
        Bin(
            number / bins,
            len(found),
            sum(confidence for confidence, _ in found) / len(found),
            sum(right for _, right in found) / len(found),
        )
        for number, found in sorted(held.items())
    ]


def expected_calibration_error(
    confidences: Sequence[float], relevant: Sequence[int], bins: int = BINS
) -> float | None:
    """Return the mean gap of the bins between confidence and share of relevant hits.

    The number of hits is the weight of a bin.
    """
    if not confidences:
        return None
    found = reliability(confidences, relevant, bins)
    gaps = (bin_.hits * abs(bin_.confidence - bin_.relevant) for bin_ in found)
    return sum(gaps) / len(confidences)


def brier(confidences: Sequence[float], relevant: Sequence[int]) -> float | None:
    """Return the mean squared error of the confidences."""
    if not confidences:
        return None
    pairs = zip(confidences, relevant, strict=True)
    return sum((confidence - right) ** 2 for confidence, right in pairs) / len(
        confidences
    )


def constant_brier(relevant: Sequence[int]) -> float | None:
    """Return the Brier score of a constant prediction of the base rate."""
    if not relevant:
        return None
    rate = sum(relevant) / len(relevant)
    return rate * (1.0 - rate)


def auroc(confidences: Sequence[float], relevant: Sequence[int]) -> float | None:
    """Return the area under the ROC curve.

    It is the share of pairs of a relevant and an irrelevant hit in which the relevant
    hit has the higher confidence. A tie counts as half.
    """
    right = sum(relevant)
    wrong = len(relevant) - right
    if not right or not wrong:
        return None
    order = sorted(zip(confidences, relevant, strict=True))
    ranks = 0.0
    begin = 0
    while begin < len(order):
        end = begin
        while end < len(order) and order[end][0] == order[begin][0]:
            end += 1
        middle = (begin + 1 + end) / 2  # ties share the mean of their ranks
        ranks += middle * sum(relevant for _, relevant in order[begin:end])
        begin = end
    return (ranks - right * (right + 1) / 2) / (right * wrong)


def mean(values: Sequence[float]) -> float | None:
    """Return the mean."""
    return sum(values) / len(values) if values else None


def deviation(values: Sequence[float]) -> float | None:
    """Return the standard deviation of the population."""
    middle = mean(values)
    if middle is None:
        return None
    return math.sqrt(sum((value - middle) ** 2 for value in values) / len(values))


def half_width(differences: Sequence[float]) -> float | None:
    """Return half the 95 % interval of the mean of paired differences."""
    spread = deviation(differences)
    if spread is None or len(differences) < 2:
        return None
    return 1.96 * spread / math.sqrt(len(differences) - 1)


def percentile(values: Sequence[float], percent: int) -> float | None:
    """Return the value that `percent` percent of the values do not exceed."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]
