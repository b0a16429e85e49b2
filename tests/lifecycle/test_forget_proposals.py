"""Forgetting in two steps: what would go is shown, and goes once it is confirmed."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from helpers.clocks import FileClock, SettableClock
from helpers.embedders import Recorder, session
from helpers.lifecycle import add, bytes_with, everything, found, kept
from helpers.memories import ALICE, BOB
from helpers.paths import TESTS
from helpers.processes import child, said
from vecall import (
    InvalidArgumentError,
    MemoryEntry,
    MemoryService,
    NotFoundError,
)

MINUTE = 60.0


def propose(service: MemoryService, query: str, **more: Any) -> Any:
    return service.sync.propose_forget(**{**ALICE, **more}, query=query)


def confirm(service: MemoryService, token: str, **who: str) -> int:
    return service.sync.confirm_forget(**{**ALICE, **who}, token=token)


def with_turns(service: MemoryService) -> list[str]:
    """A session of five turns, two of which tell of a gnu."""
    turns = session("hello", "a gnu", "ok", "the gnu was grey", "bye")
    return service.sync.add_session_to_memory(turns)


def test_a_proposal_deletes_nothing(open_service):
    """S4.60: it says what would go, best first, and until when it may be confirmed."""
    clock = SettableClock()
    service = open_service(clock=clock, maintenance_interval=None)
    with_turns(service)
    before = everything(service)
    proposal = propose(service, "gnu")
    assert {memory.text for memory in proposal.memories} == {
        "a gnu",
        "the gnu was grey",
    }
    scores = [memory.score for memory in proposal.memories]
    assert scores == sorted(scores, reverse=True)
    assert proposal.expires_at == clock.wall() + 10 * MINUTE
    assert everything(service) == before
    assert found(service, "gnu") == {"a gnu", "the gnu was grey"}


def test_what_was_proposed_goes_and_stays_away(open_service, tmp_path):
    """S4.60: exactly that; neighbours stay; once; also after a restart."""
    path = tmp_path / "m.db"
    service = open_service(path)
    with_turns(service)
    proposal = propose(service, "gnu")
    late = add(service, "a gnu that was told after the proposal")
    assert confirm(service, proposal.token) == 2
    assert list(kept(service).values())[:3] == ["hello", "ok", "bye"]
    assert late in kept(service)
    assert found(service, "grey") == set()
    for _ in range(2):
        with pytest.raises(NotFoundError):
            confirm(service, proposal.token)
        with_turns(service)
        assert len(kept(service)) == 4
        service.close()
        service = open_service(path)
    service.sync.admin.purge()
    assert bytes_with(tmp_path, ["was grey", "hello"]) == {"hello"}


def test_at_most_top_k_are_proposed(open_service):
    """S4.60: and the others stay when it is confirmed."""
    service = open_service()
    for n in range(8):
        add(service, f"gnu {n}")
    proposal = propose(service, "gnu", top_k=3)
    assert len(proposal.memories) == 3
    assert confirm(service, proposal.token) == 3
    assert len(kept(service)) == 5
    assert not {memory.id for memory in proposal.memories} & kept(service).keys()


@pytest.mark.parametrize("late", [False, True])
def test_a_token_counts_for_ten_minutes(open_service, late):
    """S4.60: by the time that passes, whatever the wall clock is set to."""
    clock = SettableClock()
    service = open_service(clock=clock, maintenance_interval=None)
    add(service, "a gnu")
    proposal = propose(service, "gnu")
    clock.jump(86_400.0)
    clock.let_pass(10 * MINUTE + (0.001 if late else 0.0))
    if late:
        with pytest.raises(NotFoundError):
            confirm(service, proposal.token)
        assert len(kept(service)) == 1
    else:
        assert confirm(service, proposal.token) == 1
        assert kept(service) == {}


def test_a_token_is_one_users_and_cannot_be_guessed(open_service):
    """S4.60, S4.65: not another user's, not another app's, no other text."""
    service = open_service()
    add(service, "a gnu")
    service.sync.add_memory(**BOB, memories=["bob's gnu"])
    proposal, bobs = propose(service, "gnu"), propose(service, "gnu", **BOB)
    assert proposal.token != bobs.token
    assert len(proposal.token) >= 12
    wrong = [bobs.token, proposal.token[:-1], proposal.token.swapcase(), "%", "x"]
    wrong += ["\x00forget:" + proposal.token, proposal.token + " "]
    for token in wrong:
        with pytest.raises((NotFoundError, InvalidArgumentError)):
            confirm(service, token)
    for scope in (BOB, {"app_name": "another"}, {"user_id": "nobody"}):
        with pytest.raises(NotFoundError):
            confirm(service, proposal.token, **scope)
    with pytest.raises(InvalidArgumentError):
        confirm(service, "")
    assert len(kept(service)) == len(kept(service, **BOB)) == 1
    assert confirm(service, proposal.token) == 1  # wrong tries did not use it up
    assert confirm(service, bobs.token, **BOB) == 1


def test_a_token_is_no_idempotency_key(open_service):
    """S4.65: neither can be taken for the other."""
    service = open_service()
    add(service, "a gnu")
    token = propose(service, "gnu").token
    service.sync.add_memory(**ALICE, memories=["two"], idempotency_key=token)
    service.sync.add_memory(**ALICE, memories=["three"], idempotency_key="key")
    with pytest.raises(NotFoundError):
        confirm(service, "key")
    assert confirm(service, token) == 1
    assert list(kept(service).values()) == ["two", "three"]


def test_a_proposal_of_nothing_has_no_token(open_service):
    """S4.60: also for a user of whom nothing is known, who is not made by it."""
    service = open_service()
    for query in ("gnu", "", "?"):
        proposal = propose(service, query)
        assert (proposal.token, proposal.memories) == ("", [])
    add(service, "a tapir")
    assert propose(service, "gnu").token == ""
    assert propose(service, "tapir", **BOB).token == ""
    assert service.sync.admin.stats()["users"] == 1


def test_several_proposals_wait_at_once(open_service):
    """S4.60: each deletes its own, and what is gone already is not counted."""
    service = open_service()
    for text in ("a gnu", "a tapir", "a gnu and a tapir"):
        add(service, text)
    gnus, tapirs = propose(service, "gnu"), propose(service, "tapir")
    assert confirm(service, tapirs.token) == 2
    assert confirm(service, gnus.token) == 1
    assert kept(service) == {}


def rewritten(service: MemoryService, id_: str) -> None:
    service.sync.update_memory(**ALICE, memory_id=id_, content="no animal at all")


def told_anew(service: MemoryService, id_: str) -> None:
    new = MemoryEntry("no animal at all", id=id_)
    service.sync.add_memory(**ALICE, memories=[new])


def made_anew(service: MemoryService, id_: str) -> None:
    service.sync.delete_memory(**ALICE, memory_id=id_)
    new = MemoryEntry("no animal at all", id=id_)
    service.sync.add_memory(**ALICE, memories=[new], restore=True)


@pytest.mark.parametrize("change", [rewritten, told_anew, made_anew])
def test_what_says_something_else_by_now_is_not_forgotten(open_service, change):
    """S4.60: nobody agreed to forget that; it can be proposed again."""
    service = open_service()
    changed = add(service, "a gnu")
    add(service, "another gnu")
    proposal = propose(service, "gnu")
    assert len(proposal.memories) == 2
    change(service, changed)
    with pytest.raises(NotFoundError):
        confirm(service, proposal.token)
    assert set(kept(service).values()) == {"no animal at all", "another gnu"}
    assert confirm(service, propose(service, "animal").token) == 1


def counted_as_used(service: MemoryService, id_: str) -> None:
    service.sync.mark_used(**ALICE, memory_ids=[id_])


def weighed_anew(service: MemoryService, id_: str) -> None:
    service.sync.update_memory(**ALICE, memory_id=id_, importance=0.9)


def archived(service: MemoryService, id_: str) -> None:
    service.sync.archive_memory(**ALICE, memory_id=id_)


@pytest.mark.parametrize("change", [counted_as_used, weighed_anew, archived])
@pytest.mark.parametrize(
    "content", ["a gnu", {"parts": [{"text": "a"}, {"text": "gnu"}]}]
)
def test_what_says_the_same_is_forgotten_whatever_else_changed(
    open_service, change, content
):
    """S4.60: it is what was agreed to."""
    service = open_service()
    gnu = add(service, content)
    proposal = propose(service, "gnu")
    change(service, gnu)
    assert confirm(service, proposal.token) == 1
    assert [*kept(service), *kept(service, "archived")] == []


def test_of_concurrent_confirmations_one_deletes(open_service, tmp_path):
    """S4.60: in two services of one file, by many threads."""
    path = tmp_path / "m.db"
    services = [open_service(path, durability="process") for _ in range(2)]
    add(services[0], "a gnu")
    add(services[0], "another gnu")
    token = propose(services[0], "gnu").token
    results: list[object] = []
    begin = threading.Barrier(8)

    def work(service: MemoryService) -> None:
        begin.wait()
        try:
            results.append(confirm(service, token))
        except NotFoundError:
            results.append("not found")

    threads = [threading.Thread(target=work, args=(services[n % 2],)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(str, results)) == ["2"] + ["not found"] * 7
    assert [kept(service) for service in services] == [{}, {}]


CONFIRMER = """
import json, sys, vecall
sys.path.insert(0, sys.argv[1])
from helpers.clocks import FileClock
storage = vecall.StorageOptions(clock=FileClock(sys.argv[3]))
service = vecall.MemoryService(sys.argv[2], storage=storage, embedder=None)
scope = dict(app_name="app", user_id="alice")
try:
    print(json.dumps(service.sync.confirm_forget(**scope, token=sys.argv[4])))
except vecall.NotFoundError:
    print(json.dumps("not found"))
"""


@pytest.mark.parametrize(("passed", "answer"), [(599.0, 1), (601.0, "not found")])
def test_another_process_confirms(open_service, tmp_path, passed, answer):
    """S4.60: as a tool's second call does on another worker, within ten minutes."""
    clock = FileClock(tmp_path / "clock")
    clock.set(1e9, 100.0)
    service = open_service(tmp_path / "m.db", clock=clock, maintenance_interval=None)
    add(service, "a gnu")
    token = propose(service, "gnu").token
    clock.set(1e9 + passed, 100.0 + passed)
    arguments = (TESTS, tmp_path / "m.db", tmp_path / "clock", token)
    with child(CONFIRMER, *arguments) as other:
        assert json.loads(said(other)) == answer
    assert len(kept(service)) == (0 if answer == 1 else 1)


def test_similar_ones_are_proposed_by_their_vectors(open_service):
    """S4.60: the best match leads, and only what is confirmed goes."""
    service = open_service(embedder=Recorder())
    add(service, "gnus graze", "g")
    add(service, "tapirs swim", "t")
    proposal = propose(service, "gnus graze", top_k=1)
    assert [memory.id for memory in proposal.memories] == ["g"]
    assert confirm(service, proposal.token) == 1
    assert kept(service) == {"t": "tapirs swim"}
