"""What the hook holds is found by nothing; what vecall makes itself is judged too."""

from __future__ import annotations

import json
from typing import Any

import pytest
from helpers.embedders import Recorder
from helpers.memories import ALICE, BOB, refuses
from helpers.sessions import session, turn
from helpers.summaries import Recording
from helpers.write_hooks import (
    SECRET,
    AsyncReviewHook,
    ReviewHook,
    bytes_of,
    dump,
    found,
    listed,
)
from vecall import (
    Compaction,
    Filter,
    MemoryEntry,
    MessageCount,
    NotFoundError,
    PendingWrite,
    Scopes,
    SessionSummary,
    Verdict,
)
from vecall.hooks import ALLOW, QUARANTINE

HELD = MemoryEntry("held zebra", id="h", kind="fact", source="web", trust="unknown")


@pytest.fixture(params=[ReviewHook, AsyncReviewHook], ids=["plain", "coroutine"])
def judge(request) -> ReviewHook:
    hook: ReviewHook = request.param()
    return hook


@pytest.mark.parametrize("embedder", [None, Recorder()], ids=["words", "hybrid"])
@pytest.mark.parametrize("reopened", [False, True])
def test_what_is_held_is_found_by_nothing(
    open_service, tmp_path, judge, embedder, reopened
):
    """It is kept, listed as held, and no other way leads to it."""
    path = tmp_path / "m.db"
    service = open_service(path, on_write=judge, embedder=embedder)
    service.sync.add_memory(**ALICE, memories=[HELD])
    events = [turn(1, "zebra 1"), turn(2, "held zebra 2"), turn(3, "zebra 3")]
    ids = service.sync.add_session_to_memory(session(*events))
    if reopened:
        service.close()
        service = open_service(path, embedder=embedder)
    assert found(service) == ["zebra 1", "zebra 3"]
    assert not [text for text in found(service, "held") if "held" in text]
    around = service.sync.expand_session(
        **ALICE, memory_id=ids[0], turns_before=9, turns_after=9
    )
    assert [memory.text for memory in around] == ["zebra 1", "zebra 3"]
    for id_ in ("h", ids[1]):
        where = {**ALICE, "memory_id": id_}
        for name in ("get_memory", "expand_session", "archive_memory"):
            refuses(
                NotFoundError, lambda n=name, w=where: getattr(service.sync, n)(**w)
            )
        refuses(
            NotFoundError,
            lambda w=where: service.sync.update_memory(**w, content="let me in"),
        )
        assert service.sync.mark_used(**ALICE, memory_ids=[id_]) == 0
    assert listed(service) == ["zebra 1", "zebra 3"]
    assert listed(service, "archived") == []
    proposal = service.sync.propose_forget(**ALICE, query="held zebra")
    assert all("held" not in memory.text for memory in proposal.memories)
    (first, second) = service.sync.list_memories(**ALICE, state="quarantined")
    assert (first.text, second.text) == ("held zebra", "held zebra 2")
    assert (first.source, first.trust, first.kind) == ("web", "unknown", "fact")
    assert service.sync.list_memories(**BOB, state="quarantined") == []


def test_what_is_held_is_released_by_its_id(open_service, tmp_path, judge):
    """With all that it said, in its place of the session, for good."""
    path, embedder = tmp_path / "m.db", Recorder()
    service = open_service(path, on_write=judge, embedder=embedder)
    events = [turn(1, "zebra 1"), turn(2, "held zebra 2"), turn(3, "zebra 3")]
    ids = service.sync.add_session_to_memory(session(*events))
    service.sync.add_memory(**ALICE, memories=[HELD])
    refuses(NotFoundError, lambda: service.sync.release_memory(**BOB, memory_id=ids[1]))
    for id_ in ("h", ids[1]):
        assert service.sync.release_memory(**ALICE, memory_id=id_) == [id_]
    refuses(NotFoundError, lambda: service.sync.release_memory(**ALICE, memory_id="h"))
    assert listed(service, "quarantined") == []
    everything = ["held zebra", "held zebra 2", "zebra 1", "zebra 3"]
    assert found(service) == everything
    around = service.sync.expand_session(**ALICE, memory_id=ids[1])
    assert [memory.text for memory in around] == ["zebra 1", "held zebra 2", "zebra 3"]
    got = service.sync.get_memory(**ALICE, memory_id="h")
    assert (got.source, got.trust, got.kind) == ("web", "unknown", "fact")
    # What was released stays so, although the hook would hold it again.
    service.sync.add_session_to_memory(session(*events))
    service.sync.add_memory(**ALICE, memories=[HELD])
    assert found(service) == everything
    service.close()
    with open_service(path, on_write=judge, embedder=embedder) as again:
        again.sync.add_session_to_memory(session(*events))
        assert found(again) == everything


def test_a_released_memory_that_says_something_else_is_judged_anew(open_service, judge):
    """A release is for what somebody has read, not for what comes under its id."""
    service = open_service(on_write=judge)
    service.sync.add_memory(**ALICE, memories=[HELD])
    service.sync.release_memory(**ALICE, memory_id="h")
    other = MemoryEntry("held zebra, and more", id="h")
    service.sync.add_memory(**ALICE, memories=[other])
    assert found(service) == []
    assert listed(service, "quarantined") == ["held zebra, and more"]


@pytest.mark.parametrize("options", [{"ttl": 1e6}, {}], ids=["ttl", "valid until"])
def test_a_released_memory_with_an_end_is_not_held_again(open_service, judge, options):
    """And its end stays what it was."""
    service = open_service(on_write=judge)
    entry = MemoryEntry("held zebra", id="h", valid_until=None if options else 4e9)
    for _ in range(3):
        service.sync.add_memory(**ALICE, memories=[entry], custom_metadata=options)
        if listed(service, "quarantined"):
            service.sync.release_memory(**ALICE, memory_id="h")
        (memory,) = service.sync.list_memories(**ALICE)
        assert memory.valid_until == entry.valid_until
        assert found(service) == ["held zebra"]


def test_what_is_held_and_told_again_changes_nothing(open_service, tmp_path, judge):
    """It goes on waiting, also when the hook has gone."""
    path = tmp_path / "m.db"
    events = [turn(1, "zebra 1"), turn(2, "held zebra 2")]
    with open_service(path, on_write=judge, maintenance_interval=None) as service:
        service.sync.add_memory(**ALICE, memories=[HELD])
        service.sync.add_session_to_memory(session(*events))
    before = dump(path)
    for hook in (judge, lambda _: ALLOW, None):
        with open_service(path, on_write=hook, maintenance_interval=None) as service:
            service.sync.add_memory(**ALICE, memories=[HELD])
            service.sync.add_session_to_memory(session(*events))
            assert found(service) == ["zebra 1"]
        assert dump(path) == before


def test_what_is_held_is_deleted_like_all_else(open_service, tmp_path, judge):
    """By id, with its session, by a filter, with its user; and it stays away."""
    ways: list[tuple[str, dict[str, Any]]] = [
        ("delete_memory", {"memory_id": "h"}),
        ("delete_session", {"session_id": "s"}),
        ("delete_where", {"filter": Filter(kind="fact")}),
        ("delete_user", {}),
        ("delete_user", {"forget": True}),
    ]
    for number, (name, options) in enumerate(ways):
        folder = tmp_path / str(number)
        folder.mkdir()
        service = open_service(folder / "m.db", on_write=judge)
        entry = MemoryEntry(f"held {SECRET}", id="h", kind="fact", session_id="s")
        service.sync.add_memory(**ALICE, memories=[entry])
        getattr(service.sync, name)(**ALICE, **options)
        assert listed(service, "quarantined") == []
        refuses(
            NotFoundError,
            lambda s=service: s.sync.release_memory(**ALICE, memory_id="h"),
        )
        service.sync.admin.purge()
        service.close()
        assert SECRET.encode() not in bytes_of(folder), name


def test_a_held_memory_takes_nothing_away(open_service, judge):
    """What it contradicts is archived when it is released, and not before."""
    service = open_service(on_write=judge)
    service.sync.add_memory(**ALICE, memories=[MemoryEntry("zebra", id="f")])
    newer = MemoryEntry("held zebra", id="g", supersedes="f")
    service.sync.add_memory(**ALICE, memories=[newer])
    assert found(service) == ["zebra"]
    service.sync.release_memory(**ALICE, memory_id="g")
    assert found(service) == ["held zebra"]
    assert listed(service, "archived") == ["zebra"]


def test_what_is_held_in_a_place_beside_the_users_is_released_there(
    open_service, judge
):
    """S4.61: by its scope, and by no other."""
    both = Scopes(read={"shared", "app"}, write={"shared", "app"})
    service = open_service(on_write=judge, scopes=both)
    for scope in ("shared", "app"):
        service.sync.add_memory(**ALICE, memories=[HELD], scope=scope)
        assert listed(service, "quarantined", scope=scope) == ["held zebra"]
        refuses(
            NotFoundError, lambda: service.sync.release_memory(**ALICE, memory_id="h")
        )
        assert service.sync.release_memory(**ALICE, memory_id="h", scope=scope) == ["h"]
        assert listed(service, "quarantined", scope=scope) == []
    assert found(service) == ["held zebra"] * 2
    assert {
        (each.app_name, each.user_id, each.memory.scope) for each in judge.seen
    } == {
        ("app", "alice", "shared"),
        ("app", "alice", "app"),
    }


@pytest.mark.parametrize("word", ["held", "refused"])
def test_what_is_kept_out_reaches_no_summary(open_service, judge, word):
    """Else its words would come in by another door."""
    provider = Recording((SessionSummary("about zebras"),))
    service = open_service(on_write=judge, summarizer=provider)
    said = [turn(1, "zebra 1"), turn(2, f"{word} zebra 2")]
    service.sync.observe_session(session(*said))
    service.sync.end_session(**ALICE, session_id="s")
    shown = json.dumps(provider.sessions)
    assert "zebra 1" in shown
    assert word not in shown
    assert found(service) == ["about zebras"]


def test_a_refused_summary_leaves_no_session_stuck(open_service, judge):
    """It is left out; the summarizer is not asked for ever."""
    provider = Recording((SessionSummary("refused zebra"),))
    service = open_service(on_write=judge, summarizer=provider)
    service.sync.observe_session(session(turn(1)))
    for _ in range(2):
        assert service.sync.end_session(**ALICE, session_id="s") == []
    assert len(provider.sessions) == 1
    assert service.sync.admin.stats()["memories"] == 0


def compaction(text: str, end: float) -> dict[str, Any]:
    summed = {
        "start_timestamp": 0.0,
        "end_timestamp": end,
        "compacted_content": {"parts": [{"text": text}]},
    }
    return {"id": f"c{end}", "author": "user", "actions": {"compaction": summed}}


def test_a_refused_compaction_is_left_out(open_service, judge):
    """And the turns after it are observed as ever."""
    service = open_service(on_write=judge, trigger=Compaction())
    said = [turn(1), compaction("refused", 2.0)]
    assert service.sync.observe_session(session(*said)) == []
    said += [turn(3), compaction("zebra to turn 3", 4.0)]
    assert len(service.sync.observe_session(session(*said))) == 1
    assert found(service) == ["zebra to turn 3"]


@pytest.mark.parametrize("trigger", [None, Compaction(), MessageCount(9)])
def test_a_redacted_compaction_waits_nowhere_as_it_was(
    open_service, tmp_path, judge, trigger
):
    """What waits has been judged."""
    folder = tmp_path / "data"
    folder.mkdir()
    service = open_service(folder / "m.db", on_write=judge, trigger=trigger)
    service.sync.observe_session(session(turn(1), compaction(f"zebra {SECRET}", 2.0)))
    service.sync.admin.purge()
    service.close()
    assert SECRET.encode() not in bytes_of(folder)


@pytest.mark.parametrize("word", ["held", "refused"])
def test_turns_stay_until_a_live_summary_stands_in_their_place(
    open_service, judge, word
):
    """Consolidation does not make memories go away that nothing replaces."""
    provider = Recording((SessionSummary(f"{word} summary"),))
    service = open_service(on_write=judge)
    service.sync.add_session_to_memory(session(turn(1, "zebra 1"), turn(2, "zebra 2")))
    service.sync.consolidate(**ALICE, older_than=1.0, summarizer=provider)
    assert found(service) == ["zebra 1", "zebra 2"]


def test_observed_turns_are_judged_when_they_are_new(open_service, judge):
    """S2.25: not again with every turn that follows."""
    service = open_service(on_write=judge)
    for count in range(1, 5):
        turns = [turn(number) for number in range(count)]
        service.sync.observe_session(session(*turns))
    assert judge.texts == [f"turn word{number}" for number in range(4)]


def test_an_update_that_is_held_says_what_became_of_it(open_service):
    """The memory is no longer found, and its caller is told of no error."""

    def hook(write: PendingWrite) -> Verdict:
        return QUARANTINE if "held" in write.memory.text else ALLOW

    service = open_service(on_write=hook)
    service.sync.add_memory(**ALICE, memories=[MemoryEntry("zebra", id="f")])
    changed = service.sync.update_memory(**ALICE, memory_id="f", content="held zebra")
    assert changed.text == "held zebra"
    assert found(service) == []
    service.sync.release_memory(**ALICE, memory_id="f")
    assert found(service) == ["held zebra"]
    states = [
        (past.memory.text, past.state)
        for past in service.sync.memory_history(**ALICE, memory_id="f")
    ]
    assert states == [("zebra", "overwritten"), ("held zebra", "live")]


@pytest.mark.parametrize("way", ["consolidation", "count", "summarizer", "compaction"])
def test_what_vecall_makes_itself_is_judged_too(open_service, judge, way):
    """Summaries and what triggers make go through the gate like all else."""
    options: dict[str, Any] = {"maintenance_interval": None, "on_write": judge}
    provider = Recording((SessionSummary("held summary"),))
    compaction = {
        "start_timestamp": 0.0,
        "end_timestamp": 9.0,
        "compacted_content": {"parts": [{"text": "held summary"}]},
    }
    said = [turn(1), turn(2)]
    expected = ["held summary"]
    if way == "consolidation":
        service = open_service(**options)
        service.sync.add_session_to_memory(session(*said))
        service.sync.consolidate(**ALICE, older_than=1.0, summarizer=provider)
    elif way == "compaction":
        service = open_service(**options, trigger=Compaction())
        said.append({"id": "c", "actions": {"compaction": compaction}})
        service.sync.observe_session(session(*said))
    elif way == "summarizer":
        options["summarizer"] = provider
        service = open_service(**options, trigger=MessageCount(2))
        service.sync.observe_session(session(*said))
        service.sync.admin.run_due()
    else:
        service = open_service(**options, trigger=MessageCount(2))
        said.append(turn(3, "held summary"))
        service.sync.observe_session(session(*said))
        service.sync.admin.run_due()
    assert listed(service, "quarantined") == expected
    assert "held summary" in judge.texts
    (write,) = (each for each in judge.seen[-1:] if "held" in each.memory.text)
    assert write.memory.kind == ("episode" if way == "count" else "summary")
