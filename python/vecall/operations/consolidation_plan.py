"""When and how a service consolidates by itself."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, get_args

from vecall.errors import ConfigError, InvalidArgumentError, InvalidTypeError
from vecall.timestamps import ttl_seconds

Fold = Literal["sessions", "summaries", "facts"]

SESSIONS: tuple[Fold, ...] = ("sessions",)


@dataclass(frozen=True, slots=True)
class ConsolidationPlan:
    """What a service consolidates on a schedule, of each user that changed.

    Attributes:
        every: The least time between two runs on one file, by whatever process:
            seconds, a timedelta or "86400s".
        older_than: Sum up what is older: seconds, a timedelta or "3600s". None sums up
            nothing.
        fold: What is summed up.
        merge: Merge facts that say the same word for word, but for fillers.
        similarity: Merge facts of at least this cosine, too; None does not. Look at a
            dry run of `consolidate` before you choose it.
    """

    every: float | timedelta | str = "86400s"
    older_than: float | timedelta | str | None = None
    fold: Collection[Fold] = SESSIONS
    merge: bool = True
    similarity: float | None = None

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ConfigError: A value that is not allowed.
        """
        try:
            checked_fold(self.fold)
            checked_similarity(self.similarity)
            if self.older_than is not None:
                ttl_seconds(self.older_than)
            self.seconds_between()
        except (InvalidArgumentError, InvalidTypeError) as error:
            msg = f"consolidation: {error}"
            raise ConfigError(msg) from None

    def seconds_between(self) -> float:
        """Return the least time between two runs in seconds."""
        return ttl_seconds(self.every)


def checked_fold(fold: object) -> frozenset[str]:
    """Return what is to be summed up.

    Raises:
        InvalidArgumentError: Something else than the names that there are.
    """
    known = get_args(Fold)
    if isinstance(fold, Collection) and not isinstance(fold, str):
        names = list(fold)
        if all(isinstance(name, str) and name in known for name in names):
            return frozenset(names)
    msg = f"fold: expected some of {', '.join(known)}"
    raise InvalidArgumentError(msg)


def checked_similarity(value: Any) -> float | None:
    """Return the threshold of a merge by meaning.

    Raises:
        InvalidArgumentError: No number above 0 and at most 1.
    """
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
