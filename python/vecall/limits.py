"""Maximum sizes of requests, and the quota of each user."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, get_args

from vecall.errors import ConfigError
from vecall.reprs import short_repr
from vecall.scalars import make_exact

Eviction = Literal["reject", "oldest", "lru", "lowest_value"]
"""The eviction policy of a quota."""

UNASKED_CONFIDENCE = 0.2
"""The least confidence of a memory that is recalled without being asked for."""


_DEEPEST = 200  # Python's own limit is 1,000 calls, those of the caller included


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Maximum sizes of the parts of a request.

    Attributes:
        max_text_bytes: Bytes of one memory's text in UTF-8.
        max_metadata_bytes: Bytes of one memory's custom_metadata as JSON.
        max_metadata_depth: Nesting depth of that JSON, at most 200.
        max_name_bytes: Bytes of an app name, or of a user, session, event or memory id,
            in UTF-8.
        max_top_k: Memories in one search result.
        max_item_bytes: Bytes of an item's value as JSON.
        max_item_outline_bytes: Bytes of that JSON without strings of more than 16,384
            characters.
        max_item_name_bytes: Bytes of an item's key, or of all labels of its namespace,
            in UTF-8.
        max_query_chars: Characters of a query; a longer query is cut, not refused.

    Raises:
        ConfigError: A limit is not an integer of at least 1, or the depth above 200.
    """

    max_text_bytes: int = 262_144
    max_metadata_bytes: int = 16_384
    max_metadata_depth: int = 8
    max_name_bytes: int = 512
    max_top_k: int = 1_000
    max_query_chars: int = 32_768
    max_item_bytes: int = 33_554_432
    max_item_outline_bytes: int = 1_048_576
    max_item_name_bytes: int = 4_096

    __repr__ = short_repr

    def __post_init__(self) -> None:
        """Check that every limit is a number of at least 1."""
        make_exact(self)
        for field in fields(self):
            _check_count(getattr(self, field.name), f"limits.{field.name}")
        if self.max_metadata_depth > _DEEPEST:
            msg = f"limits.max_metadata_depth: must be at most {_DEEPEST}"
            raise ConfigError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """How much each user may store. Buffered turns count, too.

    Attributes:
        memories: Maximum number of live memories and buffered turns; None is no limit.
        bytes: Maximum bytes of the text (UTF-8) of live memories and of the JSON of
            buffered turns; None is no limit.
        eviction: What a write over the quota does. "reject" refuses the write. The
            others delete older memories: "oldest" by timestamp, "lru" by last write or
            use, "lowest_value" by importance.

    Raises:
        ConfigError: A number is not an integer of at least 1, or the eviction is
            unknown.
    """

    memories: int | None = None
    bytes: int | None = None
    eviction: Eviction = "reject"

    __repr__ = short_repr

    def __post_init__(self) -> None:
        """Check both numbers and the eviction."""
        make_exact(self)
        for name in ("memories", "bytes"):
            if (value := getattr(self, name)) is not None:
                _check_count(value, f"quota.{name}")
        eviction: object = self.eviction
        if type(eviction) is not str or eviction not in get_args(Eviction):
            msg = f"quota.eviction: must be one of {', '.join(get_args(Eviction))}"
            raise ConfigError(msg)


def _check_count(value: object, name: str) -> None:
    if type(value) is not int or value < 1:
        msg = f"{name}: must be an integer of at least 1"
        raise ConfigError(msg)
