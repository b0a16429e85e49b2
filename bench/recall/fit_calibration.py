"""Fit the weights that turn scores into confidence, and evaluate them on each set.

    python -m bench.recall.fit_calibration [--locomo FILE] [--beam FILE] [--write]

Fitted on the sets of bench/recall except people, held-out-assistants, LoCoMo and BEAM,
which are held out for the evaluation. Every user's service answers that user's
questions, and as many of another user of the same set. Each set has the same weight,
questions of other users a third of it.

The map on queries was fitted on the questions of these sets. So their vectors go
through maps that were fitted without the user. The weights of other embedders are
fitted on the local model with and without a map, under another name and without the
feature of the cosine, and are also evaluated on an embedder of letter trigrams.

The table has, for each set, the weights that are written and, under "kind apart", those
that were fitted without all sets of that kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from sys import stderr
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from vecall.cli.terminal import Progress, table
from vecall.embedders import CachedEmbedder, Embedder, QueryMap
from vecall.embedders.local import LocalEmbedder
from vecall.embedders.query_map import fit as fit_map
from vecall.evaluation import metrics
from vecall.evaluation.datasets import Conversation
from vecall.evaluation.query_maps import examples_of
from vecall.evaluation.runner import (
    APP,
    TOP_K,
    Mode,
    SystemUnderTest,
    evidence_id,
    ingested,
    own_questions,
    strangers,
)
from vecall.ranking.calibration import (
    Calibration,
    Signals,
    Weights,
    cosine_signals,
    fit,
)
from vecall.ranking.options import Ranking
from vecall.service.memory_service import MemoryService
from vecall.services.in_memory import InMemoryMemoryService
from vecall.services.vector import VectorMemoryService
from vecall.types import MemoryEntry

from bench import ROOT
from bench.common import arguments
from bench.recall.embedders import Local, Trigrams
from bench.recall.sets import HELD_OUT, Set, all_sets

PACKAGE = ROOT / "python/vecall/ranking/calibrated.json"
FOLDS = 5
STRANGERS_SHARE = 0.35


class Hits(NamedTuple):
    """What searches of one set with one embedder found."""

    signals: NDArray[np.float64]
    relevant: NDArray[np.float64]
    is_own: NDArray[np.bool_]
    importance: NDArray[np.float64]


@dataclass(frozen=True)
class Searched:
    """One way of searching: its name, and the hits of each set."""

    name: str
    vectors: bool
    hits: dict[str, Hits]


def collected(
    one: Set, groups: Sequence[tuple[list[Conversation], Embedder | None]]
) -> Hits:
    """Search for each question of a group's users with the group's embedder."""
    signals: list[Signals] = []
    relevant: list[int] = []
    own: list[bool] = []
    others = strangers(one.conversations)
    for conversations, embedder in groups:
        users = {each.user_id for each in conversations}
        mode = Mode("fit", embedder, Ranking())
        with ingested(conversations, embedder, None) as subject:
            for is_own, questions in (
                (True, own_questions(conversations)),
                (False, [pair for pair in others if pair[0] in users]),
            ):
                for answer in subject.run(
                    questions, mode, Progress(one.name, len(questions))
                ):
                    signals += [hit.signals for hit in answer.hits]
                    relevant += [hit.relevant for hit in answer.hits]
                    own += [is_own] * len(answer.hits)
    return _hits(signals, relevant, own)


def matched(one: Set) -> Hits:
    """Search for each question of a set by matching words, without ranking."""
    with InMemoryMemoryService("words", top_k=TOP_K) as memory:
        return _hits(*_searched(memory, one, one.conversations, _explained))


def nearest(one: Set, groups: Sequence[tuple[list[Conversation], Embedder]]) -> Hits:
    """Search for each question of a group's users by the cosine alone."""
    signals: list[Signals] = []
    relevant: list[int] = []
    own: list[bool] = []
    for conversations, embedder in groups:
        with VectorMemoryService(CachedEmbedder(embedder), top_k=TOP_K) as memory:
            found = _searched(memory, one, conversations, _cosine_signals)
            signals += found[0]
            relevant += found[1]
            own += found[2]
    return _hits(signals, relevant, own)


def _explained(memories: Sequence[MemoryEntry]) -> list[Signals]:
    return [Signals.of(memory) for memory in memories]


def _cosine_signals(memories: Sequence[MemoryEntry]) -> list[Signals]:
    cosines = [memory.similarity or 0.0 for memory in memories]
    return [
        cosine_signals(cosine, cosines[0], place)
        for place, cosine in enumerate(cosines)
    ]


def _searched(
    memory: MemoryService,
    one: Set,
    conversations: list[Conversation],
    signals_of: Callable[[Sequence[MemoryEntry]], list[Signals]],
) -> tuple[list[Signals], list[int], list[bool]]:
    """Ingest some users of a set and search for their questions and strangers'."""
    SystemUnderTest(memory, None).ingest(conversations, Progress(one.name, 1))
    users = {conversation.user_id for conversation in conversations}
    others = [pair for pair in strangers(one.conversations) if pair[0] in users]
    signals: list[Signals] = []
    relevant: list[int] = []
    own: list[bool] = []
    for is_own, pairs in ((True, own_questions(conversations)), (False, others)):
        for user, question in pairs:
            found = memory.sync.search_memory(
                app_name=APP, user_id=user, query=question.text, explain=True
            ).memories
            signals += signals_of(found)
            relevant += [evidence_id(hit) in question.evidence for hit in found]
            own += [is_own] * len(found)
    return signals, relevant, own


def _hits(
    signals: Sequence[Signals], relevant: Sequence[int], own: Sequence[bool]
) -> Hits:
    importance = np.where(own, 1.0, STRANGERS_SHARE)
    return Hits(
        np.array(signals, float),
        np.array(relevant, float),
        np.array(own),
        importance / importance.sum(),
    )


def maps_apart(sets: Sequence[Set]) -> dict[tuple[str, str], QueryMap]:
    """Return for each user of the map's own sets a map that was fitted without him."""
    embedder = LocalEmbedder(query_map=None)
    users = [
        (one.name, each)
        for one in sets
        if one.name not in HELD_OUT
        for each in one.conversations
    ]
    examples = [examples_of([each], embedder) for _, each in users]
    found = {}
    for fold in range(FOLDS):
        rest = [e for i, some in enumerate(examples) if i % FOLDS != fold for e in some]
        query_map = fit_map(rest)
        for name, each in users[fold::FOLDS]:
            found[name, each.user_id] = query_map
    return found


def ways(sets: Sequence[Set]) -> Iterator[Searched]:
    """Search all sets by matching, by words, and with the local and other embedders."""
    yield Searched("matches", False, {one.name: matched(one) for one in sets})
    yield _same("words", sets, None)
    yield _same("trigrams", sets, Trigrams())
    yield _same("local without map", sets, Local(None, known=False))
    apart = maps_apart(sets)
    hits: dict[str, Hits] = {}
    near: dict[str, Hits] = {}
    unknown: dict[str, Hits] = {}
    for one in sets:
        groups = _groups(one, apart, known=True)
        hits[one.name] = collected(one, groups)
        near[one.name] = nearest(one, groups)
        unknown[one.name] = collected(one, _groups(one, apart, known=False))
    yield Searched("local", True, hits)
    yield Searched("cosine: local", True, near)
    yield Searched("local, unknown", True, unknown)
    for name, embedder in (
        ("cosine: local without map", Local(None)),
        ("cosine: trigrams", Trigrams()),
    ):
        found = {
            one.name: nearest(one, [(one.conversations, embedder)]) for one in sets
        }
        yield Searched(name, True, found)


def _groups(
    one: Set, apart: dict[tuple[str, str], QueryMap], *, known: bool
) -> list[tuple[list[Conversation], Embedder]]:
    """Return a set's users, together with the others of the same map."""
    groups: dict[int, tuple[list[Conversation], Embedder]] = {}
    for each in one.conversations:
        query_map = apart.get((one.name, each.user_id))
        embedder = Local("shipped" if query_map is None else query_map, known=known)
        groups.setdefault(id(query_map), ([], embedder))[0].append(each)
    return list(groups.values())


def _same(name: str, sets: Sequence[Set], embedder: Embedder | None) -> Searched:
    hits = {one.name: collected(one, [(one.conversations, embedder)]) for one in sets}
    return Searched(name, embedder is not None, hits)


def fitted(some: Sequence[Hits], *, vectors: bool, cosine: bool = True) -> Weights:
    """Fit on the hits of several sets, each of which counts alike."""
    signals = np.concatenate([hits.signals for hits in some])
    if not cosine:
        signals[:, Signals._fields.index("unsaid")] = 0.0
    importance = np.concatenate([hits.importance for hits in some])
    return fit(
        signals,
        np.concatenate([hits.relevant for hits in some]),
        vectors=vectors,
        importance=importance * len(importance) / importance.sum(),
    )


def rows_of(
    way: Searched, kinds: dict[str, str], sources: Sequence[Searched], cosine: bool
) -> tuple[Weights, list[list[str]]]:
    """Fit the weights of one way of searching, and return its part of the table."""

    def fit_without(kind: str | None) -> Weights:
        some = [
            hits
            for source in sources
            for name, hits in source.hits.items()
            if name not in HELD_OUT and kinds[name] != kind
        ]
        return fitted(some, vectors=way.vectors, cosine=cosine)

    weights = fit_without(None)
    parts: list[tuple[str, list[str]]] = [(name, [name]) for name in kinds]
    parts += [
        (f"all: {kind}", [name for name in kinds if kinds[name] == kind])
        for kind in dict.fromkeys(kinds.values())
    ]
    apart = {kind: fit_without(kind) for kind in set(kinds.values())}
    rows = []
    for shown, names in parts:
        right: list[int] = []
        said: list[float] = []
        without: list[float] = []
        for name in names:
            hits = way.hits[name]
            own = hits.signals[hits.is_own].tolist()
            right += map(int, hits.relevant[hits.is_own])
            said += [weights.probability(one) for one in own]
            without += [apart[kinds[name]].probability(one) for one in own]
        rows.append(
            [
                shown,
                way.name,
                "held out" if set(names) <= set(HELD_OUT) else "",
                f"{len(right):,}",
                *_judged(said, right),
                *_judged(without, right),
                f"{metrics.constant_brier(right):.3f}",
            ]
        )
    return weights, rows


def _judged(said: Sequence[float], right: Sequence[int]) -> list[str]:
    ece = metrics.expected_calibration_error(said, right)
    return [f"{ece:.3f}", f"{metrics.brier(said, right):.3f}"]


def main() -> None:
    """Fit, print the table, and write the weights if that is asked for."""
    parser = arguments.parser(__doc__)
    parser.add_argument("--locomo", type=Path, help="the path of LoCoMo's JSON")
    parser.add_argument("--beam", type=Path, help="the path of BEAM's JSON")
    parser.add_argument("--write", action="store_true", help="into the package")
    options = parser.parse_args()
    given = all_sets(locomo=options.locomo, beam=options.beam)
    sets = [one for one in given if not one.reading]
    kinds = {one.name: one.kind for one in sets}
    found: dict[str, Searched] = {}
    for way in ways(sets):
        found[way.name] = way
        print(f"searched: {way.name}", file=stderr)
    plain = [found["local, unknown"], found["local without map"]]
    cosines = [found["cosine: local"]]
    words, local = found["words"], found["local"]
    rows: list[list[Any]] = []
    made: dict[str, Weights] = {}
    for way, sources, cosine in (
        (found["matches"], [found["matches"]], True),
        (words, [words], True),
        (local, [local], True),
        (found["local, unknown"], plain, False),
        (found["local without map"], plain, False),
        (found["trigrams"], plain, False),
        (found["cosine: local"], cosines, False),
        (found["cosine: local without map"], cosines, False),
        (found["cosine: trigrams"], cosines, False),
    ):
        made[way.name], judged = rows_of(way, kinds, sources, cosine)
        rows += judged
    head = ("set", "embedder", "", "hits", "ECE", "Brier", "ECE, kind apart", "Brier",
            "constant's")  # fmt: skip
    print(table(head, rows))
    print(made)
    if options.write:
        Calibration(
            made["words"],
            {LocalEmbedder.model_id: made["local"]},
            made["trigrams"],
            made["matches"],
            made["cosine: local"],
        ).save(PACKAGE)


if __name__ == "__main__":
    main()
