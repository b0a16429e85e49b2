"""Long work pauses after each millisecond, and gives way where others work too."""

from __future__ import annotations

from vecall.concurrency import time_slices as slices
from vecall.concurrency.time_slices import in_slices

ITEM_S = 0.0004  # the work for one item


class Clock:
    """Time that passes only by work and pauses, each of which takes longer by `late`.

    Attributes:
        pauses: The seconds of each pause that was asked for.
    """

    def __init__(self, late: float) -> None:
        self.now, self.late = 100.0, late
        self.pauses: list[float] = []

    def perf_counter(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds + self.late


def worked(monkeypatch, late: float, *, gives_way: bool, item_s: float = ITEM_S):
    """A clock by which 30 items were worked on."""
    clock = Clock(late)
    monkeypatch.setattr(slices, "time", clock)
    for _ in in_slices(range(30), gives_way=gives_way):
        clock.now += item_s
    return clock


def test_work_pauses_after_each_millisecond(monkeypatch):
    """Three items are the first that take longer."""
    for late in (0.0, 0.003):
        clock = worked(monkeypatch, late, gives_way=False)
        assert len(clock.pauses) == 10
        assert sum(clock.pauses) < 0.001


def test_work_that_gives_way_leaves_others_half_of_the_time(monkeypatch):
    clock = worked(monkeypatch, 0.003, gives_way=True)
    assert sum(clock.pauses) >= 30 * ITEM_S
    assert max(clock.pauses) <= 0.005


def test_work_that_gives_way_goes_on_where_it_is_alone(monkeypatch):
    clock = worked(monkeypatch, 0.00006, gives_way=True)
    assert len(clock.pauses) == 10
    assert sum(clock.pauses) < 0.001


def test_a_long_item_is_followed_by_a_bounded_pause(monkeypatch):
    clock = worked(monkeypatch, 0.003, gives_way=True, item_s=1.0)
    assert max(clock.pauses) == 0.005
