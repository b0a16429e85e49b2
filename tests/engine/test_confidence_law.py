"""The confidence of hits against the same law in plain Python, to the last digit."""

from __future__ import annotations

import math
import pickle
import random

import pytest
from vecall._core import Confidence
from vecall.errors import InvalidArgumentError, InvalidTypeError


def places(scores):
    """Steps below the best score: less than one for a gap under 5 % of the best."""
    found, steps = [], 0.0
    for before, score in zip([scores[0], *scores], scores, strict=False):
        gap = before - score
        if gap > 0.0:
            steps += min(1.0, gap / (0.05 * scores[0]))
        found.append(steps)
    return found


def rated(bias, weights, hits, best, scale):
    """The law, hit by hit."""
    found, shown, before = [], 1.0, None
    scores = [hit[0] for hit in hits]
    for hit, place in zip(hits, places(scores), strict=True):
        score, covered, vectors, factor, similarity, size = hit
        root, relative = math.sqrt(covered), score / best
        signals = (
            *(root, math.log1p(place), relative, float(covered > 0.0)),
            *(math.log(max(factor, 0.01)), root * math.log1p(min(size, 4_000) / 500)),
            vectors * scale,
            0.0 if covered > 0.0 or math.isnan(similarity) else similarity,
        )
        odds = bias
        for weight, signal in zip(weights, signals, strict=False):
            odds += weight * signal
        chance = 1.0 / (1.0 + math.exp(-min(max(odds, -60.0), 60.0)))
        if chance < shown and score != before:
            shown = chance
        before = score
        found.append((place, relative, shown))
    return found


@pytest.mark.parametrize("count", [6, 8])
def test_hits_are_rated_by_the_law(count):
    chance = random.Random(count)
    for _ in range(500):
        bias, *weights = (chance.uniform(-9, 9) for _ in range(1 + count))
        scores = [chance.choice((chance.random(), 0.5)) for _ in range(9)]
        hits = [
            (
                score,
                chance.choice((0.0, chance.random())),
                chance.random(),
                chance.choice((0.0, 1.0, chance.uniform(0, 3))),
                chance.choice((math.nan, chance.uniform(-1, 1))),
                chance.choice((0, 1, 499, 4_000, 9_000)),
            )
            for score in sorted(scores, reverse=True)
        ]
        found = Confidence(bias, weights).rate(hits, hits[0][0], 0.75)
        assert found == rated(bias, weights, hits, hits[0][0], 0.75)


def test_no_hits_and_scores_of_zero_are_rated():
    law = Confidence(-1.0, [1.0] * 6)
    assert law.rate([], 0.0, 1.0) == []
    nothing = (0.0, 0.0, 0.0, 1.0, math.nan, 0)
    confidence = law.probability([0.0] * 6)
    assert law.rate([nothing] * 2, 0.0, 1.0) == [(0.0, 0.0, confidence)] * 2


@pytest.mark.parametrize(
    "call",
    [
        lambda law: law.rate([(1.0, "s3cret", 0.0, 1.0, 0.0, 1)], 1.0, 1.0),
        lambda law: law.rate([(1.0, 2.0)], 1.0, 1.0),
        lambda law: law.rate([[1.0] * 6], 1.0, 1.0),
        lambda law: law.rate("s3cret", 1.0, 1.0),
        lambda law: law.rate([], "s3cret", 1.0),
        lambda law: law.rate([], 1.0),
        lambda law: law.probability("s3cret"),
        lambda law: law.probability([None]),
        lambda law: Confidence("s3cret", []),
        lambda law: Confidence(1.0, "s3cret"),
        lambda law: Confidence.places({"s3cret": 1.0}),
        lambda law: Confidence.__new__(Confidence).probability([1.0]),
        pickle.dumps,
    ],
)
def test_what_is_no_number_is_refused_without_showing_it(call):
    with pytest.raises(InvalidTypeError) as caught:
        call(Confidence(0.0, [1.0]))
    assert "s3cret" not in str(caught.value)


def test_each_chance_has_a_score():
    with pytest.raises(InvalidArgumentError, match="scores"):
        Confidence.descending([0.5, 0.25], [1.0])
