"""One answer out of those of several places."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from vecall.types import MemoryEntry, SearchMemoryResponse


def merge_scopes(
    answers: Mapping[str, SearchMemoryResponse], top_k: int
) -> SearchMemoryResponse:
    """Return the best memories of several answers to one question.

    Scores of two places cannot be compared, confidences can. Where memories have none,
    their places in their answers decide.

    Args:
        answers: By the scope that was searched, a user's own first.
        top_k: At most so many.
    """
    ranked: list[tuple[float, int, int, MemoryEntry]] = []
    for turn, (scope, answer) in enumerate(answers.items()):
        for place, memory in enumerate(answer.memories):
            confidence = -1.0 if memory.confidence is None else memory.confidence
            ranked.append((-confidence, place, turn, replace(memory, scope=scope)))
    ranked.sort(key=lambda entry: entry[:3])
    return SearchMemoryResponse([memory for *_, memory in ranked[:top_k]])
