"""The summary of a conversation, and the protocol of a summarizer."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from vecall.errors import InvalidArgumentError, InvalidTypeError, SummaryError
from vecall.reprs import short_repr
from vecall.scalars import exact, make_exact
from vecall.timestamps import to_seconds


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """A summary of a conversation, or of a part of it.

    Attributes:
        summary: The text.
        topics: The topics.
        key_facts: The facts that the summary states.
        start_timestamp: The time of the first summarized turn, in seconds since 1970. A
            datetime with a time zone or an ISO 8601 string with an offset is converted.
        end_timestamp: The time of the last summarized turn, in the same units.
        event_count: The number of summarized turns; None if unknown.
    """

    summary: str
    topics: tuple[str, ...] = field(default=(), kw_only=True)
    key_facts: tuple[str, ...] = field(default=(), kw_only=True)
    start_timestamp: float | None = field(default=None, kw_only=True)
    end_timestamp: float | None = field(default=None, kw_only=True)
    event_count: int | None = field(default=None, kw_only=True)

    __repr__ = short_repr

    def __post_init__(self) -> None:
        """Check every value; convert the times and the lists.

        Raises:
            InvalidArgumentError: A value is not allowed.
            InvalidTypeError: The type of a value is not allowed.
        """
        make_exact(self)
        summary: object = self.summary
        if not isinstance(summary, str):
            msg = "summary: expected a text"
            raise InvalidTypeError(msg)
        if not summary.strip():
            msg = "summary: must say something"
            raise InvalidArgumentError(msg)
        for name in ("topics", "key_facts"):
            object.__setattr__(self, name, _texts(getattr(self, name), name))
        for name in ("start_timestamp", "end_timestamp"):
            given = getattr(self, name)
            if given is not None:
                object.__setattr__(self, name, to_seconds(given, name))
        count: object = self.event_count
        if count is None:
            return
        if not isinstance(count, int) or isinstance(count, bool):
            msg = "event_count: expected an integer"
            raise InvalidTypeError(msg)
        if count < 0:
            msg = "event_count: must not be negative"
            raise InvalidArgumentError(msg)


@runtime_checkable
class SummaryProvider(Protocol):
    """A summarizer of conversations; synchronous or asynchronous."""

    def get_summaries(
        self, session: object
    ) -> Sequence[SessionSummary] | Awaitable[Sequence[SessionSummary]]:
        """Return the summaries of a session.

        Args:
            session: A `Session`, a google-adk session, or a mapping in snake_case or
                camelCase.

        Returns:
            The summaries, or an awaitable of them. An empty sequence stores no memory.
        """
        ...


def checked_summaries(found: object) -> list[SessionSummary]:
    """Return the result of a provider as a list, checked.

    Args:
        found: The result of `get_summaries`, awaited.

    Raises:
        SummaryError: `found` is not a sequence of `SessionSummary`.
    """
    if isinstance(found, Sequence) and not isinstance(found, str | bytes):
        summaries = list(found)
        if all(isinstance(summary, SessionSummary) for summary in summaries):
            return summaries
    msg = "get_summaries: must return a sequence of SessionSummary"
    raise SummaryError(msg)


def _texts(value: object, name: str) -> tuple[str, ...]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        texts = tuple(map(exact, value))
        if all(isinstance(text, str) for text in texts):
            return texts
    msg = f"{name}: expected a list of texts"
    raise InvalidTypeError(msg)
