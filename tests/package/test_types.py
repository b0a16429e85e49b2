"""The values that go in and come out, and how times are read."""

from __future__ import annotations

import dataclasses
import math
from datetime import datetime, timedelta, timezone

import pytest
from vecall import (
    ConfigError,
    Event,
    Filter,
    InvalidArgumentError,
    InvalidTypeError,
    LimitExceededError,
    Limits,
    MemoryEntry,
    MemoryService,
    Ranking,
    SearchMemoryResponse,
    Session,
)
from vecall.clock import to_iso, to_micros, to_seconds, ttl_seconds

NOON = datetime(2025, 3, 27, 12, tzinfo=timezone.utc)


def test_an_entry_needs_nothing_but_its_content():
    """S0.6: all other fields are optional and keyword-only."""
    entry = MemoryEntry("zebra")
    for field in dataclasses.fields(MemoryEntry)[1:]:
        assert field.kw_only, field.name
        expected = {"custom_metadata": {}, "scope": "user"}.get(field.name)
        assert getattr(entry, field.name) == expected, field.name
    with pytest.raises(TypeError):
        MemoryEntry("zebra", "an id")  # type: ignore[misc]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("zebra", "zebra"),
        ({"parts": [{"text": "a"}, {"text": "b"}]}, "a\nb"),
        ({"parts": [{"text": None}, {"x": 1}, 5, {"text": "b"}]}, "b"),
        ({"parts": None}, ""),
        ({}, ""),
    ],
)
def test_the_text_of_a_content_is_that_of_its_parts(content, text):
    """S0.3: a content is typically one text part."""
    assert MemoryEntry(content).text == str(MemoryEntry(content)) == text


def test_values_are_frozen():
    """S3.29: an entry, an event and a session are values."""
    for value, field in [
        (MemoryEntry("a"), "content"),
        (Event("a"), "content"),
        (Session("a", "b", "c"), "id"),
        (Filter(), "after"),
        (SearchMemoryResponse(), "memories"),
    ]:
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, field, "other")


def test_two_entries_share_no_metadata():
    first, second = MemoryEntry("a"), MemoryEntry("b")
    first.custom_metadata["x"] = 1
    assert second.custom_metadata == {}


@pytest.mark.parametrize(
    "time",
    [
        NOON.timestamp(),
        int(NOON.timestamp()),
        NOON,
        NOON.astimezone(timezone(timedelta(hours=5, minutes=45))),
        "2025-03-27T12:00:00Z",
        "2025-03-27T12:00:00z",
        "2025-03-27T14:00:00+02:00",
        "2025-03-27 12:00:00+00:00",
    ],
)
def test_every_spelling_of_a_time_is_the_same_seconds(time):
    """S0.5, S1.23: seconds, aware datetimes and ISO 8601 with an offset."""
    entry = MemoryEntry("a", timestamp=time)
    assert entry.timestamp == NOON.timestamp()
    assert type(entry.timestamp) is float


@pytest.mark.parametrize(
    "time", ["2025-03-27", "2025-03-27T12:00:00", "noon", "", NOON.replace(tzinfo=None)]
)
def test_a_time_without_a_zone_is_refused(time):
    with pytest.raises(InvalidArgumentError, match="timestamp"):
        MemoryEntry("a", timestamp=time)


@pytest.mark.parametrize(
    "time", [math.nan, math.inf, 1e12, -1e12, 10**12, pytest.param(10**400, id="huge")]
)
def test_a_time_that_no_calendar_shows_is_refused(time):
    with pytest.raises(InvalidArgumentError, match="timestamp"):
        to_seconds(time, "timestamp")


@pytest.mark.parametrize("time", [True, [1], b"x", {}])
def test_a_time_of_another_type_is_refused(time):
    with pytest.raises(InvalidTypeError, match="timestamp"):
        MemoryEntry("a", timestamp=time)


def test_whatever_time_is_accepted_can_be_shown():
    """What passes the check must survive every use that is made of it."""
    zones = [timezone(timedelta(hours=hours)) for hours in (-23, -12, 0, 14, 23)]
    for moment in (datetime.min, datetime.max):
        for zone in zones:
            try:
                seconds = to_seconds(moment.replace(tzinfo=zone), "time")
            except InvalidArgumentError:
                continue
            assert to_iso(seconds)
            assert -(2**63) < to_micros(seconds) < 2**63


@pytest.mark.parametrize(
    ("ttl", "seconds"),
    [
        (1, 1.0),
        (0.5, 0.5),
        (timedelta(hours=1), 3600.0),
        ("3600s", 3600.0),
        ("3600", 3600.0),
        ("1.5s", 1.5),
        ("90m", 5400.0),
        ("12h", 43_200.0),
        ("30d", 2_592_000.0),
        ("1.5d", 129_600.0),
        ("2w", 1_209_600.0),
    ],
)
def test_a_time_to_live_is_seconds_however_spelled(ttl, seconds):
    """S1.21: seconds, a timedelta or "3600s"."""
    assert ttl_seconds(ttl) == seconds


@pytest.mark.parametrize(
    "ttl",
    [
        0,
        -1,
        math.nan,
        math.inf,
        "",
        "s",
        "d",
        "1y",
        "1ss",
        "1dd",
        "nand",
        "infd",
        "-1d",
    ],
)
def test_a_time_to_live_that_is_none_is_refused(ttl):
    """S4.58: positive and finite."""
    with pytest.raises(InvalidArgumentError, match="ttl"):
        ttl_seconds(ttl)


@pytest.mark.parametrize("importance", [0, 0.0, 0.5, 1, 1.0])
def test_an_importance_is_a_share(importance):
    assert MemoryEntry("a", importance=importance).importance == importance


@pytest.mark.parametrize("importance", [-0.01, 1.01, math.nan])
def test_an_importance_outside_is_refused(importance):
    with pytest.raises(InvalidArgumentError, match="importance"):
        MemoryEntry("a", importance=importance)


def test_the_deepest_metadata_that_limits_allow_are_stored_and_found():
    """Deeper ones would meet Python's limit of calls somewhere: they are refused."""
    with pytest.raises(ConfigError, match=r"max_metadata_depth.*200"):
        Limits(max_metadata_depth=201)
    metadata: dict[str, object] = {"end": 1}
    for _ in range(199):
        metadata = {"k": metadata}
    with MemoryService(embedder=None, limits=Limits(max_metadata_depth=200)) as service:
        alice = service.sync.user("app", "alice")
        added = alice.add("zebra", custom_metadata=metadata).id
        assert alice.get(added).custom_metadata == metadata
        assert alice.search("zebra")[0].custom_metadata == metadata
        assert alice.update(added, content="a zebra").custom_metadata == metadata
        with pytest.raises(LimitExceededError, match="200"):
            alice.add("zebra", custom_metadata={"k": metadata})


@pytest.mark.parametrize("half_life", [10**400, math.nan, 0, True])
def test_a_half_life_that_is_no_time_is_refused(half_life):
    with pytest.raises(ConfigError, match="half_life"):
        Ranking(half_life=half_life)
