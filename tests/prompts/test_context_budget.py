"""What leaves a context that is too small, and in which order."""

from __future__ import annotations

import itertools
import time
import warnings
from typing import Any

import pytest
import vecall
from helpers.campaigns import examples
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from vecall import (
    ContextBudgetError,
    InvalidArgumentError,
    InvalidMemoryError,
    InvalidTypeError,
    MemoryEntry,
    ScoredMemory,
    fit_budget,
)

SECRET = "xyzzysecret"
# Ties, ends, and products that round to the same or to zero.
SHARES = st.one_of(
    st.sampled_from([0.0, 1e-200, 1e-17, 0.1, 0.3, 0.5, 0.9, 1.0]), st.floats(0, 1)
)
quiet = pytest.mark.filterwarnings("ignore:fit_budget")


def one(confidence: float, importance: float, size: int = 1, **more: Any):
    return ScoredMemory(
        "x" * size, confidence=confidence, importance=importance, **more
    )


MEMORIES = st.lists(st.builds(one, SHARES, SHARES, st.integers(0, 12)), max_size=12)


def places(memories, kept):
    """Where the kept ones stood, by identity."""
    where = {id(memory): place for place, memory in enumerate(memories)}
    return [where[id(memory)] for memory in kept]


def below(low, high):
    """Whether one memory is worse in one score and better in none."""
    return (
        low.confidence <= high.confidence
        and low.importance <= high.importance
        and (low.confidence, low.importance) != (high.confidence, high.importance)
    )


def shed_by_hand(memories, room, must=frozenset()):
    """Takes the worst away, one by one, until the rest fits."""
    left = [
        place
        for place, memory in enumerate(memories)
        if place in must
        or len(memory.text) <= room - sum(len(memories[at].text) for at in must)
    ]
    if sum(len(memory.text) for memory in memories) <= room:
        return list(range(len(memories)))
    while sum(len(memories[place].text) for place in left) > room:
        worst = None
        for place in left:
            if place in must:
                continue
            if worst is None:
                worst = place
                continue
            mine, its = memories[place], memories[worst]
            mine_worth = mine.confidence * mine.importance
            its_worth = its.confidence * its.importance
            if mine_worth != its_worth:
                worse = mine_worth < its_worth
            elif mine.confidence != its.confidence:
                worse = mine.confidence < its.confidence
            else:
                worse = mine.importance <= its.importance
            worst = place if worse else worst
        left.remove(worst)
    return left


@pytest.mark.campaign
@quiet
@given(MEMORIES, st.integers(0, 80), st.data())
@settings(max_examples=examples(300))
def test_what_is_kept_is_what_shedding_by_hand_leaves(memories, room, data):
    """S2.19: against an independent reference, with and without mandatory ones."""
    must = data.draw(st.sets(st.integers(0, 11)).map(frozenset))
    must = frozenset(place for place in must if place < len(memories))
    assume(sum(len(memories[place].text) for place in must) <= room)
    kept = fit_budget(
        memories, room, len, mandatory=[memories[place] for place in sorted(must)]
    )
    assert places(memories, kept) == shed_by_hand(memories, room, must)


@pytest.mark.campaign
@quiet
@given(MEMORIES, st.integers(0, 80))
@settings(max_examples=examples(300))
def test_a_lower_one_never_stays_where_a_higher_one_leaves(memories, room):
    """S2.20: low/low goes first, high/high last, unless it does not fit even alone."""
    kept = fit_budget(memories, room, len)
    gone = [m for m in memories if id(m) not in {id(each) for each in kept}]
    assert sum(len(memory.text) for memory in kept) <= room
    assert places(memories, kept) == sorted(places(memories, kept))
    for high, low in itertools.product(gone, kept):
        assert not below(low, high) or len(high.text) > room


@quiet
@given(SHARES, SHARES, SHARES, SHARES, st.booleans())
def test_of_two_the_lower_one_goes(c1, i1, c2, i2, swap):
    """S2.20: strictly, even where both products are zero or round to the same."""
    low, high = one(min(c1, c2), min(i1, i2)), one(max(c1, c2), max(i1, i2))
    assume(below(low, high))
    pair = [high, low] if swap else [low, high]
    assert fit_budget(pair, 1, len) == [high]


@quiet
@given(MEMORIES, st.integers(0, 80), st.integers(0, 80))
def test_more_room_never_loses_a_memory_that_fits_in_less(memories, room, more):
    """S2.19: only what now fits alone may push others out."""
    less = fit_budget(memories, room, len)
    wide = fit_budget(memories, room + more, len)
    if all(len(memory.text) <= room for memory in memories):
        assert set(map(id, less)) <= set(map(id, wide))


def test_a_barely_relevant_memory_does_not_push_out_the_match():
    """S2.23: a heavy weight alone does not outrank relevance."""
    match, barely = one(0.8, 0.3, 10), one(0.05, 1.0, 10)
    assert fit_budget([barely, match], 10, len) == [match]


def test_a_memory_that_never_fits_does_not_push_others_out():
    """S2.19."""
    huge, small = one(1, 1, 1000), one(0.1, 0.1, 5)
    assert fit_budget([huge, small], 100, len) == [small]


def test_equal_memories_leave_from_the_end():
    """S2.19: ties are decided by the given order, so the answer is always the same."""
    same = [one(0.5, 0.5, 3, id=str(place)) for place in range(6)]
    with pytest.warns(UserWarning, match="same confidence and importance"):
        kept = fit_budget(same, 9, len)
    assert [memory.id for memory in kept] == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("scores", "warned"),
    [
        ([(1.0, 0.1), (1.0, 0.9)], "all confidences are 1.0"),
        ([(0.4, 0.9), (0.4, 0.9), (0.4, 0.9)], "same confidence and importance"),
        ([(1.0, 1.0), (1.0, 1.0)], "same confidence and importance"),
        ([(1.0, 0.5), (0.9, 0.5)], None),
        ([(0.5, 0.5), (0.5, 0.6)], None),
        ([(1.0, 1.0)], None),
    ],
)
def test_scores_that_tell_nothing_apart_are_warned_about_once(scores, warned):
    """S2.24: when everything is critical, shedding is a guess, and says so."""
    memories = [one(*pair, 10) for pair in scores]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit_budget(memories, 5, len)
    assert [each.category for each in caught] == [UserWarning] * (warned is not None)
    for each in caught:
        assert warned in str(each.message)
        assert each.filename == __file__


def test_nothing_is_warned_about_where_nothing_is_shed():
    """S2.24: `filterwarnings = error` would raise."""
    assert len(fit_budget([one(1, 1), one(1, 1)], 2, len)) == 2


def test_what_is_mandatory_stays_whatever_its_scores():
    """S2.22: named by object, by id or by a function."""
    rule = one(0, 0, 5, id="rule", kind="instruction")
    memories = [one(1, 1, 5), rule, one(0.5, 0.5, 5)]
    known = MemoryEntry("other", id="rule", confidence=0, importance=0)
    for mandatory in ([rule], (rule,), [known], lambda m: m.kind == "instruction"):
        kept = fit_budget(memories, 10, len, mandatory=mandatory)
        assert kept == [memories[0], rule]
    for room, left in ((9, 1), (5, 1), (15, 3), (14, 2)):
        assert len(fit_budget(memories, room, len, mandatory=[rule])) == left


def test_a_mandatory_part_that_does_not_fit_is_an_error_with_both_numbers():
    """S2.22: overflow is explicit, and quotes no text."""
    memories = [ScoredMemory(SECRET * 10, confidence=1, importance=1), one(1, 0.5, 5)]
    for mandatory, used, need in (
        (lambda m: True, 7, 122),
        (memories[:1], 0, 110),
        ((), 101, 101),
    ):
        with pytest.raises(ContextBudgetError, match=f"{need} .*100") as caught:
            fit_budget(memories, 100, len, mandatory=mandatory, used_tokens=used)
        assert SECRET not in str(caught.value)


def test_tokens_that_are_used_already_leave_less_room():
    """S2.19."""
    memories = [one(0.9, 0.9, 5), one(0.1, 0.1, 5)]
    assert len(fit_budget(memories, 12, len, used_tokens=2)) == 2
    assert fit_budget(memories, 12, len, used_tokens=3) == memories[:1]
    assert fit_budget(memories, 12, len, used_tokens=12) == []


def test_what_is_shown_is_counted():
    """S2.19: the rendered text, where a function renders it."""
    memories = [one(0.9, 0.9, 5), one(0.1, 0.1, 5)]
    assert len(fit_budget(memories, 14, len, render=lambda m: f"- {m.text}")) == 2
    assert len(fit_budget(memories, 13, len, render=lambda m: f"- {m.text}")) == 1
    shown = len(vecall.render(memories[:1], "bullets"))
    bullets = lambda m: vecall.render([m], "bullets")  # noqa: E731
    assert fit_budget(memories, shown, len, render=bullets) == memories[:1]


def test_entries_of_a_search_are_taken_if_they_have_their_scores():
    """S2.14: an unscored memory is refused, not guessed at."""
    scored = MemoryEntry("a", confidence=0.5, importance=0.5)
    assert fit_budget([scored], 10) == [scored]
    assert fit_budget(iter([scored]), 10) == [scored]
    for name in ("confidence", "importance"):
        lacking = MemoryEntry(
            SECRET, **({"confidence": 1, "importance": 1} | {name: None})
        )
        with pytest.raises(InvalidMemoryError, match=name) as caught:
            fit_budget([scored, lacking], 1000)
        assert SECRET not in str(caught.value)


@pytest.mark.parametrize("name", ["max_tokens", "used_tokens", "count_tokens"])
@pytest.mark.parametrize("value", [True, 1.5, "7", None, -1])
def test_a_budget_that_is_no_number_of_tokens_is_refused(name, value):
    """Typed errors that name the argument."""
    if name == "count_tokens":
        arguments = {"max_tokens": 10, "count_tokens": lambda text: value}
    else:
        arguments = {"max_tokens": 10, name: value}
    expected = InvalidArgumentError if value == -1 else InvalidTypeError
    with pytest.raises(expected, match=name):
        fit_budget([one(1, 1)], **arguments)


@pytest.mark.parametrize("memories", [None, "zebra", ["zebra"], [None], 7, {"a": 1}])
def test_what_is_no_list_of_memories_is_refused(memories):
    with pytest.raises(InvalidTypeError, match="memories"):
        fit_budget(memories, 10)
    with pytest.raises(InvalidTypeError, match="memories"):
        fit_budget([], 10, mandatory=memories)


def test_a_mandatory_memory_that_is_not_there_is_refused():
    """It would silently be missing."""
    with pytest.raises(InvalidArgumentError, match="mandatory"):
        fit_budget([one(1, 1)], 10, mandatory=[one(1, 1)])
    with pytest.raises(InvalidTypeError, match="count_tokens"):
        fit_budget([one(1, 1)], 10, "tokens")


def test_an_answer_without_memories_fits_every_budget():
    assert fit_budget([], 0) == []


@quiet
def test_ten_thousand_memories_are_fitted_in_a_moment():
    """S2.19: the work grows with the list, not with its square."""
    memories = [one(i % 997 / 997, i % 89 / 89, 40) for i in range(10_000)]
    begin = time.process_time()
    kept = fit_budget(memories, 50_000, mandatory=memories[::5])
    assert time.process_time() - begin < 1.0
    assert len(kept) == 5_000
