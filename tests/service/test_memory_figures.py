"""How many memories a user has, by day and by kind."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from helpers.memories import ALICE, BOB
from vecall import InvalidArgumentError, MemoryEntry

DAY = 86_400


def test_the_figures_are_those_of_the_listed_memories(open_service):
    """Days are those of UTC, also before 1970 and to the second of midnight."""
    service = open_service()
    chance = random.Random(4711)
    days = [-40_000, -1, 0, 1, 20_000, 20_001, 60_000]
    times = [day * DAY + more for day in days for more in (0, 1, DAY - 1, DAY - 0.001)]
    kinds = ["fact", "episode", "ümlaut", None]
    given = [
        MemoryEntry(f"m{n}", timestamp=float(at), kind=chance.choice(kinds))
        for n, at in enumerate([*times, *chance.choices(times, k=100)])
    ]
    user = service.sync.user(**ALICE)
    user.add(given)
    user.archive(user.list(limit=1)[0].id)
    service.sync.user(**BOB).add(["another's"])
    for state in ("live", "archived", "quarantined"):
        listed = user.list(state=state, limit=1000)
        figures = user.figures(state=state)
        assert figures.days == Counter(int(entry.timestamp // DAY) for entry in listed)
        assert list(figures.days) == sorted(figures.days)
        assert figures.kinds == Counter(each.kind for each in listed if each.kind)
    assert sum(user.figures().days.values()) == user.count()


def test_without_a_time_the_day_is_that_of_the_storing(open_service):
    user = open_service().sync.user(**ALICE)
    user.add(["x"])
    (entry,) = user.list()
    assert user.figures().days == {int(entry.created_at // DAY): 1}


def test_nobody_has_no_figures_and_a_wrong_state_is_named(open_service):
    user = open_service().sync.user(**ALICE)
    assert (user.figures().days, user.figures().kinds) == ({}, {})
    with pytest.raises(InvalidArgumentError, match="state"):
        user.figures(state="gone")
