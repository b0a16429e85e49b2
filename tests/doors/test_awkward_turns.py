"""An awkward turn costs no other turn, at any door of a framework."""

from __future__ import annotations

import pytest
from helpers.awkward_turns import AWKWARD_TURNS, told
from helpers.framework_doors import MEMORIES, STORES, WHOSE, require
from helpers.own_doors import OWN_DOORS, WHO, outcome_of
from vecall import MemoryService

TURNS = {turn.name: turn for turn in AWKWARD_TURNS}


@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("door", MEMORIES)
def test_the_neighbours_are_remembered(door: str, turn: str) -> None:
    package, say = MEMORIES[door]
    require(package)
    with MemoryService(embedder=None) as memory:
        say(memory, TURNS[turn])
        outcome = outcome_of(memory, TURNS[turn], None, WHOSE.get(door, WHO))
    assert told()[door, turn] == outcome


@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("door", STORES)
def test_a_store_gives_back_what_it_was_given(door: str, turn: str) -> None:
    package, keep = STORES[door]
    require(package)
    with MemoryService(embedder=None) as memory:
        given, found = keep(memory, TURNS[turn])
    assert len(given) >= 2
    assert found == given
    assert told()[door, turn] == ("kept" if len(given) == 3 else "not a document")


def test_the_table_has_every_door_and_every_turn() -> None:
    doors = [*OWN_DOORS, *MEMORIES, *STORES]
    assert told().keys() == {(door, turn) for door in doors for turn in TURNS}
