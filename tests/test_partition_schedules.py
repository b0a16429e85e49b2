"""Loading, eviction, publishing and the rest, under schedules that a scheduler chooses.

With VECALL_TEST_SCALE=100 each small program runs under 1,000 schedules by chance and
under up to 3,000 that depart at most twice from the first one, and 6,000 programs that
are made by chance run once each.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from helpers.campaigns import SCALE
from helpers.scheduled_world import Program, World, play
from helpers.scheduler import Choices, Scheduler, every_schedule, run_one
from vecall.store import Database

DEPARTURES = 2
MOST = 30 * (SCALE - 1)
BY_CHANCE = 10 * SCALE
PROGRAMS_BY_CHANCE = 15 * SCALE


@pytest.fixture(scope="module", params=["file", "memory"])
def database(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Database]:
    path: Path | None = None
    if request.param == "file":
        path = tmp_path_factory.mktemp("schedules") / "m.db"
    database = Database(path, "process")
    yield database
    database.close()


def one_after_the_other(*works: Callable[[], None]) -> Callable[[], None]:
    def run() -> None:
        for work in works:
            work()

    return run


def who_gives_up(world: World) -> list[Callable[[], None]]:
    """A search is given up while its user waits for a thread; another one stays."""
    searches = [partial(world.search, user) for user in ("a", "b", "c")]
    return [*searches, partial(world.search, "c", patience=1)]


def evicted_while_loaded(world: World) -> list[Callable[[], None]]:
    search = partial(world.search, "a")
    return [
        one_after_the_other(search, search),
        one_after_the_other(search, partial(world.evict, "a"), search),
    ]


def first_write(world: World) -> list[Callable[[], None]]:
    search = partial(world.search, "new")
    return [
        one_after_the_other(partial(world.add, "new"), search),
        one_after_the_other(search, search),
    ]


def written_while_saved(world: World) -> list[Callable[[], None]]:
    search, add = partial(world.search, "a"), partial(world.add, "a")
    return [one_after_the_other(search, add, search), one_after_the_other(add, add)]


def another_model(world: World) -> list[Callable[[], None]]:
    search, add = partial(world.search, "a"), partial(world.add, "a")
    return [
        one_after_the_other(search, search),
        one_after_the_other(add, world.switch, add, search),
    ]


def forgotten_and_told_again(world: World) -> list[Callable[[], None]]:
    search, add = partial(world.search, "a"), partial(world.add, "a")
    forget = partial(world.delete, "a", forget=True)
    return [
        one_after_the_other(search, search),
        one_after_the_other(forget, add, search),
    ]


def closed_meanwhile(world: World) -> list[Callable[[], None]]:
    search = partial(world.search, "a")
    add = partial(world.add, "a")
    return [search, one_after_the_other(add, search), world.close]


PROGRAMS: list[Program] = [
    who_gives_up,
    evicted_while_loaded,
    first_write,
    written_while_saved,
    another_model,
    forgotten_and_told_again,
    closed_meanwhile,
]
USERS = {"a": 2, "b": 1, "c": 1, "new": 0}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_no_schedule_of_a_small_program_hangs_or_answers_wrongly(database, program):
    def run(scheduler: Scheduler) -> None:
        play(scheduler, database, USERS, program)

    for seed in range(BY_CHANCE):
        run_one(run, Choices([], random.Random(seed)))
    every_schedule(run, DEPARTURES, MOST)


OPERATIONS = ["search"] * 6 + ["impatient"] * 3 + ["add"] * 4
OPERATIONS += ["evict"] * 2 + ["delete", "forget", "switch"]


def by_chance(rng: random.Random, *, file: bool) -> Program:
    """Some threads with some operations each."""

    def one(world: World) -> Callable[[], None]:
        user = rng.choice("abcd")
        operation = rng.choice(OPERATIONS + ["elsewhere"] * (3 * file))
        works: dict[str, Callable[[], Any]] = {
            "search": partial(world.search, user),
            "impatient": partial(world.search, user, patience=rng.randrange(4)),
            "add": partial(world.add, user),
            "elsewhere": partial(world.add, user, elsewhere=True),
            "evict": partial(world.evict, user),
            "delete": partial(world.delete, user),
            "forget": partial(world.delete, user, forget=True),
            "switch": world.switch,
        }
        return works[operation]

    def program(world: World) -> list[Callable[[], None]]:
        works = [
            one_after_the_other(*(one(world) for _ in range(rng.randint(1, 5))))
            for _ in range(rng.randint(2, 4))
        ]
        if rng.random() < 0.1:
            works.append(world.close)
        return works

    return program


@pytest.mark.parametrize("fine", [False, True])
def test_no_schedule_by_chance_hangs_or_answers_wrongly(database, fine):
    for seed in range(PROGRAMS_BY_CHANCE):
        rng = random.Random(seed)
        users = {user: rng.randrange(4) for user in "abcd"}
        budget = rng.choice([1, 1 << 30])
        program = by_chance(rng, file=database.path is not None)

        def run(
            scheduler: Scheduler,
            users: dict[str, int] = users,
            program: Program = program,
            budget: int = budget,
        ) -> None:
            play(scheduler, database, users, program, budget=budget, fine=fine)

        run_one(run, Choices([], rng))
