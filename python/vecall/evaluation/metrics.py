"""Figures of recall and of confidence, from ranked ids and from probabilities.

Pure functions. What nothing is known of is None, not zero.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

BINS = 10


Pieces = Sequence[Collection[str]]
"""The pieces of a question's evidence; of the ids of a piece one is enough."""


def recall_at(ranked: Sequence[str], pieces: Pieces, depth: int) -> float:
    """Return the share of the pieces, of which there is one, among the first."""
    first = set(ranked[:depth])
    return sum(not first.isdisjoint(piece) for piece in pieces) / len(pieces)


def reciprocal_rank(ranked: Sequence[str], pieces: Pieces) -> float:
    """Return 1 / rank of the first evidence; 0 where there is none."""
    for rank, name in enumerate(ranked, 1):
        if any(name in piece for piece in pieces):
            return 1.0 / rank
    return 0.0


def ndcg_at(ranked: Sequence[str], pieces: Pieces, depth: int) -> float:
    """Return the normalised discounted gain.

    The first id of a piece gains 1, all else nothing.
    """
    left = list(pieces)
    gained = 0.0
    for rank, name in enumerate(ranked[:depth], 1):
        missing = [piece for piece in left if name not in piece]
        gained += (len(missing) < len(left)) / math.log2(rank + 1)
        left = missing
    most = min(len(pieces), depth)
    return gained / sum(1.0 / math.log2(rank + 1) for rank in range(1, most + 1))


@dataclass(frozen=True, slots=True)
class Bin:
    """The hits of one range of confidences.

    Attributes:
        low: Where it begins; it ends where the next one begins.
        hits: How many there are.
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
    """Return the bins of equal width in [0, 1] that have hits; 1 is in the last."""
    held: dict[int, list[tuple[float, int]]] = {}
    for one, right in zip(confidences, relevant, strict=True):
        held.setdefault(min(int(one * bins), bins - 1), []).append((one, right))
    return [
        Bin(
            number / bins,
            len(found),
            sum(one for one, _ in found) / len(found),
            sum(right for _, right in found) / len(found),
        )
        for number, found in sorted(held.items())
    ]


def expected_calibration_error(
    confidences: Sequence[float], relevant: Sequence[int], bins: int = BINS
) -> float | None:
    """Return the mean gap of confidence and truth over the bins, by their hits."""
    if not confidences:
        return None
    found = reliability(confidences, relevant, bins)
    gaps = (one.hits * abs(one.confidence - one.relevant) for one in found)
    return sum(gaps) / len(confidences)


def brier(confidences: Sequence[float], relevant: Sequence[int]) -> float | None:
    """Return the mean squared error of the confidences."""
    if not confidences:
        return None
    pairs = zip(confidences, relevant, strict=True)
    return sum((one - right) ** 2 for one, right in pairs) / len(confidences)


def constant_brier(relevant: Sequence[int]) -> float | None:
    """Return the Brier score of who always says the base rate: nobody may do worse."""
    if not relevant:
        return None
    rate = sum(relevant) / len(relevant)
    return rate * (1.0 - rate)


def auroc(confidences: Sequence[float], relevant: Sequence[int]) -> float | None:
    """Return how often a relevant hit is above one that is not; half for a tie."""
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
        ranks += middle * sum(one for _, one in order[begin:end])
        begin = end
    return (ranks - right * (right + 1) / 2) / (right * wrong)


def mean(values: Sequence[float]) -> float | None:
    """Return the mean."""
    return sum(values) / len(values) if values else None


def deviation(values: Sequence[float]) -> float | None:
    """Return the standard deviation of all there are."""
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
    """Return the value that so many percent of the others do not exceed."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]
