"""What the engine must compute, in plain Python and float64, for tests to compare with.

Written from the documented formulas, not from the C++: a partition is a dict of rows,
and every question walks over all of them. helpers/ranking.py makes the scores.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from vecall._core import Ranking

from helpers.ranking import DEFAULTS, Answer, Asked, Expected, Summary, rank

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

K1 = 0.9
B = 0.75
NEVER = 2**63 - 1
PART = 2**63  # the bit of a part of a word, and of an optional term of a query
PART_WEIGHT = 0.5
HUGE_K = 10**18


def score_tolerance(dim: int, codec: str = "int4+8") -> float:
    """How far a cosine may be from float64: short vectors are scored from float32."""
    if dim <= 32:
        return 2e-6
    return {"int4": 0.2, "int4+8": 3e-4, "int4+8+4": 3e-5}[codec]


class UndecidedError(Exception):
    """Which rows are proposed hangs on the last bits of a float32."""


@dataclass(frozen=True)
class Row:
    id: int
    words: tuple[int, ...] = ()
    vector: np.ndarray | None = None
    time: int = 0
    expires: int = NEVER
    session: int = 0
    position: float = 0
    author: int = 0
    kind: int = 0


Rows = dict[int, Row]


@dataclass(frozen=True)
class Query:
    vector: np.ndarray | None = None
    words: tuple[int, ...] = ()
    k: int = 5
    # Keywords of Engine.recall; its ranking as "weights", by name.
    options: dict[str, Any] = field(default_factory=dict)

    def option(self, name: str, default: Any = None) -> Any:
        value = self.options.get(name)
        return default if value is None else value

    @property
    def weights(self) -> dict[str, float]:
        return {**DEFAULTS, **self.options.get("weights", {})}


def put(rows: Rows, new: Iterable[Row]) -> None:
    """Add or replace; the last of equal ids wins."""
    rows.update((row.id, row) for row in new)


def columns(new: Sequence[Row], dim: int) -> dict[str, np.ndarray | None]:
    """The arguments of Engine.add_rows."""
    vectors = np.full((len(new), dim), np.nan, dtype=np.float32)
    for at, row in enumerate(new):
        if row.vector is not None:
            vectors[at] = row.vector
    has_vector = np.array([row.vector is not None for row in new], dtype=np.uint8)
    lengths = [len(row.words) for row in new]
    return {
        "ids": np.array([row.id for row in new], dtype=np.int64),
        "times": np.array([row.time for row in new], dtype=np.int64),
        "expires": np.array([row.expires for row in new], dtype=np.int64),
        "sessions": np.array([row.session for row in new], dtype=np.uint64),
        "positions": np.array([row.position for row in new], dtype=np.float64),
        "terms": np.array([word for row in new for word in row.words], dtype=np.uint64),
        "offsets": np.cumsum([0, *lengths], dtype=np.int64),
        "vectors": vectors if dim else None,
        "has_vector": has_vector if dim else None,
        "authors": np.array([row.author for row in new], dtype=np.uint64),
        "kinds": np.array([row.kind for row in new], dtype=np.uint64),
    }


def add_rows(engine: Any, key: tuple[str, str], new: Sequence[Row]) -> None:
    engine.add_rows(key, **columns(new, engine.dim))


def ask(engine: Any, key: tuple[str, str], query: Query) -> tuple[np.ndarray, ...]:
    found = _recall(engine.recall, key, query)
    names = [column.dtype.name for column in found]
    assert names == ["int64", *4 * ["float32"], "float64"]
    count = len(found[0])
    shapes = [column.shape for column in found]
    assert shapes == [*4 * [(count,)], (count, 6), (6,)]
    return found


def ask_for_lists(engine: Any, key: tuple[str, str], query: Query) -> tuple[list, ...]:
    found, ids, summary = _recall(engine.recall_found, key, query)
    lists = found.lists()
    assert ids == lists[0]
    assert summary.pop() == (lists[1][0] if ids else 0.0)
    return (*lists, summary)


def _recall(method: Any, key: tuple[str, str], query: Query) -> Any:
    options = dict(query.options)
    if "weights" in options:
        options["ranking"] = Ranking(**options.pop("weights"))
    return method(key, query.vector, list(query.words), query.k, **options)


def passes(row: Row, options: dict[str, Any]) -> bool:
    session, after = options.get("session"), options.get("after")
    before, now = options.get("before"), options.get("now")
    author, kind = options.get("author"), options.get("kind")
    only = options.get("only")
    return (
        (session is None or row.session == session)
        and (author is None or row.author == author)
        and (kind is None or row.kind == kind)
        and (only is None or bool(np.isin(row.id, only)))
        and row.id not in options.get("without", ())
        and (not row.session or row.session not in options.get("without_sessions", ()))
        and (after is None or after <= row.time)
        and (before is None or row.time < before)
        and (now is None or row.expires == NEVER or now < row.expires)
    )


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    a, b = a.astype(np.float64), b.astype(np.float64)
    a, b = a / np.abs(a).max(), b / np.abs(b).max()
    return float(np.clip(a @ b / math.sqrt((a @ a) * (b @ b)), -1.0, 1.0))


def inside(rows: Rows, options: dict[str, Any]) -> set[int] | None:
    """The ids that pass and lie in the query's period; None without one."""
    start, end = options.get("period_from"), options.get("period_until")
    if start is None and end is None:
        return None
    return {
        i
        for i, row in rows.items()
        if passes(row, options)
        and (start is None or start <= row.time)
        and (end is None or row.time < end)
    }


def bm25(
    rows: Rows, words: Sequence[int], period: set[int] | None = None
) -> tuple[dict[int, float], dict[int, float]]:
    """BM25 of each row, and the share of the query's idf mass that it matches.

    The rows of a period hold one word more, of which BM25 is the idf.
    """
    scores, matched, mass = _bm25_of_words(rows, words)
    if period:
        idf = math.log(1 + (len(rows) - len(period) + 0.5) / (len(period) + 0.5))
        mass += idf
        for row_id in period:
            scores[row_id] += idf
            matched[row_id] += idf
    return scores, {i: min(one / mass, 1) if mass else 0 for i, one in matched.items()}


def _bm25_of_words(
    rows: Rows, words: Sequence[int]
) -> tuple[dict[int, float], dict[int, float], float]:
    told = [row for row in rows.values() if row.words]
    scores = dict.fromkeys(rows, 0.0)
    found = dict.fromkeys(rows, 0.0)
    plain = [word for word in words if word < PART]
    if not told or not plain:
        return scores, found, 0.0
    lengths = {row.id: sum(word < PART for word in row.words) for row in told}
    mean_length = max(sum(lengths.values()), 1) / len(told)
    counts = {row.id: Counter(row.words) for row in told}

    def idf_of(word: int) -> float:
        holders = sum(word in counts[row.id] for row in told)
        return math.log(1 + (len(told) - holders + 0.5) / (holders + 0.5))

    optional = {word for word in words if word >= PART}
    # As a part, and as a word where the query does not have the word anyway.
    optional |= {word - PART for word in optional} - set(plain)
    idf = {word: idf_of(word) for word in {*plain, *optional}}
    mass = sum(idf[word] for word in set(plain))
    # A repeated word counts as often as it is asked.
    weights = [(word, 1.0) for word in plain]
    weights += [(word, PART_WEIGHT) for word in optional]
    for row in told:
        norm = K1 * (1 - B + B * lengths[row.id] / mean_length)
        for word, weight in weights:
            count = counts[row.id][word]
            scores[row.id] += weight * idf[word] * count * (K1 + 1) / (count + norm)
        found[row.id] = sum(idf[word] for word in idf if counts[row.id][word])
    return scores, found, mass


def best(
    scores: dict[int, float],
    rows: Rows,
    limit: int,
    profile: Callable[[Row], object],
) -> list[int]:
    """The `limit` best: higher score, then newer, then smaller id.

    Rows of one profile have the same score to the last bit. Raises UndecidedError if
    rows of two profiles are too near to each other at the border.
    """

    def order(row_id: int) -> tuple[float, int, int]:
        return (-scores[row_id], -rows[row_id].time, row_id)

    ranked = sorted(scores, key=order)
    if len(ranked) > limit:
        edge = scores[ranked[limit - 1]]
        near = [i for i in ranked if abs(scores[i] - edge) <= 1e-5 * max(1, abs(edge))]
        if len({profile(rows[i]) for i in near}) > 1:
            raise UndecidedError
    return ranked[:limit]


def word_profile(
    words: Sequence[int], period: set[int] | None
) -> Callable[[Row], object]:
    asked = sorted({*words, *(word - PART for word in words if word >= PART)})

    def profile(row: Row) -> object:
        counts = Counter(row.words)
        length = sum(word < PART for word in row.words)
        is_inside = period is not None and row.id in period
        return (length, is_inside, tuple(counts[word] for word in asked))

    return profile


def vector_profile(row: Row) -> object:
    """Rows with vectors that are multiples of small integers have exact cosines."""
    assert row.vector is not None
    unit = row.vector.astype(np.float64) / np.linalg.norm(row.vector.astype(np.float64))
    return tuple(np.round(unit, 6) + 0.0)


def neighbours(rows: Rows) -> dict[int, tuple[int | None, int | None]]:
    """For each row those before and after it in its session, at most one position off.

    A session is told by position; rows at equal positions stand by id, so that the
    order in which rows arrived does not matter.
    """
    before: dict[int, int] = {}
    after: dict[int, int] = {}
    for session in {row.session for row in rows.values()} - {0}:
        told = [row for row in rows.values() if row.session == session]
        told = [row for row in told if not math.isnan(row.position)]
        told.sort(key=lambda row: (row.position, row.id))
        for first, second in itertools.pairwise(told):
            if 0 < second.position - first.position <= 1:
                before[second.id] = first.id
                after[first.id] = second.id
    return {i: (before.get(i), after.get(i)) for i in rows}


def propose(
    rows: Rows, query: Query, links: dict[int, tuple[int | None, int | None]]
) -> Answer:
    """The candidates, with their BM25 and cosines, and the summary without trust."""
    limit = max(query.option("candidates", 50), query.k)
    allowed = {i: row for i, row in rows.items() if passes(row, query.options)}
    period = inside(rows, query.options)
    scores, shares = bm25(rows, query.words, period)
    worded = {i: scores[i] for i in allowed if scores[i] > 0}
    near = {}
    if asks_by_vector(query):
        near = {
            i: cosine(query.vector, row.vector)
            for i, row in allowed.items()
            if row.vector is not None
        }
    lexical, dense = [], []
    for some in (allowed.keys(), period or ()):
        words = {i: score for i, score in worded.items() if i in some}
        lexical += best(words, rows, limit, word_profile(query.words, period))
        vectors = {i: score for i, score in near.items() if i in some}
        dense += best(vectors, rows, limit, vector_profile)
    proposed = dict.fromkeys([*lexical, *dense])
    for _ in range(2):  # steps along a session
        steps = [beside for i in proposed for beside in links[i] if beside in allowed]
        proposed.update(dict.fromkeys(steps))
    cosines = list(near.values())
    return Answer(
        {
            i: Expected(rows[i], scores[i], shares[i], near.get(i, math.nan))
            for i in proposed
        },
        Summary(
            coverage=max((shares[i] for i in lexical), default=0.0),
            mean=float(np.mean(cosines)) if cosines else 0.0,
            deviation=float(np.std(cosines)) if cosines else 0.0,
            rows=len(allowed),
            inside=len(period or ()),
        ),
    )


def asks_by_vector(query: Query) -> bool:
    return query.vector is not None and bool(np.any(query.vector))


def recall(rows: Rows, query: Query) -> Answer:
    """Every row that may be in the answer, with its scores."""
    if not any(passes(row, query.options) for row in rows.values()):
        return Answer()
    period = inside(rows, query.options)
    if period is not None and not period:
        passing = sum(passes(row, query.options) for row in rows.values())
        return Answer(summary=Summary(rows=passing))
    links = neighbours(rows)
    answer = propose(rows, query, links)
    marks = {
        name: query.options[name]
        for name in (
            "question_mark",
            "time_mark",
            "author_marks",
            "favoured_authors",
            "known_model",
            "dated_mark",
        )
        if name in query.options
    }
    asked = Asked(query.weights, asks_by_vector(query), inside=period, **marks)
    rank(answer, links, asked)
    floor = query.options.get("min_similarity")
    if floor is not None:
        kept = {i: e for i, e in answer.rows.items() if e.similarity >= floor}
        return Answer(kept, answer.summary)
    return answer


def assert_answers(
    found: tuple[np.ndarray, ...],
    expected: Answer,
    k: int,
    *,
    tolerance: float = 1e-4,
) -> None:
    """An answer of Engine.recall holds the best rows with their scores, in order."""
    ids, scores, similarities, lexical = (column.tolist() for column in found[:4])
    assert len(set(ids)) == len(ids)
    assert set(ids) <= expected.rows.keys()
    wanted = [expected.rows[i] for i in ids]
    for e, factor in zip(wanted, found[4][:, 5].tolist(), strict=True):
        if abs(factor - e.factor * e.tied) < abs(factor - e.factor):
            e.factor, e.tied = e.factor * e.tied, 1.0
    close = {"rtol": tolerance, "atol": tolerance}
    np.testing.assert_allclose(scores, [e.score for e in wanted], **close)
    np.testing.assert_allclose(similarities, [e.similarity for e in wanted], **close)
    np.testing.assert_allclose(lexical, [e.lexical for e in wanted], **close)
    parts = np.array([e.parts for e in wanted]).reshape(-1, 6)
    np.testing.assert_allclose(found[4], parts, **close)
    np.testing.assert_allclose(found[5], expected.summary.values, **close)
    order = [(-s, -e.row.time, e.row.id) for s, e in zip(scores, wanted, strict=True)]
    assert order == sorted(order)
    assert len(ids) >= min(k, len(expected.rows))
    assert {key[:2] for key in order[k:]} <= {key[:2] for key in order[k - 1 : k]}
    if len(ids) >= k:
        missed = [
            e.score * min(e.tied, 1.0) for i, e in expected.rows.items() if i not in ids
        ]
        least = scores[k - 1]
        assert max(missed, default=-math.inf) <= least + 2 * tolerance * max(1, least)


def nearest(
    rows: Rows, vector: np.ndarray, options: dict[str, Any] | None = None
) -> dict[int, float]:
    """The cosine of every row that Engine.search or Index.search may return."""
    if not np.any(vector):
        return {}
    return {
        i: cosine(vector, row.vector)
        for i, row in rows.items()
        if row.vector is not None and passes(row, options or {})
    }


def assert_nearest(
    found: tuple[np.ndarray, np.ndarray],
    expected: dict[int, float],
    k: int,
    rows: Rows,
    *,
    tolerance: float = 2e-6,
) -> None:
    """An answer of search holds the k nearest rows with their cosines, in order."""
    assert found[0].dtype == np.int64
    assert found[1].dtype == np.float32
    ids, cosines = found[0].tolist(), found[1].tolist()
    assert len(ids) == len(cosines) == min(k, len(expected))
    assert len(set(ids)) == len(ids)
    assert set(ids) <= expected.keys()
    np.testing.assert_allclose(cosines, [expected[i] for i in ids], atol=tolerance)
    order = [(-c, -rows[i].time, i) for c, i in zip(cosines, ids, strict=True)]
    assert order == sorted(order)
    if ids:
        missed = [value for i, value in expected.items() if i not in ids]
        assert max(missed, default=-2.0) <= cosines[-1] + 2 * tolerance
