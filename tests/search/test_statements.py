"""A query that asks nothing finds what is near in meaning, and not what lies beside."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from helpers.conversations import ALICE, session, turn
from vecall import Calibration, Ranking
from vecall.embedders import has_local
from vecall.lexical.features import query_message

CONTEXT = ("neighbours", "session")
STATES = "I finally bought the running shoes that my knee needed so badly."
ASKS = "Which running shoes did I finally buy because of my bad knee?"


@pytest.mark.parametrize(
    "query",
    [
        STATES,
        "It rained all day. We stayed in and played cards!",
        'She said: "I will never again go to work by car."',
        "Heute habe ich endlich die neue Wohnung am Fluss gesehen\u2026",
        "\u0910\u0938\u093e " * 8 + "\u0939\u0948\u0964",
    ],
    ids=ascii,
)
def test_a_sentence_that_tells_something_is_a_statement(query):
    assert query_message(query) == query_message(query + " \n") == "statement"


@pytest.mark.parametrize(
    "query",
    [
        ASKS,
        "I ran ten kilometres yesterday. How long does a marathon take?",
        "\u3053\u308c\u306f\u6771\u4eac\u3067\u8cb7\u3044\u307e\u3057\u305f\u304b\u3002",
        "running shoes knee",  # keywords
        "what did I say about the shoes that I bought",  # without its sign
        "My knee hurts.",
        "First I ran around the lake. Then I went home again. Now my knee hurts badly.",
        "",
        "...",
        ". . . . . . . . . . . .",
    ],
    ids=ascii,
)
def test_questions_keywords_and_long_messages_are_none(query):
    assert query_message(query) != "statement"


@pytest.fixture
def chats(open_service):
    if not has_local():
        pytest.skip("needs the local embedder")
    service = open_service(embedder="local")
    service.sync.add_session_to_memory(
        session(
            turn("t1", "How was the marathon in the rain?", "Ben"),
            turn("t2", "My knee hurts whenever I run without good shoes."),
            turn("t3", "Oh no, take care of yourself.", "Ben"),
            turn("t4", "The lake was frozen, too."),
        )
    )
    return service


def parts(service, query, **options):
    found = service.sync.search_memory(**ALICE, query=query, explain=True, **options)
    assert found.memories
    for each in found:
        told = each.explanation
        names = ("words", "vectors", *CONTEXT)
        score = sum(told[name] for name in names) * told["factor"]
        assert each.score == pytest.approx(score, rel=1e-4)
    return [each.explanation for each in found]


def test_only_a_statement_is_compared_with_each_memory_alone(chats):
    """And its explanation adds up like any other."""
    for told in parts(chats, STATES):
        assert all(told[name] == 0.0 for name in CONTEXT)
    assert any(told["session"] > 0.0 for told in parts(chats, ASKS))


def test_weights_of_ones_own_hold_for_statements_too(chats):
    told = parts(chats, STATES, ranking=Ranking(weights={"session": 0.3}))
    assert any(each["session"] > 0.0 for each in told)
    options = {"ranking": Ranking(fusion="words")}  # no vector, no other weights
    assert any(each["session"] > 0.0 for each in parts(chats, STATES, **options))


LONG = "I was at the lake today. The knee is fine. Which shoes should I bring?"


@pytest.mark.parametrize("embedder", [None, "local"])
def test_a_longer_message_goes_on_with_what_its_user_asked(open_service, embedder):
    """What the user asked is not lowered for it, as it is for a question."""
    if embedder and not has_local():
        pytest.skip("needs the local embedder")
    service = open_service(embedder=embedder)
    service.sync.add_session_to_memory(
        session(
            turn("t1", "Which shoes are good for my knee at the lake?", "user"),
            turn("t2", "Shoes with a soft sole are good for the knee.", "Ben"),
        )
    )
    factors = {}
    for query in (LONG, ASKS):
        found = service.sync.search_memory(**ALICE, query=query, explain=True)
        factors[query] = {m.author: m.explanation["factor"] for m in found}
    assert factors[LONG]["user"] == pytest.approx(0.95 * 1.35, rel=1e-3)
    assert factors[ASKS]["user"] == pytest.approx(0.8 * 1.2, rel=1e-3)
    own = Ranking(weights={"session": 0.15})  # the default, but given
    assert max(each["factor"] for each in parts(service, LONG, ranking=own)) < 1.0


@pytest.mark.parametrize(
    ("query", "tells"),
    [(STATES, True), (LONG, True), (ASKS, False), ("shoes knee", False), ("", False)],
)
@pytest.mark.parametrize("embedder", [None, "local"])
def test_what_is_near_a_message_is_less_probable(open_service, query, tells, embedder):
    """By the calibration's odds, alike for equal memories."""
    if embedder and not has_local():
        pytest.skip("needs the local embedder")
    assert bool(query_message(query)) == tells
    shipped, found = Calibration.shipped(), []
    assert shipped.messages < 0.0
    for calibration in (shipped, replace(shipped, messages=0.0)):
        service = open_service(embedder=embedder, calibration=calibration)
        same = ["Running shoes for the knee."] * 2
        service.sync.add_memory(**ALICE, memories=[*same, "The lake was frozen."])
        found.append(service.sync.search_memory(**ALICE, query=query).memories)
    for lower, plain in zip(*found, strict=True):
        odds = [math.log(x / (1 - x)) for x in (lower.confidence, plain.confidence)]
        added = shipped.messages if tells else 0.0
        assert odds[0] - odds[1] == pytest.approx(added, abs=0.02)
    for memories in found:
        equal = {m.confidence for m in memories if m.text == same[0]}
        assert len(equal) == bool(memories)
