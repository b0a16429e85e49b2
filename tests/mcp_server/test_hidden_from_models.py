"""A memory below the floor of a client, or in quarantine, does not exist for it."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

pytest.importorskip("mcp")

from helpers.hidden_memories import HIDDEN, KINDS, outcome, twins
from helpers.mcp_tools import Client
from helpers.memories import ALICE
from vecall.tools import memory_tools

CALLS: dict[str, list[dict[str, Any]]] = {
    "search_memory": [{"query": "emu", "limit": 50}, {"query": "emu", "kind": "fact"}],
    "get_memory": [{"id": HIDDEN}, {"id": "v0"}],
    "list_memories": [
        {},
        {"limit": 1},
        {"after": HIDDEN},
        {"after": "v0", "limit": 1},
        {"state": "archived"},
    ],
    "update_memory": [{"id": HIDDEN, "text": "x"}, {"id": "v0", "text": "x"}],
    "delete_memory": [{"id": HIDDEN}, {"id": HIDDEN, "token": "x"}],
    "add_memory": [],  # chance makes the id
}
OF_TOOLS: dict[str, list[dict[str, Any]]] = {
    "recall_memory": [{"query": "emu"}],
    "expand_session": [{"id": HIDDEN}, {"id": "<turn>", "turns_before": 9}],
    "update_memory": CALLS["update_memory"],
    "forget_memory": [{"query": "emu"}],
    "remember": [],
}


@pytest.mark.parametrize("kind", KINDS)
def test_no_tool_tells_of_a_hidden_memory_or_changes_it(open_service, tmp_path, kind):
    pair = twins(open_service, tmp_path, kind)
    floor = pair.rights.min_trust
    clients = [Client(each, min_trust=floor, trust="first-party") for each in pair[:2]]
    assert clients[0].tools.keys() == CALLS.keys()
    before = pair.hidden()
    for name, calls in CALLS.items():
        for given in calls:
            full, bare = (
                outcome(partial(each.call_with, name, given)) for each in clients
            )
            assert full == bare, (name, given)
            assert pair.hidden() == before, (name, given)
    for uri in ("memory://recent", "memory://profile"):
        full, bare = (each.read(uri) for each in clients)
        assert full == bare


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "low" in kind])
def test_no_tool_of_a_framework_reaches_below_the_floor(open_service, tmp_path, kind):
    pair = twins(open_service, tmp_path, kind)
    views = pair[:2] if "quarantined" not in kind else pair.restricted()
    floor = {"min_trust": pair.rights.min_trust}
    sets = [
        {
            tool.name: tool
            for tool in memory_tools(
                each, *ALICE.values(), write=True, filter=floor, trust="first-party"
            )
        }
        for each in views
    ]
    assert sets[0].keys() == OF_TOOLS.keys()
    (turn,) = [
        each.id
        for each in pair.full.sync.list_memories(**ALICE)
        if each.text.startswith("turn 1")
    ]
    before = pair.hidden()
    for name, calls in OF_TOOLS.items():
        for given in calls:
            named = {k: turn if v == "<turn>" else v for k, v in given.items()}
            full, bare = (
                outcome(lambda tool=each[name], n=named: asyncio.run(tool.call(n)))
                for each in sets
            )
            assert full == bare, (name, given)
            assert pair.hidden() == before, (name, given)
