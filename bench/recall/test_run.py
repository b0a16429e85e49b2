"""The gate for changes of ranking distinguishes a loss from noise."""

from __future__ import annotations

import numpy as np

from bench.recall.run import compare, interval


def shares(values):
    return {"facts": {"lexical": {"recall@10": list(values), "mrr": list(values)}}}


def test_a_loss_on_a_kind_fails_and_noise_and_gains_do_not():
    rng = np.random.default_rng(1)
    before = rng.random(300)
    kinds = {"facts": "facts"}
    for change, lost in ((-0.1, 2), (0.1, 0), (0.0, 0)):
        after = before + change + 0.2 * rng.standard_normal(300)
        rows, losses = compare(shares(before), shares(after), kinds)
        assert [row[:2] for row in rows] == [["facts", "lexical"]]
        assert len(losses) == lost, change


def test_sets_that_the_earlier_run_lacks_or_has_otherwise_are_left_out():
    kinds = {"facts": "facts"}
    assert compare({}, shares([1.0]), kinds) == ([], [])
    assert compare(shares([1.0, 0.0]), shares([1.0]), kinds) == ([], [])


def test_the_interval_holds_the_mean_and_is_as_wide_as_theory_says():
    differences = np.random.default_rng(2).standard_normal(400)
    mean, low, high = interval(differences)
    assert mean == differences.mean()
    width = 2 * 1.96 * differences.std() / np.sqrt(400)
    assert abs((high - low) / width - 1) < 0.1
    assert low < mean < high
