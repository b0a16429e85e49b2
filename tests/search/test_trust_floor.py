"""A floor on trust: for a search, for tools, and for all that a token reads."""

from __future__ import annotations

import asyncio

import pytest
from helpers.memories import ALICE, BOB
from vecall import Filter, InvalidArgumentError, MemoryEntry, MemoryService, Scopes
from vecall.cli.main import main
from vecall.tools import LoadMemory, PreloadMemory, RecallMemory, memory_tools

ORDER = [
    "first-party",
    "third-party-private",
    "third-party-public",
    "unverified",
    "unknown",
]
STORED = [*ORDER, "mine", None]


def passing(floor):
    """What a floor passes: by the order alone; what has no place in it is last."""
    place = ORDER.index(floor)
    return {
        tier
        for tier in STORED
        if (ORDER.index(tier) if tier in ORDER else len(ORDER) - 1) <= place
    }


@pytest.fixture
def service(open_service):
    made: MemoryService = open_service(scopes=Scopes(read=("app",), write=("app",)))
    told = [
        MemoryEntry(f"zebra by {tier}", id=str(tier), trust=tier) for tier in STORED
    ]
    made.sync.add_memory(**ALICE, memories=told)
    return made


def tiers_of(memories):
    return {memory.trust for memory in memories}


@pytest.mark.parametrize("floor", ORDER)
def test_a_floor_passes_its_tier_and_higher_ones(service, floor):
    found = service.sync.search_memory(
        **ALICE, query="zebra", top_k=20, filter=Filter(min_trust=floor)
    )
    assert tiers_of(found.memories) == passing(floor)


@pytest.mark.parametrize("floor", ORDER)
def test_tools_and_preload_have_a_floor(service, floor):
    only = {"min_trust": floor}
    who = (service, *ALICE.values())
    expected = {f"zebra by {tier}" for tier in passing(floor)}
    for tool in (LoadMemory(*who, filter=only), RecallMemory(*who, filter=only)):
        limit = {"limit": 20} if isinstance(tool, RecallMemory) else {}
        told = asyncio.run(tool(query="zebra", **limit))["memories"]
        assert {each["text"] for each in told} <= expected
        assert len(told) == min(len(expected), 5 if not limit else 20)
    preload = PreloadMemory(*who, filter=only, max_entries=20)
    block = asyncio.run(preload.block("zebra"))
    assert {text for text in map(str, STORED) if f"zebra by {text}" in block} == {
        str(tier) for tier in passing(floor)
    }


def test_a_floor_and_tiers_must_both_hold(service):
    def found(**filter_):
        asked = {"query": "zebra", "top_k": 20, "filter": filter_}
        return tiers_of(service.sync.search_memory(**ALICE, **asked).memories)

    both = ("first-party", "unverified", "mine")
    assert found(trust=both, min_trust="unknown") == set(both)
    assert found(trust=both, min_trust="third-party-public") == {"first-party"}
    assert found(min_trust="unverified", kind="fact") == set()
    with pytest.raises(InvalidArgumentError, match=r"filter\.trust"):
        found(trust="mine", min_trust="unverified")


@pytest.mark.parametrize("bad", ["mine", "", 3, ["first-party"], True])
def test_a_floor_is_a_tier_that_vecall_orders(service, bad):
    with pytest.raises(InvalidArgumentError, match=r"filter\.min_trust: must be one"):
        service.sync.search_memory(**ALICE, query="x", filter={"min_trust": bad})


def test_deleting_by_the_lowest_floor_alone_deletes_nothing(service):
    with pytest.raises(InvalidArgumentError, match="at least one condition"):
        service.sync.delete_where(**ALICE, filter=Filter(min_trust="unknown"))
    assert len(service.sync.list_memories(**ALICE)) == len(STORED)
    deleted = service.sync.delete_where(**ALICE, filter=Filter(min_trust="unverified"))
    assert deleted == 4
    left = tiers_of(service.sync.list_memories(**ALICE))
    assert left == {"unknown", "mine", None}


def test_a_floor_holds_in_all_scopes(service):
    told = [MemoryEntry("zebra of all", trust=tier) for tier in ORDER]
    service.sync.add_memory(**BOB, memories=told, scope="app")
    asked = {"query": "zebra", "top_k": 50, "filter": {"min_trust": "unverified"}}
    found = service.sync.search_memory(**ALICE, **asked).memories
    assert tiers_of(found) == passing("unverified")
    assert {memory.scope for memory in found} >= {"user"}


def test_turns_below_the_floor_are_not_read_around_a_memory(open_service):
    service = open_service()
    told = [
        {"id": f"e{n}", "author": "user", "text": f"zebra {n}", "trust": tier}
        for n, tier in enumerate(["first-party", "unknown", None, "first-party"])
    ]
    service.sync.add_session_to_memory({**ALICE, "id": "s", "events": told})
    ids = {e.text: e.id for e in service.sync.list_memories(**ALICE)}
    recall, expand = memory_tools(
        service, *ALICE.values(), filter={"min_trust": "unverified"}
    )
    shown = asyncio.run(recall(query="zebra"))["memories"]
    assert {each["text"] for each in shown} == {"zebra 0", "zebra 3"}
    around = asyncio.run(expand(id=ids["zebra 0"], turns_after=5))
    assert [each["text"] for each in around["memories"]] == ["zebra 0", "zebra 3"]
    assert "error" in asyncio.run(expand(id=ids["zebra 1"]))
    _, expand = memory_tools(service, *ALICE.values())
    around = asyncio.run(expand(id=ids["zebra 0"], turns_after=5))
    assert len(around["memories"]) == 4


def test_the_command_line_searches_with_a_floor(tmp_path, capsys):
    path = tmp_path / "m.db"
    with MemoryService(path, embedder=None) as service:
        told = [MemoryEntry(f"zebra by {tier}", trust=tier) for tier in STORED]
        service.sync.add_memory(**ALICE, memories=told)
    asked = ["search", "zebra", "--app", ALICE["app_name"], "--user", ALICE["user_id"]]
    more = ["--path", str(path), "--embedder", "none", "--min-trust", "first-party"]
    assert main([*asked, *more]) == 0
    shown = capsys.readouterr().out
    assert "first-party" in shown
    assert "third-party" not in shown
