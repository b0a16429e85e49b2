"""What an evaluation says of confidences: are they true, and when is nothing said?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from vecall.errors import ConfigError
from vecall.evaluation import metrics
from vecall.evaluation.runner import Answer, Hit
from vecall.ranking.calibration import Weights, fit

FLOORS = (0.0, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4)
"""Values of min_confidence that are tried; what 0 leaves silent had no hit at all."""


def calibration_figures(hits: Iterable[Hit]) -> dict[str, Any] | None:
    """Return how far confidences are from the truth; None without any confidence."""
    pairs = [(one.confidence, one.relevant) for one in hits]
    told = [one for one, _ in pairs if one is not None]
    relevant = [right for one, right in pairs if one is not None]
    return _figures(told, relevant) if told else None


def _figures(told: Sequence[float], relevant: Sequence[int]) -> dict[str, Any]:
    return {
        "hits": len(told),
        "base_rate": metrics.mean(relevant),
        "mean": metrics.mean(told),
        "deviation": metrics.deviation(told),
        "ece": metrics.expected_calibration_error(told, relevant),
        "brier": metrics.brier(told, relevant),
        "constant_brier": metrics.constant_brier(relevant),
        "auroc": metrics.auroc(told, relevant),
        "reliability": [asdict(one) for one in metrics.reliability(told, relevant)],
    }


def silence_figures(
    own: Sequence[Answer], strange: Sequence[Answer]
) -> list[dict[str, Any]]:
    """Return, for each floor, what share of the searches would return nothing.

    An answer is cut to its first memories before the floor is applied, so what a
    service with that `min_confidence` returns is known from the confidences.
    """
    groups = {
        "answerable": [one for one in own if one.question.evidence],
        "unanswerable": [one for one in own if not one.question.evidence],
        "strangers": list(strange),
    }
    found = [hit for answer in groups["answerable"] for hit in answer.hits]
    right = [hit for hit in found if hit.relevant]
    rows = []
    for floor in FLOORS:
        row: dict[str, Any] = {"min_confidence": floor}
        for name, answers in groups.items():
            silent = [not any(_passes(hit, floor) for hit in a.hits) for a in answers]
            row[name] = metrics.mean(silent)
        row["evidence_kept"] = metrics.mean([_passes(hit, floor) for hit in right])
        rows.append(row)
    return rows


def _passes(hit: Hit, floor: float) -> bool:
    return hit.confidence is not None and hit.confidence >= floor


def fitted(
    answers: Sequence[Answer], *, vectors: bool
) -> tuple[Weights, dict[str, Any]]:
    """Fit weights on the hits of all answers.

    Returns:
        The weights, and how well weights that were fitted without a user's answers
        tell the truth about them; the figures are None where that leaves too little.

    Raises:
        ConfigError: Too few hits.
    """
    weights = _fit([hit for answer in answers for hit in answer.hits], vectors)
    told: list[float] = []
    relevant: list[int] = []
    for user in dict.fromkeys(answer.user for answer in answers):
        others = [hit for one in answers if one.user != user for hit in one.hits]
        try:
            without = _fit(others, vectors)
        except ConfigError:
            return weights, {"held_out": None}
        hits = [hit for one in answers if one.user == user for hit in one.hits]
        told += [without.probability(hit.signals) for hit in hits]
        relevant += [hit.relevant for hit in hits]
    return weights, {"held_out": _figures(told, relevant)}


def _fit(hits: Sequence[Hit], vectors: bool) -> Weights:
    signals = [hit.signals for hit in hits]
    return fit(signals, [hit.relevant for hit in hits], vectors=vectors)
