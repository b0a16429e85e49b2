"""Figures of confidences: their calibration, and searches below a floor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from vecall.errors import ConfigError
from vecall.evaluation import metrics
from vecall.evaluation.runner import Hit, QuestionResult
from vecall.ranking.calibration import Weights, fit

FLOORS = (0.0, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4)
"""Values of min_confidence to try. With 0, only searches without hits are silent."""


def calibration_figures(hits: Iterable[Hit]) -> dict[str, Any] | None:
    """Return the calibration of the hits' confidences; None if no hit has one."""
    pairs = [(hit.confidence, hit.relevant) for hit in hits]
    confidences = [confidence for confidence, _ in pairs if confidence is not None]
    relevant = [right for confidence, right in pairs if confidence is not None]
    return _calibration_figures(confidences, relevant) if confidences else None


def _calibration_figures(
    confidences: Sequence[float], relevant: Sequence[int]
) -> dict[str, Any]:
    return {
        "hits": len(confidences),
        "base_rate": metrics.mean(relevant),
        "mean": metrics.mean(confidences),
        "deviation": metrics.deviation(confidences),
        "ece": metrics.expected_calibration_error(confidences, relevant),
        "brier": metrics.brier(confidences, relevant),
        "constant_brier": metrics.constant_brier(relevant),
        "auroc": metrics.auroc(confidences, relevant),
        "reliability": [
            asdict(bin_) for bin_ in metrics.reliability(confidences, relevant)
        ],
    }


def silence_figures(
    own: Sequence[QuestionResult], strange: Sequence[QuestionResult]
) -> list[dict[str, Any]]:
    """Return, for each floor, the share of searches that would return nothing.

    A service cuts a result to its first memories before it applies `min_confidence`,
    so the confidences of those memories decide.
    """
    groups = {
        "answerable": [result for result in own if result.question.evidence],
        "unanswerable": [result for result in own if not result.question.evidence],
        "strangers": list(strange),
    }
    found = [hit for answer in groups["answerable"] for hit in answer.hits]
    right = [hit for hit in found if hit.relevant]
    rows = []
    for floor in FLOORS:
        row: dict[str, Any] = {"min_confidence": floor}
        for name, answers in groups.items():
            silent = [
                not any(_has_enough_confidence(hit, floor) for hit in a.hits)
                for a in answers
            ]
            row[name] = metrics.mean(silent)
        row["evidence_kept"] = metrics.mean(
            [_has_enough_confidence(hit, floor) for hit in right]
        )
        rows.append(row)
    return rows


def _has_enough_confidence(hit: Hit, floor: float) -> bool:
    return hit.confidence is not None and hit.confidence >= floor


def fitted(
    results: Sequence[QuestionResult], *, vectors: bool
) -> tuple[Weights, dict[str, Any]]:
    """Fit weights on the hits of all results.

    Returns:
        The weights, and the figures of held-out users: each user is evaluated with
        weights fitted on all others. The figures are None if too few hits remain.
    """
    weights = _fit_weights([hit for result in results for hit in result.hits], vectors)
    confidences: list[float] = []
    relevant: list[int] = []
    for user in dict.fromkeys(result.user for result in results):
        others = [
            hit for result in results if result.user != user for hit in result.hits
        ]
        try:
            without = _fit_weights(others, vectors)
        except ConfigError:
            return weights, {"held_out": None}
        hits = [hit for result in results if result.user == user for hit in result.hits]
        confidences += map(without.law().probability, [hit.signals for hit in hits])
        relevant += [hit.relevant for hit in hits]
    return weights, {"held_out": _calibration_figures(confidences, relevant)}


def _fit_weights(hits: Sequence[Hit], vectors: bool) -> Weights:
    signals = [hit.signals for hit in hits]
    return fit(signals, [hit.relevant for hit in hits], vectors=vectors)
