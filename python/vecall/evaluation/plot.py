"""The plot of an evaluation: recall by depth, reliability, and the number of hits."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

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


def draw(document: Mapping[str, Any], path: Path) -> None:
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
        _recall(picture.add_subplot(grid[:, 0]), document, colours)
        if calibrated:
            upper = picture.add_subplot(grid[0, 1])
            _reliability(upper, calibrated, colours, document["top_k"])
            lower = picture.add_subplot(grid[1, 1], sharex=upper)
            _counts(lower, calibrated, colours)
            upper.tick_params(labelbottom=False)
        metadata = {"Date": None} if path.suffix == ".svg" else None
        picture.savefig(path, dpi=150, metadata=metadata)


def _recall(axes: Any, document: Mapping[str, Any], colours: Mapping[str, str]) -> None:
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


def _reliability(
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


def _counts(axes: Any, modes: Mapping[str, Any], colours: Mapping[str, str]) -> None:
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
