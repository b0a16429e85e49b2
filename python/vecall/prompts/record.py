"""Reads the time and the scores of a memory for all formats."""

from __future__ import annotations

from vecall.prompts.scored import ScoredMemory, checked_score
from vecall.timestamps import to_datetime
from vecall.types import MemoryEntry

Recalled = MemoryEntry | ScoredMemory


def shown_time(memory: Recalled) -> str:
    """Return its timestamp as ISO 8601 in UTC, in whole seconds; "" if unknown."""
    if memory.timestamp is None:
        return ""
    moment = to_datetime(memory.timestamp).replace(microsecond=0, tzinfo=None)
    return f"{moment.isoformat()}Z"


def known_scores(memory: Recalled) -> dict[str, float]:
    """Return its scores that are not None, rounded to four decimals.

    Raises:
        InvalidMemoryError: A score is not a number in [0, 1].
    """
    return {
        name: round(checked_score(value, name), 4)
        for name in ("confidence", "importance")
        if (value := getattr(memory, name)) is not None
    }


def shown_scores(memory: Recalled) -> dict[str, str]:
    """Return its scores that are not None, with two decimals."""
    return {name: f"{value:.2f}" for name, value in known_scores(memory).items()}
