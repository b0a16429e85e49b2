"""Who summarizes what compaction left over; and google-adk's own sessions."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from helpers.summaries import (
    REST,
    Recording,
    SlowRecording,
    a_mapping,
    compacted,
    finished,
    parts,
    stretch,
    summarized,
    turn,
)
from vecall import ConfigError, SummaryError
from vecall.summaries import (
    CompactionAwareSummaryProvider,
    SessionSummary,
    SummaryProvider,
)


@pytest.mark.parametrize("is_slow", [False, True])
@pytest.mark.parametrize("as_mapping", [False, True])
def test_a_function_or_a_mapping_makes_a_provider(is_slow, as_mapping):
    """S4.34: the simple form."""
    asked: list[str] = []

    def plain(prompt: str) -> str:
        asked.append(prompt)
        return '{"summary": "New."}'

    async def slow(prompt: str) -> str:
        return plain(prompt)

    llm = slow if is_slow else plain
    config = {"llm": llm, "prompt": "Own {events}", "max_chars": 50}
    provider = CompactionAwareSummaryProvider(config if as_mapping else llm)
    assert isinstance(provider, SummaryProvider)
    events = [compacted(parts("a")), turn("new", 12.0)]
    found: Any = provider.get_summaries(a_mapping(*events))
    assert inspect.isawaitable(found) is is_slow
    first, second = finished(found) if is_slow else found
    assert first == stretch("a", 0.0, 10.0)
    assert (second.summary, second.start_timestamp) == ("New.", 12.0)
    own = "Own [1970-01-01T00:00:12+00:00] user: new"
    assert (asked == [own]) is as_mapping
    assert len(asked) == 1


def test_what_gives_summaries_is_a_provider_even_if_it_can_be_called():
    """S4.35: the advanced form is told apart by get_summaries."""

    class Both(Recording, dict):  # type: ignore[type-arg]
        def __call__(self, prompt: str) -> str:
            raise AssertionError

    provider = Both()
    assert summarized([turn("new", 1.0)], provider) == [REST]
    assert len(provider.sessions) == 1


def test_a_slow_provider_makes_an_awaitable_only_if_it_is_asked():
    """S4.22, S4.51."""
    provider = CompactionAwareSummaryProvider(SlowRecording())
    old = a_mapping(compacted(parts("a")))
    assert provider.get_summaries(old) == [stretch("a", 0.0, 10.0)]
    new = a_mapping(compacted(parts("a")), turn("new", 12.0))
    found: Any = provider.get_summaries(new)
    assert finished(found) == [stretch("a", 0.0, 10.0), REST]


def test_without_a_provider_only_the_compactions_are_told():
    """S4.33: no model at all."""
    provider = CompactionAwareSummaryProvider()
    session = a_mapping(compacted(parts("a")), turn("new", 12.0))
    assert provider.get_summaries(session) == [stretch("a", 0.0, 10.0)]
    assert provider.get_summaries(a_mapping(turn("new", 12.0))) == []


@pytest.mark.parametrize("kind", [Recording, SlowRecording])
@pytest.mark.parametrize("found", [None, "text", [None]])
def test_a_provider_that_returns_something_else_is_an_error(kind, found):
    """S4.35."""
    provider = CompactionAwareSummaryProvider(kind(found))
    with pytest.raises(SummaryError, match="sequence of SessionSummary"):
        finished(provider.get_summaries(a_mapping(turn("new", 1.0))))


@pytest.mark.parametrize(
    "config",
    [
        3,
        "gpt",
        [],
        {},
        {"prompt": "{events}"},
        {"llm": print, "model": "gpt"},
        {"llm": None},
        {"llm": print, "prompt": "no place"},
        {"llm": print, "max_chars": 0},
        {"llm": print, 3: 4},
    ],
)
def test_options_that_cannot_be_used_are_refused(config):
    """S4.34."""
    with pytest.raises(ConfigError, match=r"provider_or_config|llm|prompt|max_chars"):
        CompactionAwareSummaryProvider(config)


def adk_session() -> Any:
    """A conversation of google-adk whose first two turns were compacted."""
    pytest.importorskip("google.adk")
    from google.adk.events import Event, EventActions
    from google.adk.events.event_actions import EventCompaction
    from google.adk.sessions import Session
    from google.genai import types

    def content(*texts: str) -> types.Content:
        return types.Content(parts=[types.Part(text=text) for text in texts])

    def said(text: str, at: float) -> Event:
        return Event(author="user", content=content(text), timestamp=at)

    def compaction(content: types.Content, start: float, end: float) -> Event:
        made = EventCompaction(
            start_timestamp=start, end_timestamp=end, compacted_content=content
        )
        actions = EventActions(compaction=made)
        return Event(author="user", actions=actions, timestamp=end + 0.5)

    hidden = types.Part(text="hm", thought=True)
    events = [
        said("I like parrots.", 1.0),
        said("And owls.", 2.0),
        compaction(content("Alice likes", "two birds."), 1.0, 2.0),
        compaction(types.Content(), 1.0, 50.0),
        compaction(types.Content(parts=[hidden]), 1.0, 50.0),
        said("Book a room.", 3.0),
    ]
    return Session(id="trip", app_name="hotel", user_id="alice", events=events)


@pytest.mark.parametrize("by_alias", [None, False, True])
def test_sessions_of_google_adk_are_read_as_objects_and_as_what_they_dump(by_alias):
    """S4.6, S4.49-S4.52."""
    session = adk_session()
    if by_alias is not None:
        session = session.model_dump(mode="json", by_alias=by_alias)
    prompts: list[str] = []

    def llm(prompt: str) -> str:
        prompts.append(prompt)
        return '{"summary": "A room.", "keyFacts": ["Wants a room."]}'

    provider = CompactionAwareSummaryProvider({"llm": llm, "prompt": "{events}"})
    assert provider.get_summaries(session) == [
        stretch("Alice likes\ntwo birds.", 1.0, 2.0),
        SessionSummary(
            "A room.",
            key_facts=("Wants a room.",),
            start_timestamp=3.0,
            end_timestamp=3.0,
            event_count=1,
        ),
    ]
    assert prompts == ["[1970-01-01T00:00:03+00:00] user: Book a room."]


def test_a_session_of_google_adk_keeps_its_kind_and_is_not_changed():
    """S4.35."""
    session = adk_session()
    before = session.model_dump()
    provider = Recording()
    CompactionAwareSummaryProvider(provider).get_summaries(session)
    (shown,) = provider.sessions
    assert type(shown) is type(session)
    assert shown.events == [session.events[-1]]
    assert (shown.app_name, shown.user_id, shown.id) == ("hotel", "alice", "trip")
    assert session.model_dump() == before
