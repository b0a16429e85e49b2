"""How the parts of a score are made, in plain Python and float64.

Written from docs/design/ranking.md and the comments of types.hpp and fusion.hpp, not
from the C++. references.py says which rows are candidates; this says what they score.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

DEFAULTS = {
    "dense": 0.4,
    "coverage_power": 0.5,
    "next": 0.5,
    "previous": 0.4,
    "after_question": 0.8,
    "second": 0.3,
    "session": 0.15,
    "question": 0.8,
    "time": 1.3,
    "author": 1.2,
    "favoured": 1.2,
    "reply": 0.97,
    "outside": 0.1,
}


FEW = 50  # candidates; a usual context is that of at least so many


@dataclass
class Expected:
    """A candidate and its scores."""

    row: Any  # references.Row
    lexical: float
    covered: float
    similarity: float
    words: float = 0.0
    vectors: float = 0.0
    context: float = 0.0
    beside: float = 0.0
    session: float = 0.0
    factor: float = 1.0
    tied: float = 1.0  # the factor may be this times as large, for a rounding error

    @property
    def score(self) -> float:
        return (self.words + self.vectors + self.beside + self.session) * self.factor

    @property
    def parts(self) -> list[float]:
        """A row of what Engine.recall returns as parts."""
        own = [self.covered, self.words, self.vectors, self.beside, self.session]
        return [*own, self.factor]


@dataclass
class Summary:
    """What Engine.recall returns last."""

    coverage: float = 0.0
    trust: float = 0.0
    mean: float = 0.0
    deviation: float = 0.0
    rows: int = 0
    inside: int = 0

    @property
    def values(self) -> list[float]:
        told = [self.coverage, self.trust, self.mean, self.deviation]
        return [*told, float(self.rows), float(self.inside)]


@dataclass
class Answer:
    """Every row that may be in an answer, by id, and what they share."""

    rows: dict[int, Expected] = field(default_factory=dict)
    summary: Summary = field(default_factory=Summary)


@dataclass(frozen=True)
class Asked:
    """What a query says about the ranking."""

    weights: Mapping[str, float]
    has_vector: bool
    question_mark: int = 0
    time_mark: int = 0
    author_marks: Collection[int] = ()
    favoured_authors: Collection[int] = ()
    known_model: bool = False
    dated_mark: int = 0
    inside: Collection[int] | None = None  # ids in the period, None without one


def rank(answer: Answer, links: Mapping[int, tuple[int | None, int | None]], q: Asked):
    """Fills the parts of all candidates and the trust.

    Args:
        answer: The candidates, and the summary but for the trust.
        links: For each row the ids one position before and after it, or None.
        q: What was asked.
    """
    found, weights = answer.rows, q.weights
    dense = weights["dense"] if q.has_vector else 0.0
    _weigh_words(answer, 1 - dense, weights["coverage_power"])
    if dense > 0:
        answer.summary.trust = trust(answer, known_model=q.known_model)
        _weigh_vectors(found, dense * answer.summary.trust)
    _fill_contexts(answer)
    usual = sum(e.context for e in found.values()) / max(len(found), FEW)
    best = _best_of_sessions(found, usual)
    for e in found.values():
        e.beside = _beside(e.row.id, found, links, q, usual)
        three = best[e.row.session] if _is_a_turn(e.row) else 3 * usual
        e.session = weights["session"] * three
        e.factor = _factor(e.row, q)
    _lower_replies(found, links, q)


def _weigh_words(answer: Answer, share: float, power: float) -> None:
    found = answer.rows.values()
    weight = {e.row.id: e.lexical * e.covered**power for e in found}
    most = max(weight.values(), default=0.0)
    if most <= 0:
        return
    for e in found:
        e.words = share * answer.summary.coverage**0.75 * weight[e.row.id] / most


def _weigh_vectors(found: Mapping[int, Expected], weight: float) -> None:
    near = [e for e in found.values() if not math.isnan(e.similarity)]
    if not near:
        return
    low, high = min(e.similarity for e in near), max(e.similarity for e in near)
    for e in near:
        flat = high - low < 1e-6
        e.vectors = weight * (1 if flat else (e.similarity - low) / (high - low))


def _fill_contexts(answer: Answer) -> None:
    """What each row gives to those beside it: chance cosines little."""
    found = answer.rows.values()
    most = max((e.vectors for e in found), default=0.0)
    for e in found:
        share = e.vectors / most if most > 0 else 0.0
        unsaid = 1 - min(answer.summary.coverage, 1.0)
        e.context = e.words + e.vectors * (1 - unsaid + unsaid * share**2)


def trust(answer: Answer, *, known_model: bool) -> float:
    """How far the vector side agrees with the words, in [0, 1]."""
    found, summary = answer.rows.values(), answer.summary
    agreeing = [e for e in found if e.lexical > 0 and not math.isnan(e.similarity)]
    weight = sum(e.lexical for e in agreeing)
    if not weight or known_model:
        return 0.0 if all(math.isnan(e.similarity) for e in found) else 1.0
    weighted = sum(e.lexical * e.similarity for e in agreeing) / weight
    if summary.deviation < 1e-3:
        return 1.0  # all rows are alike to the vectors
    lift = (weighted - summary.mean) / summary.deviation
    return min(1.0, max(2 * lift, (1 - summary.coverage) ** 2, 0.0))


_CLOSE = 1e-4


def _lower_replies(
    found: Mapping[int, Expected],
    links: Mapping[int, tuple[int | None, int | None]],
    q: Asked,
) -> None:
    """A reply to a favoured author who scores as high counts less."""
    scores = {i: e.score for i, e in found.items()}

    def is_favoured(i: int) -> bool:
        author = found[i].row.author
        return author != 0 and author in q.favoured_authors

    for i, e in found.items():
        first = links[i][0]
        if first not in found or is_favoured(i) or not is_favoured(first):
            continue
        lead = scores[first] - scores[i]
        if lead >= 0:
            e.factor *= q.weights["reply"]
        if abs(lead) <= _CLOSE * max(1.0, scores[i]) and q.weights["reply"] > 0:
            e.tied = q.weights["reply"] ** (-1 if lead >= 0 else 1)


def _is_a_turn(row: Any) -> bool:
    """Whether a row stands somewhere in a session."""
    return row.session != 0 and not math.isnan(row.position)


def _best_of_sessions(found: Mapping[int, Expected], usual: float) -> dict[int, float]:
    contexts = defaultdict(list)
    for e in found.values():
        if _is_a_turn(e.row):
            contexts[e.row.session].append(e.context)
    return {
        name: sum(sorted(some)[-3:]) + usual * max(3 - len(some), 0)
        for name, some in contexts.items()
    }


def _beside(
    row_id: int,
    found: Mapping[int, Expected],
    links: Mapping[int, tuple[int | None, int | None]],
    q: Asked,
    usual: float,
) -> float:
    """The largest share of what stands up to two candidates before and after."""
    if not _is_a_turn(found[row_id].row):
        return q.weights["next"] * found[row_id].context
    shares = [0.0]
    for side, name in ((0, "previous"), (1, "next")):
        first = links[row_id][side]
        if first is None or first not in found:
            shares.append(q.weights[name] * usual)
            continue
        if side == 0 and holds(found[first].row, q.question_mark):
            name = "after_question"  # noqa: PLW2901
        shares.append(q.weights[name] * found[first].context)
        second = links[first][side]
        if second is not None and second in found:
            shares.append(q.weights["second"] * found[second].context)
    return max(shares)


def holds(row: Any, mark: int) -> bool:
    """Whether a row has a mark among its words; 0 is no mark."""
    return mark != 0 and mark in row.words


def _factor(row: Any, q: Asked) -> float:
    factor = 1.0
    if holds(row, q.question_mark):
        factor *= q.weights["question"]
    if holds(row, q.time_mark):
        factor *= q.weights["time"]
    if any(holds(row, author) for author in q.author_marks):
        factor *= q.weights["author"]
    if row.author != 0 and row.author in q.favoured_authors:
        factor *= q.weights["favoured"]
    if q.inside is not None and row.id not in q.inside:
        dated = q.dated_mark == 0 or holds(row, q.dated_mark)
        factor *= q.weights["outside"] ** (1 if dated else 0.5)
    return factor
