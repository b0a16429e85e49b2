"""Computes positions between existing ones."""

from __future__ import annotations

import math
from collections.abc import Sequence


def between(low: float | None, high: float | None, count: int) -> list[float]:
    """Return `count` ascending numbers between `low` and `high`, both exclusive.

    They are integers right before `high` if enough fit, or else evenly spaced. If `low`
    is None, they are integers that end before `high`. If `high` is None, they are
    integers that start after `low`, or at 0.
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
    """Return new, evenly spaced positions with a gap for `count` more; steps <= 1.

    Args:
        old: The current positions, ascending.
        at: The index before which the gap is made.
        count: The number of positions that must fit into the gap.
        first: The fixed first position; None if it may decrease.
        last: The fixed last position; None if it may increase.
        minimum: The minimum step.

    Returns:
        As many positions as `old`; None if the step would be below `minimum`.
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
    """Return a number as SQLite returns it from a column of integers."""
    return int(number) if number == math.floor(number) else number
