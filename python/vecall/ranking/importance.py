"""The importance of a memory: a function of its prior, its age and its use."""

from __future__ import annotations

import math

DEFAULT_PRIOR = 0.5
DAY = 86_400.0
"""The unit of age in seconds: age changes the importance once a day."""

_HALF_FADED = 90.0  # days, for half of _RECENCY_WEIGHT
_RECENCY_WEIGHT = 0.7  # the log-odds that a memory loses by age, at most
_USE_WEIGHT = 1.4  # the log-odds that a memory gains by use, at most
_HALF_USED = 4.0  # uses, for half of _USE_WEIGHT


def weight_of(prior: float | None, uses: int | None, age: float) -> float:
    """Return the importance of a memory, in [0, 1].

    The log-odds of the prior decrease with age by up to 0.7 (half of that after 90
    days) and increase with use by up to 1.4 (half of that after four uses). Priors of 0
    and 1 therefore never change. Age is rounded down to whole days, so that a repeated
    search returns the same values.

    Args:
        prior: The importance stored with the memory, in [0, 1]; None means 0.5.
        uses: How often the memory was used; None means 0.
        age: Age in seconds. Negative ages count as 0.
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
