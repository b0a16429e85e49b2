"""Statements that may be versions of one thing are marked where a model reads them."""

from __future__ import annotations

import json
import random

import pytest
from helpers.memories import ALICE
from helpers.tools import SCOPE, call, run
from vecall import MemoryEntry, SearchMemoryResponse
from vecall.embedders import has_local
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


# What belongs together is written down here, by topic; the product finds it by words.
RENTS = [
    "The rent is 700 euros.",
    "The rent is 750 euros now.",
    "The rent is 820 euros.",
]
PLUMBER = ["The plumber comes on Tuesday.", "The plumber comes on Friday instead."]
ALONE = [
    "A cat sleeps in the flat.",
    "Nobody pays on Tuesday.",
    "Euros buy little here.",
]
TOPICS = {text: n for n, topic in enumerate((RENTS, PLUMBER)) for text in topic}
QUERY = "How many euros is the rent of the flat, and does the plumber come on Tuesday?"


def together(found: list[MemoryEntry]) -> list[MemoryEntry]:
    """The order that is promised, made from the search's order and the topics."""
    ordered: list[MemoryEntry] = []
    for each in found:
        topic = TOPICS.get(each.text)
        same = [e for e in found if topic is not None and TOPICS.get(e.text) == topic]
        if len({e.timestamp for e in same}) < 2:
            same = [each]  # without two dates none is later
        same.sort(key=lambda e: -e.timestamp)  # stable: equal dates as they were found
        ordered += [e for e in same if e not in ordered]
    return ordered


def dated(days: dict[str, int]) -> list[MemoryEntry]:
    return [
        MemoryEntry(text, id=f"{n}", timestamp=86_400.0 * day)
        for n, (text, day) in enumerate(days.items())
    ]


def shown_ids(block: str, memories: list[MemoryEntry]) -> list[str]:
    places = {e.id: block.find(e.text) for e in memories if e.text in block}
    return sorted(places, key=places.__getitem__)


@pytest.mark.parametrize("embedder", [None, "local"])
def test_statements_of_one_thing_stand_together_newest_first(open_service, embedder):
    if embedder and not has_local():
        pytest.skip("needs the local embedder")
    rng, moved, cut = random.Random(1), 0, 0
    service = open_service(embedder=embedder)
    for user in "abcdef":  # each with dates of their own
        scope, owner = ("app", user), {"app_name": "app", "user_id": user}
        texts = [*RENTS, *PLUMBER, *ALONE]
        memories = dated({text: rng.randrange(1, 6) for text in texts})
        service.sync.add_memory(**owner, memories=memories)
        for most, floor in ((1, 0.0), (2, 0.0), (4, 0.0), (8, 0.0), (8, 0.1)):
            found = service.sync.search_memory(
                **owner, query=QUERY, top_k=most, min_confidence=floor
            ).memories
            scores = [each.score for each in found]
            assert scores == sorted(scores, reverse=True)
            wanted = [each.id for each in together(found)]
            moved += wanted != [each.id for each in found]
            cut += bool(floor) and 1 < len(found) < 8
            preload = PreloadMemory(
                service, *scope, max_entries=most, min_confidence=floor, format="secure"
            )
            assert shown_ids(run(preload.block(QUERY)), found) == wanted
            if floor:
                continue
            recall = RecallMemory(service, *scope)
            answer = call(recall, {"query": QUERY, "limit": most})["memories"]
            assert [each["id"] for each in answer] == wanted
            known = {each.id: each for each in found}
            for each in answer:  # each keeps its own scores
                for name, of in (("relevance", "score"), ("confidence", "confidence")):
                    assert each[name] == float(f"{getattr(known[each['id']], of):.4g}")
    assert moved > 10
    assert cut > 3


def test_what_has_no_date_keeps_its_place():
    memories = dated({PLUMBER[0]: 1, ALONE[0]: 2, PLUMBER[1]: 3})
    undated = [MemoryEntry(RENTS[0], id="x"), MemoryEntry(RENTS[1], id="y")]

    class Fixed:
        async def add_session_to_memory(self, session): ...

        async def search_memory(self, *, app_name, user_id, query):
            return SearchMemoryResponse([undated[0], *memories, undated[1]])

    answer = call(RecallMemory(Fixed(), *SCOPE), {"query": QUERY})["memories"]
    assert [each["id"] for each in answer] == ["x", "2", "0", "1", "y"]
    assert [each["id"] for each in answer if "version" in each] == ["2", "0"]
