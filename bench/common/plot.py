"""Draw one picture from the JSON of bench.vector.compare: graphs left, scans right.

    python -m bench.common.plot results.json bench/results/performance.svg

Needs matplotlib. The background is transparent and every colour has a medium lightness,
so the picture can be read on a light page and on a dark one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.common import arguments

DIM = 384
INK = "#7d8590"
COLOURS = {
    "vecall": "#e5484d",
    "hnswlib": "#3b82f6",
    "faiss": "#2f9e44",
    "usearch": "#b06fd8",
    "svs": "#d9730d",
    "numpy": "#8d8d2b",
}
# One of each library's variants; which is the best of them changes with the size.
GRAPHS = (
    "vecall",
    "hnswlib",
    "faiss HNSW",
    "faiss HNSW fp16",
    "usearch f32",
    "usearch bf16",
    "svs Vamana f16",
    "svs Vamana LVQ8",
)
SCANS = (
    "vecall",
    "hnswlib BFIndex",
    "faiss Flat",
    "faiss PQ/2 + f32",
    "usearch exact f32",
    "usearch exact bf16",
    "svs Flat f16",
    "numpy",
)
LOWEST_RECALL = 0.9
LEAST_GAIN = 5e-4


def draw(results: dict[str, Any], path: Path) -> None:
    """Draw what there is of graphs and scans."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    style = {
        "svg.fonttype": "none",  # letters stay letters
        "svg.hashsalt": "vecall",  # the same picture of the same figures
        "font.size": 10,
        "font.family": "sans-serif",
        "legend.fontsize": 8,
        "legend.frameon": False,
        **{f"{what}.color": INK for what in ("text", "xtick", "ytick", "grid")},
        "axes.edgecolor": INK,
        "axes.labelcolor": INK,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.alpha": 0.25,
    }
    with plt.rc_context(style):
        picture, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6))
        if "graph" in results:
            _graphs(left, results["graph"])
        if "exact" in results:
            _scans(right, [one for one in results["exact"] if one["dim"] == DIM])
        for axis in (left.yaxis, right.xaxis, right.yaxis):
            axis.set_major_formatter("{x:,.0f}")
        left.yaxis.set_minor_formatter("{x:,.0f}")
        picture.tight_layout()
        picture.savefig(path, transparent=True, metadata={"Date": None})
        plt.close(picture)


def _line(name: str, first: set[str]) -> dict[str, Any]:
    library = name.split()[0]
    # The second variant of a library is dashed.
    dashes = "--" if library in first else "-"
    first.add(library)
    return {
        "label": name,
        "color": COLOURS[library],
        "linestyle": dashes,
        "linewidth": 2.6 if library == "vecall" else 1.3,
        "marker": "o",
        "markersize": 4 if library == "vecall" else 2.5,
        "zorder": 3 if library == "vecall" else 2,
    }


def _graphs(axes: Any, found: dict[str, Any]) -> None:
    from matplotlib.ticker import LogLocator

    seen: set[str] = set()
    for name in GRAPHS:
        facts = found["candidates"].get(name)
        if facts is None:
            continue
        points, best = [], LOWEST_RECALL
        for point in facts["curve"]:  # but for those that gain no recall
            if point["recall"] > best + LEAST_GAIN:
                points.append(point)
                best = point["recall"]
        axes.plot(
            [p["recall"] for p in points],
            [1 / p["seconds"] for p in points],
            **_line(name, seen),
        )
    axes.set_yscale("log")
    axes.yaxis.set_minor_locator(LogLocator(subs=(2, 5)))
    axes.set_xlim(LOWEST_RECALL, 1.0)
    axes.set_xlabel("recall@10")
    axes.set_ylabel("queries a second, one thread")
    axes.set_title(f"Graphs, {found['rows']:,} rows of {found['data']}", color=INK)
    axes.legend(loc="lower left", ncols=2)


def _scans(axes: Any, found: list[dict[str, Any]]) -> None:
    seen: set[str] = set()
    for name in SCANS:
        points = [
            (one["rows"], 1e6 * one["candidates"][name]["seconds"])
            for one in found
            if name in one["candidates"]
        ]
        if points:
            axes.plot(*zip(*points, strict=True), **_line(name, seen))
    axes.plot(
        [one["rows"] for one in found],
        [1e6 * one["float32_stream_seconds"] for one in found],
        color=INK,
        linestyle=":",
        linewidth=2,
        label="reading the rows as float32",
    )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("rows")
    axes.set_ylabel("microseconds a query, one thread")
    data = found[-1]["data"] if found else ""
    axes.set_title(f"Exact search, {data}", color=INK)
    axes.legend(loc="upper left")


def main() -> None:
    """Draw the picture."""
    parser = arguments.parser(__doc__)
    parser.add_argument("results", type=Path, help="JSON of bench.vector.compare")
    parser.add_argument("picture", type=Path, help="the SVG to write")
    options = parser.parse_args()
    draw(json.loads(options.results.read_text()), options.picture)


if __name__ == "__main__":
    main()
