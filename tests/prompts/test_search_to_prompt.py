"""From a search to a prompt: recall returns data, the rest is the executor's choice."""

from __future__ import annotations

import pytest
from helpers.conversations import ALICE, session, turn
from vecall import (
    ContextBudgetError,
    MemoryEntry,
    ScoredMemory,
    fit_budget,
    render,
)

RULE = "Never suggest git push --force on the release branch"


@pytest.fixture
def service(open_service):
    memory = open_service()
    memory.sync.add_memory(
        **ALICE,
        memories=[
            MemoryEntry(RULE, kind="instruction", importance=1.0, trust="first-party"),
            MemoryEntry("The team prefers rebase over merge", kind="preference"),
            MemoryEntry("We decided to release on Fridays", kind="decision"),
        ],
    )
    memory.sync.add_session_to_memory(
        session(turn("e1", "My branch is called release-7"), turn("e2", "Noted."))
    )
    return memory


def recalled(service, query):
    found = service.sync.search_memory(**ALICE, query=query).memories
    return [ScoredMemory.of(memory) for memory in found]


def test_what_was_said_learned_or_decided_comes_back_at_the_next_turn(service):
    """S2.1, S2.2, S2.3: preferences, prohibitions, decisions, with their kind."""
    (first, *_) = recalled(service, "may I force push my release branch?")
    assert first.text == RULE
    assert first.kind == "instruction"
    assert first.trust == "first-party"
    assert first.importance == 1.0
    assert 0.0 < first.confidence < 1.0


def test_recall_returns_data_and_renders_nothing(service):
    """S2.4, S2.10: rendering is a function of its own; a memory may just be text."""
    memories = recalled(service, "release branch")
    assert all(isinstance(memory, ScoredMemory) for memory in memories)
    assert str(memories[0]) == memories[0].text
    assert "<" not in "".join(memory.text for memory in memories)
    assert render(memories, "plain") == "\n".join(memory.text for memory in memories)


def test_nothing_is_shed_unless_it_is_asked_for(service):
    """S2.19, S2.21: shedding is a function that the executor calls, never implicit."""
    memories = recalled(service, "release branch team merge")
    tight = sum(len(memory.text.split()) for memory in memories) - 1
    assert len(recalled(service, "release branch team merge")) == len(memories)
    kept = fit_budget(memories, tight, lambda text: len(text.split()))
    assert len(kept) == len(memories) - 1
    assert RULE in [memory.text for memory in kept]


def test_a_context_that_cannot_hold_what_is_mandatory_is_an_error(service):
    """S2.22."""
    memories = recalled(service, "release branch")
    with pytest.raises(ContextBudgetError):
        fit_budget(memories, 3, lambda text: len(text.split()), mandatory=memories[:1])


def test_a_barely_relevant_memory_does_not_crowd_out_the_real_match(open_service):
    """S2.23: failure A, among many that share one common word."""
    service = open_service()
    noise = [f"the meeting about topic {n} was moved" for n in range(200)]
    real = "the parking permit expires in October"
    service.sync.add_memory(**ALICE, memories=[*noise, real])
    memories = recalled(service, "when does the permit from the meeting expire")
    assert memories[0].text == real
    assert memories[0].confidence > 2 * max(m.confidence for m in memories[1:])
