"""Statements that may be versions of one thing are marked where a model reads them."""

from __future__ import annotations

import json

import pytest
from helpers.memories import ALICE
from helpers.tools import SCOPE, call, run
from vecall import MemoryEntry
from vecall.tools import PreloadMemory, RecallMemory

OLD = MemoryEntry("The wedding is on 14 June.", timestamp="2026-01-05T10:00:00Z")
NEW = MemoryEntry("We moved the wedding to 21 June.", timestamp="2026-03-01T10:00:00Z")
OTHER = MemoryEntry("The wedding cake has three floors.", timestamp=1.0)
LATER = "later than the statement of 2026-01-05T10:00:00+00:00"
EARLIER = "earlier; the statement of 2026-03-01T10:00:00+00:00 is later"


@pytest.fixture
def memory(open_service):
    service = open_service()
    service.sync.add_memory(**ALICE, memories=[OLD, NEW, OTHER])
    return service


def versions(answer) -> dict[str, str | None]:
    return {each["text"]: each.get("version") for each in answer["memories"]}


@pytest.mark.parametrize("max_tokens", [2_000, None])
def test_an_answer_says_which_statement_is_later(memory, max_tokens):
    recall = RecallMemory(memory, *SCOPE, max_tokens=max_tokens)
    assert versions(call(recall, {"query": "When is the wedding?"})) == {
        OLD.text: EARLIER,
        NEW.text: LATER,
        OTHER.text: None,
    }
    # The order is that of the search.
    found = memory.sync.search_memory(**ALICE, query="When is the wedding?")
    answer = call(recall, {"query": "When is the wedding?"})
    assert [each["text"] for each in answer["memories"]] == [
        each.text for each in found
    ]


@pytest.mark.parametrize("max_tokens", [2_000, None])
def test_a_preloaded_block_says_it_too(memory, max_tokens):
    preload = PreloadMemory(memory, *SCOPE, min_confidence=0, max_tokens=max_tokens)
    block = run(preload.block("When is the wedding?"))
    assert f"{OLD.text} [{EARLIER}]" in block
    assert f"{NEW.text} [{LATER}]" in block
    assert block.count("statement of") == 2


def test_what_is_replaced_is_not_shown_and_its_successor_has_no_mark(memory):
    user = memory.sync.user(**ALICE)
    (pair,) = user.conflicts()
    user.add(pair.later, supersedes=pair.earlier.id)
    answer = call(RecallMemory(memory, *SCOPE), {"query": "When is the wedding?"})
    assert versions(answer) == {NEW.text: None, OTHER.text: None}


def test_turns_of_chats_and_statements_of_one_time_have_no_mark(open_service):
    service = open_service()
    user = service.sync.user(**ALICE)
    turns = [
        {"id": str(n), "content": each.text, "timestamp": each.timestamp}
        for n, each in enumerate((OLD, NEW))
    ]
    user.add_events(turns, session_id="s")
    user.add([MemoryEntry(f"The rent is {n} euros.", timestamp=5.0) for n in (7, 8)])
    for query in ("wedding", "rent"):
        answer = call(RecallMemory(service, *SCOPE), {"query": query})
        assert set(versions(answer).values()) == {None}


def test_a_mark_counts_as_tokens_of_the_answer(memory):
    recall = RecallMemory(memory, *SCOPE, max_tokens=150, count_tokens=len)
    answer = call(recall, {"query": "wedding"})
    assert answer["left_out"] >= 1
    assert len(json.dumps(answer["memories"])) <= 150
