"""All that a memory has been travels: held, archived, overwritten, waiting, gone."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from helpers.campaigns import SCALE
from helpers.embedders import Recorder
from helpers.memories import ALICE, BOB
from helpers.sessions import session, turn
from helpers.summaries import Recording
from helpers.write_hooks import ReviewHook, dump, found, listed
from vecall import (
    Clock,
    Inactivity,
    InvalidArgumentError,
    MemoryEntry,
    MemoryService,
    NotFoundError,
    Scopes,
    SessionSummary,
    VecallError,
)

BOTH = Scopes(read={"shared", "app"}, write={"shared", "app"})
STATES = ("live", "archived", "quarantined")
OPTIONS: dict[str, Any] = {
    "scopes": BOTH,
    "maintenance_interval": None,
    "trigger": Inactivity(3_600_000),
}


class Steered(Clock):
    """Goes on when it is told to."""

    now = 2e9

    def wall(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now

    def boot_id(self) -> str:
        return "steered"


@pytest.fixture
def clock() -> Steered:
    return Steered()


@pytest.fixture
def embedder() -> Recorder:
    return Recorder(6)


@pytest.fixture
def lived(open_service, tmp_path, clock, embedder) -> MemoryService:
    """A service in which memories of every standing are."""
    options = {
        **OPTIONS,
        "clock": clock,
        "embedder": embedder,
        "on_write": ReviewHook(),
    }
    service: MemoryService = open_service(tmp_path / "m.db", **options)
    add = service.sync.add_memory
    service.sync.add_session_to_memory(
        session(*(turn(n, f"zebra {n}") for n in range(4)))
    )
    add(**ALICE, memories=[MemoryEntry("held zebra", id="h", trust="unknown")])
    add(**ALICE, memories=[MemoryEntry("zebra old", id="old")])
    add(**ALICE, memories=[MemoryEntry("zebra new", id="new", supersedes="old")])
    add(**ALICE, memories=[MemoryEntry("zebra put away", id="away")])
    service.sync.archive_memory(**ALICE, memory_id="away")
    twice = [MemoryEntry("The zebra!", id="t1"), MemoryEntry("zebra", id="t2")]
    add(**ALICE, memories=twice)
    add(**ALICE, memories=["zebra passing"], custom_metadata={"ttl": 10})
    add(**ALICE, memories=[MemoryEntry("zebra until", id="until", valid_until=2e9 + 5)])
    add(**ALICE, memories=["zebra staying"], custom_metadata={"ttl": 1e6})
    add(**ALICE, memories=[MemoryEntry("zebra wrong", id="c")])
    service.sync.update_memory(**ALICE, memory_id="c", content="zebra right")
    add(**ALICE, memories=[MemoryEntry("zebra righter", id="c")])
    brief = {"revision_ttl": 5}
    add(**ALICE, memories=[MemoryEntry("zebra brief", id="b")], custom_metadata=brief)
    service.sync.update_memory(**ALICE, memory_id="b", custom_metadata=brief, kind="x")
    add(**ALICE, memories=[MemoryEntry("zebra gone", id="g")])
    service.sync.delete_memory(**ALICE, memory_id="g")
    service.sync.mark_used(**ALICE, memory_ids=["c", "new"])
    add(**ALICE, memories=["zebra shared"], scope="shared")
    add(**ALICE, memories=["zebra of the app", "held app"], scope="app")
    clock.now += 20
    service.sync.admin.run_due()
    service.sync.consolidate(
        **ALICE,
        older_than=1,
        summarizer=Recording((SessionSummary("zebra summed up"),)),
    )
    service.sync.observe_session(session(turn(7, "zebra waits"), id_="w"))
    service.sync.observe_session({**BOB, "id": "w", "events": [turn(8, "zebra bob")]})
    return service


def exported(service: MemoryService, path: Path, **options: Any) -> bytes:
    service.sync.admin.export_jsonl(path, **options)
    data = path.read_bytes()
    path.unlink()
    return data


def lines(data: bytes) -> list[tuple[str, dict[str, Any]]]:
    """Kind and values of each line but the header."""
    items = [json.loads(line) for line in data.splitlines()[1:]]
    return [next(iter(item.items())) for item in items]


def told(service: MemoryService) -> list[Any]:
    """All that a service says of a user's memories."""
    states = [service.sync.list_memories(**ALICE, state=state) for state in STATES]
    histories = [
        service.sync.memory_history(**ALICE, memory_id=str(memory.id))
        for memories in states
        for memory in memories
    ]
    answer = service.sync.search_memory(**ALICE, query="zebra right", top_k=99)
    return [states, histories, answer.memories, listed(service, scope="app")]


@pytest.mark.parametrize("vectors", [True, False])
def test_an_export_of_an_import_is_the_export(
    open_service, tmp_path, lived, clock, embedder, vectors
):
    """S2.6: byte for byte, whatever became of a memory."""
    data = exported(lived, tmp_path / "e", vectors=vectors)
    kinds = [kind for kind, _ in lines(data)]
    assert {*kinds} == {"part", "mem", "tomb", "hist", "replaced", "trig", "told"}
    states = {values["state"] for kind, values in lines(data) if kind == "mem"}
    assert states == set(STATES)
    whys = {values.get("why") for kind, values in lines(data) if kind == "replaced"}
    assert whys == {"superseded", "archived", "merged", "folded", "lapsed"}
    ops = {values["op"] for kind, values in lines(data) if kind == "hist"}
    assert ops == {"update", "edit"}
    gone = {values.get("why") for kind, values in lines(data) if kind == "tomb"}
    assert gone == {None, "expired"}
    assert any(
        kind == "hist" and "digest" in values["old"] for kind, values in lines(data)
    )
    file = tmp_path / "in"
    file.write_bytes(data)
    model = {"embedder": embedder} if vectors else {}
    asked = len(embedder.asked)
    other = open_service(tmp_path / "n.db", **OPTIONS, **model, clock=clock)
    assert other.sync.admin.import_jsonl(file) == kinds.count("mem")
    assert exported(other, tmp_path / "e", vectors=vectors) == data
    assert len(embedder.asked) == asked
    if vectors:
        assert told(other) == told(lived)
    assert other.sync.admin.import_jsonl(file) == 0
    assert exported(other, tmp_path / "e", vectors=vectors) == data
    other.close()
    again = open_service(tmp_path / "n.db", **OPTIONS, **model, clock=clock)
    assert exported(again, tmp_path / "e", vectors=vectors) == data


@pytest.fixture
def moved(open_service, tmp_path, lived, clock, embedder) -> MemoryService:
    """The same life in another file."""
    lived.sync.admin.export_jsonl(tmp_path / "in")
    options = {**OPTIONS, "clock": clock, "embedder": embedder}
    service: MemoryService = open_service(tmp_path / "n.db", **options)
    service.sync.admin.import_jsonl(tmp_path / "in")
    return service


def test_what_was_held_or_archived_is_brought_back_elsewhere(moved):
    """S2.5: links and standing mean there what they meant here."""
    assert not {"held zebra", "zebra old", "zebra put away"} & {*found(moved)}
    assert moved.sync.release_memory(**ALICE, memory_id="h") == ["h"]
    for id_ in ("away", "old"):
        assert moved.sync.restore_memory(**ALICE, memory_id=id_) == [id_]
    assert {"held zebra", "zebra old", "zebra put away"} <= {*found(moved)}
    (summary,) = (
        memory
        for memory in moved.sync.list_memories(**ALICE)
        if memory.text == "zebra summed up"
    )
    turns = moved.sync.restore_memory(**ALICE, memory_id=summary.id)
    assert len(turns) == 4
    assert "zebra summed up" not in found(moved)
    assert {f"zebra {n}" for n in range(4)} <= {*found(moved)}


def test_what_is_gone_stays_gone_elsewhere(moved):
    """A deletion and a correction travel; so does the end of a turn's life."""
    gone = MemoryEntry("zebra gone", id="g")
    moved.sync.add_memory(**ALICE, memories=[gone], restore=False)
    moved.sync.add_memory(**ALICE, memories=[MemoryEntry("zebra wrong", id="c")])
    texts = found(moved)
    assert "zebra gone" not in texts
    assert "zebra wrong" not in texts
    assert "zebra righter" in texts
    assert moved.sync.add_memory(**ALICE, memories=["zebra passing"])
    assert "zebra passing" in found(moved), "a fact that expired may be told again"


def test_what_waits_is_remembered_elsewhere(moved, clock):
    """Turns and when they are due."""
    assert "zebra waits" not in found(moved)
    moved.sync.observe_session(session(turn(7, "zebra waits"), id_="w"))
    clock.now += 3_500
    moved.sync.admin.run_due()
    assert "zebra waits" not in found(moved)
    clock.now += 200
    moved.sync.admin.run_due()
    assert found(moved).count("zebra waits") == 1
    assert found(moved, **BOB) == ["zebra bob", "zebra of the app"]


def test_a_hook_judges_no_import(open_service, tmp_path, lived, clock, embedder):
    """An import copies what was judged before, held memories as held ones."""
    lived.sync.admin.export_jsonl(tmp_path / "in")
    judge = ReviewHook()
    judge.rules = {"zebra": judge.rules["refused"]}
    options = {**OPTIONS, "clock": clock, "embedder": embedder, "on_write": judge}
    other = open_service(tmp_path / "n.db", **options)
    other.sync.admin.import_jsonl(tmp_path / "in")
    assert judge.seen == []
    assert listed(other, "quarantined") == ["held zebra"]
    assert told(other) == told(lived)


def test_an_import_changes_nothing_that_is_newer(
    open_service, tmp_path, lived, moved, clock
):
    """The later word counts, in either direction, held and archived ones too."""
    clock.now += 10
    moved.sync.release_memory(**ALICE, memory_id="h")
    moved.sync.archive_memory(**ALICE, memory_id="c")
    moved.sync.delete_memory(**ALICE, memory_id="new")
    moved.sync.update_memory(**ALICE, memory_id="t2", content="zebra here")
    moved.sync.end_session(**ALICE, session_id="w")
    before = exported(moved, tmp_path / "e")
    assert moved.sync.admin.import_jsonl(tmp_path / "in") == 0
    assert exported(moved, tmp_path / "e") == before
    assert "held zebra" in found(moved)
    # And back: what was done there is taken over here, by the same rule.
    moved.sync.admin.export_jsonl(tmp_path / "back")
    assert lived.sync.admin.import_jsonl(tmp_path / "back") > 0
    assert found(lived) == found(moved)
    for state in STATES:
        assert listed(lived, state) == listed(moved, state)
    with pytest.raises(NotFoundError):
        lived.sync.get_memory(**ALICE, memory_id="new")


def test_an_import_brings_back_only_what_it_is_told_to(moved, tmp_path, clock):
    """Deleted here is deleted, unless restore says otherwise."""
    clock.now += 10
    moved.sync.delete_user(**ALICE)
    assert moved.sync.admin.import_jsonl(tmp_path / "in") == 0
    assert listed(moved) == []
    assert moved.sync.admin.import_jsonl(tmp_path / "in", restore=True) > 0
    assert "zebra righter" in found(moved)
    assert "zebra gone" not in found(moved)
    assert "held zebra" not in found(moved)


def test_nobody_elses_life_travels_with_one_user(lived, tmp_path):
    """S4.61: an export of one user has neither other users nor other places."""
    data = exported(lived, tmp_path / "e", **BOB)
    kinds = [kind for kind, _ in lines(data)]
    assert sorted(kinds) == ["part", "told", "trig"]
    assert b"bob" in data
    assert b"alice" not in data
    own = exported(lived, tmp_path / "e", **ALICE)
    assert b"bob" not in own
    assert b"of the app" not in own
    assert b"zebra shared" not in own


DAMAGE: list[dict[str, Any]] = [
    {"mem": {"state": "expired"}},
    {"mem": {"updated_at": None}},
    {"mem": {"supersedes": 7}},
    {"mem": {"valid_until": "soon"}},
    {"mem": {"trust": ["first-party"]}},
    {"mem": {"uses": -1}},
    {"tomb": {"why": "bored"}},
    {"tomb": {"at": None}},
    {"hist": {"op": None}},
    {"hist": {"op": "bored"}},
    {"hist": {"old": "[]"}},
    {"hist": {"old": '{"text": 7}'}},
    {"hist": {"old": '{"meta": "{no"}'}},
    {"hist": {"expires_at": True}},
    {"replaced": {"why": "bored"}},
    {"replaced": {"by": 7}},
    {"trig": {"kind": "bored"}},
    {"trig": {"state": "[]"}},
    {"trig": {"due_at": "now"}},
    {"told": {"event": "7"}},
    {"told": {"pos": -1}},
    {"told": {"session": None}},
]


def test_a_damaged_line_is_refused(open_service, tmp_path, lived, clock):
    """And named; the rest of what it says is not believed either."""
    header, *rest = exported(lived, tmp_path / "e", vectors=False).splitlines()
    other = open_service(tmp_path / "n.db", **OPTIONS, clock=clock)
    for damage in DAMAGE:
        ((kind, wrong),) = damage.items()
        items = [json.loads(line) for line in rest]
        place = next(at for at, item in enumerate(items) if kind in item)
        items[place][kind] = {
            name: value
            for name, value in {**items[place][kind], **wrong}.items()
            if value is not None
        }
        text = b"\n".join([header, *(json.dumps(item).encode() for item in items)])
        (tmp_path / "in").write_bytes(text + b"\n")
        with pytest.raises(InvalidArgumentError, match=f"line {place + 2}: "):
            other.sync.admin.import_jsonl(tmp_path / "in")


@pytest.mark.campaign
def test_no_damage_makes_anything_else_than_a_refusal(
    open_service, tmp_path, lived, clock
):
    """Whatever a line says, the service that read it goes on working."""
    rng = random.Random(5)
    data = exported(lived, tmp_path / "e", vectors=False)
    odd: list[Any] = [None, 7, -1, "", "x", [], {}, "{}", "[]", True, 1e300]
    refused, rounds = 0, 30 if SCALE >= 1 else 15
    for round_ in range(rounds):
        header, *rest = data.splitlines()
        items = [json.loads(line) for line in rest]
        for _ in range(2):
            ((_, values),) = rng.choice(items).items()
            values[rng.choice(sorted(values))] = rng.choice(odd)
        text = b"\n".join([header, *(json.dumps(item).encode() for item in items)])
        file = tmp_path / "in"
        file.write_bytes(text)
        path = tmp_path / f"n{round_}.db"
        with open_service(path, **OPTIONS, clock=clock, durability="process") as other:
            try:
                other.sync.admin.import_jsonl(file)
            except VecallError:
                refused += 1
            for state in STATES:
                for memory in other.sync.list_memories(**ALICE, state=state):
                    other.sync.memory_history(**ALICE, memory_id=str(memory.id))
            found(other)
            other.sync.admin.run_due()
            other.sync.end_session(**ALICE, session_id="w")
            other.sync.add_memory(**ALICE, memories=["zebra after all"])
            assert "zebra after all" in found(other)
        assert dump(path)
    assert rounds // 3 < refused < rounds
