"""All pairs: few combinations of options that hold every pair of their values."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

Combination: TypeAlias = dict[str, str]

_PLAIN = (0.0, 0.0, 0.9)
"""Shares of factors that have their first value, in turns."""


def pairs_of(combination: Mapping[str, str]) -> set[tuple[tuple[str, str], ...]]:
    """Every two options of a combination, with their values."""
    return set(itertools.combinations(sorted(combination.items()), 2))


def all_pairs(
    factors: Mapping[str, Sequence[str]],
    allowed: Callable[[Combination], bool],
    *,
    seed: int = 1,
    tries: int = 400,
) -> list[Combination]:
    """Combinations that hold each pair of values of two factors at least once.

    Greedy, as AETG does (Cohen et al., "The AETG System", 1997): each combination is
    the best of some random ones that begin with a pair that is still open. Some of
    these have the first value of most factors, so that a value that excludes many
    others is found with those that it allows. A pair that is found in no allowed
    combination stands in one that is not allowed.
    """
    rng = random.Random(seed)
    wanted = {
        tuple(sorted(((a, x), (b, y))))
        for a, b in itertools.combinations(factors, 2)
        for x in factors[a]
        for y in factors[b]
    }
    found: list[Combination] = []
    while wanted:
        start = dict(min(wanted))
        best: Combination = {}
        most = 0
        for turn in range(tries):
            plain = _PLAIN[turn % len(_PLAIN)]
            made = {
                name: values[0] if rng.random() < plain else rng.choice(values)
                for name, values in factors.items()
            }
            made |= start
            held = len(pairs_of(made) & wanted) if allowed(made) else 0
            if held > most:
                best, most = made, held
        if best:
            wanted -= pairs_of(best)
        else:
            best = made
            wanted.discard(tuple(sorted(start.items())))
        found.append(best)
    return found
