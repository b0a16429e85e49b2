"""Correcting a memory: the id stays, what it said before is not found again."""

from __future__ import annotations

from typing import Any

import pytest
from helpers.clocks import SettableClock
from helpers.embedders import Recorder, session
from helpers.lifecycle import add, everything, found, get, kept, past, update
from helpers.memories import ALICE, BOB
from helpers.processes import child, said, tell
from vecall import InvalidArgumentError, InvalidTypeError, NotFoundError

OLD, NEW = "I live in Rome.", "I live in Paris."


def told(service: Any, *texts: str, **more: Any) -> list[str]:
    """A session as a callback tells it, turn by turn the whole of it."""
    return service.sync.add_session_to_memory(session(*(texts or (OLD, "Noted."))))


def test_a_correction_is_found_by_its_words_and_its_vector(open_service):
    """S4.60, S2.6: the id stays; the old text is found by neither way."""
    embedder = Recorder()
    service = open_service(embedder=embedder)
    id_ = add(service, "gnus migrate")
    embedder.asked.clear()
    entry = update(service, id_, content="tapirs swim")
    assert embedder.asked == ["tapirs swim"]
    assert (entry.id, entry.text) == (id_, "tapirs swim")
    assert get(service, id_) == entry
    assert found(service, "gnus migrate") == set()
    assert found(service, "tapirs") == {"tapirs swim"}
    similar = {
        query: service.sync.search_memory(**ALICE, query=query).memories[0].similarity
        for query in ("tapirs swim", "gnus migrate")
    }
    assert similar["tapirs swim"] == pytest.approx(1.0, abs=1e-6)
    assert similar["gnus migrate"] < 0.99


def test_a_correction_back_to_what_it_was_keeps_a_vector(open_service):
    """S4.60: two corrections in a row, the second undoes the first."""
    service = open_service(embedder=Recorder())
    id_ = add(service, OLD)
    update(service, id_, content=NEW)
    update(service, id_, content=OLD)
    (found_,) = service.sync.search_memory(**ALICE, query=OLD).memories
    assert found_.similarity == pytest.approx(1.0, abs=1e-6)
    assert service.sync.admin.stats()["embedded"] == 1
    assert past(service, id_) == [
        (OLD, "overwritten", "edit"),
        (NEW, "overwritten", "edit"),
        (OLD, "live", None),
    ]


def test_what_is_not_corrected_stays(open_service):
    """S2.25, S4.60: times, position, uses, importance, trust, metadata, expiry."""
    clock = SettableClock()
    service = open_service(clock=clock, maintenance_interval=None)
    first, second, third = told(service, "one gnu", "two gnus", "three gnus")
    service.sync.mark_used(**ALICE, memory_ids=[second])
    before = get(service, second)
    clock.let_pass(60.0)
    after = update(service, second, content="two okapis")
    assert after.updated_at == clock.wall() == before.updated_at + 60.0
    for name in ("created_at", "author", "kind", "session_id", "event_id", "trust"):
        assert getattr(after, name) == getattr(before, name), name
    around = service.sync.expand_session(**ALICE, memory_id=second)
    assert [turn.id for turn in around] == [first, second, third]
    fact = add(
        service,
        "a hint",
        importance=0.25,
        trust="verified",
        source="crm",
        timestamp=5.0,
        custom_metadata={"ttl": 300, "tag": ["x"]},
    )
    after = update(service, fact, content="another hint")
    assert after.trust == "verified"
    assert after.source == "crm"
    assert after.timestamp == 5.0
    assert after.custom_metadata == {"tag": ["x"]}
    clock.let_pass(299.0)
    get(service, fact)
    clock.let_pass(1.0)
    with pytest.raises(NotFoundError):
        get(service, fact)


def test_uses_and_the_stored_importance_stay(open_service, tmp_path):
    """S4.60: an update that does not set the importance writes none of its own."""
    service = open_service(tmp_path / "m.db")
    plain, hinted = add(service, "plain"), add(service, "hinted", importance=0.25)
    for _ in range(3):
        service.sync.mark_used(**ALICE, memory_ids=[plain, hinted])
    update(service, plain, content="plainer")
    update(service, hinted, content="more hinted")
    export = tmp_path / "all.jsonl"
    service.sync.admin.export_jsonl(export)
    lines = export.read_text().splitlines()
    (one,) = (line for line in lines if '"text":"plainer"' in line)
    assert '"uses":3' in one
    assert '"importance"' not in one.split('{"mem"')[1]
    (two,) = (line for line in lines if '"text":"more hinted"' in line)
    assert '"uses":3' in two
    assert '"importance":0.25' in two


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("author", "guide"),
        ("author", None),
        ("timestamp", 7.0),
        ("kind", "preference"),
        ("source", "letter"),
        ("custom_metadata", {"a": 1}),
        ("custom_metadata", {}),
        ("content", {"parts": [{"text": "one"}, {"text": "two"}]}),
    ],
)
def test_every_field_that_may_change_does(open_service, name, value):
    """S4.60: and nothing else does."""
    service = open_service()
    id_ = add(service, OLD, author="user", kind="fact", custom_metadata={"b": 2})
    before = get(service, id_)
    after = update(service, id_, **{name: value})
    assert getattr(after, name) == value
    for other in ("content", "author", "timestamp", "kind", "source", "trust"):
        assert other == name or getattr(after, other) == getattr(before, other)


def test_an_end_of_validity_in_the_past_is_returned_and_no_longer_found(open_service):
    """S4.60: "that was only true until yesterday"."""
    clock = SettableClock()
    service = open_service(clock=clock, maintenance_interval=None)
    id_ = add(service, OLD)
    after = update(service, id_, valid_until=clock.wall() - 86_400.0)
    assert after.valid_until == clock.wall() - 86_400.0
    assert found(service, "Rome.") == set()
    service.sync.admin.run_due()
    assert kept(service, "archived") == {id_: OLD}


def test_an_end_of_validity_can_be_taken_away(open_service):
    """S4.60: None is a value as well."""
    clock = SettableClock()
    service = open_service(clock=clock, maintenance_interval=None)
    id_ = add(service, OLD, valid_until=clock.wall() + 60.0)
    assert update(service, id_, valid_until=None).valid_until is None
    clock.let_pass(61.0)
    service.sync.admin.run_due()
    assert kept(service) == {id_: OLD}


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({}, InvalidArgumentError),
        ({"trust": "verified"}, TypeError),
        ({"trust": None}, TypeError),
        ({"id": "another"}, TypeError),
        ({"session_id": "another"}, TypeError),
        ({"event_id": "another"}, TypeError),
        ({"supersedes": "x"}, TypeError),
        ({"score": 1.0}, TypeError),
        ({"nonsense": "x"}, TypeError),
        ({"content": NEW, "trust": "verified"}, TypeError),
        ({"content": ""}, InvalidArgumentError),
        ({"content": None}, InvalidTypeError),
        ({"content": 5}, InvalidTypeError),
        ({"author": 5}, InvalidTypeError),
        ({"kind": ["fact"]}, InvalidTypeError),
        ({"source": b"crm"}, InvalidTypeError),
        ({"importance": 1.5}, InvalidArgumentError),
        ({"timestamp": "yesterday"}, InvalidArgumentError),
        ({"custom_metadata": "x"}, InvalidTypeError),
        ({"content": "x" * 2_000_000}, InvalidArgumentError),
    ],
)
def test_what_cannot_be_changed_is_refused(open_service, changes, error):
    """S4.60, S4.65: nothing is written or embedded."""
    embedder = Recorder()
    service = open_service(embedder=embedder)
    id_ = add(service, OLD, trust="low", author="user")
    before = everything(service)
    embedder.asked.clear()
    with pytest.raises(error) as caught:
        update(service, id_, **changes)
    assert "Rome" not in str(caught.value)
    assert everything(service) == before
    assert past(service, id_) == [(OLD, "live", None)]
    assert embedder.asked == []


def test_only_ones_own_live_memory_can_be_corrected(open_service):
    """S4.60: unknown, another user's, deleted, archived and expired ones are not."""
    clock = SettableClock()
    service = open_service(clock=clock, maintenance_interval=None)
    ids = {name: add(service, f"{name} gnu") for name in ("deleted", "archived", "own")}
    ids["expired"] = add(service, "expired gnu", custom_metadata={"ttl": 10})
    ids["lapsed"] = add(service, "lapsed gnu", valid_until=clock.wall() + 10.0)
    service.sync.delete_memory(**ALICE, memory_id=ids["deleted"])
    service.sync.archive_memory(**ALICE, memory_id=ids["archived"])
    clock.let_pass(10.0)
    before = everything(service)
    for name in ("deleted", "archived", "expired", "lapsed"):
        with pytest.raises(NotFoundError):
            update(service, ids[name], content="a new gnu")
    with pytest.raises(NotFoundError):
        update(service, "nobody", content="a new gnu")
    for scope in (BOB, {**ALICE, "app_name": "another"}):
        with pytest.raises(NotFoundError):
            service.sync.update_memory(**scope, memory_id=ids["own"], content="mine")
    assert everything(service) == before
    assert service.sync.admin.stats()["users"] == 1


def test_telling_the_session_again_does_not_undo_a_correction(open_service):
    """S4.60, S4.65: the callback pattern, every turn the whole session."""
    embedder = Recorder()
    service = open_service(embedder=embedder)
    id_, other = told(service)
    update(service, id_, content=NEW)
    embedder.asked.clear()
    told(service)
    told(service, OLD, "Noted.", "And now?")
    assert embedder.asked == ["user: And now?"]
    assert list(kept(service).values()) == [NEW, "Noted.", "And now?"]
    assert get(service, id_).text == NEW
    around = service.sync.expand_session(**ALICE, memory_id=other)
    assert [turn.text for turn in around] == [NEW, "Noted.", "And now?"]
    # What is really new in the turn does change it.
    told(service, "I live in Oslo.", "Noted.")
    assert get(service, id_).text == "I live in Oslo."
    told(service)  # and what was corrected once stays away
    assert get(service, id_).text == "I live in Oslo."
    assert past(service, id_) == [
        (OLD, "overwritten", "edit"),
        (NEW, "overwritten", "update"),
        ("I live in Oslo.", "live", None),
    ]


def test_two_corrections_are_both_kept_out(open_service):
    """S4.60: neither the first text nor the second comes back by an ingest."""
    service = open_service()
    id_, _ = told(service)
    update(service, id_, content=NEW)
    update(service, id_, content="I live in Oslo.")
    told(service)
    told(service, NEW, "Noted.")
    assert get(service, id_).text == "I live in Oslo."


def test_a_correction_of_the_importance_alone_stays(open_service):
    """S4.60: what is told again without a hint does not take it away."""
    service = open_service()
    id_, _ = told(service)
    first = update(service, id_, importance=1.0)
    told(service)
    assert get(service, id_) == first


def test_a_correction_survives_a_restart_and_a_move(open_service, tmp_path):
    """S4.60: reopened, exported and imported, the session told again each time."""
    service = open_service(tmp_path / "m.db")
    id_, _ = told(service)
    update(service, id_, content=NEW)
    service.close()
    service = open_service(tmp_path / "m.db")
    service.sync.admin.export_jsonl(tmp_path / "all.jsonl")
    other = open_service(tmp_path / "other.db")
    other.sync.admin.import_jsonl(tmp_path / "all.jsonl")
    for each in (service, other):
        told(each)
        assert get(each, id_).text == NEW
        assert found(each, "Rome.") == set()
        assert found(each, "Paris.") == {NEW}
        assert past(each, id_) == [(OLD, "overwritten", "edit"), (NEW, "live", None)]


def test_a_restored_snapshot_has_the_correction(open_service, tmp_path):
    """S4.60: what is loaded from the cache beside the file is what the file says."""
    path = tmp_path / "m.db"
    service = open_service(path)
    service.sync.add_memory(**ALICE, memories=[f"filler {n}" for n in range(600)])
    id_ = add(service, OLD)
    service.sync.admin.warm(**ALICE)
    service.close()
    assert list((tmp_path / "m.db.snap").iterdir())
    for text in (NEW, "I live in Oslo."):
        with open_service(path) as again:
            update(again, id_, content=text)
            assert found(again, "Rome.") == set()
        with open_service(path) as again:
            assert found(again, text) >= {text}
            assert found(again, "Rome.") == set()


@pytest.mark.parametrize("gone", ["archive_memory", "delete_memory"])
def test_what_goes_while_it_is_corrected_stays_away(open_service, gone):
    """S4.60: while the embedder works somebody else archives or deletes it."""

    class Meanwhile(Recorder):
        def embed(self, texts: Any) -> Any:
            if NEW in texts:
                getattr(service.sync, gone)(**ALICE, memory_id=id_)
            return super().embed(texts)

    service = open_service(embedder=Meanwhile())
    id_ = add(service, OLD)
    with pytest.raises(NotFoundError):
        update(service, id_, content=NEW)
    live, archived, _ = everything(service)
    assert live == []
    assert [memory.text for memory in archived] == [OLD] * (gone == "archive_memory")


UPDATER = """
import sys, vecall
service = vecall.MemoryService(sys.argv[1], embedder=None)
print("ready", flush=True)
sys.stdin.readline()
scope = dict(app_name=sys.argv[2], user_id=sys.argv[3])
found = service.sync.search_memory(**scope, query="Rome")
service.sync.update_memory(
    **scope, memory_id=found.memories[0].id, content="I live in Paris."
)
print("done", flush=True)
sys.stdin.readline()
"""


def test_another_process_corrects_and_this_one_finds_it(open_service, tmp_path):
    """S4.60: at once, and the old text no more."""
    path = tmp_path / "m.db"
    service = open_service(path)
    id_, _ = told(service)
    assert found(service, "Rome.") == {OLD}
    with child(UPDATER, path, *ALICE.values()) as other:
        assert said(other) == "ready"
        tell(other, "go")
        assert said(other) == "done"
        assert found(service, "Rome.") == set()
        assert found(service, "Paris.") == {NEW}
        told(service)
        assert get(service, id_).text == NEW
