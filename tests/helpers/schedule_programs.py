"""Small programs of two or three threads, of which every schedule can be run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from helpers.scheduled_world import Program, World

Works = list[Callable[[], None]]


def one_after_the_other(*works: Callable[[], None]) -> Callable[[], None]:
    def run() -> None:
        for work in works:
            work()

    return run


def two_cold_searches(world: World) -> Works:
    return [partial(world.search, "a")] * 2


def one_of_two_gives_up(world: World) -> Works:
    search = partial(world.search, "a")
    return [search, partial(world.search, "a", patience=0)]


def gives_up_behind_another_user(world: World) -> Works:
    """The search waits for a thread that loads another user."""
    return [partial(world.search, "b"), partial(world.search, "a", patience=0)]


def evicted_while_loaded(world: World) -> Works:
    return [partial(world.search, "a"), partial(world.evict, "a")]


def evicted_and_searched_again(world: World) -> Works:
    search = partial(world.search, "a")
    return [one_after_the_other(search, search), partial(world.evict, "a")]


def two_searches_and_an_eviction(world: World) -> Works:
    search = partial(world.search, "a")
    return [search, search, partial(world.evict, "a")]


def first_write(world: World) -> Works:
    search, add = partial(world.search, "new"), partial(world.add, "new")
    return [add, search]


def written_while_loaded(world: World) -> Works:
    return [partial(world.search, "a"), partial(world.add, "a")]


def loaded_during_reembedding(world: World) -> Works:
    return [partial(world.search, "a"), world.reembed]


def written_during_reembedding(world: World) -> Works:
    return [partial(world.add, "a"), world.reembed]


def forgotten_while_loaded(world: World) -> Works:
    return [partial(world.search, "a"), partial(world.delete, "a", forget=True)]


def deleted_while_loaded(world: World) -> Works:
    return [partial(world.search, "a"), partial(world.delete, "a")]


def closed_while_loaded(world: World) -> Works:
    return [partial(world.search, "a"), world.close]


def written_by_the_other(world: World) -> Works:
    return [partial(world.search, "a"), partial(world.add, "a", at=1)]


def forgotten_by_the_other(world: World) -> Works:
    search = partial(world.search, "a")
    return [search, partial(world.delete, "a", forget=True, at=1)]


def loaded_by_both(world: World) -> Works:
    return [partial(world.search, "a"), partial(world.search, "a", at=1)]


ONE_PROCESS: list[Program] = [
    two_cold_searches,
    one_of_two_gives_up,
    gives_up_behind_another_user,
    evicted_while_loaded,
    evicted_and_searched_again,
    two_searches_and_an_eviction,
    first_write,
    written_while_loaded,
    loaded_during_reembedding,
    written_during_reembedding,
    forgotten_while_loaded,
    deleted_while_loaded,
    closed_while_loaded,
]
TWO_PROCESSES: list[Program] = [
    written_by_the_other,
    forgotten_by_the_other,
    loaded_by_both,
]
TOO_MANY_ON_FILE: list[Program] = [
    evicted_and_searched_again,
    two_searches_and_an_eviction,
]
