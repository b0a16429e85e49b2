"""Fit the weights that tell whether a query asks for something its memories hold.

    python -m bench.recall.fit_relevance [--write]

Fitted on questions whose answer is among the first five memories, of all sets of
bench/recall but the held-out ones, and on the turns of conversations/turns.json that
are not held out, which are put to the users of five sets. Each set counts alike, and
all turns together as much as all questions.

"words" are the weights of searches by words, "vectors" those of searches with any
embedder. The local embedder has weights of its own, with the direction in its space
that tells turns from questions. Each fold's direction was fitted without the fold's
texts. A query's vector counts with and without the map on queries.

The bias of each law is moved so that a relevance of 0.2 loses at most 2.5 % of the
right answers of any set of the fit.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from vecall.cli.console import Progress
from vecall.embedders import Embedder, LocalEmbedder
from vecall.evaluation.runner import APP, TOP_K, evidence_id, ingested
from vecall.limits import UNASKED_RELEVANCE
from vecall.ranking.calibration import Calibration
from vecall.ranking.relevance import SHIPPED, Asked
from vecall.service.memory_service import MemoryService

from bench.common import arguments
from bench.recall.sets import HELD_OUT, Set, all_sets, read_turns

TURNS_TO = ("people", "facts beside people", "facts", "assistants", "demo")
LOST = 0.025
CUT = math.log(UNASKED_RELEVANCE / (1.0 - UNASKED_RELEVANCE))
FOLDS = 5
RIDGE = 0.1  # of the direction; chosen by the turns of other folds

Array = NDArray[np.float64]


def fit(signals: Array, wanted: Array, share: Array, ridge: float) -> Array:
    """Return the weights, bias last, of a logistic regression by Newton's method."""
    x = np.column_stack([signals, np.ones(len(signals))])
    penalty = np.full(x.shape[1], ridge)
    penalty[-1] = 1e-9
    weights = np.zeros(x.shape[1])
    for _ in range(40):
        p = 1.0 / (1.0 + np.exp(-x @ weights))
        slope = x.T @ (share * (wanted - p)) - penalty * weights
        curve = (x * (share * p * (1 - p))[:, None]).T @ x + np.diag(penalty)
        weights += np.linalg.solve(curve, slope)
    return weights


def shares(sets: Sequence[str], wanted: Array, counts: Array) -> Array:
    """Return weights with which each set counts alike, and both kinds too."""
    found = np.zeros(len(sets))
    names = np.array(sets)
    for kind in (0.0, 1.0):
        of_kind = dict.fromkeys(names[wanted == kind])
        for name in of_kind:
            rows = (names == name) & (wanted == kind)
            found[rows] = counts[rows] / counts[rows].sum() / len(of_kind)
    return found * len(sets) / 2.0


class Found:
    """The queries of all sets, with what the searches found."""

    def __init__(self) -> None:
        """Start without queries."""
        self.asked: list[Asked] = []
        self.sets: list[str] = []
        self.wanted: list[float] = []
        self.right: list[float] = []

    def search(self, memory: MemoryService, one: Set, turns: Sequence[str]) -> None:
        """Ask a set's questions, and put the turns to its users."""
        pairs = [
            (each.user_id, question.text, question.evidence)
            for each in one.conversations
            for question in each.questions
            if question.evidence
        ]
        if one.name in TURNS_TO:
            pairs += [
                (each.user_id, turn, frozenset[str]())
                for each in one.conversations[:5]
                for turn in turns
            ]
        progress = Progress(one.name, len(pairs))
        for user, text, evidence in pairs:
            progress.add(1)
            found = memory.sync.search_memory(
                app_name=APP, user_id=user, query=text, top_k=TOP_K, min_confidence=0
            )
            right = sum(evidence_id(each) in evidence for each in found)
            if not found or (evidence and not right):
                continue
            assert isinstance(found.asked, Asked)
            self.asked.append(found.asked)
            self.sets.append(one.name)
            self.wanted.append(float(right > 0))
            self.right.append(max(right, 1))
        progress.finish()

    def law(self, extra: Array | None = None) -> dict[str, Any]:
        """Fit the regression, with one more signal if one is given."""
        signals = np.array([each.relevance_features() for each in self.asked])
        if extra is not None:
            signals = np.column_stack([signals, extra])
        deviation = signals.std(axis=0)
        wanted = np.array(self.wanted)
        share = shares(self.sets, wanted, np.array(self.right))
        weights = fit(signals / deviation, wanted, share, 1.0)
        odds = (signals / deviation) @ weights[:-1] + weights[-1]
        weights[-1] += CUT - self._highest_cut(odds)
        return {
            "bias": round(float(weights[-1]), 4),
            "weights": [round(float(each), 4) for each in weights[:-1] / deviation],
        }

    def _highest_cut(self, odds: Array) -> float:
        """Return the odds below which one set loses `LOST` of its right answers."""
        wanted, names = np.array(self.wanted), np.array(self.sets)
        right, cuts = np.array(self.right), []
        for name in dict.fromkeys(self.sets):
            rows = (names == name) & (wanted > 0)
            order = np.argsort(odds[rows])
            share = np.cumsum(right[rows][order]) / right[rows].sum()
            cuts.append(odds[rows][order][np.searchsorted(share, LOST, side="right")])
        return float(min(cuts))


def searched(embedder: Embedder | None, turns: Sequence[str]) -> Found:
    """Search all sets with an embedder, or by words alone."""
    found = Found()
    for one in all_sets():
        if one.reading or one.name in HELD_OUT:
            continue
        with ingested(one.conversations, embedder, Calibration.shipped()) as subject:
            found.search(subject.memory, one, turns)
    return found


def directions(found: Found) -> tuple[Array, Array]:
    """Return the direction of all, and each query's part along that of others."""
    texts = [each.query for each in found.asked]
    plain = LocalEmbedder(query_map=None).embed_queries(texts)
    mapped = LocalEmbedder().embed_queries(texts)
    both = np.concatenate([plain, mapped]).astype(float)
    wanted = np.array(found.wanted)
    share = shares(found.sets, wanted, np.ones(len(texts)))
    places = {text: at for at, text in enumerate(dict.fromkeys(texts))}
    rng = np.random.default_rng(0)
    fold = rng.integers(0, FOLDS, len(places))[[places[text] for text in texts]]

    def fitted(rows: NDArray[np.bool_]) -> Array:
        twice = np.concatenate([rows, rows])
        return fit(
            both[twice],
            np.concatenate([wanted[rows]] * 2),
            np.concatenate([share[rows]] * 2) / 2.0,
            RIDGE,
        )

    apart = np.zeros(len(texts))
    for one in range(FOLDS):
        weights = fitted(fold != one)
        rows = fold == one
        apart[rows] = mapped[rows] @ weights[:-1] + weights[-1]
    whole = fitted(np.ones(len(texts), bool))
    return whole, apart


def main() -> None:
    """Fit and print the weights; write them if that is asked for."""
    parser = arguments.parser(__doc__)
    parser.add_argument("--write", action="store_true", help="into the package")
    options = parser.parse_args()
    turns = [turn.text for turn in read_turns() if turn.part != "held out"]
    laws: dict[str, Any] = {"words": searched(None, turns).law()}
    local = LocalEmbedder()
    found = searched(local, turns)
    laws["vectors"] = found.law()
    direction, apart = directions(found)
    own = found.law(apart)
    own["bias"] = round(own["bias"] + own["weights"][-1] * direction[-1], 4)
    print(json.dumps({**laws, "local": own}, indent=1))
    own["direction"] = [round(float(each), 3) for each in direction[:-1]]
    laws["models"] = {local.model_id: own}
    if options.write:
        SHIPPED.write_text(json.dumps(laws) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
