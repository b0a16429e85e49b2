"""What a memory was: every text that it had, oldest first, until it is deleted."""

from __future__ import annotations

import pytest
from helpers.clocks import DAY, SettableClock
from helpers.embedders import Recorder, session
from helpers.lifecycle import add, bytes_with, get, kept, past, update
from helpers.memories import ALICE, BOB
from vecall import MemoryEntry, NotFoundError, Revision


def told(service, text: str) -> str:
    """One turn of a session, told with this text; returns its id."""
    (id_,) = service.sync.add_session_to_memory(session(text))
    return str(id_)


def superseded(service, *texts: str) -> list[str]:
    """Facts each of which takes the place of the one before."""
    ids: list[str] = []
    for text in texts:
        ids.append(add(service, text, supersedes=ids[-1] if ids else None))
    return ids


def test_a_history_goes_through_updates_and_corrections(open_service):
    """S1.49: oldest first, with when, why and by whom."""
    clock = SettableClock()
    service = open_service(clock=clock, maintenance_interval=None)
    id_ = told(service, "one gnu")
    times = []
    clock.let_pass(10.0)
    assert told(service, "two gnus") == id_
    times.append(clock.wall())
    clock.let_pass(10.0)
    update(service, id_, content="three gnus", kind="fact", importance=1.0)
    times.append(clock.wall())
    clock.let_pass(10.0)
    service.sync.mark_used(**ALICE, memory_ids=[id_])  # which is no revision
    revisions = service.sync.memory_history(**ALICE, memory_id=id_)
    assert all(isinstance(each, Revision) for each in revisions)
    assert [
        (each.memory.text, each.state, each.at, each.why) for each in revisions
    ] == [
        ("one gnu", "overwritten", times[0], "update"),
        ("two gnus", "overwritten", times[1], "edit"),
        ("three gnus", "live", None, None),
    ]
    assert [each.by for each in revisions] == [None] * 3
    assert [each.uses for each in revisions] == [None, None, 1]
    assert [each.expires_at for each in revisions] == [None] * 3
    service.sync.touch_memories(**ALICE, memory_ids=[id_], ttl=500.0)
    ends = [
        each.expires_at for each in service.sync.memory_history(**ALICE, memory_id=id_)
    ]
    assert ends == [None, None, clock.wall() + 500.0]
    assert [each.memory.kind for each in revisions] == ["episode", "episode", "fact"]
    assert {each.memory.id for each in revisions} == {id_}
    assert revisions[-1].memory == get(service, id_)
    start = times[0] - 10.0
    assert [each.memory.updated_at for each in revisions] == [start, *times]
    assert {each.memory.created_at for each in revisions} == {start}


def test_a_memory_that_never_changed_has_one_revision(open_service):
    """S1.49: telling it again as it was, and marking it, are no changes."""
    service = open_service()
    for _ in range(3):
        id_ = told(service, "one gnu")
    assert past(service, id_) == [("one gnu", "live", None)]


def test_a_chain_of_replacements_is_told_whole(open_service):
    """S1.49: A <- B <- C shows all three, and what each of them said before."""
    service = open_service()
    one = add(service, "lives in Oslo")
    update(service, one, content="lives in Rome")
    two = add(service, "lives in Paris", supersedes=one)
    three = add(service, "lives in Quito", supersedes=two)
    update(service, three, content="lives in Lima")
    assert past(service, three) == [
        ("lives in Oslo", "overwritten", "edit"),
        ("lives in Rome", "archived", "superseded"),
        ("lives in Paris", "archived", "superseded"),
        ("lives in Quito", "overwritten", "edit"),
        ("lives in Lima", "live", None),
    ]
    assert past(service, two) == past(service, three)[:3]
    revisions = service.sync.memory_history(**ALICE, memory_id=three)
    assert [each.by for each in revisions] == [None, two, three, None, None]


def test_what_was_merged_or_lapsed_says_so(open_service):
    """S1.49: why a memory is not found any more."""
    clock = SettableClock()
    service = open_service(clock=clock, maintenance_interval=None)
    add(service, "likes tea", "a", timestamp=1.0)
    add(service, "Likes tea!", "b", timestamp=2.0)
    add(service, "is in Rome", "c", valid_until=clock.wall() + 10.0)
    add(service, "likes gnus", "d")
    service.sync.consolidate(**ALICE)
    service.sync.archive_memory(**ALICE, memory_id="d")
    clock.let_pass(10.0)
    service.sync.admin.run_due()
    assert past(service, "b") == [
        ("likes tea", "archived", "merged"),
        ("Likes tea!", "live", None),
    ]
    assert past(service, "c") == [("is in Rome", "archived", "lapsed")]
    assert past(service, "d") == [("likes gnus", "archived", "archived")]


def test_a_history_is_its_users_alone(open_service):
    """S1.49: unknown, another user's, another app's and deleted ids are not there."""
    service = open_service()
    id_ = told(service, "one gnu")
    told(service, "two gnus")
    for scope in (BOB, {**ALICE, "app_name": "another"}):
        with pytest.raises(NotFoundError):
            service.sync.memory_history(**scope, memory_id=id_)
    service.sync.add_memory(**BOB, memories=[MemoryEntry("bob's gnu", id=id_)])
    assert past(service, id_, **BOB) == [("bob's gnu", "live", None)]
    assert len(past(service, id_)) == 2
    service.sync.delete_memory(**ALICE, memory_id=id_)
    for missing in (id_, "nobody"):
        with pytest.raises(NotFoundError):
            service.sync.memory_history(**ALICE, memory_id=missing)
    assert past(service, id_, **BOB) == [("bob's gnu", "live", None)]


def test_a_history_survives_a_restart_and_a_move(open_service, tmp_path):
    """S1.49: the same in a reopened file, and in one that imported it."""
    service = open_service(tmp_path / "m.db")
    _, _, newest = superseded(service, "gnu one", "gnu two", "gnu three")
    update(service, newest, content="gnu four")
    before = service.sync.memory_history(**ALICE, memory_id=newest)
    assert len(before) == 4
    service.close()
    service = open_service(tmp_path / "m.db")
    assert service.sync.memory_history(**ALICE, memory_id=newest) == before
    service.sync.admin.export_jsonl(tmp_path / "all.jsonl")
    other = open_service(tmp_path / "other.db")
    for _ in range(2):  # a second time changes nothing
        other.sync.admin.import_jsonl(tmp_path / "all.jsonl")
        assert other.sync.memory_history(**ALICE, memory_id=newest) == before


@pytest.mark.parametrize("sweep", [False, True])
def test_what_expired_is_in_no_history(open_service, sweep):
    """S1.49: a time to live ends before the sweep as it does after it."""
    clock = SettableClock()
    service = open_service(clock=clock, maintenance_interval=None, history_ttl=DAY)
    id_ = told(service, "one gnu")
    told(service, "two gnus")
    brief = add(service, "brief gnu", custom_metadata={"ttl": 10})
    clock.let_pass(DAY)
    if sweep:
        service.sync.admin.run_due()
    assert past(service, id_) == [("two gnus", "live", None)]
    with pytest.raises(NotFoundError):
        service.sync.memory_history(**ALICE, memory_id=brief)


def test_a_past_that_expired_does_not_let_the_correction_be_undone(
    open_service, tmp_path
):
    """S4.60: what was corrected is gone from the file, and yet stays away."""
    clock = SettableClock()
    service = open_service(
        tmp_path / "m.db", clock=clock, maintenance_interval=None, history_ttl=DAY
    )
    id_ = told(service, "wrongword gnu")
    update(service, id_, content="right gnu")
    clock.let_pass(DAY)
    service.sync.admin.run_due()
    service.sync.admin.purge()
    assert past(service, id_) == [("right gnu", "live", None)]
    assert bytes_with(tmp_path, ["wrongword", "right gnu"]) == {"right gnu"}
    service.sync.add_session_to_memory(session("wrongword gnu"))
    assert kept(service) == {id_: "right gnu"}


def test_a_deleted_memory_takes_its_past_with_it(open_service, tmp_path):
    """S4.60: after a purge no text that it ever had is in any file."""
    path = tmp_path / "m.db"
    service = open_service(path, embedder=Recorder())
    id_ = told(service, "wordone")
    told(service, "wordtwo")
    update(service, id_, content="wordthree")
    update(service, id_, content="wordfour", source="wordfive")
    *_, newest = superseded(service, "factone", "facttwo", "factthree")
    update(service, newest, content="factfour")
    other = told(service, "wordone")
    assert other == id_
    words = [f"word{n}" for n in "one two three four five".split()]
    words += [f"fact{n}" for n in "one two three four".split()]
    service.sync.add_memory(**ALICE, memories=[f"filler {n}" for n in range(600)])
    service.sync.admin.warm(**ALICE)
    service.close()
    assert list((tmp_path / "m.db.snap").iterdir())
    assert bytes_with(tmp_path, words) == set(words)
    service = open_service(path, embedder=Recorder())
    service.sync.delete_memory(**ALICE, memory_id=id_)
    service.sync.delete_memory(**ALICE, memory_id=newest)
    service.sync.admin.purge()
    assert bytes_with(tmp_path, words) == set()
    service.close()
    assert bytes_with(tmp_path, words) == set()


def test_a_page_after_a_memory_that_is_gone_is_refused(open_service):
    """S4.58: it would begin again with the first, and its reader would never end."""
    service = open_service()
    first, second, third = (add(service, text) for text in ("one", "two", "three"))

    def page(after: str) -> list[str | None]:
        return [each.id for each in service.sync.list_memories(**ALICE, cursor=after)]

    assert page(first) == [second, third]
    service.sync.archive_memory(**ALICE, memory_id=first)
    assert page(first) == [second, third]
    service.sync.delete_memory(**ALICE, memory_id=second)
    for gone in (second, "never there"):
        with pytest.raises(NotFoundError):
            page(gone)
