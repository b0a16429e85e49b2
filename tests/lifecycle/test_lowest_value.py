"""Among many memories those of the lowest value go, whatever is not even looked at."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest
from helpers.clocks import DAY, SettableClock
from helpers.memories import ALICE
from vecall import Quota

MOST = 1_000


def value(prior: float | None, uses: int, age: float) -> float:
    """What docs say about importance, written down again."""
    prior = 0.5 if prior is None else prior
    if prior in (0.0, 1.0):
        return prior
    gained = 1.4 * (1 - 2 ** (-uses / 4))
    lost = 0.7 * (1 - 2 ** (-(max(age, 0.0) // DAY) / 90))
    return 1 / (1 + math.exp(-(math.log(prior / (1 - prior)) + gained - lost)))


PRIORS: dict[str, Callable[[random.Random], float | None]] = {
    "none": lambda _: None,
    "a few": lambda chance: chance.choice([None, 0.0, 0.3, 0.31, 0.8, 1.0]),
    "any": lambda chance: chance.random(),
    "high": lambda chance: 0.9 + 0.1 * chance.random(),
}
AGES: dict[str, Callable[[random.Random], float]] = {
    "none": lambda _: 0.0,
    "a year": lambda chance: chance.random() * 365 * DAY,
    "old and to come": lambda chance: chance.choice([-9, 0, 1, 2, 8_000, 19_000]) * DAY,
}


@pytest.mark.parametrize("ages", AGES)
@pytest.mark.parametrize("priors", PRIORS)
def test_the_hundredth_that_goes_is_what_all_weights_would_choose(
    open_service, priors, ages
):
    clock = SettableClock()
    chance = random.Random(f"{priors} {ages}")
    quota = Quota(memories=MOST, eviction="lowest_value")
    service = open_service(quota=quota, clock=clock, maintenance_interval=None)
    now = clock.wall()
    told = [
        {
            "id": f"m{number}",
            "content": f"zebra {number}",
            "importance": PRIORS[priors](chance),
            "timestamp": now - AGES[ages](chance),
        }
        for number in range(MOST + 100)
    ]
    uses = dict.fromkeys(range(MOST + 100), 0)
    service.sync.add_memory(**ALICE, memories=told[:600])
    gone = set(chance.sample(range(600), 100))  # leave gaps between the rows
    for number in gone:
        service.sync.delete_memory(**ALICE, memory_id=f"m{number}")
    service.sync.add_memory(**ALICE, memories=told[600:])
    for share in (100, 100, 50, 50):
        for number in (used := chance.sample(sorted(set(uses) - gone), share)):
            uses[number] += 1
        ids = [f"m{number}" for number in used]
        assert service.sync.mark_used(**ALICE, memory_ids=ids) == share
    service.sync.add_memory(**ALICE, memories=[{"id": "new", "content": "zebra"}])
    by_value = sorted(
        set(uses) - gone,
        key=lambda number: (
            value(
                told[number]["importance"],
                uses[number],
                now - told[number]["timestamp"],
            ),
            number,
        ),
    )
    evicted = 1 + MOST // 100
    listed: set[str] = set()
    page = service.sync.list_memories(**ALICE, limit=1_000)
    while page:
        listed |= {memory.id for memory in page}
        page = service.sync.list_memories(**ALICE, limit=1_000, cursor=page[-1].id)
    assert listed == {f"m{number}" for number in by_value[evicted:]} | {"new"}
