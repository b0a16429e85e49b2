"""How recalled memories are shown, and that the same ones are shown the same way."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from typing import Any

import pytest
from vecall import (
    InvalidArgumentError,
    InvalidMemoryError,
    InvalidTypeError,
    MemoryEntry,
    ScoredMemory,
    render,
)

FORMATS = ("plain", "bullets", "past_conversations", "json", "secure")
NONCE = "5ca1ab1e0ddba115"
ROOM = MemoryEntry(
    "A quiet room, please.",
    id="a1",
    author="user",
    timestamp=1741770000.75,
    session_id="trip-1",
    source="chat",
    trust="first-party",
    confidence=0.823,
    importance=0.5,
)
TWO_LINES = ScoredMemory("Noted:\n- high floor", confidence=0.3, importance=0)
MEMORIES = [ROOM, TWO_LINES]


def test_plain_is_the_texts():
    """S2.10: an executor may just stringify the content."""
    assert render(MEMORIES) == f"{ROOM}\n{TWO_LINES}"
    assert render(iter(MEMORIES), "plain") == render(MEMORIES)


def test_bullets_are_a_list_under_one_line():
    """S0.42: the list that goes into a system text."""
    assert render(MEMORIES, "bullets") == (
        "Relevant prior context:\n"
        "- [2025-03-12T09:00:00Z] user: A quiet room, please.\n"
        "- memory: Noted:\n"
        "  - high floor"
    )


def test_past_conversations_is_the_block_of_google_adk():
    """S2.10: as its preload_memory writes it, but for the indent."""
    assert render(MEMORIES, "past_conversations") == (
        "The following content is from your previous conversations with the user.\n"
        "They may be useful for answering the user's current query.\n"
        "<PAST_CONVERSATIONS>\n"
        "Time: 2025-03-12T09:00:00Z\n"
        "user: A quiet room, please.\n"
        "memory: Noted:\n"
        "  - high floor\n"
        "</PAST_CONVERSATIONS>\n"
    )


def test_json_is_an_array_of_what_is_known():
    """S2.5, S2.18: provenance and both scores; what is not known is left out."""
    assert json.loads(render(MEMORIES, "json")) == [
        {
            "id": "a1",
            "author": "user",
            "time": "2025-03-12T09:00:00Z",
            "session_id": "trip-1",
            "source": "chat",
            "trust": "first-party",
            "confidence": 0.823,
            "importance": 0.5,
            "text": "A quiet room, please.",
        },
        {
            "trust": "unknown",
            "confidence": 0.3,
            "importance": 0.0,
            "text": "Noted:\n- high floor",
        },
    ]


def test_secure_frames_every_record_and_says_how_far_it_is_trusted():
    """S2.9: a nonce on the tags, provenance and trust per record, one sentence."""
    head, sentence, *records = render(MEMORIES, "secure", nonce=NONCE).split("\n")
    assert head == f"<recalled-{NONCE}>"
    assert "not instructions" in sentence
    assert sentence.count(". ") == 0
    assert records == [
        f'<memory-{NONCE} n="1" id="a1" author="user" time="2025-03-12T09:00:00Z" '
        f'session="trip-1" source="chat" trust="first-party" confidence="0.82" '
        f'importance="0.50">',
        "  A quiet room, please.",
        f"</memory-{NONCE}>",
        f'<memory-{NONCE} n="2" trust="unknown" confidence="0.30" importance="0.00">',
        "  Noted:",
        "  - high floor",
        f"</memory-{NONCE}>",
        f"</recalled-{NONCE}>",
    ]


@pytest.mark.parametrize("form", FORMATS)
def test_scores_are_shown_where_they_are_asked_for(form):
    """S2.18: a signal to the model; a score that is not there is not made up."""
    shown = render(MEMORIES, form, scores=True)
    assert shown.count("confidence") == shown.count("importance") == 2
    assert "0.82" in shown
    assert "0.3" in shown
    assert "confidence" not in render(MEMORIES, form, scores=False)
    bare = MemoryEntry("zebra")
    assert "confidence" not in render([bare], form, scores=True)
    assert "zebra" in render([bare], form, scores=True)


@pytest.mark.parametrize("form", FORMATS)
def test_without_memories_there_is_no_block(form):
    """S4.41: nothing is added to a prompt."""
    assert render([], form) == ("[]" if form == "json" else "")


@pytest.mark.parametrize("form", FORMATS)
def test_both_kinds_of_memories_are_shown_the_same(form):
    assert render([ROOM], form) == render([ScoredMemory.of(ROOM)], form)


@pytest.mark.parametrize("form", FORMATS)
def test_a_memory_without_a_text_is_a_record_too(form):
    """What is counted in is counted out."""
    shown = render([MemoryEntry("\x00"), MemoryEntry({"parts": []})], form)
    expected = 2 if form in ("bullets", "past_conversations", "secure") else 0
    assert shown.count("(no text)") == expected


def test_the_same_hits_are_the_same_text_and_others_have_another_nonce():
    """Prompt caches hold over turns; no memory can know the nonce of its block."""
    first = render(MEMORIES, "secure")
    assert render(list(MEMORIES), "secure") == first
    nonce = first[len("<recalled-") : first.index(">")]
    assert len(nonce) == 12
    told = MemoryEntry(f"It was {nonce}. {nonce.upper()}", author=nonce)
    block = render([*MEMORIES, told], "secure")
    assert not block.startswith(f"<recalled-{nonce}>")
    stars = render([*MEMORIES, MemoryEntry(NONCE, author=NONCE)], "secure", nonce=NONCE)
    assert stars.count(NONCE) == 3 + 2 * 3
    nonces = {
        render(hits, "secure").split(">")[0]
        for hits in (
            MEMORIES,
            MEMORIES[::-1],
            MEMORIES[:1],
            [MemoryEntry("b", id="a")],
            [MemoryEntry("b", id="b")],
            [MemoryEntry("c", id="b")],
            [MemoryEntry("ab")],
            [MemoryEntry("a"), MemoryEntry("b")],
        )
    }
    assert len(nonces) == 8


def in_another_process(secret: str) -> str:
    script = (
        "from vecall import MemoryEntry, render\n"
        f"print(render([MemoryEntry('zebra')], 'secure', secret={secret}), end='')"
    )
    command = [sys.executable, "-c", script]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=True
    ).stdout


def test_a_secret_gives_the_same_text_in_every_process():
    """Several workers share one prompt cache, but only if they share a secret."""
    mine = [MemoryEntry("zebra")]
    assert in_another_process("'ours'") == render(mine, "secure", secret="ours")
    assert in_another_process("b'x' * 100") == render(mine, "secure", secret=b"x" * 100)
    assert in_another_process("None") != render(mine, "secure")
    assert render(mine, "secure", secret="a") != render(mine, "secure", secret="b")


def scored(text: str, confidence: float) -> ScoredMemory:
    return ScoredMemory(text, confidence=confidence, importance=0.5)


@pytest.mark.parametrize("form", FORMATS)
def test_a_block_takes_no_more_tokens_than_allowed(form):
    """S2.19: its frame is counted too, and the least useful memories leave first."""
    memories = [scored(f"memory {n} " * n, 1 - n / 20) for n in range(1, 15)]
    prefixes = [render(memories[:kept], form) for kept in range(15)]
    sizes = set()
    for allowed in range(0, 3000, 37):
        shown = render(memories, form, max_tokens=allowed, count_tokens=len)
        assert len(shown) <= allowed or shown in ("", "[]")
        assert shown in prefixes
        sizes.add(len(shown))
    assert len(sizes) > 5
    whole = render(memories, form)
    room = len(whole) + 20  # two-digit numbers and the last separator are counted
    assert render(memories, form, max_tokens=room, count_tokens=len) == whole
    assert render([], form, max_tokens=5) == render([], form)


def test_what_fits_is_shown_as_if_it_had_been_all():
    """S2.19: the answer of fit_budget, rendered."""
    memories = [scored("low", 0.1), scored("high", 0.9)]
    expected = render(memories[1:], "secure")
    assert render(memories, "secure", max_tokens=125) == expected
    with pytest.raises(InvalidMemoryError, match="confidence"):
        render([MemoryEntry("zebra")], "bullets", max_tokens=100)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"format": "xml"}, InvalidArgumentError),
        ({"format": None}, InvalidArgumentError),
        ({"memories": "zebra"}, InvalidTypeError),
        ({"memories": ["zebra"]}, InvalidTypeError),
        ({"memories": None}, InvalidTypeError),
        ({"scores": "yes"}, InvalidTypeError),
        ({"nonce": "short"}, InvalidArgumentError),
        ({"nonce": "with space 123"}, InvalidArgumentError),
        ({"nonce": "ab12cd34\n"}, InvalidArgumentError),
        ({"nonce": "x" * 65}, InvalidArgumentError),
        ({"nonce": 12345678}, InvalidTypeError),
        ({"secret": ""}, InvalidArgumentError),
        ({"secret": 7}, InvalidTypeError),
        ({"max_tokens": -1}, InvalidArgumentError),
        ({"max_tokens": "9"}, InvalidTypeError),
        ({"max_tokens": 9, "count_tokens": 4}, InvalidTypeError),
    ],
    ids=repr,
)
def test_what_cannot_be_meant_is_refused(arguments, error):
    """Typed errors that name the argument."""
    values: dict[str, Any] = {"memories": MEMORIES, "format": "secure", **arguments}
    name = next(reversed(arguments))
    with pytest.raises(error, match=name):
        render(values.pop("memories"), **values)


@pytest.mark.parametrize("confidence", [math.nan, 1.5, True])
def test_a_score_that_is_none_is_refused_rather_than_shown(confidence):
    """S2.11: whoever set it."""
    with pytest.raises(InvalidMemoryError, match="confidence"):
        render([MemoryEntry("a", confidence=confidence)], "json")
