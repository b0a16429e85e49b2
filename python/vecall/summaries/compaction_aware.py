"""Uses the summaries of compaction events; a model summarizes only the rest."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from vecall.content import get_field, get_list, text_parts, to_valid_utf8
from vecall.errors import ConfigError
from vecall.summaries.base import (
    SessionSummary,
    SummaryProvider,
    checked_summaries,
    time_of,
)
from vecall.summaries.llm import LlmSummaryProvider

_OPTIONS = {"llm", "prompt", "max_chars"}


class CompactionAwareSummaryProvider:
    """Returns a session's compaction summaries, and summarizes its other events.

    A compaction event has `actions.compaction` with start_timestamp, end_timestamp and
    compacted_content: an event of google-adk, or a mapping with the same keys. Each
    compaction event with text is one summary. Compaction events without text are
    ignored; they cover no turns.

    The rest are the ordinary events later than the latest end of a compaction, in any
    order. An event without a time belongs to the rest if it comes after the last
    compaction event in the session. If the rest is empty, the model is not called.
    """

    def __init__(
        self,
        provider_or_config: SummaryProvider
        | Mapping[str, Any]
        | Callable[[str], str | Awaitable[str]]
        | None = None,
    ) -> None:
        """Set the provider that summarizes the rest.

        Args:
            provider_or_config: An object with `get_summaries`, or the arguments of an
                `LlmSummaryProvider`: its function, or a mapping with "llm" and
                optionally "prompt" and "max_chars". With None, only the compactions are
                returned.

        Raises:
            ConfigError: The value or one of the options is invalid.
        """
        self._provider = _provider_from_config(provider_or_config)

    def get_summaries(
        self, session: object
    ) -> list[SessionSummary] | Awaitable[list[SessionSummary]]:
        """Return the compactions in order of time, then the summaries of the rest.

        Args:
            session: A google-adk session, a mapping in snake_case or camelCase, or a
                `Session`, which holds no compactions.

        Returns:
            A list, or an awaitable of it if the provider of the rest returns one. A
            text is in the list only once for the same start and end.

        Raises:
            InvalidArgumentError: The session's events cannot be read.
            SummaryError: The rest could not be summarized.
        """
        compacted, rest = _split_events(get_list(session, "events", "session.events"))
        if self._provider is None or not rest:
            return compacted
        found: object = self._provider.get_summaries(_with_events(session, rest))
        if inspect.isawaitable(found):
            return _join_awaited_summaries(compacted, found)
        return compacted + checked_summaries(found)


def compaction_of(event: object) -> SessionSummary | None:
    """Return the summary of a compaction event.

    No model is called. The summary joins all texts of the content with line breaks.

    Args:
        event: An event of google-adk, or a mapping in snake_case or camelCase.

    Returns:
        The text with its start and end. None for other events, and for a compaction
        without text.

    Raises:
        InvalidArgumentError: A time is invalid.
    """
    compaction = _event_compaction(event)
    text = to_valid_utf8(
        "\n".join(text_parts(get_field(compaction, "compacted_content")))
    ).strip()
    if not text:
        return None
    return SessionSummary(
        text,
        start_timestamp=time_of(compaction, "start_timestamp"),
        end_timestamp=time_of(compaction, "end_timestamp"),
    )


class _Split(NamedTuple):
    compacted: list[SessionSummary]
    rest: list[Any]


def _split_events(events: Sequence[Any]) -> _Split:
    found: list[SessionSummary] = []
    last = -1
    for index, event in enumerate(events):
        summary = compaction_of(event)
        if summary is not None:
            found.append(summary)
            last = index
    ends = (item.end_timestamp for item in found if item.end_timestamp is not None)
    end = max(ends, default=-math.inf)
    rest = []
    for index, event in enumerate(events):
        when = time_of(event, "timestamp")
        is_later = index > last if when is None else when > end
        if is_later and _event_compaction(event) is None:
            rest.append(event)
    return _Split(sorted(dict.fromkeys(found), key=_summary_sort_key), rest)


def _summary_sort_key(summary: SessionSummary) -> tuple[float, float]:
    """Return the sort key: start, then end; summaries without a time come last."""
    end = math.inf if summary.end_timestamp is None else summary.end_timestamp
    start = end if summary.start_timestamp is None else summary.start_timestamp
    return start, end


def _event_compaction(event: object) -> object:
    found: object = get_field(get_field(event, "actions"), "compaction")
    return found


def _with_events(session: object, events: list[Any]) -> object:
    """Return a copy of the session, of the same type, with only these events."""
    if isinstance(session, Mapping):
        return {**session, "events": events}
    if dataclasses.is_dataclass(session) and not isinstance(session, type):
        return dataclasses.replace(session, events=events)
    twin: Any = copy.copy(session)
    twin.events = events
    return twin


async def _join_awaited_summaries(
    compacted: list[SessionSummary], found: Awaitable[object]
) -> list[SessionSummary]:
    return compacted + checked_summaries(await found)


def _provider_from_config(given: object) -> SummaryProvider | None:
    if given is None:
        return None
    if callable(getattr(given, "get_summaries", None)):
        return cast("SummaryProvider", given)
    if callable(given):
        return LlmSummaryProvider(given)
    if isinstance(given, Mapping):
        if "llm" in given and given.keys() <= _OPTIONS:
            return LlmSummaryProvider(**given)
        msg = "provider_or_config: expected the keys llm, and maybe prompt, max_chars"
        raise ConfigError(msg)
    msg = "provider_or_config: expected an object with get_summaries, a function, "
    raise ConfigError(msg + "a mapping with llm, or None")
