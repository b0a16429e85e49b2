"""The transcript of a session for a model: one line for each turn."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from vecall.content import get_field, get_list, text_parts, to_valid_utf8
from vecall.timestamps import to_iso, to_seconds


class TranscriptLine(NamedTuple):
    """One event with text.

    Attributes:
        line: "[ISO 8601 time] author: text" without line breaks; no brackets if the
            time is unknown.
        timestamp: Seconds since 1970; None if unknown.
    """

    line: str
    timestamp: float | None


def turns_of(session: object) -> list[TranscriptLine]:
    """Return the turns of a session in its order.

    Events without text and the partial events of a streamed turn are omitted. A line
    has only the text of an event, without thoughts, calls, responses and files.

    Raises:
        InvalidArgumentError: A time is invalid.
        InvalidTypeError: The events are not a sequence.
    """
    events = get_list(session, "events", "session.events")
    turns = (_turn(event) for event in events)
    return [turn for turn in turns if turn is not None]


def time_of(source: object, name: str) -> float | None:
    """Return a time in seconds; None if it is absent or its type is not a time.

    Raises:
        InvalidArgumentError: The time is NaN, infinite, without a time zone, or out of
            range.
    """
    value = get_field(source, name)
    if isinstance(value, float | int | str | datetime) and not isinstance(value, bool):
        return to_seconds(value, name)
    return None


def _turn(event: object) -> TranscriptLine | None:
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
