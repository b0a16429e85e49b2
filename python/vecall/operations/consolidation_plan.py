"""The schedule and the options of automatic consolidation."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, get_args

from vecall.errors import ConfigError, InvalidArgumentError, InvalidTypeError
from vecall.reprs import short_repr
from vecall.scalars import exact, make_exact
from vecall.timestamps import ttl_seconds

Fold = Literal["sessions", "summaries", "facts"]

SESSIONS: tuple[Fold, ...] = ("sessions",)


@dataclass(frozen=True, slots=True)
class ConsolidationPlan:
    """Scheduled consolidation of every user whose memories changed.

    Attributes:
        every: The shortest time between two runs on one file, across all processes:
            seconds, a timedelta or "86400s".
        older_than: Summarize memories older than this: seconds, a timedelta or "30d".
            None summarizes nothing.
        fold: The memories to summarize: any of "sessions", "summaries" and "facts".
        merge: Merge facts with the same words, apart from fillers.
        similarity: Also merge facts with at least this cosine, in (0, 1]; None does
            not. Check the value with a dry run of `consolidate` first.
    """

    every: float | timedelta | str = "86400s"
    older_than: float | timedelta | str | None = None
    fold: Collection[Fold] = SESSIONS
    merge: bool = True
    similarity: float | None = None

    __repr__ = short_repr

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ConfigError: A value is not allowed.
        """
        make_exact(self)
        try:
            checked_fold(self.fold)
            checked_similarity(self.similarity)
            if self.older_than is not None:
                ttl_seconds(self.older_than, "older_than")
            self.seconds_between()
        except (InvalidArgumentError, InvalidTypeError) as error:
            msg = f"consolidation: {error}"
            raise ConfigError(msg) from None

    def seconds_between(self) -> float:
        """Return the shortest time between two runs, in seconds."""
        return ttl_seconds(self.every, "every")


def checked_fold(fold: object) -> frozenset[str]:
    """Return the kinds of memories to summarize, checked.

    Raises:
        InvalidArgumentError: `fold` is not a collection of "sessions", "summaries" and
            "facts".
    """
    known = get_args(Fold)
    if isinstance(fold, list | tuple | set | frozenset):
        names = [exact(name) for name in fold]
        if all(isinstance(name, str) and name in known for name in names):
            return frozenset(names)
    msg = f"fold: expected some of {', '.join(known)}"
    raise InvalidArgumentError(msg)


def checked_similarity(value: Any) -> float | None:
    """Return the least cosine of facts to merge, or None.

    Raises:
        InvalidArgumentError: Not a number in (0, 1].
    """
    value = exact(value)
    if value is None:
        return None
    if (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and 0 < value <= 1
    ):
        return float(value)
    msg = "similarity: expected a number above 0 and at most 1"
    raise InvalidArgumentError(msg)
