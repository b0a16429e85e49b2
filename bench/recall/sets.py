"""The evaluation sets, each of one kind of memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from vecall.evaluation.datasets import (
    Conversation,
    read_beam,
    read_demo,
    read_jsonl,
    read_locomo,
    with_other_half,
)
from vecall.evaluation.runner import APP

CONVERSATIONS = Path(__file__).parent / "conversations"


class Set(NamedTuple):
    """Conversations of one kind.

    Attributes:
        name: As tables show it.
        kind: What sort of memories it holds; the rule looks at each kind.
        conversations: The conversations and their questions.
        lenient: Whether the other half of an exchange counts as evidence too; such a
            set is another reading of one that is there already.
    """

    name: str
    kind: str
    conversations: list[Conversation]
    lenient: bool = False


_KINDS = {
    "people": "people",
    "assistants": "assistants",
    "long-assistants": "assistants",
    "held-out-assistants": "assistants",
    "languages": "languages",
    "sentences": "languages",
    "facts": "facts",
    "documents": "documents",
    "code": "code",
}


def all_sets(*, locomo: Path | None = None, beam: Path | None = None) -> Iterator[Set]:
    """Return the project's own sets, and those whose file is given."""
    yield Set("demo", "assistants", read_demo(APP, unanswerable=True))
    for name, kind in _KINDS.items():
        file = CONVERSATIONS / f"{name}.jsonl"
        if file.exists():
            yield from _both(name, kind, read_jsonl(file, APP))
    if locomo is not None:
        yield Set("locomo", "people", read_locomo(locomo, APP))
    if beam is not None:
        yield from _both("beam", "assistants", read_beam(beam, APP))


def _both(name: str, kind: str, conversations: list[Conversation]) -> Iterator[Set]:
    yield Set(name, kind, conversations)
    if kind == "assistants":
        widened = [with_other_half(one) for one in conversations]
        yield Set(f"{name}, lenient", kind, widened, lenient=True)
