"""How many tokens a text takes, where nobody gives a tokenizer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from vecall.prompts.render import estimate_tokens


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("a", 1),
        ("four", 1),
        ("fives", 2),
        ("a quiet room on a high floor", 7),
        ("安静的房间", 5),
        ("静かな部屋", 5),
        ("조용한방", 4),
        ("тихая комната", 7),
        ("\N{PARROT}\N{PARROT}", 4),
        ("é" * 4, 2),
        ("\ud800", 1),
    ],
)
def test_the_estimate_follows_the_script(text, tokens):
    """S2.19: about 4 Latin characters or 1 of CJK make a token."""
    assert estimate_tokens(text) == tokens


@given(st.text(), st.text())
def test_the_estimate_is_that_of_each_character_and_adds_up(left, right):
    quarters = 0
    for character in left:
        code = ord(character)
        limits = ((0x80, 1), (0x800, 2), (0x10000, 4), (0x110000, 8))
        quarters += next(weight for limit, weight in limits if code < limit)
    assert estimate_tokens(left) == -(-quarters // 4)
    whole = estimate_tokens(left + right)
    assert whole <= estimate_tokens(left) + estimate_tokens(right) <= whole + 1
