"""Answers to figures: recall by group, what a setting changes, time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from vecall.evaluation import metrics
from vecall.evaluation.runner import DEEPEST, DEPTHS, Answer

SHARES = (*(f"recall@{depth}" for depth in DEPTHS), "mrr", "ndcg@10")
"""What is told of every group of questions, each in [0, 1]."""

LOCOMO_GROUPS = {"1-3": "123", "4-5": "45"}


class Measured(NamedTuple):
    """The figures of one question."""

    category: str
    shares: tuple[float, ...]
    curve: tuple[float, ...]  # recall at 1, 2, …, DEEPEST


def measured(answers: Iterable[Answer]) -> list[Measured]:
    """Return the figures of the questions that have an answer."""
    found = []
    for answer in answers:
        pieces, ranked = answer.question.pieces, answer.ranked
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
        found.append(Measured(answer.question.category, shares, curve))
    return found


def groups_of(categories: Iterable[str]) -> dict[str, frozenset[str]]:
    """Return the groups of questions that tables show, by name.

    Those are the categories; and for LoCoMo's, 1 to 5, also the two kinds: multi-hop,
    temporal and open-domain questions, and single-hop and adversarial ones.
    """
    names = sorted(set(categories))
    groups = {name: frozenset({name}) for name in names}
    if names and set(names) <= set("12345"):
        groups |= {name: frozenset(of) for name, of in LOCOMO_GROUPS.items()}
    return groups


def recall_figures(found: Sequence[Measured]) -> dict[str, Any]:
    """Return the mean shares of all questions and of each group."""
    groups = groups_of(one.category for one in found)
    return {
        **_shares(found),
        "recall_curve": [
            metrics.mean([one.curve[depth] for one in found])
            for depth in range(DEEPEST)
        ],
        "categories": {
            name: _shares([one for one in found if one.category in groups[name]])
            for name in sorted(groups)
        },
    }


def ablation_figures(
    name: str, found: Sequence[Measured], default: Sequence[Measured]
) -> dict[str, Any]:
    """Return a setting's shares, and what it gains over the default's.

    The gain is the mean of the questions' differences, with half its 95 % interval as
    if questions were drawn independently of each other.
    """
    gains = {}
    for i, share in enumerate(SHARES):
        differences = [
            one.shares[i] - other.shares[i]
            for one, other in zip(found, default, strict=True)
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
        share: metrics.mean([one.shares[i] for one in found])
        for i, share in enumerate(SHARES)
    }
    return {**values, "questions": len(found)}
