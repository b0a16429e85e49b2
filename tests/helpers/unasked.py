"""What a door puts into a model's context of its own accord: only what is relevant.

Each door's tests call `check_unasked` with a function that recalls as the door does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vecall import MemoryService
from vecall.embedders import has_local

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
"""One word of it is in a memory, which is hardly relevant."""

Inject = Callable[..., str]
"""(memory, text, **options) -> what the model is given; the options are the door's."""


def shown(text: str) -> list[str]:
    """The facts that a text has."""
    return [fact for fact in FACTS if fact in text]


def check_unasked(inject: Inject, who: tuple[str, str]) -> None:
    """An unrelated text gets no memory, a related one its memory; floors hold."""

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
        assert shown(inject(memory, WEAK)) == []
        for floor in (None, 0, 0.0):
            assert shown(inject(memory, WEAK, min_confidence=floor)) == FACTS[:1]
        assert shown(inject(memory, ASKED, min_confidence=1.0)) == []
        assert len(memory.sync.user(*who).search(WEAK)) == 1, "asked for, no floor"
    with filled(embedder=None, min_confidence=0.01) as memory:
        assert shown(inject(memory, WEAK)) == FACTS[:1], "the service's own floor"
    with filled(embedder=None, min_confidence=1.0) as memory:
        for options in ({}, {"min_confidence": None}):
            assert shown(inject(memory, ASKED, **options)) == []
        assert shown(inject(memory, ASKED, min_confidence=0)) == FACTS[:1]
