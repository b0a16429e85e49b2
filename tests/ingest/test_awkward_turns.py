"""A turn that cannot be stored as it is costs no other turn, at any door."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
from helpers.awkward_turns import AWKWARD_TURNS, told
from helpers.own_doors import OWN_DOORS, outcome_of

NEEDS = {"google-adk": "google.adk", "MCP": "mcp", "`POST": "httpx", "`PATCH": "httpx"}


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
    assert told()[door, turn.name] == outcome


def test_the_table_has_every_door_and_every_turn():
    wanted = {(door, turn.name) for door in OWN_DOORS for turn in AWKWARD_TURNS}
    assert wanted <= told().keys()


def test_the_turns_have_the_outcome_that_every_door_shares():
    """A framework's door may say less, but stores the same."""
    for turn in AWKWARD_TURNS:
        assert told()["`add_events_to_memory`", turn.name] == turn.outcome
