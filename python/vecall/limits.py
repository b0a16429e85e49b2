"""The limits of a memory service: sizes of requests, and a quota for each user."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, get_args

from vecall.errors import ConfigError

Eviction = Literal["reject", "oldest", "lru", "lowest_value"]
"""What makes room where a user has too much: nothing, or one of three orders."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How large each part of a request may be.

    Attributes:
        max_text_bytes: One memory's text in UTF-8.
        max_metadata_bytes: One memory's custom_metadata as JSON.
        max_metadata_depth: How deep that JSON may nest.
        max_name_bytes: An app name, a user, session, event or memory id in UTF-8.
        max_top_k: Memories in one answer.
        max_query_chars: What of a query is read; a longer one is cut, not refused.
        min_free_bytes: Disk space below which nothing is added, so that deleting and
            other programs can go on; 0 adds to the last byte.
        max_user_memories: Memories of one user, and turns that wait until memories are
            made of them; None is any number.
        max_user_bytes: Bytes of text, in UTF-8, of one user's memories, and of the JSON
            of turns that wait; None is any.
        eviction: What becomes of a write that would exceed these two: "reject" refuses
            it; the others delete what was said longest ago ("oldest"), what was neither
            stored nor marked as used for longest ("lru"), or what has the least
            importance by prior, age and use ("lowest_value"), and keep what is new.
    """

    max_text_bytes: int = 262_144
    max_metadata_bytes: int = 16_384
    max_metadata_depth: int = 8
    max_name_bytes: int = 512
    max_top_k: int = 1_000
    max_query_chars: int = 32_768
    min_free_bytes: int = 64 * 1024 * 1024
    max_user_memories: int | None = None
    max_user_bytes: int | None = None
    eviction: Eviction = "reject"

    def __post_init__(self) -> None:
        """Check that every limit is a number of at least 1, or 0 for min_free_bytes."""
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "eviction":
                if value not in get_args(Eviction):
                    names = ", ".join(get_args(Eviction))
                    msg = f"limits.eviction: must be one of {names}"
                    raise ConfigError(msg)
                continue
            if value is None and field.name.startswith("max_user_"):
                continue
            minimum = 0 if field.name == "min_free_bytes" else 1
            if type(value) is not int or value < minimum:
                msg = f"limits.{field.name}: must be an integer of at least {minimum}"
                raise ConfigError(msg)
