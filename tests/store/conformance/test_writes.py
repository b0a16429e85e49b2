"""Commit, publish, acknowledge; and what a job that fails leaves: nothing."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from helpers.storage_contents import APP, WAIT_S, add, drafts, texts_of, write
from helpers.storage_places import Place
from vecall.errors import ConflictError, NotFoundError
from vecall.filters.rights import FULL
from vecall.store import (
    AddMemories,
    Change,
    DeleteMemories,
    Draft,
    DraftLookup,
    RestoreMemory,
    Storage,
)


def test_a_write_is_committed_then_published_then_acknowledged(
    storage: Storage,
) -> None:
    steps: list[Any] = []
    job = AddMemories(APP, "a", drafts("1"))
    seen: list[Change] = []
    submitted = threading.Event()

    def publish(change: Change) -> None:
        assert submitted.wait(WAIT_S)
        seen.append(change)
        steps.append(("published", storage.version(APP, "a"), future.done()))

    def then(change: Change) -> None:
        seen.append(change)
        steps.append(("then", texts_of(storage, "a"), future.done()))

    storage.publish = publish
    future = storage.submit(job, then)
    submitted.set()
    change = future.result(WAIT_S)
    assert steps == [
        ("published", (change.part, change.seq, change.head), False),
        ("then", {"1": "says 1"}, False),
    ]
    assert seen == [change, change]


def test_changes_are_published_one_at_a_time_in_the_order_of_submission(
    storage: Storage,
) -> None:
    published: list[tuple[int, int]] = []
    running = threading.Lock()

    def publish(change: Change) -> None:
        assert running.acquire(blocking=False)
        published.append((change.seq_before, change.seq))
        running.release()

    storage.publish = publish
    jobs = [AddMemories(APP, "a", drafts(f"{n}")) for n in range(50)]
    changes = [future.result(WAIT_S) for future in map(storage.submit, jobs)]
    assert published == [(change.seq_before, change.seq) for change in changes]
    ends = [seq for _, seq in published]
    assert [before for before, _ in published] == [0, *ends[:-1]]


def test_an_error_in_publishing_undoes_nothing(
    storage: Storage, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_: Change) -> None:
        msg = "no"
        raise ValueError(msg)

    storage.publish = broken
    add(storage, "a", "1")
    assert "not applied" in caplog.text
    assert texts_of(storage, "a") == {"1": "says 1"}
    storage.publish = lambda _: None
    add(storage, "a", "2")
    assert set(texts_of(storage, "a")) == {"1", "2"}


class Held:
    """Holds up the publishing of one write, so that others gather behind it."""

    def __init__(self, storage: Storage) -> None:
        self._go_on = threading.Event()
        self._held = threading.Event()
        self._storage = storage
        storage.publish = self._publish
        self.future = storage.submit(AddMemories(APP, "held", drafts("1")))
        assert self._held.wait(WAIT_S)

    def _publish(self, change: Change) -> None:
        if change.user == "held":
            self._held.set()
            assert self._go_on.wait(WAIT_S)

    def go_on(self) -> None:
        self._go_on.set()
        self.future.result(WAIT_S)


def test_a_job_that_fails_leaves_nothing_and_takes_no_other_job_with_it(
    storage: Storage,
) -> None:
    held = Held(storage)
    good = [AddMemories(APP, user, drafts("1", "2")) for user in ("a", "b", "a")]
    # It has written its memory when it finds that no such turn waits.
    late = AddMemories(APP, "a", drafts("3"), done=("session", ["no such turn"]))
    new = AddMemories(APP, "c", drafts("3"), done=("session", ["no such turn"]))
    jobs: list[Any] = [good[0], late, good[1], new, RestoreMemory(APP, "a", "1")]
    jobs.append(AddMemories(APP, "a", drafts("4")))
    futures = [storage.submit(job) for job in jobs]
    held.go_on()
    for at, error in ((1, ConflictError), (3, ConflictError), (4, NotFoundError)):
        assert isinstance(futures[at].exception(WAIT_S), error)
    assert [len(futures[at].result(WAIT_S).stored) for at in (0, 2, 5)] == [2, 2, 1]
    assert set(texts_of(storage, "a")) == {"1", "2", "4"}
    assert set(texts_of(storage, "b")) == {"1", "2"}
    assert storage.version(APP, "c") is None


def test_a_job_of_a_program_error_is_answered_too(storage: Storage) -> None:
    held = Held(storage)
    broken: Any = AddMemories(APP, "a", drafts("1"), ttl="no number")  # type: ignore[arg-type]
    futures = [
        storage.submit(job) for job in (broken, AddMemories(APP, "b", drafts("1")))
    ]
    held.go_on()
    assert futures[0].exception(WAIT_S) is not None
    assert futures[1].exception(WAIT_S) is None
    assert storage.version(APP, "a") is None


def test_a_write_that_was_submitted_cannot_be_cancelled(storage: Storage) -> None:
    held = Held(storage)
    future = storage.submit(AddMemories(APP, "a", drafts("1")))
    assert not future.cancel()
    held.go_on()
    future.result(WAIT_S)
    assert texts_of(storage, "a") == {"1": "says 1"}


def test_an_idempotency_key_is_used_once(storage: Storage) -> None:
    def job(*ids: str) -> AddMemories:
        return AddMemories(APP, "a", drafts(*ids), key="k")

    def is_used(user: str) -> bool:
        return storage.lookup_existing(DraftLookup(APP, user, [], [], 0, "k")) is None

    assert not is_used("a")
    first = write(storage, job("1", "2"))
    write(storage, DeleteMemories(APP, "a", ["1"]))
    before = storage.version(APP, "a")
    again = write(storage, job("1", "2"))
    assert set(again.ids) == set(first.ids)
    assert storage.version(APP, "a") == before
    with pytest.raises(ConflictError):
        write(storage, job("3"))
    assert is_used("a")
    assert not is_used("b")


def test_an_acknowledged_write_is_seen_by_all_who_have_the_storage_open(
    shared: Place,
) -> None:
    """Two write and look through each other's storage, again and again."""
    storages = [shared.open(), shared.open()]
    errors: list[str] = []

    def work(mine: Storage, other: Storage, user: str) -> None:
        for number in range(40):
            change = add(mine, user, f"{number}")
            if other.version(APP, user) != (change.part, change.seq, change.head):
                errors.append(f"{user}: another version at {number}")
            with other.read() as reads:
                row = reads.find(APP, user, f"{number}", 0.0, FULL)
            if row is None:
                errors.append(f"{user}: {number} is not found")

    threads = [
        threading.Thread(target=work, args=(*pair, user))
        for pair, user in zip((storages, storages[::-1]), ("a", "b"), strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert not errors
    assert len(texts_of(storages[1], "a")) == len(texts_of(storages[0], "b")) == 40


def test_writes_to_one_user_through_two_storages_lose_nothing(shared: Place) -> None:
    storages = [shared.open(), shared.open()]
    futures = [
        storage.submit(AddMemories(APP, "a", [Draft(f"{at} {n}", "x")]))
        for n in range(40)
        for at, storage in enumerate(storages)
    ]
    ranges = [(c.seq_before, c.seq) for c in (f.result(WAIT_S) for f in futures)]
    assert len(texts_of(storages[0], "a")) == 80
    ranges.sort()
    assert [before for before, _ in ranges] == [0, *(seq for _, seq in ranges[:-1])]
