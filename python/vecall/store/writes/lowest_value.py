"""Finds the memories of a user with the lowest importance, reading few of them.

The importance of a memory falls with its age and rises with its prior and its uses. So
once enough unimportant memories are found, all memories with at least a certain prior
and below a certain age are more important. SQL excludes them.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from heapq import nsmallest

from vecall.concurrency.time_slices import Slices
from vecall.ranking.importance import DAY, DEFAULT_PRIOR, weight_of
from vecall.store.writes.partition_writer import PartitionWriter

_IN_A_SLICE = 500  # rows that are weighed: half a millisecond at most
_LEVELS = 3  # of priors, each with its own age limit, besides one that has none
_DAYS = 4_000_000  # more than from the year 1 to the year 9999
_KNOWN = 10_000  # cached weights
_PRIOR = f"coalesce(importance_prior, {DEFAULT_PRIOR})"
_TIME = "coalesce(ts, created_at)"


class _Lightest:
    """Collects the `limit` rows of lowest weight; of equal ones, the first.

    Rows must arrive in order of row number.
    """

    def __init__(self, now: float, limit: int) -> None:
        self._now = now
        self._limit = limit
        self._weights: dict[tuple[float, int | None, float], float] = {}
        self._rows: list[tuple[float, int]] = []
        self._bound = math.inf  # a later row of this weight is not among the lightest

    def look_at(self, rows: Iterable[tuple[int, float, int | None, float]]) -> None:
        """Weigh rows: number, prior, uses and time of each."""
        weights, found, bound, now = self._weights, self._rows, self._bound, self._now
        for rid, prior, uses, time in rows:
            alike = prior, uses, (now - time) // DAY
            weight = weights.get(alike)
            if weight is None:
                weight = weight_of(prior, uses, now - time)
                if len(weights) < _KNOWN:
                    weights[alike] = weight
            if weight < bound:
                found.append((weight, rid))
        if len(found) >= 2 * self._limit:
            self._rows = nsmallest(self._limit, found)
            self._bound = self._rows[-1][0]

    def heavier(self) -> list[tuple[float, float]]:
        """Return (prior, time) pairs that bound the rows to skip.

        A row with at least this prior and at least this time weighs no less than the
        heaviest row collected so far, and sorts after it.
        """
        if self._bound == math.inf:
            return []
        priors = sorted({prior for prior, _, _ in self._weights})
        at = bisect_left(
            priors, True, key=lambda prior: not self._is_light(prior, _DAYS)
        )
        light = priors[:at]
        step = max(1, math.ceil(len(light) / _LEVELS))
        bounds = light[::step] + priors[at : at + 1]
        return [
            # One second is more than the rounding error.
            (prior, self._now - days * DAY + 1.0)
            for prior in bounds
            if (days := self._days_until_light(prior)) > 0
        ]

    def _days_until_light(self, prior: float) -> int:
        """The age in days from which a memory that was never used is light."""
        return bisect_left(
            range(_DAYS), True, key=lambda days: self._is_light(prior, days)
        )

    def _is_light(self, prior: float, days: int) -> bool:
        """Whether a memory that was never used weighs less than the collected rows."""
        return weight_of(prior, None, (days + 0.5) * DAY) < self._bound

    def rows(self) -> list[int]:
        """Return their numbers, the lightest first."""
        return [rid for _, rid in nsmallest(self._limit, self._rows)]


def lowest_value(partition: PartitionWriter, limit: int) -> list[int]:
    """Return the `limit` live rows of a user of lowest importance, in that order."""
    execute = partition.connection.execute
    own = (partition.id << 32, (partition.id << 32) | 0xFFFFFFFF)
    live = "FROM mem WHERE rid BETWEEN ? AND ? AND state = 'live'"
    (begin,) = execute(f"SELECT min(rid) {live}", own).fetchone()
    (last,) = execute(f"SELECT max(rid) {live}", own).fetchone()
    lightest = _Lightest(partition.now, limit)
    slices = Slices()
    span = 2 * limit
    while begin is not None and begin <= last:
        # As many rows again as were looked at so far: then what is left out is known
        # better.
        end = min(begin + span - 1, last)
        heavier = lightest.heavier()
        found = execute(
            f"SELECT rid, {_PRIOR}, uses, {_TIME} {live}"
            + f" AND NOT ({_PRIOR} >= ? AND {_TIME} >= ?)" * len(heavier),
            (begin, end, *(value for pair in heavier for value in pair)),
        )
        while rows := found.fetchmany(_IN_A_SLICE):
            lightest.look_at(rows)
            slices.pause_if_due()
        begin, span = end + 1, 2 * span
    return lightest.rows()
