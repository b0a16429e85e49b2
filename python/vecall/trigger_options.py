"""The options of `trigger=`: what makes memories of an observed session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vecall.errors import ConfigError
from vecall.scalars import exact, make_exact

_LONGEST_MS = 100 * 365 * 86_400_000


@dataclass(frozen=True, slots=True)
class SessionEnd:
    """Only `end_session` makes memories."""


@dataclass(frozen=True, slots=True)
class Inactivity:
    """Make memories of a session after some time without a new turn.

    Attributes:
        inactivity_ms: The time in milliseconds, 1 to 100 years.
    """

    inactivity_ms: int

    def __post_init__(self) -> None:
        """Check the number."""
        make_exact(self)
        _check_count(self.inactivity_ms, "inactivity_ms", _LONGEST_MS)


@dataclass(frozen=True, slots=True)
class MessageCount:
    """Make memories after a number of new turns.

    Attributes:
        message_count: The number of turns, 1 to 1,000,000.
    """

    message_count: int

    def __post_init__(self) -> None:
        """Check the number."""
        make_exact(self)
        _check_count(self.message_count, "message_count", 1_000_000)


@dataclass(frozen=True, slots=True)
class Compaction:
    """Store the summaries of a framework's compaction; no LLM is called."""


Trigger = SessionEnd | Inactivity | MessageCount | Compaction

_BY_NAME = {
    "session_end": SessionEnd,
    "inactivity": Inactivity,
    "message_count": MessageCount,
    "compaction": Compaction,
}


def checked_trigger(given: object) -> Trigger | None:
    """Return a trigger from itself, its name, or a mapping with "type".

    Raises:
        ConfigError: Another value.
    """
    if given is None or isinstance(given, Trigger):
        return given
    options: Mapping[str, object] = {}
    name = exact(given)
    if isinstance(given, Mapping):
        options = {key: value for key, value in given.items() if key != "type"}
        name = exact(given.get("type"))
    kind = _BY_NAME.get(name) if isinstance(name, str) else None
    if kind is None:
        msg = f"trigger: expected one of {', '.join(_BY_NAME)}, or their classes"
        raise ConfigError(msg)
    try:
        return kind(**options)  # type: ignore[no-any-return]
    except TypeError:
        msg = f"trigger: {name} needs its number, and takes nothing else"
        raise ConfigError(msg) from None


def _check_count(value: object, name: str, limit: int) -> None:
    if type(value) is not int or not 1 <= value <= limit:
        msg = f"trigger: {name} must be an integer from 1 to {limit}"
        raise ConfigError(msg)
