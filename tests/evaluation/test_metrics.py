"""Recall, ranks, gains and calibration, against the plainest ways to count them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from vecall.evaluation import metrics

NAMES = "abcdefghijkl"
rankings = st.permutations(NAMES).flatmap(
    lambda names: st.integers(0, len(names)).map(lambda n: names[:n])
)
names = st.frozensets(st.sampled_from(NAMES), min_size=1)
evidences = st.lists(names, min_size=1, max_size=6)
depths = st.integers(1, 15)
# A confidence is no nearer to a bin's edge than float arithmetic can tell.
judged = st.lists(
    st.tuples(st.integers(0, 1000).map(lambda n: n / 1000), st.integers(0, 1)),
    min_size=1,
    max_size=60,
)


def split(pairs):
    return [one for one, _ in pairs], [right for _, right in pairs]


@given(rankings, evidences, depths)
def test_recall_counts_the_pieces_of_which_one_id_is_there(ranked, pieces, depth):
    there = [piece for piece in pieces if piece & set(list(ranked)[:depth])]
    assert metrics.recall_at(ranked, pieces, depth) == len(there) / len(pieces)


@given(rankings, evidences)
def test_the_reciprocal_rank_is_that_of_the_first_evidence(ranked, pieces):
    evidence = set().union(*pieces)
    places = [place for place, name in enumerate(ranked) if name in evidence]
    expected = 1 / (min(places) + 1) if places else 0
    assert metrics.reciprocal_rank(ranked, pieces) == expected


@given(rankings, names, depths)
def test_the_gain_is_a_share_of_the_best_order_s(ranked, evidence, depth):
    def gain(order):
        kept = enumerate(list(order)[:depth])
        return sum((name in evidence) / np.log2(place + 2) for place, name in kept)

    ideal = sorted(NAMES, key=lambda name: name not in evidence)
    expected = gain(ranked) / gain(ideal)
    pieces = [{name} for name in evidence]
    assert metrics.ndcg_at(ranked, pieces, depth) == pytest.approx(expected)


@given(rankings, evidences, depths)
def test_a_piece_gains_once_at_its_first_place(ranked, pieces, depth):
    firsts = set()
    for piece in pieces:
        places = [place for place, name in enumerate(ranked) if name in piece]
        firsts.update(places[:1])
    gained = sum(1 / np.log2(place + 2) for place in firsts if place < depth)
    most = sum(1 / np.log2(place + 2) for place in range(min(len(pieces), depth)))
    expected = gained / most
    assert metrics.ndcg_at(ranked, pieces, depth) == pytest.approx(expected)


def test_an_ideal_order_gains_all_and_a_late_one_less():
    assert metrics.ndcg_at("abc", [{"a"}, {"b"}], 10) == 1
    assert metrics.ndcg_at("cab", [{"a"}], 10) == pytest.approx(1 / math.log2(3))
    early, late = (metrics.ndcg_at(order, [{"a"}], 10) for order in ("abc", "bac"))
    assert early > late


@given(judged)
def test_the_calibration_error_is_the_mean_gap_of_the_bins(pairs):
    told, relevant = map(np.array, split(pairs))
    numbers = np.clip(np.floor(told * 10 + 1e-9), 0, 9)
    gaps = 0.0
    for number in range(10):
        inside = numbers == number
        if inside.any():
            gap = abs(told[inside].mean() - relevant[inside].mean())
            gaps += gap * inside.mean()
    got = metrics.expected_calibration_error(told.tolist(), relevant.tolist())
    assert got == pytest.approx(gaps)


@given(judged)
def test_the_bins_hold_every_hit_once(pairs):
    told, relevant = split(pairs)
    bins = metrics.reliability_bins(told, relevant)
    assert sum(one.hits for one in bins) == len(pairs)
    total = sum(one.hits * one.relevant for one in bins)
    assert total == pytest.approx(sum(relevant))
    slack = 1e-9  # three times 0.7 have a mean below 0.7
    assert all(-slack <= one.confidence - one.low <= 0.1 + slack for one in bins)
    assert [one.low for one in bins] == sorted({one.low for one in bins})


def test_certainty_is_in_the_last_bin():
    (only,) = metrics.reliability_bins([1.0], [1])
    assert (only.low, only.hits, only.confidence) == (0.9, 1, 1.0)


@given(judged)
def test_the_brier_score_is_the_mean_squared_error(pairs):
    told, relevant = map(np.array, split(pairs))
    got = metrics.brier_score(told.tolist(), relevant.tolist())
    assert got == pytest.approx(np.mean((told - relevant) ** 2))
    constant = metrics.constant_brier_score(relevant.tolist())
    assert constant == pytest.approx(np.mean((relevant.mean() - relevant) ** 2))


@given(judged)
def test_the_auroc_counts_pairs_and_half_the_ties(pairs):
    told, relevant = split(pairs)
    right = [one for one, good in pairs if good]
    wrong = [one for one, good in pairs if not good]
    wins = [(a > b) + (a == b) / 2 for a, b in itertools.product(right, wrong)]
    got = metrics.roc_area(told, relevant)
    assert got == (pytest.approx(np.mean(wins)) if wins else None)


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=30))
def test_the_interval_is_that_of_a_mean(values):
    expected = 1.96 * np.std(values, ddof=1) / math.sqrt(len(values))
    assert metrics.confidence_half_width(values) == pytest.approx(expected, abs=1e-12)
    assert metrics.mean(values) == pytest.approx(np.mean(values), abs=1e-12)
    assert metrics.standard_deviation(values) == pytest.approx(
        np.std(values), abs=1e-12
    )


@given(st.lists(st.floats(0, 1), min_size=1), st.integers(0, 100))
def test_so_many_percent_do_not_exceed_a_percentile(values, percent):
    got = metrics.percentile(values, percent)
    assert got in values
    below = sum(value <= got for value in values)
    assert below / len(values) >= percent / 100 - 1e-9


def test_of_nothing_nothing_is_known():
    assert metrics.mean([]) is None
    assert metrics.standard_deviation([]) is None
    assert metrics.percentile([], 50) is None
    assert metrics.confidence_half_width([1.0]) is None
    assert metrics.brier_score([], []) is None
    assert metrics.constant_brier_score([]) is None
    assert metrics.expected_calibration_error([], []) is None
    assert metrics.roc_area([0.5], [1]) is None
    assert metrics.reliability_bins([], []) == []
