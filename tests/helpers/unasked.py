"""What a door puts into a model's context of its own accord: only what is relevant.

Each door's tests call `check_unasked` with a function that recalls as the door does.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from vecall import MemoryService
from vecall.embedders import has_local
from vecall.prompts.render import estimate_tokens

FACTS = [
    "I keep a zebra called Bruno.",
    "My flight leaves on Friday at nine.",
    "I am allergic to peanuts.",
    "The office moved to Rotterdam.",
    "Our cat sleeps all day.",
]
ASKED = "What is my zebra called?"
UNRELATED = [
    "How do I sort a list in Rust?",
    "What is the capital of Peru?",
    "Write a haiku about mountains",
    "thanks!",
    "2+2?",
]
WEAK = "What did the accountant say about zebra insurance forms in spring?"
"""One word of it is in a memory, whose confidence is low."""

Inject = Callable[..., str]
"""(memory, text, **options) -> what the model is given; the options are the door's."""


def shown(text: str) -> list[str]:
    """The facts that a text has."""
    return [fact for fact in FACTS if fact in text]


def check_bounds(
    inject: Inject, who: tuple[str, str], most: int, max_tokens: int | None
) -> None:
    """By default a text gets at most so many memories, and so many tokens."""
    with MemoryService(embedder=None) as memory:
        notes = [f"The zebra number{n} of the zoo eats." for n in range(40)]
        memory.sync.user(*who).add(notes)
        given = inject(memory, "What does the zebra of the zoo eat?")
        assert len(set(re.findall(r"number\d+", given))) == most
    with MemoryService(embedder=None) as memory:
        repeats = 100 if max_tokens is None else max_tokens // 8
        long = [
            f"The zebra number{n} of the zoo. " + "It eats. " * repeats
            for n in range(most)
        ]
        memory.sync.user(*who).add(long)
        given = inject(memory, "What does the zebra of the zoo eat?")
        assert "number" in given
        if max_tokens is not None:
            frame = 150  # of the door, around the block
            assert max_tokens // 8 < estimate_tokens(given) <= max_tokens + frame


def check_unasked(
    inject: Inject,
    who: tuple[str, str],
    *,
    most: int = 5,
    max_tokens: int | None = 1_000,
) -> None:
    """An unrelated text gets no memory, a related one its memory; floors hold.

    Args:
        inject: Recalls as the door does.
        who: The app and the user.
        most: The most memories that a text gets by default.
        max_tokens: The most tokens; None without a limit.
    """
    check_bounds(inject, who, most, max_tokens)

    def filled(**options: Any) -> MemoryService:
        memory = MemoryService(**options)
        memory.sync.user(*who).add(FACTS)
        return memory

    for embedder in (None, *(["local"] if has_local() else [])):
        with filled(embedder=embedder) as memory:
            for text in UNRELATED:
                assert shown(inject(memory, text)) == [], text
            assert shown(inject(memory, ASKED)) == FACTS[:1]
    with filled(embedder=None) as memory:
        assert shown(inject(memory, WEAK, min_confidence=0.2)) == []
        assert shown(inject(memory, WEAK)) == FACTS[:1], "it may be the answer"
        for floor in (None, 0, 0.0):
            assert shown(inject(memory, WEAK, min_confidence=floor)) == FACTS[:1]
        assert shown(inject(memory, ASKED, min_confidence=1.0)) == []
        assert len(memory.sync.user(*who).search(WEAK)) == 1, "asked for, no floor"
    with filled(embedder=None, min_confidence=0.01) as memory:
        assert shown(inject(memory, WEAK)) == FACTS[:1], "the service's own floor"
    with filled(embedder=None, min_confidence=0.2) as memory:
        assert shown(inject(memory, WEAK)) == [], "the service's own floor"
    with filled(embedder=None, min_confidence=1.0) as memory:
        for options in ({}, {"min_confidence": None}):
            assert shown(inject(memory, ASKED, **options)) == []
        assert shown(inject(memory, ASKED, min_confidence=0)) == FACTS[:1]
