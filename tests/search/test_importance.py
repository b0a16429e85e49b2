"""Importance: the weight of a memory if it is used."""

from __future__ import annotations

import time

import pytest
from helpers.conversations import ALICE
from vecall import InvalidMemoryError, MemoryEntry

DAY = 86_400.0


def found(service, query="parrot"):
    return service.sync.search_memory(**ALICE, query=query).memories


def add(service, *entries):
    return service.sync.add_memory(**ALICE, memories=list(entries))


def test_a_fresh_memory_weighs_what_it_was_stored_with(open_service):
    """S2.8, S2.13: from the stored prior, 0.5 without one."""
    service = open_service()
    add(service, MemoryEntry("parrot", id="a", importance=0.9))
    add(service, MemoryEntry("parrot", id="b"))
    assert {m.id: m.importance for m in found(service)} == {"a": 0.9, "b": 0.5}


def test_an_old_memory_weighs_less_and_never_less_than_a_third_of_even(open_service):
    """S2.13, S2.17: recency; half of the loss comes in 90 days."""
    service = open_service()
    now = time.time()
    ages = {"new": 0.0, "month": 30.0, "quarter": 90.0, "year": 365.0, "old": 9_999.0}
    for name, days in ages.items():
        add(service, MemoryEntry("parrot", id=name, timestamp=now - days * DAY - 60))
    weights = {m.id: m.importance for m in found(service)}
    assert list(ages) == sorted(ages, key=lambda name: -weights[name])
    assert weights["new"] == 0.5
    assert weights["quarter"] == pytest.approx(0.4134, abs=2e-3)  # log-odds -0.35
    assert weights["old"] == pytest.approx(0.3318, abs=1e-3)  # log-odds -0.7


@pytest.mark.parametrize("prior", [0.0, 1.0])
def test_what_is_certain_stays_certain(open_service, prior):
    """A prohibition of importance 1 does not fade."""
    service = open_service()
    add(service, MemoryEntry("parrot", importance=prior, timestamp=86_400.0))
    (memory,) = found(service)
    assert memory.importance == prior


def test_use_makes_a_memory_weigh_more(open_service):
    """S2.13: half of what use can add comes with four uses."""
    service = open_service()
    (id_,) = add(service, MemoryEntry("parrot"))
    weights = []
    for uses in (0, 1, 3, 60):
        for _ in range(uses - (0, 0, 1, 4)[len(weights)] if weights else 0):
            service.sync.mark_used(**ALICE, memory_ids=[id_])
        weights.append(found(service)[0].importance)
    assert weights == sorted(weights)
    assert len(set(weights)) == 4
    assert weights[-1] == pytest.approx(0.802, abs=2e-3)  # log-odds 1.4


def test_a_memory_of_the_future_counts_as_new(open_service):
    service = open_service()
    add(service, MemoryEntry("parrot", timestamp=time.time() + 900 * DAY))
    assert found(service)[0].importance == 0.5


def test_the_same_question_gets_the_same_answer(open_service):
    """Pains 14: a prompt's text may not change by the second."""
    service = open_service()
    add(service, MemoryEntry("parrot", timestamp=time.time() - 40 * DAY - 300))
    first = found(service)
    time.sleep(0.02)
    assert found(service) == first


def test_get_returns_what_was_stored(open_service):
    """S2.15: the weight for a turn is set by retrieval, the row holds a hint."""
    service = open_service()
    (id_,) = add(service, MemoryEntry("parrot", importance=0.8, timestamp=86_400.0))
    assert service.sync.get_memory(**ALICE, memory_id=id_).importance == 0.8
    assert found(service)[0].importance < 0.8


def test_a_scorer_has_the_last_word(open_service):
    """S2.17: a domain rule sets both; it sees memory, default scores and query."""
    seen = []

    def scorer(memory, query):
        seen.append((memory.text, memory.confidence, memory.importance, query))
        return (0.25, 1.0 if memory.kind == "rule" else memory.importance)

    service = open_service(scorer=scorer)
    add(service, MemoryEntry("parrot one", kind="rule"), MemoryEntry("parrot two"))
    weights = {m.text: (m.confidence, m.importance) for m in found(service)}
    assert weights == {"parrot one": (0.25, 1.0), "parrot two": (0.25, 0.5)}
    assert {text for text, *_ in seen} == {"parrot one", "parrot two"}
    assert all(0 < confidence < 1 for _, confidence, *_ in seen)
    assert {query for *_, query in seen} == {"parrot"}


@pytest.mark.parametrize("confidence", [0.0, None])
def test_a_floor_holds_for_what_the_scorer_says(open_service, confidence):
    service = open_service(scorer=lambda memory, query: (confidence, 0.5))
    add(service, "parrot")
    assert found(service)
    answer = service.sync.search_memory(**ALICE, query="parrot", min_confidence=0.1)
    assert answer.memories == []


@pytest.mark.parametrize(
    "scores",
    [
        None,
        0.5,
        (0.5,),
        (0.5, 0.5, 0.5),
        (0.5, None),
        (1.1, 0.5),
        (0.5, -0.1),
        (True, 1),
        (float("nan"), 0.5),
        ("0.5", 0.5),
    ],
)
def test_a_scorer_that_returns_something_else_is_an_error(open_service, scores):
    """S2.11: both within [0, 1]; NaN, bool and others refused."""
    service = open_service(scorer=lambda memory, query: scores)
    add(service, "parrot s3cret")
    with pytest.raises(InvalidMemoryError) as refused:
        found(service)
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize("prior", [5e-324, 1e-320, 1e-9, 1.0 - 2.0**-53])
def test_the_smallest_and_the_largest_priors_are_weights_as_well(open_service, prior):
    service = open_service()
    add(service, MemoryEntry("parrot", importance=prior, timestamp=86_400.0))
    (memory,) = found(service)
    assert 0.0 <= memory.importance <= 1.0
    assert memory.importance <= prior or prior < 1e-300


def test_the_message_of_a_failing_scorer_stays_out_of_the_error(open_service):
    def scorer(memory, query):
        raise KeyError(memory.text)

    service = open_service(scorer=scorer)
    add(service, "parrot s3cret")
    with pytest.raises(InvalidMemoryError, match="KeyError") as refused:
        found(service)
    assert "s3cret" not in str(refused.value)
    assert refused.value.__cause__ is None
