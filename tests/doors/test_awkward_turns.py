"""An awkward turn costs no other turn, at any door of a framework."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.awkward_turns import AWKWARD_TURNS
from helpers.framework_doors import MEMORIES, STORES, WHOSE, require
from helpers.own_doors import WHO, outcome_of
from vecall import MemoryService

PAGE = Path(__file__).parents[2] / "docs/reference/awkward-turns.md"
TURNS = {turn.name: turn for turn in AWKWARD_TURNS}


def table() -> dict[tuple[str, str], str]:
    """The cells of the page's tables by door and turn."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    head = next(row for row in rows if row[0] == "door")
    return {
        (door, turn): cell
        for door, *cells in rows
        if door in MEMORIES or door in STORES
        for turn, cell in zip(head[1:], cells, strict=True)
    }


@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("door", MEMORIES)
def test_the_neighbours_are_remembered(door: str, turn: str) -> None:
    package, say = MEMORIES[door]
    require(package)
    with MemoryService(embedder=None) as memory:
        say(memory, TURNS[turn])
        outcome = outcome_of(memory, TURNS[turn], None, WHOSE.get(door, WHO))
    assert table()[door, turn] == outcome


@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("door", STORES)
def test_a_store_gives_back_what_it_was_given(door: str, turn: str) -> None:
    package, keep = STORES[door]
    require(package)
    with MemoryService(embedder=None) as memory:
        given, found = keep(memory, TURNS[turn])
    assert len(given) >= 2
    assert found == given
    assert table()[door, turn] == ("kept" if len(given) == 3 else "not a document")


def test_the_tables_have_every_door_and_every_turn() -> None:
    wanted = {(door, turn) for door in [*MEMORIES, *STORES] for turn in TURNS}
    assert table().keys() == wanted
