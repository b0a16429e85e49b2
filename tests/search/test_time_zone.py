"""The days that a query names are those of the user."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from helpers.clocks import SettableClock
from helpers.memories import ALICE
from vecall import (
    ConfigError,
    InvalidArgumentError,
    MemoryService,
    Period,
    SearchOptions,
    StorageOptions,
)

# Tuesday, 20:30 in UTC; Tuesday, 10:30 in Honolulu; Wednesday, 09:30 in Auckland.
NOW = datetime(2026, 3, 10, 20, 30, tzinfo=timezone.utc)
QUERY = "What was planted yesterday?"
BEGINS = {  # yesterday, in hours of the 9th of March in UTC
    "UTC": 0,
    "Z": 0,
    "+13:00": 11,
    "Pacific/Auckland": 11,
    "Pacific/Honolulu": 10,
    "-10:00": 10,
    timezone(timedelta(hours=13)): 11,
    ZoneInfo("Asia/Kolkata"): -5.5 + 24,  # there it is Wednesday, 02:00
}


def yesterday(hours: float) -> Period:
    begin = datetime(2026, 3, 9, tzinfo=timezone.utc) + timedelta(hours=hours)
    return Period(begin.timestamp(), begin.timestamp() + 86_400)


def made(open_service: Any, **search: Any) -> MemoryService:
    service: MemoryService = open_service(
        embedder=None,
        search=SearchOptions(**search),
        storage=StorageOptions(clock=SettableClock(NOW.timestamp())),
    )
    for hours in range(-6, 42, 6):  # planted every six hours
        at = NOW.replace(day=9, hour=3, minute=0) + timedelta(hours=hours)
        entry = {"id": str(hours), "content": "planted garlic", "timestamp": at}
        service.sync.add_memory(**ALICE, memories=[entry])
    return service


@pytest.mark.parametrize(("zone", "hours"), BEGINS.items(), ids=str)
def test_what_was_yesterday_where_the_user_is_comes_first(open_service, zone, hours):
    service = made(open_service)
    found = service.sync.search_memory(
        **ALICE, query=QUERY, time_zone=zone, top_k=8, explain=True
    )
    period = yesterday(hours)
    assert found.period == period
    inside = [period.start <= each.timestamp < period.end for each in found.memories]
    assert inside == [True] * 4 + [False] * 4


def test_a_service_has_a_zone_and_a_search_may_have_another(open_service):
    service = made(open_service, time_zone="Pacific/Auckland")
    alice = service.sync.user(**ALICE)
    assert alice.search(QUERY).period == yesterday(11)
    assert alice.search(QUERY, time_zone="Pacific/Honolulu").period == yesterday(10)
    assert made(open_service).sync.user(**ALICE).search(QUERY).period == yesterday(0)


@pytest.mark.parametrize("zone", ["Nowhere/Land", "", "+25:00", 5])
def test_another_zone_is_refused_without_being_shown(open_service, zone):
    service = made(open_service)
    with pytest.raises(InvalidArgumentError, match=r"^time_zone: expected") as caught:
        service.sync.search_memory(**ALICE, query="tea", time_zone=zone)
    assert "Nowhere" not in str(caught.value)
    with pytest.raises(ConfigError, match=r"^search\.time_zone: expected"):
        SearchOptions(time_zone=zone)
