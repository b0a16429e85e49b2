"""Reads the fields of a memory that all formats use, scored or not."""

from __future__ import annotations

from vecall.prompts.scored import ScoredMemory, checked_score
from vecall.timestamps import to_datetime
from vecall.types import MemoryEntry

Recalled = MemoryEntry | ScoredMemory


def shown_time(memory: Recalled) -> str:
    """Return when it was said as ISO 8601 in UTC, whole seconds; "" if not known."""
    if memory.timestamp is None:
        return ""
    moment = to_datetime(memory.timestamp).replace(microsecond=0, tzinfo=None)
    return f"{moment.isoformat()}Z"


def known_scores(memory: Recalled) -> dict[str, float]:
    """Return the scores that it has, to four decimals.

    Raises:
        InvalidMemoryError: One is no number in [0, 1].
    """
    return {
        name: round(checked_score(value, name), 4)
        for name in ("confidence", "importance")
        if (value := getattr(memory, name)) is not None
    }


def shown_scores(memory: Recalled) -> dict[str, str]:
    """Return the scores that it has, with two decimals."""
    return {name: f"{value:.2f}" for name, value in known_scores(memory).items()}
