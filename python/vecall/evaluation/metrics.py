"""Figures of recall and of confidence, from ranked ids and from probabilities.

Pure functions. A figure without data is None, not zero.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

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
    """Return the normalised discounted cumulative gain."""
    # The first id of a piece gains 1. Everything else gains 0.
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
    """The hits of one range of confidences."""

    low: float
    hits: int
    confidence: float
    relevant: float


def reliability_bins(
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
    """Return the mean gap of the bins between confidence and share of relevant hits."""
    # The number of hits is the weight of a bin.
    if not confidences:
        return None
    found = reliability_bins(confidences, relevant, bins)
    gaps = (bin_.hits * abs(bin_.confidence - bin_.relevant) for bin_ in found)
    return sum(gaps) / len(confidences)


def brier_score(confidences: Sequence[float], relevant: Sequence[int]) -> float | None:
    """Return the mean squared error of the confidences."""
    pairs = zip(confidences, relevant, strict=True)
    return mean([(confidence - right) ** 2 for confidence, right in pairs])


def constant_brier_score(relevant: Sequence[int]) -> float | None:
    """Return the Brier score of a constant prediction of the base rate."""
    rate = mean(relevant)
    return None if rate is None else rate * (1.0 - rate)


def roc_area(confidences: Sequence[float], relevant: Sequence[int]) -> float | None:
    """Return the area under the ROC curve."""
    # It is the share of pairs of a relevant and an irrelevant hit in which the relevant
    # hit has the higher confidence. A tie counts as half.
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


def standard_deviation(values: Sequence[float]) -> float | None:
    """Return the standard deviation of the population."""
    middle = mean(values)
    if middle is None:
        return None
    return math.sqrt(sum((value - middle) ** 2 for value in values) / len(values))


def confidence_half_width(differences: Sequence[float]) -> float | None:
    """Return half the 95 % interval of the mean of paired differences."""
    spread = standard_deviation(differences)
    if spread is None or len(differences) < 2:
        return None
    return 1.96 * spread / math.sqrt(len(differences) - 1)


def percentile(values: Sequence[float], percent: int) -> float | None:
    """Return the value that `percent` percent of the values do not exceed."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


# The plot of an evaluation: recall by depth, reliability, and the number of hits.

_COLOURS = ("#3b82f6", "#e5484d", "#2f9e44", "#d9730d", "#b06fd8", "#8d8d2b")
_STYLE = {
    "font.size": 10,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.25,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "svg.fonttype": "none",  # keep text as text
    "svg.hashsalt": "vecall",  # the same figures give the same file
}
_FEW = 20
_DATA = {"locomo": "LoCoMo", "demo": "vecall's demo", "jsonl": "conversations"}


def draw_eval_plot(document: Mapping[str, Any], path: Path) -> None:
    """Write the plot of the figures of `vecall eval`, as PNG or SVG."""
    rc_context = import_module("matplotlib").rc_context
    canvas = import_module("matplotlib.backends.backend_agg").FigureCanvasAgg
    figure = import_module("matplotlib.figure").Figure
    modes = document["modes"]
    colours = {name: _COLOURS[i % len(_COLOURS)] for i, name in enumerate(modes)}
    calibrated = {name: mode for name, mode in modes.items() if "calibration" in mode}
    with rc_context(_STYLE):
        picture = figure(figsize=(11 if calibrated else 6, 5), layout="constrained")
        canvas(picture)  # renders to memory; needs no screen
        grid = picture.add_gridspec(
            2, 2 if calibrated else 1, height_ratios=(3, 1), hspace=0.05
        )
        _draw_recall(picture.add_subplot(grid[:, 0]), document, colours)
        if calibrated:
            upper = picture.add_subplot(grid[0, 1])
            _draw_reliability(upper, calibrated, colours, document["top_k"])
            lower = picture.add_subplot(grid[1, 1], sharex=upper)
            _draw_hits(lower, calibrated, colours)
            upper.tick_params(labelbottom=False)
        metadata = {"Date": None} if path.suffix == ".svg" else None
        picture.savefig(path, dpi=150, metadata=metadata)


def _draw_recall(
    axes: Any, document: Mapping[str, Any], colours: Mapping[str, str]
) -> None:
    for name, mode in document["modes"].items():
        curve = [100 * (share or 0.0) for share in mode["recall_curve"]]
        label = f"{name}: {curve[9]:.1f} % at 10"
        axes.plot(range(1, len(curve) + 1), curve, color=colours[name], label=label)
        marked = (5, 10, 20)
        axes.plot(
            marked, [curve[k - 1] for k in marked], "o", color=colours[name], ms=4
        )
    axes.set_title(
        f"{_DATA[document['dataset']]}: {document['turns']:,} turns, "
        f"{document['questions']:,} questions"
    )
    axes.set_xlabel("k, memories in the answer")
    axes.set_ylabel("recall@k in percent")
    axes.set_xticks([1, 5, 10, 15, 20])
    axes.set_ylim(0, 100)
    axes.legend(loc="lower right")


def _draw_reliability(
    axes: Any, modes: Mapping[str, Any], colours: Mapping[str, str], top_k: int
) -> None:
    axes.plot([0, 1], [0, 1], color="#7d8590", linestyle="--", label="as it should be")
    for name, mode in modes.items():
        figures = mode["calibration"]
        bins = figures["reliability"]
        axes.plot(
            [bin_["confidence"] for bin_ in bins],
            [bin_["relevant"] for bin_ in bins],
            color=colours[name],
            label=f"{name}: ECE {figures['ece']:.3f}",
        )
        for bin_ in bins:
            axes.plot(
                bin_["confidence"],
                bin_["relevant"],
                "o",
                color=colours[name],
                markerfacecolor="white" if bin_["hits"] < _FEW else colours[name],
                ms=4,
                clip_on=False,
            )
    axes.set_title(f"Confidence of the first {top_k} memories")
    axes.set_ylabel("share that was relevant")
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.legend(loc="best", frameon=True, edgecolor="none", framealpha=0.8)


def _draw_hits(axes: Any, modes: Mapping[str, Any], colours: Mapping[str, str]) -> None:
    width = 0.1 / (len(modes) + 0.5)
    for i, (name, mode) in enumerate(modes.items()):
        bins = mode["calibration"]["reliability"]
        axes.bar(
            [bin_["low"] + (i + 0.75) * width for bin_ in bins],
            [bin_["hits"] for bin_ in bins],
            width=width,
            color=colours[name],
        )
    axes.set_yscale("log")
    axes.set_ylim(bottom=0.8)
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel(f"confidence (hollow: fewer than {_FEW} memories)")
    axes.set_ylabel("memories")
