"""Numbers between two others, for what comes between two that stand already."""

from __future__ import annotations

import math
from collections.abc import Sequence


def between(low: float | None, high: float | None, count: int) -> list[float]:
    """Return so many ascending numbers above `low` and below `high`.

    Whole numbers right before `high` if there are as many, else evenly apart. Where
    `low` is None they are whole and end before `high`; where `high` is None they are
    whole and begin after `low`, or with 0.
    """
    if high is None:
        start = 0 if low is None else math.floor(low) + 1
        return [start + i for i in range(count)]
    start = math.ceil(high) - count
    if low is None or start > low:
        return [start + i for i in range(count)]
    step = (high - low) / (count + 1)
    return [as_stored(low + step * (i + 1)) for i in range(count)]


def spread(
    old: Sequence[float],
    at: int,
    count: int,
    first: float | None,
    last: float | None,
    minimum: float,
) -> list[float] | None:
    """Return other numbers for some that are in order, evenly apart, but at most by 1.

    Args:
        old: The numbers.
        at: Before which of them there is to be room.
        count: For how many more.
        first: What the first one has to stay; None if it may become less.
        last: What the last one has to stay; None if it may become more.
        minimum: The minimum step.

    Returns:
        As many numbers; None if they would be closer than `least`.
    """
    steps = len(old) - 1 + count
    step = 1.0
    if first is not None and last is not None:
        step = min(1.0, (last - first) / steps)
    if step < minimum:
        return None
    if first is not None:
        begin = first
    else:
        begin = 0.0 if last is None else last - steps
    new = [begin + step * (i if i < at else i + count) for i in range(len(old))]
    if last is not None:
        new[-1] = last
    return [as_stored(number) for number in new]


def as_stored(number: float) -> float:
    """Return a number as SQLite gives it back from a column of integers."""
    return int(number) if number == math.floor(number) else number
