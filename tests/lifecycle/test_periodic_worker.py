"""A thread that works every so often, when it is woken, and until it is closed."""

from __future__ import annotations

import gc
import logging
import threading
import weakref

import pytest
from helpers.memories import SECRET, WAIT_S
from vecall import ClosedError
from vecall.concurrency.executor import PeriodicWorker

OFTEN = 0.01
NEVER = 10_000.0


def keepers() -> set[threading.Thread]:
    """The threads of all housekeepers of this process."""
    every = threading.enumerate()
    return {thread for thread in every if thread.name == "vecall-housekeeper"}


def test_a_housekeeper_works_when_it_is_woken():
    """S4.58: it does not wait for the end of its pause."""
    worked = threading.Semaphore(0)
    keeper = PeriodicWorker(lambda: worked.release(), NEVER)
    for _ in range(3):
        keeper.wake_thread()
        assert worked.acquire(timeout=WAIT_S)
    keeper.close()
    assert not worked.acquire(blocking=False)


@pytest.mark.parametrize("pause", [0.001, -5.0])
def test_a_housekeeper_comes_back_when_its_work_says(pause):
    """S4.58: what is due sooner than the next look, or long ago, is not put off."""
    worked = threading.Semaphore(0)

    def work() -> float:
        worked.release()
        return pause

    keeper = PeriodicWorker(work, NEVER)
    keeper.wake_thread()
    for _ in range(5):
        assert worked.acquire(timeout=WAIT_S)
    keeper.close()


def test_a_housekeeper_never_pauses_longer_than_its_interval():
    """S4.58: what another process left is found as well."""
    worked = threading.Semaphore(0)

    def work() -> float:
        worked.release()
        return NEVER

    keeper = PeriodicWorker(work, OFTEN)
    for _ in range(3):
        assert worked.acquire(timeout=WAIT_S)
    keeper.close()


def test_a_call_to_wake_during_the_work_is_not_lost():
    """S4.58: what was kept meanwhile may be due."""
    begun, go_on = threading.Semaphore(0), threading.Semaphore(0)

    def work() -> None:
        begun.release()
        assert go_on.acquire(timeout=WAIT_S)

    keeper = PeriodicWorker(work, NEVER)
    keeper.wake_thread()
    assert begun.acquire(timeout=WAIT_S)
    keeper.wake_thread()
    go_on.release(2)
    assert begun.acquire(timeout=WAIT_S)
    keeper.close()


def test_closing_waits_for_the_work_and_lets_no_more_begin():
    """S4.58: nothing uses a file that is closed."""
    begun, go_on, runs = threading.Event(), threading.Event(), []

    def work() -> float:
        runs.append(1)
        begun.set()
        assert go_on.wait(WAIT_S)
        return 0.0

    before = keepers()
    keeper = PeriodicWorker(work, OFTEN)
    assert begun.wait(WAIT_S)
    closing_ = threading.Thread(target=keeper.close)
    closing_.start()
    closing_.join(0.05)
    assert closing_.is_alive()
    go_on.set()
    closing_.join(WAIT_S)
    assert not closing_.is_alive()
    assert runs == [1]
    assert keepers() == before


def test_work_that_fails_is_tried_again_without_a_word_of_why(caplog):
    """S4.58: an error may quote a memory; its type does not."""
    worked = threading.Semaphore(0)

    def work() -> None:
        worked.release()
        raise ValueError(SECRET)

    keeper = PeriodicWorker(work, OFTEN)
    with caplog.at_level(logging.DEBUG, "vecall"):
        for _ in range(3):
            assert worked.acquire(timeout=WAIT_S)
        keeper.close()
    assert "ValueError" in caplog.text
    assert SECRET not in caplog.text


def test_the_thread_ends_when_what_it_works_on_is_closed():
    """S4.58: nobody is left who could close it."""
    before = keepers()

    def work() -> None:
        raise ClosedError

    keeper = PeriodicWorker(work, OFTEN)
    for thread in keepers() - before:
        thread.join(WAIT_S)
    assert keepers() == before
    keeper.close()


def test_the_thread_ends_when_nobody_has_the_housekeeper_any_more():
    """S4.58: at once, though its next look is far off, and in the midst of its work."""
    before = keepers()
    worked = threading.Semaphore(0)
    keeper = PeriodicWorker(worked.release, NEVER)
    keeper.wake_thread()
    assert worked.acquire(timeout=WAIT_S)
    (thread,) = keepers() - before
    gone = weakref.ref(keeper)
    del keeper
    gc.collect()
    thread.join(WAIT_S)
    assert gone() is None
    assert keepers() == before


def test_without_an_interval_there_is_no_thread():
    """S4.58: and nothing to wait for."""
    before = keepers()
    keeper = PeriodicWorker(lambda: None, None)
    keeper.wake_thread()
    assert keepers() == before
    keeper.close()
