"""Paired comparisons of the answers of two runs, or of a mode and its rivals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

DRAWS = 2_000
JUDGED = ("recall@10", "mrr")

Shares = dict[str, list[float]]
"""By share: a number for each question that has an answer, in order."""


class Answered(NamedTuple):
    """What one mode found in one set.

    Attributes:
        questions: The questions that have an answer, in order: user and text.
        shares: Their shares.
    """

    questions: list[tuple[str, str]]
    shares: Shares


Run = dict[str, dict[str, Answered]]
"""Set, mode: what it found."""


def interval(differences: NDArray[np.float64]) -> tuple[float, float, float]:
    """Return the mean of paired differences and its 95 % bootstrap interval."""
    chance = np.random.default_rng(0)
    size = len(differences)
    means = [differences[chance.integers(0, size, size)].mean() for _ in range(DRAWS)]
    low, high = np.percentile(means, [2.5, 97.5])
    return float(differences.mean()), float(low), float(high)


def shown(differences: NDArray[np.float64]) -> str:
    """Return a difference in points with its interval."""
    return "{:+.1f} [{:+.1f}, {:+.1f}]".format(
        *(100 * value for value in interval(differences))
    )


def compare(
    before: Run, after: Run, groups: Mapping[str, str]
) -> tuple[list[list[str]], list[str]]:
    """Compare two runs question by question.

    Args:
        before: The earlier run.
        after: The run that is judged.
        groups: The group of each set; the sets of a group are judged together.

    Returns:
        A line for each set and mode, and the reasons why the comparison fails: a group
        that loses beyond noise, a set whose questions are not those of the earlier run,
        a set or mode that only one run has, and two runs that have nothing in common.
    """
    rows: list[list[str]] = []
    failures: list[str] = []
    pooled: dict[tuple[str, str, str], list[NDArray[np.float64]]] = {}
    for name, modes in after.items():
        for mode, answered in modes.items():
            earlier = before.get(name, {}).get(mode)
            if earlier is None:
                failures.append(f"{name}, {mode}: the earlier run lacks it")
                continue
            if earlier.questions != answered.questions:
                failures.append(f"{name}, {mode}: the earlier run asked otherwise")
                continue
            row = [name, mode]
            for share in JUDGED:
                differences = _differences(answered, earlier, share)
                row.append(shown(differences))
                key = (groups[name], mode, share)
                pooled.setdefault(key, []).append(differences)
            rows.append(row)
    failures += [
        f"{name}, {mode}: only the earlier run has it"
        for name, modes in before.items()
        for mode in modes
        if mode not in after.get(name, {})
    ]
    if not rows:
        failures.append("nothing was compared")
    for (group, mode, share), parts in pooled.items():
        together = np.concatenate(parts)
        _, _, high = interval(together)
        if high < 0.0:
            failures.append(
                f"{group}, {mode}, {share}: lost beyond noise: {shown(together)}"
            )
    return rows, failures


def against_rivals(
    name: str, modes: Mapping[str, Answered], rivals: Mapping[str, Sequence[str]]
) -> Iterator[list[str]]:
    """Yield a line for each mode of a set that has rivals.

    Each share is compared with the rival whose mean is the highest.
    """
    for mode, others in rivals.items():
        row = [name, mode]
        for share in JUDGED:
            best = max(others, key=lambda one: np.mean(modes[one].shares[share]))
            differences = _differences(modes[mode], modes[best], share)
            mean = 100 * float(np.mean(modes[best].shares[share]))
            row.append(f"{shown(differences)} {best} {mean:.1f}")
        yield row


def of_users(answered: Answered) -> dict[str, Answered]:
    """Return the answers of each user."""
    users: dict[str, list[int]] = {}
    for at, (user, _) in enumerate(answered.questions):
        users.setdefault(user, []).append(at)
    return {
        user: Answered(
            [answered.questions[at] for at in places],
            {
                share: [values[at] for at in places]
                for share, values in answered.shares.items()
            },
        )
        for user, places in users.items()
    }


def _differences(one: Answered, other: Answered, share: str) -> NDArray[np.float64]:
    return np.array(one.shares[share]) - np.array(other.shares[share])
