"""The summary of a conversation, and the protocol of a summarizer."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple, Protocol, runtime_checkable

from vecall.clock import to_iso, to_seconds
from vecall.content import get_field, get_list, text_parts, to_valid_utf8
from vecall.errors import InvalidArgumentError, InvalidTypeError, SummaryError
from vecall.scalars import Shown, exact, make_exact


@dataclass(frozen=True, slots=True, repr=False)
class SessionSummary(Shown):
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

    def __post_init__(self) -> None:
        """Check every value; convert the times and the lists.

        Raises:
            InvalidArgumentError: A value is not allowed.
            InvalidTypeError: The type of a value is not allowed.
        """
        make_exact(self)
        summary: object = self.summary
        if not isinstance(summary, str):
            raise InvalidTypeError("summary: expected a text")
        if not summary.strip():
            raise InvalidArgumentError("summary: must say something")
        for name in ("topics", "key_facts"):
            object.__setattr__(self, name, _texts(getattr(self, name), name))
        for name in ("start_timestamp", "end_timestamp"):
            given = getattr(self, name)
            if given is not None:
                object.__setattr__(self, name, to_seconds(given, name))
        count = self.event_count
        if type(count) not in (int, type(None)):
            raise InvalidTypeError("event_count: expected an integer")
        if count is not None and count < 0:
            raise InvalidArgumentError("event_count: must not be negative")


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
    raise SummaryError("get_summaries: must return a sequence of SessionSummary")


def _texts(value: object, name: str) -> tuple[str, ...]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        texts = tuple(map(exact, value))
        if all(isinstance(text, str) for text in texts):
            return texts
    raise InvalidTypeError(f"{name}: expected a list of texts")


# The transcript of a session for a model: one line for each turn.


class TranscriptLine(NamedTuple):
    """One event with text, "[ISO 8601 time] author: text", and its time, if known."""

    line: str
    timestamp: float | None


def turns_of(session: object) -> list[TranscriptLine]:
    """Return the turns of a session in its order.

    Events without text and the partial events of a streamed turn are omitted. A line
    has only the text of an event, without thoughts, calls, responses and files.
    """
    events = get_list(session, "events", "session.events")
    return [line for line in map(_transcript_line, events) if line is not None]


def time_of(source: object, name: str) -> float | None:
    """Return a time in seconds; None if it is absent or its type is not a time."""
    value = get_field(source, name)
    if isinstance(value, float | int | str | datetime) and not isinstance(value, bool):
        return to_seconds(value, name)
    return None


def _transcript_line(event: object) -> TranscriptLine | None:
    if get_field(event, "partial") is True:
        return None  # a later event has the whole turn
    content = get_field(event, "content")
    text = _one_line(
        " ".join(text_parts(get_field(event, "text") if content is None else content))
    )
    if not text:
        return None
    author = get_field(event, "author")
    name = _one_line(author) if isinstance(author, str) else ""
    timestamp = time_of(event, "timestamp")
    when = "" if timestamp is None else f"[{to_iso(timestamp)}] "
    return TranscriptLine(f"{when}{name or 'unknown'}: {text}", timestamp)


def _one_line(text: str) -> str:
    """Return a text in one line, so that it cannot imitate another turn."""
    return " ".join(to_valid_utf8(text).split())
