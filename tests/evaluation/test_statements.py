"""The labelled pairs of statements are as described, and the rule keeps its share."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from helpers.paths import ROOT
from vecall.lexical.statements import OFFERED, PROPOSED, text_likeness

FILE = ROOT / "bench/recall/statements.jsonl"
if not FILE.is_file():
    pytest.skip("the bench is not here", allow_module_level=True)

PAIRS = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
VERSIONS = {"update", "rewording"}


def test_there_are_300_pairs_in_eight_languages_and_no_pair_twice():
    assert Counter(pair["label"] for pair in PAIRS) == {
        "update": 120,
        "rewording": 64,
        "person": 48,
        "attribute": 40,
        "beside": 32,
    }
    assert set(Counter(pair["language"] for pair in PAIRS).values()) == {38}
    assert len({(pair["earlier"], pair["later"]) for pair in PAIRS}) == len(PAIRS)
    assert sum("question" in pair for pair in PAIRS) == 64


def test_by_words_alone_most_of_what_is_proposed_is_right():
    judged = [
        (pair["label"], text_likeness(pair["later"], pair["earlier"])) for pair in PAIRS
    ]
    proposed = [label for label, like in judged if like.score >= PROPOSED]
    assert sum(label in VERSIONS for label in proposed) >= 0.88 * len(proposed)
    assert len(proposed) >= 145
    updates = [like for label, like in judged if label == "update"]
    assert sum(like.score >= OFFERED for like in updates) >= 0.85 * len(updates)
    same = [label for label, like in judged if like.says == "same"]
    assert same.count("rewording") >= 0.85 * len(same)
    assert len(same) >= 30


def test_what_a_person_does_with_a_thing_is_no_version_of_a_figure_of_it():
    rent = "The rent of the flat is 900 euros."
    assert text_likeness(rent, "My sister rents a flat.").score < PROPOSED
    assert text_likeness(rent.replace("900", "950"), rent).score >= PROPOSED


def test_the_comparison_is_bounded_and_symmetric():
    long = "word " * 300
    assert text_likeness(long, long + "x").score == 0.0
    assert text_likeness(long, long).score == 1.0
    for pair in PAIRS[:40]:
        one, other = pair["earlier"], pair["later"]
        assert text_likeness(one, other) == text_likeness(other, one)
    assert text_likeness("", "").says == "update"
    assert 0.0 <= text_likeness("", "?!").score < OFFERED
