"""Recalls memories for a prompt, and a profile at the beginning of a session."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass

from vecall.coding_agents.answers import MOST_CHARACTERS
from vecall.prompts.budget import counter
from vecall.prompts.render import render
from vecall.service.memory_service import MemoryService
from vecall.tools.preload import PreloadMemory
from vecall.types import Filter, MemoryEntry

PROFILE_KINDS = ("preference", "decision")
"""The kinds of memories in a profile, in this order."""

_MOST_RECALLED = 8
_MOST_OF_A_PROFILE = 20
_PAGE = 1_000


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose memories a hook reads and writes."""

    app_name: str
    user_id: str


def recalled(
    memory: MemoryService,
    owner: Owner,
    prompt: str,
    session_id: str | None,
    *,
    max_tokens: int,
    min_confidence: float,
) -> str:
    """Return a block of the memories that are relevant to a prompt.

    Memories of the present session are left out: the agent has them in its context.

    Args:
        memory: The memory service.
        owner: The app and the user.
        prompt: The prompt.
        session_id: The present session.
        max_tokens: The most tokens of the block, at least 1.
        min_confidence: The least confidence of a memory, in [0, 1].

    Returns:
        The block in the format "secure", which is stripped when a transcript with it is
        stored; "" without memories.
    """
    preload = PreloadMemory(
        memory,
        owner.app_name,
        owner.user_id,
        max_entries=_MOST_RECALLED,
        max_tokens=max_tokens,
        min_confidence=min_confidence,
        format="secure",
        count_tokens=_counting(max_tokens),
        filter=None if session_id is None else Filter(not_session_id=session_id),
    )
    return asyncio.run(preload.block(prompt))


def profile(
    memory: MemoryService,
    owner: Owner,
    *,
    max_tokens: int,
    left: Callable[[], float],
) -> str:
    """Return a block of the user's newest preferences and decisions.

    Args:
        memory: The memory service.
        owner: The app and the user.
        max_tokens: The most tokens of the block, at least 1.
        left: Returns the seconds that are left. At 0.5 the reading ends.

    Returns:
        The block as of `recalled`; "" without such memories.
    """
    found: list[MemoryEntry] = []
    cursor: str | None = None
    user = memory.sync.user(owner.app_name, owner.user_id)
    while left() > 0.5:
        page = user.list(cursor=cursor, limit=_PAGE, filter=Filter(kind=PROFILE_KINDS))
        found += page
        if len(page) < _PAGE:
            break
        cursor = page[-1].id
    found.reverse()  # newest first
    found.sort(key=lambda each: PROFILE_KINDS.index(str(each.kind)))
    shown, count = found[:_MOST_OF_A_PROFILE], _counting(max_tokens)
    while shown:
        block = render(shown, "secure")
        if count(block) <= max_tokens:
            return block
        shown.pop()
    return ""


def _counting(max_tokens: int) -> Callable[[str], int]:
    """Return a count by which a block of `max_tokens` also fits an agent's limit."""
    estimate = counter(None)

    def count(text: str) -> int:
        share = math.ceil(len(text) * max_tokens / MOST_CHARACTERS)
        return max(estimate(text), share)

    return count
