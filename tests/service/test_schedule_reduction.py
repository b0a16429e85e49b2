"""`every_schedule` leaves out no outcome: compared with all schedules, one by one."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from helpers.campaigns import grown, scaled
from helpers.schedule_explorer import every_schedule
from helpers.scheduled_parts import ScheduledLock, ScheduledPool
from helpers.scheduler import HangError, Scheduler, run_one

PROGRAMS = scaled(12, least=3)
MOST = grown(300)

Operation = tuple[str, int]


class _Unreduced:
    """Repeats choices, and goes on with the first thread that can."""

    def __init__(self, given: list[int]) -> None:
        self._given = given
        self.made: list[tuple[int, int]] = []

    def choose(self, scheduler: Scheduler, ready: list[Any]) -> Any:
        at = len(self.made)
        chosen = self._given[at] if at < len(self._given) else 0
        self.made.append((chosen, len(ready)))
        return sorted(ready, key=lambda task: task.name)[chosen]


def every_schedule_unreduced(run: Callable[[Scheduler], None], most: int) -> bool:
    """Whether there are no more schedules than `most`; then all were run."""
    given: list[int] | None = []
    count = 0
    while given is not None:
        if count == most:
            return False
        strategy = _Unreduced(given)
        run_one(run, strategy)
        count += 1
        left = [at for at, (c, n) in enumerate(strategy.made) if c + 1 < n]
        made = [chosen for chosen, _ in strategy.made]
        given = [*made[: left[-1]], made[left[-1]] + 1] if left else None
    return True


class _Shared:
    """Two variables, two locks and a thread for what is handed over."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.values = [0, 0]
        self.locks = [ScheduledLock(scheduler), ScheduledLock(scheduler)]
        self.pool = ScheduledPool(scheduler, 1, "pool")
        self.seen: dict[str, list[Any]] = {}

    def run(self, operations: list[Operation]) -> None:
        name = self.scheduler.task.name
        seen = self.seen.setdefault(name, [])
        for number, (operation, which) in enumerate(operations):
            getattr(self, operation)(which, seen, f"{name}.{number}")

    def read(self, which: int, seen: list[Any], _: str) -> None:
        self.scheduler.point()
        self.scheduler.use(which, "r")
        seen.append(self.values[which])

    def write(self, which: int, seen: list[Any], mark: str) -> None:
        self.scheduler.point()
        self.scheduler.use(which, "w")
        self.values[which] = mark

    def swap(self, which: int, seen: list[Any], mark: str) -> None:
        with self.locks[which]:
            self.read(which, seen, mark)
            self.write(which, seen, mark)

    def swap_if_free(self, which: int, seen: list[Any], mark: str) -> None:
        free = self.locks[which].acquire(blocking=False)
        seen.append(free)
        if free:
            self.read(1 - which, seen, mark)
            self.write(1 - which, seen, mark)
            self.locks[which].release()

    def hand_over(self, which: int, seen: list[Any], mark: str) -> None:
        future: Any = self.pool.submit(self.write, which, seen, mark + "!")
        if which:
            future.wait()
        else:
            seen.append(future.cancel())


OPERATIONS = ["read", "write", "swap", "swap_if_free", "hand_over"]


def outcomes(works: list[list[Operation]], schedules: Callable[..., Any]) -> set[str]:
    """The ways in which a program ends."""
    ends: set[str] = set()

    def run(scheduler: Scheduler) -> None:
        shared = _Shared(scheduler)
        for at, work in enumerate(works):
            scheduler.spawn(f"t{at}", partial(shared.run, work))
        scheduler.run()
        if not scheduler.is_cut_short:
            ends.add(repr((shared.values, sorted(shared.seen.items()))))

    return ends if schedules(run) else set()


@pytest.mark.campaign
@pytest.mark.parametrize("threads", [2, 3])
def test_the_schedules_that_are_run_end_in_all_the_ways_there_are(threads):
    compared = ends = 0
    for seed in range(PROGRAMS):
        rng = random.Random(seed)
        works = [
            [
                (rng.choices(OPERATIONS, [3, 3, 1, 1, 1])[0], rng.randrange(2))
                for _ in range(rng.randint(1, 4 - threads))
            ]
            for _ in range(threads)
        ]
        unreduced = outcomes(works, partial(every_schedule_unreduced, most=MOST))
        if unreduced:
            assert outcomes(works, partial(every_schedule, most=MOST)) == unreduced
            compared += 1
            ends += len(unreduced)
    assert compared >= PROGRAMS // 4
    assert ends > compared


def test_a_deadlock_that_few_schedules_have_is_found():
    def run(scheduler: Scheduler) -> None:
        one, other = ScheduledLock(scheduler), ScheduledLock(scheduler)

        def hold(first: ScheduledLock, second: ScheduledLock) -> None:
            with first, second:
                pass

        scheduler.spawn("a", lambda: hold(one, other))
        scheduler.spawn("b", lambda: hold(other, one))
        scheduler.run()

    with pytest.raises(HangError, match="no thread can go on"):
        every_schedule(run, 100)
