"""A turn that cannot be stored as it is costs no other turn, at any door."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from helpers.awkward_turns import AWKWARD_TURNS
from helpers.own_doors import OWN_DOORS, outcome_of

PAGE = Path(__file__).parents[2] / "docs/reference/awkward-turns.md"
NEEDS = {"google-adk": "google.adk", "MCP": "mcp", "`POST": "httpx", "`PATCH": "httpx"}


def table():
    """The cells of the page's table by door and turn."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    # The first table; those of frameworks have their own tests.
    head = next(row for row in rows if row[0] == "door")
    return {
        (door, turn): cell
        for door, *cells in rows
        if door in OWN_DOORS
        for turn, cell in zip(head[1:], cells, strict=True)
    }


def is_missing(door):
    needed = next((name for start, name in NEEDS.items() if door.startswith(start)), "")
    return bool(needed) and find_spec(needed.split(".")[0]) is None


@pytest.mark.parametrize("turn", AWKWARD_TURNS, ids=lambda turn: turn.name)
@pytest.mark.parametrize("door", OWN_DOORS)
def test_the_neighbours_of_an_awkward_turn_are_stored_and_found(
    open_service, tmp_path, door, turn
):
    """And of the turn itself becomes what the page says."""
    if is_missing(door):
        pytest.skip("the framework is not installed")
    memory = open_service()
    reason = OWN_DOORS[door](memory, turn, tmp_path)
    outcome = outcome_of(memory, turn, reason)
    assert table()[door, turn.name] == outcome


def test_the_table_has_every_door_and_every_turn():
    names = [turn.name for turn in AWKWARD_TURNS]
    assert list(table()) == [(door, name) for door in OWN_DOORS for name in names]


def test_the_turns_have_the_outcome_that_every_door_shares():
    """A framework's door may say less, but stores the same."""
    for turn in AWKWARD_TURNS:
        assert table()["`add_events_to_memory`", turn.name] == turn.outcome
