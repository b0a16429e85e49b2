"""Turns results into figures: recall by group, gains of a setting, times."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from vecall.evaluation import metrics
from vecall.evaluation.runner import DEEPEST, DEPTHS, QuestionResult

SHARES = (*(f"recall@{depth}" for depth in DEPTHS), "mrr", "ndcg@10")
"""The figures of every group of questions, each in [0, 1]."""

LOCOMO_GROUPS = {"1-3": "123", "4-5": "45"}


class Measured(NamedTuple):
    """The figures of one question."""

    category: str
    shares: tuple[float, ...]
    curve: tuple[float, ...]  # recall at 1, 2, …, DEEPEST


def measured(results: Iterable[QuestionResult]) -> list[Measured]:
    """Return the figures of the questions that have evidence."""
    found = []
    for result in results:
        pieces, ranked = result.question.pieces, result.ranked
        if not pieces:
            continue
        curve = tuple(
            metrics.recall_at(ranked, pieces, depth) for depth in range(1, DEEPEST + 1)
        )
        shares = (
            *(curve[depth - 1] for depth in DEPTHS),
            metrics.reciprocal_rank(ranked, pieces),
            metrics.ndcg_at(ranked, pieces, 10),
        )
        found.append(Measured(result.question.category, shares, curve))
    return found


def groups_of(categories: Iterable[str]) -> dict[str, frozenset[str]]:
    """Return the categories of each group that tables show, by the group's name.

    Each category is a group. LoCoMo's categories, 1 to 5, form two more: "1-3"
    (multi-hop, temporal, open-domain) and "4-5" (single-hop, adversarial).
    """
    names = sorted(set(categories))
    groups = {name: frozenset({name}) for name in names}
    if names and set(names) <= set("12345"):
        groups |= {name: frozenset(of) for name, of in LOCOMO_GROUPS.items()}
    return groups


def recall_figures(found: Sequence[Measured]) -> dict[str, Any]:
    """Return the mean shares of all questions and of each group."""
    groups = groups_of(question.category for question in found)
    return {
        **_shares(found),
        "recall_curve": [
            metrics.mean([question.curve[depth] for question in found])
            for depth in range(DEEPEST)
        ],
        "categories": {
            name: _shares(
                [question for question in found if question.category in groups[name]]
            )
            for name in sorted(groups)
        },
    }


def ablation_figures(
    name: str, found: Sequence[Measured], default: Sequence[Measured]
) -> dict[str, Any]:
    """Return a setting's shares and its gain over the default.

    The gain is the mean of the differences by question. Half the width of its 95 %
    interval assumes independent questions.
    """
    gains = {}
    for i, share in enumerate(SHARES):
        differences = [
            question.shares[i] - other.shares[i]
            for question, other in zip(found, default, strict=True)
        ]
        gains[share] = {
            "mean": metrics.mean(differences),
            "half_width": metrics.half_width(differences),
        }
    figures = recall_figures(found)
    del figures["recall_curve"]
    return {"setting": name, **figures, "gain": gains}


def time_figures(seconds: Sequence[float]) -> dict[str, Any]:
    """Return percentiles in milliseconds."""
    values = {}
    for percent in (50, 99):
        value = metrics.percentile(seconds, percent)
        values[f"p{percent}_ms"] = None if value is None else 1000 * value
    return values


def _shares(found: Sequence[Measured]) -> dict[str, Any]:
    values: dict[str, Any] = {
        share: metrics.mean([question.shares[i] for question in found])
        for i, share in enumerate(SHARES)
    }
    return {**values, "questions": len(found)}
