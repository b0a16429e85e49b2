"""Times and lifetimes: refused, or kept and readable for ever."""

from __future__ import annotations

import math
from datetime import datetime, timedelta, timezone

import pytest
from helpers.memories import ALICE, SECRET, refuses, unharmed_service
from vecall import Filter, InvalidArgumentError, MemoryEntry, MemoryService

service = pytest.fixture(unharmed_service)

FAR_EAST = timezone(timedelta(hours=14))
FAR_WEST = timezone(-timedelta(hours=12))
BAD_TIMES = [
    math.nan,
    math.inf,
    -math.inf,
    1e18,
    -1e18,
    pytest.param(10**400, id="huge"),
    datetime(2025, 1, 1),
    datetime.min.replace(tzinfo=FAR_EAST),
    datetime.max.replace(tzinfo=FAR_WEST),
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-12:00",
    "yesterday",
    "2025-01-01T00:00:00",
    "",
]
BAD_TTLS = [0, -1, -0.001, math.nan, math.inf, "soon", "", "s", "-5s", True, [5]]


@pytest.mark.parametrize("time", [*BAD_TIMES, True, [5]])
def test_a_filter_with_a_bad_time_is_refused(service, time):
    for asked in (Filter(after=time), Filter(before=time)):
        refuses(
            InvalidArgumentError,
            lambda: service.sync.search_memory(**ALICE, query="zebra", filter=asked),  # noqa: B023
        )


@pytest.mark.parametrize("time", BAD_TIMES)
def test_a_bad_time_is_refused_before_anything_is_written(service, in_time, time):
    """A time that cannot be shown must not get into the file: it would stay there."""
    event = {"id": "e", "text": SECRET, "timestamp": time}
    entry = {"content": SECRET, "timestamp": time}
    adds = [
        lambda: service.sync.add_events_to_memory(**ALICE, events=[event]),
        lambda: service.sync.add_memory(**ALICE, memories=[entry]),
    ]
    for add in adds:
        refuses(InvalidArgumentError, lambda: in_time(add))  # noqa: B023


@pytest.mark.parametrize(
    "time",
    [
        0.0,
        -1.5,
        -62_135_596_800.0,
        253_402_300_799.0,
        datetime.min.replace(tzinfo=timezone.utc),
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59+00:00",
    ],
)
def test_the_first_and_the_last_second_are_kept(open_service, tmp_path, time):
    for path in (None, tmp_path / "m.db"):
        opened = open_service(path)
        entry = {"content": "zebra", "timestamp": time}
        opened.sync.add_memory(**ALICE, memories=[entry])
        found = opened.sync.search_memory(**ALICE, query="zebra").memories
        assert len(found) == 1


@pytest.mark.parametrize(
    "time",
    [datetime.max.replace(tzinfo=timezone.utc), "9999-12-31T23:59:59.999999+00:00"],
)
def test_the_end_of_all_time_is_kept_or_refused(open_service, in_time, tmp_path, time):
    """`datetime.max` is how many programs write "for ever"."""
    for path in (None, tmp_path / "m.db"):
        opened = open_service(path)
        opened.sync.add_memory(**ALICE, memories=["zebra"])
        entry = {"content": "zebra for ever", "timestamp": time}
        try:
            in_time(lambda: opened.sync.add_memory(**ALICE, memories=[entry]))  # noqa: B023
            expected = 2
        except InvalidArgumentError:
            expected = 1
        found = opened.sync.search_memory(**ALICE, query="zebra").memories
        assert len(found) == expected


@pytest.mark.parametrize("number", ["timestamp", "importance"])
def test_a_zero_with_a_sign_is_a_zero(open_service, tmp_path, number):
    """SQLite keeps no sign of a zero, and a row has to be what its checksum says."""
    path = tmp_path / "m.db"
    for service in (open_service(path), open_service(path)):
        zero = MemoryEntry("zebra", id="1", **{number: -0.0})
        service.sync.add_memory(**ALICE, memories=[zero])
        kept = service.sync.get_memory(**ALICE, memory_id="1")
        assert str(getattr(kept, number)) == "0.0"
        service.close()


@pytest.mark.parametrize("ttl", [*BAD_TTLS, -(10**400)])
def test_a_bad_ttl_is_refused(service, ttl):
    """S4.58: positive and finite, or an error."""
    refuses(
        InvalidArgumentError,
        lambda: service.sync.add_memory(
            **ALICE, memories=[SECRET], custom_metadata={"ttl": ttl}
        ),
    )


@pytest.mark.parametrize("ttl", [1e12, 1e15, 1e300, timedelta.max, "1e30s"])
def test_a_very_long_ttl_does_not_break_the_user(open_service, in_time, tmp_path, ttl):
    """Refused or kept for ever, but never written and unreadable afterwards."""
    path = tmp_path / "m.db"
    for opened in (open_service(path), open_service()):
        opened.sync.add_memory(**ALICE, memories=["zebra"])
        opened.sync.search_memory(**ALICE, query="zebra")

        def add(opened: MemoryService = opened) -> int:
            opened.sync.add_memory(
                **ALICE, memories=["zebra long"], custom_metadata={"ttl": ttl}
            )
            return 2

        try:
            expected = in_time(add)
        except InvalidArgumentError:
            expected = 1
        found = opened.sync.search_memory(**ALICE, query="zebra").memories
        assert len(found) == expected
        in_time(
            lambda opened=opened: opened.sync.add_memory(**ALICE, memories=["okapi"])
        )
        opened.close()
    assert (
        len(open_service(path).sync.search_memory(**ALICE, query="zebra").memories) > 0
    )
