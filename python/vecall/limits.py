"""Sizes of requests, and the quota of each user."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, get_args

from vecall.errors import ConfigError

Eviction = Literal["reject", "oldest", "lru", "lowest_value"]
"""What makes room where a user has too much: nothing, or one of three orders."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How large each part of a request may be.

    Attributes:
        max_text_bytes: One memory's text in UTF-8.
        max_metadata_bytes: One memory's custom_metadata as JSON.
        max_metadata_depth: How deep that JSON may nest.
        max_name_bytes: An app name, a user, session, event or memory id in UTF-8.
        max_top_k: Memories in one answer.
        max_query_chars: What of a query is read; a longer one is cut, not refused.

    Raises:
        ConfigError: A limit that is no integer of at least 1.
    """

    max_text_bytes: int = 262_144
    max_metadata_bytes: int = 16_384
    max_metadata_depth: int = 8
    max_name_bytes: int = 512
    max_top_k: int = 1_000
    max_query_chars: int = 32_768

    def __post_init__(self) -> None:
        """Check that every limit is a number of at least 1."""
        for field in fields(self):
            _check_count(getattr(self, field.name), f"limits.{field.name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """How much each user may store.

    Turns that wait until memories are made of them count, too.

    Attributes:
        memories: Live memories, and turns that wait; None is any number.
        bytes: Bytes of text, in UTF-8, of live memories, and of the JSON of turns that
            wait; None is any number.
        eviction: What a write over the quota does. "reject": it is refused. The others
            delete and keep what is new; "oldest": by timestamp, "lru": by the last
            write or use, "lowest_value": by importance.

    Raises:
        ConfigError: A number that is no integer of at least 1, or another order.
    """

    memories: int | None = None
    bytes: int | None = None
    eviction: Eviction = "reject"

    def __post_init__(self) -> None:
        """Check both numbers and the order."""
        for name in ("memories", "bytes"):
            if (value := getattr(self, name)) is not None:
                _check_count(value, f"quota.{name}")
        if self.eviction not in get_args(Eviction):
            msg = f"quota.eviction: must be one of {', '.join(get_args(Eviction))}"
            raise ConfigError(msg)


def _check_count(value: object, name: str) -> None:
    if type(value) is not int or value < 1:
        msg = f"{name}: must be an integer of at least 1"
        raise ConfigError(msg)
