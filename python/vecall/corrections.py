"""What a memory service says of changes: what a memory was, what is to be forgotten."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from vecall.types import MemoryEntry


@dataclass(frozen=True, slots=True)
class Revision:
    """A memory as it was at some time, or as it is.

    Attributes:
        memory: What it says.
        state: "live"; "archived", kept but not found; "quarantined", held until
            `release_memory`, or, with a time in `at`, held until it was overwritten; or
            "overwritten", by the revision that follows.
        at: Seconds since 1970 at which it was overwritten or archived; None for what
            stands.
        why: "update" by a later ingest or "edit" by `update_memory` for what was
            overwritten; "superseded", "merged", "folded", "lapsed" or "archived" for
            what was archived; None for what is live.
        by: The id of the memory that stands in its place, where there is one.
    """

    memory: MemoryEntry
    state: Literal["live", "archived", "quarantined", "overwritten"]
    at: float | None = None
    why: str | None = None
    by: str | None = None


@dataclass(frozen=True, slots=True)
class ForgetProposal:
    """What would be forgotten, for somebody to look at.

    Attributes:
        token: To be handed to `confirm_forget`; "" if there is nothing to forget.
        memories: Which memories it is about, best match first.
        expires_at: Seconds since 1970 until which the token counts.
    """

    token: str
    memories: list[MemoryEntry]
    expires_at: float


@dataclass(frozen=True, slots=True)
class DuplicateGroup:
    """Memories that say or mean the same.

    Attributes:
        kept: The id of the newest, which stays.
        merged: The ids of the others.
        similarity: The least cosine between one of the others and the newest; None
            where they are the same word for word, but for fillers.
    """

    kept: str
    merged: tuple[str, ...]
    similarity: float | None = None


@dataclass(frozen=True, slots=True)
class Consolidation:
    """What a consolidation did; of a dry run, what it would do.

    Attributes:
        merged: Memories that were archived because another one says the same.
        folded: Memories that were archived because a summary says it shorter. Of a dry
            run: memories that the summarizer would be given.
        summaries: The ids of the summaries; empty for a dry run.
        groups: What was merged with what.
        similarity: The threshold of the merge by meaning; None if there was none.
        dry_run: Whether nothing was changed.
    """

    merged: int = 0
    folded: int = 0
    summaries: tuple[str, ...] = ()
    groups: tuple[DuplicateGroup, ...] = field(default=(), compare=False)
    similarity: float | None = field(default=None, compare=False)
    dry_run: bool = field(default=False, compare=False)
