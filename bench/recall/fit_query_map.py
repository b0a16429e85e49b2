"""Fit the local model's map on queries, and write it into the package.

    python -m bench.recall.fit_query_map

Fitted on the project's own questions: the demo's and those of all files of
bench/recall/conversations but those that are held out (`bench.recall.sets`). LoCoMo and
BEAM are not used either.
"""

from __future__ import annotations

from pathlib import Path

from vecall.embedders.local import LocalEmbedder
from vecall.evaluation.datasets import read_demo, read_jsonl
from vecall.evaluation.runner import fit_and_measure_map, query_map_examples

from bench import ROOT
from bench.common import arguments
from bench.recall.sets import HELD_OUT

FOLDER = Path(__file__).parent / "conversations"
MAPS = ROOT / "python/vecall/embedders/query_maps"


def main() -> None:
    """Fit, print what the map is worth on users apart, and write it."""
    arguments.parse_none(__doc__)
    conversations = read_demo("map")
    for file in sorted(FOLDER.glob("*.jsonl")):
        if file.stem not in HELD_OUT:
            conversations += read_jsonl(file, "map")
    embedder = LocalEmbedder(query_map=None)
    query_map, figures = fit_and_measure_map(
        query_map_examples(conversations, embedder)
    )
    print(figures)
    MAPS.mkdir(exist_ok=True)
    query_map.save(MAPS / f"{embedder.model_id}.npy")


if __name__ == "__main__":
    main()
