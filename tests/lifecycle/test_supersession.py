"""A newer fact takes the place of an older one; what was true for a time ends."""

from __future__ import annotations

from typing import Any

import pytest
from helpers.clocks import SettableClock
from helpers.embedders import Recorder
from helpers.lifecycle import add, everything, found, get, kept, past, update
from helpers.memories import ALICE, BOB
from vecall import InvalidArgumentError, MemoryEntry, NotFoundError

OLD, NEW = "lives in Rome", "lives in Paris"


def moved(service: Any) -> tuple[str, str]:
    """An older and a newer fact, the second told in place of the first."""
    return add(service, OLD, "old"), add(service, NEW, "new", supersedes="old")


@pytest.mark.parametrize("embedder", [None, Recorder()])
def test_only_the_newer_fact_is_found(open_service, embedder):
    """S4.60: the older one is kept, listed, and says until when it was true."""
    clock = SettableClock()
    service = open_service(clock=clock, embedder=embedder, maintenance_interval=None)
    add(service, OLD, "old")
    clock.let_pass(60.0)
    add(service, NEW, "new", supersedes="old")
    response = service.sync.search_memory(**ALICE, query="lives in Rome", top_k=10)
    assert [memory.text for memory in response.memories] == [NEW]
    with pytest.raises(NotFoundError):
        get(service, "old")
    assert get(service, "new").supersedes == "old"
    (archived,) = service.sync.list_memories(**ALICE, state="archived")
    assert (archived.id, archived.text) == ("old", OLD)
    assert archived.valid_until == clock.wall()
    assert kept(service) == {"new": NEW}
    assert past(service, "new") == [
        (OLD, "archived", "superseded"),
        (NEW, "live", None),
    ]
    stats = service.sync.admin.stats()
    assert (stats["memories"], stats["archived"]) == (1, 1)


def test_an_end_of_validity_that_was_known_stays(open_service):
    """S4.60: replacing a fact does not say that it was true for longer."""
    clock = SettableClock()
    service = open_service(clock=clock, maintenance_interval=None)
    until = clock.wall() + 50.0
    add(service, OLD, "old", valid_until=until)
    add(service, NEW, "new", supersedes="old")
    (archived,) = service.sync.list_memories(**ALICE, state="archived")
    assert archived.valid_until == until


def test_a_replacement_of_nothing_is_refused(open_service):
    """S4.65: an unknown id, another user's, one's own; nothing is written."""
    service = open_service()
    add(service, OLD, "old")
    service.sync.add_memory(**BOB, memories=[MemoryEntry("bob's", id="bobs")])
    before = everything(service), everything(service, **BOB), service.sync.admin.stats()
    for missing in ("nobody", "bobs"):
        entries = [
            MemoryEntry("harmless", id="harmless"),
            MemoryEntry(NEW, id="new", supersedes=missing),
            MemoryEntry("changed", id="old"),
        ]
        with pytest.raises(NotFoundError):
            service.sync.add_memory(**ALICE, memories=entries)
    carol = {**ALICE, "user_id": "carol"}
    entry = MemoryEntry(NEW, supersedes="old")
    with pytest.raises(NotFoundError):
        service.sync.add_memory(**carol, memories=[entry])
    after = everything(service), everything(service, **BOB), service.sync.admin.stats()
    assert before[:2] == after[:2]
    for name in ("users", "memories", "archived"):
        assert before[2][name] == after[2][name]
    assert past(service, "old") == [(OLD, "live", None)]


def test_a_memory_cannot_take_its_own_place(open_service):
    """S4.65: it would be kept and never found."""
    service = open_service()
    with pytest.raises(InvalidArgumentError):
        add(service, NEW, "same", supersedes="same")
    add(service, OLD, "same")
    with pytest.raises(InvalidArgumentError):
        add(service, NEW, "same", supersedes="same")
    assert kept(service) == {"same": OLD}


def test_a_deleted_fact_may_be_named(open_service):
    """S4.60: what is gone for good needs no archiving."""
    service = open_service()
    add(service, OLD, "old")
    service.sync.delete_memory(**ALICE, memory_id="old")
    add(service, NEW, "new", supersedes="old")
    assert kept(service) == {"new": NEW}
    assert past(service, "new") == [(NEW, "live", None)]


def test_telling_both_facts_again_changes_nothing(open_service, tmp_path):
    """S4.60, S4.65: every turn, after a restart, and with no call of the embedder."""
    embedder = Recorder()
    service = open_service(tmp_path / "m.db", embedder=embedder)
    moved(service)
    before = everything(service)
    embedder.asked.clear()
    for _ in range(2):
        add(service, NEW, "new", supersedes="old")
        add(service, OLD, "old")
        add(service, NEW, "new")
        assert everything(service) == before
    service.close()
    service = open_service(tmp_path / "m.db", embedder=embedder)
    add(service, OLD, "old")
    add(service, NEW, "new", supersedes="old")
    assert everything(service) == before
    assert embedder.asked == []


def test_both_facts_in_one_call(open_service):
    """S4.60: the older one is written and archived at once."""
    service = open_service()
    entries = [MemoryEntry(OLD, id="old"), MemoryEntry(NEW, id="new", supersedes="old")]
    service.sync.add_memory(**ALICE, memories=entries)
    assert kept(service) == {"new": NEW}
    assert kept(service, "archived") == {"old": OLD}
    assert found(service, "lives") == {NEW}


def test_a_restored_newer_fact_takes_the_place_of_the_older_one_again(open_service):
    """S4.60: whichever of the two is restored last is the one that is found."""
    service = open_service(embedder=Recorder())
    old, new = moved(service)
    service.sync.archive_memory(**ALICE, memory_id=new)
    assert service.sync.restore_memory(**ALICE, memory_id=old) == [old]
    assert found(service, "lives") == {OLD}
    assert service.sync.restore_memory(**ALICE, memory_id=new) == [new]
    assert kept(service) == {new: NEW}
    assert kept(service, "archived") == {old: OLD}
    assert found(service, "lives") == {NEW}
    assert past(service, old)[-1] == (OLD, "archived", "superseded")


def test_a_replaced_fact_comes_back_and_stays(open_service):
    """S4.60: restoring is somebody's decision, which no ingest undoes."""
    service = open_service(embedder=Recorder())
    old, new = moved(service)
    assert service.sync.restore_memory(**ALICE, memory_id=old) == [old]
    assert found(service, "lives") == {OLD, NEW}
    assert get(service, old).valid_until is None
    assert past(service, old) == [(OLD, "live", None)]
    assert past(service, new) == [(NEW, "live", None)]
    add(service, NEW, "new", supersedes="old")  # as a callback does
    update(service, new, content="lives in Lyon")
    assert get(service, new).supersedes == old
    assert kept(service) == {old: OLD, new: "lives in Lyon"}
    service.sync.delete_memory(**ALICE, memory_id=new)
    assert kept(service) == {old: OLD}


def test_restoring_what_is_not_away_is_refused(open_service):
    """S4.60: live, unknown, deleted, and another user's."""
    service = open_service()
    old, new = moved(service)
    gone = add(service, "gone", "gone")
    service.sync.archive_memory(**ALICE, memory_id=gone)
    service.sync.delete_memory(**ALICE, memory_id=gone)
    before = everything(service)
    for missing in (new, gone, "nobody"):
        with pytest.raises(NotFoundError):
            service.sync.restore_memory(**ALICE, memory_id=missing)
    with pytest.raises(NotFoundError):
        service.sync.restore_memory(**BOB, memory_id=old)
    for missing in (old, gone, "nobody"):
        with pytest.raises(NotFoundError):
            service.sync.archive_memory(**ALICE, memory_id=missing)
    with pytest.raises(NotFoundError):
        service.sync.archive_memory(**BOB, memory_id=new)
    assert everything(service) == before


def test_a_fact_is_found_exactly_as_long_as_it_is_true(open_service):
    """S4.60: until then and not after; kept, listed, and restorable."""
    clock = SettableClock()
    service = open_service(clock=clock, embedder=Recorder(), maintenance_interval=None)
    until = clock.wall() + 3_600.0
    id_ = add(service, OLD, valid_until=until)
    clock.let_pass(3_599.999)
    assert found(service, "Rome") == {OLD}
    assert get(service, id_).valid_until == until
    assert service.sync.admin.run_due() == 0
    clock.let_pass(0.001)
    assert found(service, "Rome") == set()
    with pytest.raises(NotFoundError):
        get(service, id_)
    assert kept(service) == {}
    service.sync.admin.run_due()
    (archived,) = service.sync.list_memories(**ALICE, state="archived")
    assert (archived.id, archived.valid_until) == (id_, until)
    assert service.sync.admin.stats()["memories"] == 0
    assert service.sync.restore_memory(**ALICE, memory_id=id_) == [id_]
    assert found(service, "Rome") == {OLD}
    clock.let_pass(3_600.0)
    service.sync.admin.run_due()
    assert found(service, "Rome") == {OLD}


def test_a_fact_that_lapsed_is_told_with_a_later_end(open_service):
    """S4.60: told again as it was it stays away, with a new end it is true again."""
    clock = SettableClock()
    service = open_service(clock=clock, maintenance_interval=None)
    until = clock.wall() + 10.0
    add(service, OLD, "old", valid_until=until)
    clock.let_pass(10.0)
    service.sync.admin.run_due()
    add(service, OLD, "old", valid_until=until)
    assert (kept(service), kept(service, "archived")) == ({}, {"old": OLD})
    add(service, OLD, "old", valid_until=until + 20.0)
    assert found(service, "Rome") == {OLD}
    assert past(service, "old") == [(OLD, "live", None)]


def test_a_replacement_survives_a_move_to_another_file(open_service, tmp_path):
    """S4.60, S2.6: export and import keep who stands in whose place."""
    service = open_service(tmp_path / "m.db")
    moved(service)
    service.sync.admin.export_jsonl(tmp_path / "all.jsonl")
    other = open_service(tmp_path / "other.db")
    other.sync.admin.import_jsonl(tmp_path / "all.jsonl")
    assert everything(other) == everything(service)
    assert found(other, "lives") == {NEW}
    other.sync.delete_memory(**ALICE, memory_id="new")
    assert everything(other) == [[], [], []]


def test_a_correction_of_the_newer_fact_keeps_the_place(open_service):
    """S4.60: its text changes, what it replaced stays away."""
    service = open_service()
    moved(service)
    assert update(service, "new", content="lives in Lyon").supersedes == "old"
    assert kept(service) == {"new": "lives in Lyon"}
    assert kept(service, "archived") == {"old": OLD}
    add(service, OLD, "old")
    assert kept(service) == {"new": "lives in Lyon"}


def test_an_import_of_a_restored_fact_does_not_tie_it_to_the_newer_one(
    open_service, tmp_path
):
    """S2.6, S4.60: what is live in both files is not deleted with what replaced it."""
    one, two = open_service(tmp_path / "1.db"), open_service(tmp_path / "2.db")
    moved(one)
    one.sync.admin.export_jsonl(tmp_path / "before.jsonl")
    two.sync.admin.import_jsonl(tmp_path / "before.jsonl")
    one.sync.restore_memory(**ALICE, memory_id="old")
    one.sync.admin.export_jsonl(tmp_path / "after.jsonl")
    two.sync.admin.import_jsonl(tmp_path / "after.jsonl")
    one.sync.admin.import_jsonl(tmp_path / "before.jsonl")
    for each in (one, two):
        assert kept(each) == {"old": OLD, "new": NEW}
        assert past(each, "old") == [(OLD, "live", None)]
        assert past(each, "new") == [(NEW, "live", None)]
        each.sync.delete_memory(**ALICE, memory_id="new")
        assert kept(each) == {"old": OLD}


def test_a_replaced_fact_with_something_new_to_say_is_found_again(open_service):
    """S4.60: told with another text it is true again, without an end."""
    service = open_service(embedder=Recorder())
    moved(service)
    add(service, "lives in Rome again", "old")
    assert found(service, "lives") == {"lives in Rome again", NEW}
    assert past(service, "new") == [(NEW, "live", None)]
    service.sync.admin.run_due()
    assert set(kept(service)) == {"old", "new"}
