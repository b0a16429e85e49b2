"""Loading, eviction, publishing and the rest, under schedules that a scheduler chooses.

`VECALL_TEST_SCALE=100` runs each small program under every schedule, and 6,000 programs
that are made by chance under one each. On a file two programs have too many schedules;
100,000 of them are run.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from helpers.campaigns import SCALE, scaled
from helpers.schedule_explorer import every_schedule
from helpers.schedule_programs import (
    ONE_PROCESS,
    TOO_MANY_ON_FILE,
    TWO_PROCESSES,
    one_after_the_other,
)
from helpers.scheduled_world import Program, World, play
from helpers.scheduler import ByChance, Scheduler, run_one
from vecall.store.file.database import Database

pytestmark = pytest.mark.campaign

_log = logging.getLogger(__name__)

MOST = max(2, round(10 * SCALE**2))
PROGRAMS_BY_CHANCE = scaled(15)
USERS = {"a": 2, "b": 1, "new": 0}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    database = Database(tmp_path_factory.mktemp("schedules") / "m.db", "process")
    yield database
    database.close()


@pytest.fixture(scope="module")
def memory() -> Iterator[Database]:
    database = Database(None, "process")
    yield database
    database.close()


@pytest.fixture(params=["file", "memory"])
def database(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


def play_all(database: Database, program: Program, **options: Any) -> None:
    """Run a program under all its schedules, or under as many as the scale allows."""

    def run(scheduler: Scheduler) -> None:
        play(scheduler, database, USERS, program, **options)

    counted = every_schedule(run, MOST if database.path else 3 * MOST)
    _log.info("%s: %s", program.__name__, counted)
    if SCALE >= 100 and (database.path is None or program not in TOO_MANY_ON_FILE):
        assert counted.complete, "there are more schedules than that"


@pytest.mark.parametrize("program", ONE_PROCESS, ids=lambda program: program.__name__)
def test_no_schedule_of_a_small_program_hangs_or_answers_wrongly(database, program):
    play_all(database, program)


@pytest.mark.parametrize("program", TWO_PROCESSES, ids=lambda program: program.__name__)
def test_no_schedule_of_two_processes_hangs_or_answers_wrongly(file, program):
    play_all(file, program, processes=2)


OPERATIONS = ["search"] * 6 + ["impatient"] * 3 + ["add"] * 4
OPERATIONS += ["evict"] * 2 + ["delete", "forget", "reembed"]


def by_chance(rng: random.Random, *, processes: int) -> Program:
    """Some threads with some operations each."""

    def one(world: World) -> Callable[[], None]:
        user, at = rng.choice("abcd"), rng.randrange(processes)
        works: dict[str, Callable[[], Any]] = {
            "search": partial(world.search, user, at=at),
            "impatient": partial(world.search, user, patience=rng.randrange(4), at=at),
            "add": partial(world.add, user, at=at),
            "evict": partial(world.evict, user, at=at),
            "delete": partial(world.delete, user, at=at),
            "forget": partial(world.delete, user, forget=True, at=at),
            "reembed": partial(world.reembed, at),
        }
        return works[rng.choice(OPERATIONS)]

    def program(world: World) -> list[Callable[[], None]]:
        works = [
            one_after_the_other(*(one(world) for _ in range(rng.randint(1, 5))))
            for _ in range(rng.randint(2, 4))
        ]
        if rng.random() < 0.1:
            works.append(partial(world.close, rng.randrange(processes)))
        return works

    return program


@pytest.mark.parametrize("fine", [False, True])
def test_no_schedule_by_chance_hangs_or_answers_wrongly(database, fine):
    for seed in range(PROGRAMS_BY_CHANCE):
        rng = random.Random(seed)
        users = {user: rng.randrange(4) for user in "abcd"}
        budget = rng.choice([1, 1 << 30])
        processes = 1 if database.path is None else rng.choice([1, 1, 2])
        program = by_chance(rng, processes=processes)
        options = {"budget": budget, "processes": processes, "fine": fine}

        def run(
            scheduler: Scheduler,
            users: dict[str, int] = users,
            program: Program = program,
            options: dict[str, Any] = options,
        ) -> None:
            play(scheduler, database, users, program, **options)

        run_one(run, ByChance(rng))
