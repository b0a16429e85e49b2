"""Opening, closing, and what outlasts it."""

from __future__ import annotations

import gc
import threading
import time
from pathlib import Path

import pytest
from helpers.clocks import SettableClock
from helpers.storage_contents import APP, WAIT_S, add, drafts, state_of, texts_of, write
from helpers.storage_places import PLACES, Place
from vecall.errors import ClosedError
from vecall.store import (
    AddMemories,
    DeleteMemories,
    EmbeddingModel,
    MarkUsed,
    Storage,
)


def test_a_closed_storage_refuses_everything(storage: Storage) -> None:
    add(storage, "a", "1")
    storage.close()
    storage.close()
    with pytest.raises(ClosedError):
        storage.version(APP, "a")
    with pytest.raises(ClosedError):
        storage.submit(AddMemories(APP, "a", drafts("2")))
    with pytest.raises(ClosedError), storage.read():
        pass
    with pytest.raises(ClosedError):
        storage.adopt_model(EmbeddingModel("toy", 4))
    with pytest.raises(ClosedError):
        storage.begin_migration(EmbeddingModel("toy", 4))


def test_after_the_end_of_writes_reads_go_on(storage: Storage) -> None:
    futures = [storage.submit(AddMemories(APP, "a", drafts(f"{n}"))) for n in range(9)]
    storage.end_writes()
    assert all(future.done() for future in futures)
    storage.end_writes()
    with pytest.raises(ClosedError):
        storage.submit(AddMemories(APP, "a", drafts("more")))
    assert len(texts_of(storage, "a")) == 9
    assert storage.version(APP, "a") is not None


def test_what_was_submitted_before_a_close_is_answered_and_written(
    place: Place,
) -> None:
    storage = place.open()
    futures = [storage.submit(AddMemories(APP, "a", drafts(f"{n}"))) for n in range(50)]
    storage.close()
    changes = [future.result(0) for future in futures]
    assert len({change.seq for change in changes}) == 50
    if place.is_shared:
        assert len(texts_of(place.open(), "a")) == 50


def test_a_write_from_what_publishes_is_taken(storage: Storage) -> None:
    """The queue is not the thread's own: a publisher may submit, and not wait."""
    more = []

    def publish(change: object) -> None:
        if not more:
            more.append(storage.submit(AddMemories(APP, "b", drafts("1"))))
        assert change is not None

    storage.publish = publish
    add(storage, "a", "1")
    assert more[0].result(WAIT_S).user == "b"
    assert texts_of(storage, "b") == {"1": "says 1"}


def test_two_storages_have_two_identities(kind: str, tmp_path: Path) -> None:
    places = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        places.append(PLACES[kind](tmp_path / name))
    identities = {place.open().identity for place in places}
    for place in places:
        place.close()
    assert len(identities) == 2
    assert {len(identity) for identity in identities} == {16}


def test_a_storage_that_only_one_can_open_says_so(place: Place) -> None:
    assert place.open().in_memory is not place.is_shared


def test_a_storage_is_as_it_was_when_it_is_opened_again(shared: Place) -> None:
    first = shared.open()
    add(first, "a", "1", "2", "3")
    write(first, DeleteMemories(APP, "a", ["2"]))
    write(first, MarkUsed(APP, "a", ["1"]))
    model = first.adopt_model(EmbeddingModel("toy", 4, fingerprint=bytes(16)))
    before, identity = state_of(first, "a"), first.identity
    first.close()
    second = shared.open()
    assert state_of(second, "a") == before
    assert second.identity == identity
    with second.read() as reads:
        assert reads.active_model() == model


def test_the_expiry_clock_does_not_go_back_between_openings(shared: Place) -> None:
    clock = SettableClock()
    first = shared.open(clock)
    clock.let_pass(1_000.0)
    add(first, "a", "1")
    ended = first.expiry_clock.now()
    first.close()
    clock.jump(-1e6)  # the wall clock is set back while no one has it open
    clock.restart()
    second = shared.open(clock)
    assert ended - 60 <= second.expiry_clock.now() <= ended + 60


def test_a_dropped_storage_writes_what_was_submitted(place: Place) -> None:
    storage = place.open()
    held, go_on = threading.Event(), threading.Event()

    def publish(_: object) -> None:
        held.set()
        go_on.wait(WAIT_S)

    storage.publish = publish
    futures = [storage.submit(AddMemories(APP, "a", drafts(f"{n}"))) for n in range(5)]
    assert held.wait(WAIT_S)
    end = storage.abandon()
    gc.collect()
    begin = time.monotonic()
    end()
    assert time.monotonic() - begin < WAIT_S / 2  # it has not waited
    go_on.set()
    assert len([future.result(WAIT_S) for future in futures]) == 5
    if place.is_shared:
        assert len(texts_of(place.open(), "a")) == 5
