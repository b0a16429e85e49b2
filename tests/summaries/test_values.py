"""What a summary may hold, and who is a provider of summaries."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
import vecall.summaries
from helpers.summaries import Scripted
from vecall import InvalidArgumentError, InvalidTypeError, SummaryError
from vecall.summaries import SessionSummary, SummaryProvider, checked_summaries


def test_the_public_names_are_sorted_and_there():
    """Constants first, as in every sorted list of names."""
    names = vecall.summaries.__all__
    assert names == sorted(names, key=lambda name: (not name.isupper(), name))
    assert all(hasattr(vecall.summaries, name) for name in names)


def test_a_summary_converts_its_times_and_lists():
    """S4.23."""
    east = timezone(timedelta(hours=2))
    summary = SessionSummary(
        "s",
        topics=["a"],
        key_facts=["b", "c"],
        start_timestamp="1970-01-01T00:00:01Z",
        end_timestamp=datetime(1970, 1, 1, 2, 0, 2, tzinfo=east),
        event_count=0,
    )
    assert summary == SessionSummary(
        "s",
        topics=("a",),
        key_facts=("b", "c"),
        start_timestamp=1.0,
        end_timestamp=2.0,
        event_count=0,
    )
    assert hash(summary) is not None
    with pytest.raises(AttributeError):
        summary.summary = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"summary": ""}, InvalidArgumentError),
        ({"summary": " \n"}, InvalidArgumentError),
        ({"summary": None}, InvalidTypeError),
        ({"topics": "abc"}, InvalidTypeError),
        ({"topics": [1]}, InvalidTypeError),
        ({"key_facts": {"a": "b"}}, InvalidTypeError),
        ({"start_timestamp": float("nan")}, InvalidArgumentError),
        ({"end_timestamp": "yesterday"}, InvalidArgumentError),
        ({"end_timestamp": True}, InvalidTypeError),
        ({"event_count": -1}, InvalidArgumentError),
        ({"event_count": True}, InvalidTypeError),
        ({"event_count": 1.0}, InvalidTypeError),
    ],
)
def test_a_summary_refuses_what_it_cannot_use(fields, error):
    """S4.23."""
    with pytest.raises(error, match=next(iter(fields))):
        SessionSummary(**{"summary": "s", **fields})


@pytest.mark.parametrize(
    "found", [None, "text", b"", [None], ["s"], {"summary": "s"}, SessionSummary("s")]
)
def test_what_a_provider_returns_must_be_summaries(found):
    """S4.22."""
    with pytest.raises(SummaryError, match="sequence of SessionSummary"):
        checked_summaries(found)


def test_any_object_that_gives_summaries_is_a_provider():
    """S4.22."""

    class Own:
        get_summaries: Callable[..., Any] = staticmethod(lambda session: ())

    assert isinstance(Own(), SummaryProvider)
    assert not isinstance(Scripted(), SummaryProvider)
    assert checked_summaries((SessionSummary("s"),)) == [SessionSummary("s")]
