"""All pairs: few combinations of options that hold every pair of their values."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

Combination: TypeAlias = dict[str, str]


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
    the best of some random ones that begin with a pair that is still open. A pair that
    is found in no allowed combination stands in one that is not allowed.
    """
    rng = random.Random(seed)
    names = list(factors)
    wanted = {
        tuple(sorted(((a, x), (b, y))))
        for a, b in itertools.combinations(names, 2)
        for x in factors[a]
        for y in factors[b]
    }
    found: list[Combination] = []
    while wanted:
        start = dict(min(wanted))
        best: Combination = {}
        most = 0
        for _ in range(tries):
            made = {**{name: rng.choice(factors[name]) for name in names}, **start}
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
