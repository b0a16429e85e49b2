"""A memory that a token may not see does not exist for it, in any operation."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

pytest.importorskip("httptools")
pytest.importorskip("httpx")

from helpers.hidden_memories import HIDDEN, KINDS, plain, twins
from helpers.http import Door
from helpers.memories import ALICE
from vecall.limits import Limits
from vecall.server import HttpLimits, Tokens, create_app, mint
from vecall.server.operations import all_operations

NAMES = {"app": ALICE["app_name"], "user": ALICE["user_id"], "session": "s"}
FILTERS: list[dict[str, Any]] = [
    {"kind": "fact"},
    {"trust": ["unverified", "mine"]},
    {"metadata": {"pin": {"$gte": 400}}},
    {"min_trust": "unknown"},
]
OPERATIONS = {
    each.id: each
    for each in all_operations(HttpLimits(), Limits())
    if "{user}" in each.path and not each.access.startswith("admin")
}
# Bodies, or query parameters of operations without a body; the path names the memory.
REQUESTS: dict[str, list[dict[str, Any]]] = {
    "searchMemories": [
        {"query": "emu", "k": 20},
        *({"query": "emu", "k": 1, "filter": each} for each in FILTERS),
    ],
    "listMemories": [
        {"limit": 1},
        {"cursor": HIDDEN},
        {"cursor": "v0", "limit": 1},
        {"state": "archived"},
        {"state": "quarantined"},
    ],
    "listWhere": [
        {"cursor": HIDDEN},
        {"limit": 1, "cursor": "v0"},
        *({"filter": each} for each in FILTERS),
    ],
    "countMemories": [{}, *({"filter": each} for each in FILTERS)],
    "memoryFigures": [{}, {"state": "archived"}, {"state": "quarantined"}],
    "preloadMemories": [{"query": "emu"}, {"query": "emu", "min_confidence": 0.0}],
    "explainMemory": [{"query": "emu"}, {"query": "emu", "k": 1}],
    "listSessions": [{}, {"prefix": "s", "limit": 1}],
    "proposeForget": [{"query": "emu"}],
    "confirmForget": [{"token": "unknown", "ids": [HIDDEN]}],
    "getMemory": [{}],
    "memoryHistory": [{}],
    "markUsed": [{"ids": [HIDDEN, "v0", "absent"]}],
    "touchMemories": [{"ids": [HIDDEN, "absent"], "ttl": 9_999}],
    "updateMemory": [{"kind": "x"}, {"content": "x", "if_version": 1.0}],
    "archiveMemory": [{}],
    "restoreMemory": [{}],
    "releaseMemory": [{}, {"updated_at": 1.0}],
    "conflicts": [{}],
    "duplicates": [{}],
    "consolidate": [{}, {"dry_run": False}],
    "addMemories": [
        {"memories": [{"id": "n", "content": "new", "supersedes": HIDDEN}]},
        {"memories": [{"id": "n", "content": "new emu"}], "if_absent": True},
    ],
    "addEvents": [{"events": [{"id": "t9", "content": "more"}], "session_id": "s"}],
    "observeSession": [{"events": [{"id": "t8", "content": "more"}]}],
    "endSession": [{}],
    "ingestSession": [{"sessionId": "s"}],
    "exportUser": [{}],
    "deleteMemory": [{}, {"if_version": 1.0}],
    "deleteWhere": [{"filter": each} for each in FILTERS],
    "deleteSession": [{}],
    "deleteUser": [{"confirm": "yes", "forget": "true"}, {"confirm": "yes"}],
}
LAST = "deleteUser"  # with the quarantined memories


@pytest.mark.parametrize("kind", KINDS)
def test_no_operation_tells_of_a_hidden_memory_or_changes_it(
    open_service, tmp_path, kind
):
    pair = twins(open_service, tmp_path, kind)
    rights = {"min_trust": pair.rights.min_trust, "review": pair.rights.review}
    bearer, token = mint(app=ALICE["app_name"], user=ALICE["user_id"], **rights)
    doors = [
        Door(create_app(each, tokens=Tokens([token])), bearer) for each in pair[:2]
    ]
    before = pair.hidden()
    for id_, requests in REQUESTS.items():
        full, bare = (asked(door, id_, requests) for door in doors)
        assert full == bare, id_
        if id_ != LAST or "quarantined" not in kind:
            assert pair.hidden() == before, id_


def test_every_operation_on_a_user_is_asked():
    """A new operation has to say here how it is asked for a hidden memory."""
    assert REQUESTS.keys() == OPERATIONS.keys()


def asked(door: Door, id_: str, requests: list[dict[str, Any]]) -> list[str]:
    operation = OPERATIONS[id_]
    path = operation.path.format(**NAMES, id=HIDDEN)
    kind = "params" if operation.body is None else "json"
    calls = [(operation.method, path, {kind: given}) for given in requests]
    answers = asyncio.run(door.ask_all(calls))
    return [
        f"{answer.status_code} {json.dumps(plain(answer.json()))}"
        if answer.headers.get("content-type") == "application/json"
        else f"{answer.status_code} {answer.text}"
        for answer in answers
    ]
