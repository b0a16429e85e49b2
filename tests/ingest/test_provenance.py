"""Where a memory comes from: kept through all that happens, never made any better."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import pytest
from helpers.embedders import Recorder
from helpers.memories import ALICE
from helpers.sessions import session
from helpers.summaries import Recording
from helpers.write_hooks import found
from vecall import (
    Clock,
    Compaction,
    Event,
    InvalidArgumentError,
    MemoryEntry,
    MemoryService,
    NotFoundError,
    ScoredMemory,
    SessionSummary,
)
from vecall.store import Draft

ORIGIN = {
    "author": "agent \u00e9",
    "kind": "decision",
    "source": "https://example.org/a?b",
    "trust": "third-party-private",
    "session_id": "s/1",
    "event_id": "e:1",
    "timestamp": 1e9,
    "custom_metadata": {"deep": [{"x": None}], "n": 1.5},
}
TURN = {
    "id": "e1",
    "author": "agent",
    "timestamp": 5.0,
    "text": "zebra",
    "kind": "decision",
    "source": "tool:web",
    "trust": "third-party-public",
    "custom_metadata": {"n": 1},
}
TIERS = ("first-party", "third-party-public", "third-party-private", "unknown", "mine")


class Steered(Clock):
    """Goes on when it is told to."""

    now = 2e9

    def wall(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now


def origin_of(memory: Any) -> dict[str, Any]:
    return {name: getattr(memory, name) for name in ORIGIN}


def one(service: MemoryService, query: str = "zebra", **who: str) -> MemoryEntry:
    (memory,) = service.sync.search_memory(**(who or ALICE), query=query).memories
    return memory


def later(service: MemoryService, way: str, folder: Any, opened: Any) -> MemoryService:
    """What may happen to a service and its file."""
    embedder = Recorder(5, "other") if way == "reembedded" else Recorder()
    if way == "reembedded":
        service.sync.admin.reembed(embedder)
    elif way == "exported":
        service.sync.admin.export_jsonl(folder / "export")
        service = opened(folder / "other.db", embedder=embedder)
        service.sync.admin.import_jsonl(folder / "export")
    elif way == "backed up":
        service.sync.admin.backup(folder / "copy.db")
        service = opened(folder / "copy.db", embedder=embedder)
    elif way == "restarted":
        service.close()
        service = opened(folder / "m.db", embedder=embedder)
    elif way == "archived and back":
        service.sync.archive_memory(**ALICE, memory_id="f")
        service.sync.restore_memory(**ALICE, memory_id="f")
    elif way == "used":
        service.sync.mark_used(**ALICE, memory_ids=["f"])
    elif way == "corrected":
        service.sync.update_memory(**ALICE, memory_id="f", content="zebra, corrected")
    elif way == "purged":
        service.sync.admin.purge()
    return service


@pytest.mark.parametrize(
    "way",
    [
        *("nothing", "reembedded", "exported", "backed up", "restarted"),
        *("archived and back", "used", "corrected", "purged"),
    ],
)
def test_a_memory_keeps_where_it_comes_from(open_service, tmp_path, way):
    """S2.5, S2.6: and its id, and when it was first stored."""
    service = open_service(tmp_path / "m.db", embedder=Recorder())
    entry = MemoryEntry("zebra", id="f", **ORIGIN)
    assert service.sync.add_memory(**ALICE, memories=[entry]) == ["f"]
    before = one(service)
    service = later(service, way, tmp_path, open_service)
    for memory in (
        one(service),
        service.sync.get_memory(**ALICE, memory_id="f"),
        service.sync.list_memories(**ALICE)[0],
        service.sync.memory_history(**ALICE, memory_id="f")[0].memory,
    ):
        assert memory.id == "f"
        assert origin_of(memory) == ORIGIN
        assert memory.created_at == before.created_at


@pytest.mark.parametrize("way", ["added", "events", "observed"])
def test_a_turn_says_where_it_comes_from(open_service, tmp_path, way):
    """S2.5: whichever way it came in, also after waiting in the file."""
    path = tmp_path / "m.db"
    service = open_service(path)
    if way == "added":
        service.sync.add_session_to_memory(session(TURN))
    elif way == "events":
        service.sync.add_events_to_memory(**ALICE, events=[TURN], session_id="s")
    else:
        service.sync.observe_session(session(TURN))
        service.close()
        service = open_service(path)
        service.sync.end_session(**ALICE, session_id="s")
    memory = one(service)
    told = {name: getattr(memory, name) for name in TURN if hasattr(memory, name)}
    same = {"author", "timestamp", "kind", "source", "trust", "custom_metadata", "text"}
    assert {name: told[name] for name in same} == {name: TURN[name] for name in same}
    assert (memory.session_id, memory.event_id) == ("s", "e1")


def test_nothing_is_guessed(open_service):
    """S2.26: a tier that nobody told is none; an event of the plain type has none."""
    service = open_service()
    service.sync.add_memory(
        **ALICE, memories=["zebra", MemoryEntry("zebra too", author="user")]
    )
    service.sync.add_session_to_memory(
        session({"id": "1", "author": "user", "text": "zebra said"})
    )
    service.sync.add_session_to_memory(
        session(Event("zebra plain", author="user", id="2"), id_="t")
    )
    answer = service.sync.search_memory(**ALICE, query="zebra").memories
    assert len(answer) == 4
    assert {memory.trust for memory in answer} == {None}
    assert {memory.source for memory in answer} == {None}
    scored = [ScoredMemory.of(memory) for memory in answer]
    assert {memory.trust for memory in scored} == {"unknown"}


@pytest.mark.parametrize("told", [tier for tier in TIERS if tier != "first-party"])
def test_telling_it_again_makes_nothing_more_trusted(open_service, told):
    """S2.26: a turn that is told again without a tier gains none."""
    service = open_service()
    service.sync.add_session_to_memory(session({**TURN, "trust": told}))
    untold = {name: value for name, value in TURN.items() if name != "trust"}
    for again in (untold, {**untold, "author": "user"}, {**untold, "text": "zebra 2"}):
        service.sync.add_session_to_memory(session(again))
        assert one(service).trust in (told, None)


@pytest.mark.parametrize("told", TIERS)
def test_a_correction_keeps_the_tier(open_service, told):
    """S2.26: whoever corrects a text does not vouch for its source."""
    service = open_service()
    entry = MemoryEntry("zebra", id="f", trust=told)
    service.sync.add_memory(**ALICE, memories=[entry])
    for changes in (
        {"content": "zebra 2"},
        {"author": "user", "source": "me"},
        {"custom_metadata": {"trust": "first-party"}},
        {"importance": 1.0, "kind": "fact"},
    ):
        changed = service.sync.update_memory(**ALICE, memory_id="f", **changes)
        assert changed.trust == told
    for wrong in ("trust", "id", "session_id", "event_id", "created_at"):
        with pytest.raises(TypeError, match=wrong):
            service.sync.update_memory(**ALICE, memory_id="f", **{wrong: "first-party"})
    with pytest.raises(InvalidArgumentError):
        service.sync.update_memory(**ALICE, memory_id="f", scope="first-party")
    assert one(service).trust == told
    assert one(service).id == "f"


def test_duplicates_of_different_tiers_stay_apart(open_service):
    """S2.26: what a stranger says as well is not what the user says."""
    service = open_service()
    said = [
        MemoryEntry("the zebra eats hay", id=f"{tier}{n}", trust=tier, kind="fact")
        for tier in TIERS
        for n in range(2)
    ]
    said.append(MemoryEntry("zebra eats hay", id="none", kind="fact"))
    service.sync.add_memory(**ALICE, memories=said)
    assert service.sync.consolidate(**ALICE).merged == len(TIERS)
    left = service.sync.list_memories(**ALICE)
    assert sorted(str(memory.trust) for memory in left) == sorted(["None", *TIERS])
    assert all(memory.id.startswith(memory.trust or "none") for memory in left)


MIXES = [
    (["first-party", "first-party"], "first-party"),
    (["first-party", "third-party-public"], None),
    (["third-party-public", None], None),
    ([None, None], None),
    (["mine", "mine"], "mine"),
]


@pytest.mark.parametrize("way", ["summarizer", "consolidation", "compaction"])
@pytest.mark.parametrize(("tiers", "expected"), MIXES)
def test_a_summary_is_no_more_trusted_than_what_it_sums_up(
    open_service, way, tiers, expected
):
    """S2.26: the tier that all turns share, else none."""
    provider = Recording((SessionSummary("summed zebra"),))
    said: list[dict[str, Any]] = [
        {"id": f"e{n}", "text": f"zebra {n}", "timestamp": float(n), "trust": tier}
        for n, tier in enumerate(tiers)
    ]
    if way == "consolidation":
        service = open_service()
        service.sync.add_session_to_memory(session(*said))
        service.sync.consolidate(**ALICE, older_than=1, summarizer=provider)
    elif way == "compaction":
        service = open_service(trigger=Compaction())
        service.sync.observe_session(session(*said, compaction("summed zebra", 9.0)))
    else:
        service = open_service(summarizer=provider)
        service.sync.add_session_to_memory(session(*said))
    memory = one(service, "summed")
    # Nobody knows all that went into a compaction.
    assert memory.trust == (None if way == "compaction" else expected)
    assert (memory.kind, memory.source) == ("summary", way)


def compaction(text: str, end: float) -> dict[str, Any]:
    summed = {
        "start_timestamp": 0.0,
        "end_timestamp": end,
        "compacted_content": {"parts": [{"text": text}]},
    }
    return {"id": f"c{end}", "author": "user", "actions": {"compaction": summed}}


def test_a_compaction_of_a_compaction_is_no_more_trusted(open_service):
    """S2.26: what was summed up before is in the new summary too."""
    service = open_service(trigger=Compaction())
    public = {**TURN, "timestamp": 1.0}
    own = {"id": "e2", "text": "okapi", "timestamp": 3.0, "trust": "first-party"}
    said = [public, compaction("of zebra", 2.0)]
    service.sync.observe_session(session(*said))
    assert one(service, "zebra").trust in ("third-party-public", None)
    service.sync.observe_session(session(*said, own, compaction("of okapi too", 4.0)))
    assert one(service, "okapi").trust is None


def test_times_say_when_it_was_stored_and_changed(open_service):
    """S2.25: a change moves one of them, and nothing else does."""
    clock = Steered()
    service = open_service(clock=clock, maintenance_interval=None)
    entry = MemoryEntry("zebra", id="f", kind="fact")
    service.sync.add_memory(**ALICE, memories=[entry])

    def times() -> tuple[float, float]:
        memory = one(service)
        assert memory.created_at is not None
        assert memory.updated_at is not None
        return memory.created_at - 2e9, memory.updated_at - 2e9

    assert times() == (0, 0)
    clock.now += 10
    service.sync.add_memory(**ALICE, memories=[entry])
    service.sync.mark_used(**ALICE, memory_ids=["f"])
    assert times() == (0, 0)
    service.sync.add_memory(**ALICE, memories=[MemoryEntry("zebra 2", id="f")])
    assert times() == (0, 10)
    clock.now += 10
    service.sync.update_memory(**ALICE, memory_id="f", importance=0.5)
    assert times() == (0, 20)
    clock.now += 10
    service.sync.archive_memory(**ALICE, memory_id="f")
    clock.now += 10
    service.sync.restore_memory(**ALICE, memory_id="f")
    assert times() == (0, 40)


JSON_TYPES = {
    "string": str,
    "number": (int, float),
    "object": dict,
    "null": type(None),
}


def fits(value: object, rule: dict[str, Any]) -> bool:
    """Whether a value is as a simple rule of a JSON Schema says."""
    if "const" in rule:
        return value == rule["const"]
    types = rule["type"] if isinstance(rule["type"], list) else [rule["type"]]
    if not any(isinstance(value, JSON_TYPES[each]) for each in types):
        return False
    if isinstance(value, int | float):
        return rule.get("minimum", value) <= value <= rule.get("maximum", value)
    return True


def test_recalled_memories_are_as_the_schema_says(open_service):
    """S2.25: what a search found, as JSON values, with nothing beside."""
    service = open_service()
    service.sync.add_memory(
        **ALICE,
        memories=[
            "zebra bare",
            MemoryEntry("zebra full", id="f", valid_until=4e9, **ORIGIN),
            MemoryEntry("zebra newer", id="g", importance=1.0),
            MemoryEntry({"parts": [{"text": "zebra"}, {"text": "two"}]}, id="h"),
        ],
    )
    service.sync.add_memory(
        **ALICE, memories=[MemoryEntry("zebra newest", supersedes="g")]
    )
    service.sync.add_session_to_memory(session(TURN, id_="t"))
    schema = ScoredMemory.json_schema()
    assert schema["additionalProperties"] is False
    answer = service.sync.search_memory(**ALICE, query="zebra", explain=True).memories
    assert len(answer) == 5
    for memory in answer:
        scored = ScoredMemory.of(memory)
        told = scored.to_dict()
        assert told.keys() == schema["properties"].keys()
        for name, rule in schema["properties"].items():
            assert fits(told[name], rule), name
        for name, value in told.items():
            if name not in ("is_memory", "trust"):
                assert value == getattr(memory, name), name
    share = schema["properties"]["confidence"]
    assert [fits(value, share) for value in (0, 0.5, 1, 1.5, -1, None, "1")] == [
        *(True, True, True, False, False, False, False),
    ]


def test_entries_cannot_be_changed(open_service):
    """S2.25, S1.22: neither the entry nor, through it, what is stored."""
    service = open_service()
    service.sync.add_memory(**ALICE, memories=[MemoryEntry("zebra", id="f", **ORIGIN)])
    memory = one(service)
    for each in (memory, ScoredMemory.of(memory)):
        for field in dataclasses.fields(each):
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(each, field.name, "first-party")
        assert copy.deepcopy(each) == each
    assert pickle.loads(pickle.dumps(memory)) == memory
    memory.custom_metadata["n"] = "forged"
    memory.custom_metadata["deep"][0]["x"] = "forged"
    assert one(service).custom_metadata == ORIGIN["custom_metadata"]
    mine: dict[str, Any] = {"n": [1]}
    service.sync.add_memory(
        **ALICE, memories=[MemoryEntry("okapi", custom_metadata=mine)]
    )
    mine["n"].append(2)
    assert one(service, "okapi").custom_metadata == {"n": [1]}


def test_what_is_gone_has_no_provenance(open_service):
    """S2.6: an id of a deleted memory names nothing."""
    service = open_service()
    service.sync.add_memory(**ALICE, memories=[MemoryEntry("zebra", id="f", **ORIGIN)])
    service.sync.delete_memory(**ALICE, memory_id="f")
    assert found(service) == []
    for name in ("get_memory", "memory_history", "expand_session"):
        with pytest.raises(NotFoundError):
            getattr(service.sync, name)(**ALICE, memory_id="f")


def test_what_is_to_be_written_has_a_place_for_all_of_it():
    """S2.5: a draft that lost a field would lose it for every way in."""
    names = {field.name for field in dataclasses.fields(Draft)}
    assert {"session", "event", "ts", "author", "kind", "source", "trust"} <= names
