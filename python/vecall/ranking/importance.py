"""The importance of a memory, from its prior, its age and its use."""

from __future__ import annotations

import math

DEFAULT_PRIOR = 0.5
DAY = 86_400.0
"""Seconds by which age is counted: within a day a memory weighs the same."""

_HALF_FADED = 90.0  # days
_RECENCY_WEIGHT = 0.7  # log-odds that a memory loses as it ages
_USE_WEIGHT = 1.4  # log-odds that it gains as it is used
_HALF_USED = 4.0  # uses that bring half of that


def weight_of(prior: float | None, uses: int | None, age: float) -> float:
    """Return the weight of a memory if it is used, in [0, 1].

    The log-odds of what it was stored with, less up to 0.7 as it ages (half of that in
    90 days), more by up to 1.4 as it is used (half of that after four uses). So 0 and 1
    stay what they are. Age is counted in whole days, so that a repeated
    search returns the same values.

    Args:
        prior: What it was stored with, in [0, 1]; 0.5 where nothing was.
        uses: How often it was used.
        age: In seconds.
    """
    prior = DEFAULT_PRIOR if prior is None else prior
    days = max(age, 0.0) // DAY
    faded = 1.0 - 0.5 ** (days / _HALF_FADED)
    used = 1.0 - 0.5 ** ((uses or 0) / _HALF_USED)
    change = _USE_WEIGHT * used - _RECENCY_WEIGHT * faded
    if change == 0.0 or not 0.0 < prior < 1.0:
        return prior
    odds = math.log(prior) - math.log1p(-prior) + change
    return 1.0 / (1.0 + math.exp(-min(max(odds, -700.0), 700.0)))
