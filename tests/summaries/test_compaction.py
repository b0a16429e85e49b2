"""What compaction left behind is remembered; a model sees only the rest."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import pytest
from helpers.summaries import (
    REST,
    Recording,
    a_mapping,
    compacted,
    parts,
    stretch,
    summarized,
    turn,
)
from vecall import (
    Event,
    InvalidArgumentError,
    InvalidTypeError,
    Session,
)
from vecall.summaries import (
    CompactionAwareSummaryProvider,
    compaction_of,
)


def rest_of(*events: Any) -> list[str]:
    """The texts that the provider is shown; empty if it is not asked."""
    provider = Recording()
    summarized(events, provider)
    shown = [event for session in provider.sessions for event in session["events"]]
    return [event["content"]["parts"][0]["text"] for event in shown]


def test_the_compactions_come_first_and_the_rest_is_summarized():
    """S4.6, S4.49-S4.51."""
    provider = Recording()
    events = [
        turn("old", 1.0),
        turn("edge", 10.0),
        compacted(parts("Parrots.")),
        turn("new", 12.0),
    ]
    assert summarized(events, provider) == [stretch("Parrots.", 0.0, 10.0), REST]
    assert provider.sessions == [{**a_mapping(), "events": [events[3]]}]


def test_a_session_that_was_compacted_whole_costs_no_call():
    """S4.21, S4.51: zero calls of the model."""
    asked: list[str] = []

    def llm(prompt: str) -> str:
        asked.append(prompt)
        return "Fine."

    provider = CompactionAwareSummaryProvider(llm)
    events = [turn("old", 1.0), compacted(parts("Parrots."))]
    assert provider.get_summaries(a_mapping(*events)) == [
        stretch("Parrots.", 0.0, 10.0)
    ]
    assert compaction_of(events[1]) == stretch("Parrots.", 0.0, 10.0)
    assert asked == []
    provider.get_summaries(a_mapping(*events, turn("new", 12.0)))
    assert len(asked) == 1
    assert "new" in asked[0]
    assert "old" not in asked[0]


def test_without_compactions_everything_is_the_rest():
    """S4.50."""
    assert rest_of(turn("a", 2.0), turn("b", None), turn("c", 1.0)) == ["a", "b", "c"]


def test_an_empty_session_has_no_summaries_and_costs_no_call():
    """S4.51."""
    provider = Recording()
    assert summarized([], provider) == []
    assert provider.sessions == []


def test_only_later_events_than_the_last_end_remain_in_any_order():
    """S4.50: an event at the very end is compacted."""
    events = [
        turn("after", 31.0),
        compacted(parts("b"), 20.0, 30.0, at=40.0),
        turn("just after", 30.000001),
        turn("at the end", 30.0),
        compacted(parts("a"), 0.0, 10.0, at=41.0),
        turn("before", 15.0),
    ]
    assert rest_of(*events) == ["after", "just after"]


def test_events_without_time_remain_if_they_stand_after_the_last_compaction():
    """S4.50."""
    events = [
        turn("first"),
        compacted(parts("a"), 0.0, 10.0),
        turn("between"),
        compacted(parts("b"), 10.0, 20.0),
        turn("last"),
    ]
    assert rest_of(*events) == ["last"]


def test_compaction_events_never_remain():
    """S4.50: not even those that lie later, hold nothing, or say something."""
    both = turn("both", 99.0) | {"actions": compacted(parts("c"))["actions"]}
    empty = compacted(None, 50.0, 60.0, at=70.0)
    nothing = turn("x", 99.0) | {"actions": {"compaction": {}}}
    events = [compacted(parts("a"), at=98.0), empty, nothing, both, turn("new", 99.0)]
    assert rest_of(*events) == ["new"]


def test_actions_of_another_kind_make_no_compaction():
    """S4.49."""
    plain = turn("plain", 12.0) | {"actions": {"compaction": None, "state_delta": {}}}
    bare = turn("bare", 12.0) | {"actions": None}
    assert rest_of(compacted(parts("a")), plain, bare) == ["plain", "bare"]
    assert compaction_of(plain) is None
    assert compaction_of(Event("hi")) is None


@pytest.mark.parametrize(
    "content",
    [
        None,
        "",
        " \n",
        {},
        {"parts": None},
        {"parts": []},
        {"parts": [{}]},
        {"parts": [{"text": None}, {"text": ""}, {"text": " "}]},
        {"parts": [{"text": "hm", "thought": True}]},
        {"parts": [{"function_call": {"name": "x"}}]},
        7,
    ],
)
def test_a_compaction_without_text_is_passed_over_and_hides_nothing(content):
    """S4.52."""
    event = compacted(content)
    assert compaction_of(event) is None
    provider = Recording()
    assert summarized([turn("old", 1.0), event], provider) == [REST]
    assert rest_of(turn("old", 1.0), turn("no time"), event) == ["old", "no time"]
    assert rest_of(compacted(parts("a")), turn("no time"), event) == ["no time"]


def test_all_text_parts_of_a_compaction_count():
    """S4.52."""
    many = [
        {"function_call": {"name": "x"}},
        {"text": "One."},
        {"text": "hm", "thought": True},
        {"text": "Two.\ud800"},
        {"text": ""},
    ]
    found = compaction_of(compacted({"parts": many}))
    assert found == stretch("One.\nTwo.\ufffd", 0.0, 10.0)
    found = compaction_of(compacted(" Text alone. "))
    assert found == stretch("Text alone.", 0.0, 10.0)


def test_mappings_in_camel_case_are_read_like_those_in_snake_case():
    """S4.49."""
    snake = compacted(parts("a"), 1, "1970-01-01T00:00:10Z")
    camel = copy.deepcopy(snake)
    camel["actions"]["compaction"] = {
        "startTimestamp": 1,
        "endTimestamp": "1970-01-01T00:00:10Z",
        "compactedContent": parts("a"),
    }
    for event in (snake, camel):
        assert compaction_of(event) == stretch("a", 1.0, 10.0)
        assert rest_of(event, turn("old", 10.0), turn("new", 10.5)) == ["new"]


def test_objects_are_read_like_mappings_and_keep_their_kind():
    """S4.49: google-adk is not needed for what looks like it."""

    def thing(value: Any) -> Any:
        if isinstance(value, dict):
            return SimpleNamespace(**{k: thing(v) for k, v in value.items()})
        return [thing(v) for v in value] if isinstance(value, list | tuple) else value

    events = [turn("old", 1.0), compacted(parts("a")), turn("new", 11.0)]
    session = thing(a_mapping(*events))
    provider = Recording()
    found = CompactionAwareSummaryProvider(provider).get_summaries(session)
    assert found == [stretch("a", 0.0, 10.0), REST]
    (shown,) = provider.sessions
    assert isinstance(shown, SimpleNamespace)
    assert shown.events == [session.events[2]]
    assert (shown.app_name, shown.id) == ("hotel", "trip")
    assert len(session.events) == 3


def test_a_session_of_vecall_keeps_its_kind():
    """S4.22."""
    session = Session("hotel", "alice", "trip", (Event("Hi.", "user", 1.0),))
    provider = Recording()
    found = CompactionAwareSummaryProvider(provider).get_summaries(session)
    assert found == [REST]
    (shown,) = provider.sessions
    assert (type(shown), shown.id, shown.events[0].content) == (Session, "trip", "Hi.")


def test_compactions_are_told_in_the_order_of_their_times():
    """S4.51."""
    events = [
        compacted(parts("no time"), None, None),
        compacted(parts("late"), 20.0, 30.0),
        compacted(parts("wide"), 0.0, 15.0),
        compacted(parts("early"), 0.0, 10.0),
        compacted(parts("only an end"), None, 12.0),
        compacted(parts("only a start"), 11.0, None),
    ]
    assert [one.summary for one in summarized(events, Recording())] == [
        "early",
        "wide",
        "only a start",
        "only an end",
        "late",
        "no time",
    ]


def test_the_same_compaction_counts_once():
    """S4.49: same stretch and same text."""
    events = [
        compacted(parts("a"), at=11.0),
        compacted(parts("a"), at=12.0),
        compacted(parts("a"), 0.0, 9.0),
        compacted(parts("b")),
    ]
    assert summarized(events, Recording()) == [
        stretch("a", 0.0, 9.0),
        stretch("a", 0.0, 10.0),
        stretch("b", 0.0, 10.0),
    ]


def test_a_compaction_without_an_end_hides_no_event_that_has_a_time():
    """S4.50."""
    events = [turn("old", 1.0), turn("no time"), compacted(parts("a"), None, None)]
    assert rest_of(*events) == ["old"]


def test_times_that_cannot_be_used_are_refused():
    for bad in (float("nan"), "yesterday", 1e300):
        event = compacted(parts("a"), 0.0, bad)
        with pytest.raises(InvalidArgumentError, match="end_timestamp"):
            compaction_of(event)
    with pytest.raises(InvalidTypeError, match=r"session\.events"):
        CompactionAwareSummaryProvider().get_summaries({"events": "abc"})
