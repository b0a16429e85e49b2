"""Merges the results of several scopes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from vecall.types import MemoryEntry, SearchMemoryResponse


def merge_scopes(
    answers: Mapping[str, SearchMemoryResponse], top_k: int
) -> SearchMemoryResponse:
    """Return the best memories of several responses to one query.

    Scores of different scopes are not comparable; confidences are. Memories without
    a confidence are ordered by their rank in their response.

    Args:
        answers: The responses by scope, the user's own first.
        top_k: Maximum number of memories.
    """
    ranked: list[tuple[float, int, int, MemoryEntry]] = []
    for turn, (scope, answer) in enumerate(answers.items()):
        for place, memory in enumerate(answer.memories):
            confidence = -1.0 if memory.confidence is None else memory.confidence
            ranked.append((-confidence, place, turn, replace(memory, scope=scope)))
    ranked.sort(key=lambda entry: entry[:3])
    return SearchMemoryResponse([memory for *_, memory in ranked[:top_k]])
