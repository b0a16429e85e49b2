"""New expiries of items that were read, on their way to the storage."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from vecall.errors import StorageError
from vecall.operations.items import ItemRefresh
from vecall.store import ItemRow


def test_a_row_read_before_its_new_expiry_was_written_has_not_expired():
    """A reader looks for new expiries after it has read the row."""
    future: Future[Any] = Future()
    refresh = ItemRefresh(lambda _: future)
    key = ("app", "alice")
    read = ItemRow(1, "", "a", "1", 0.0, 0.0, 10.0, 10.0)
    refresh.refresh_item_ttls(key, [read], 8.0)
    assert refresh.current_item(key, read, 16.0) is not None
    future.set_result(None)  # it is written
    assert refresh.current_item(key, read, 16.0) is not None
    assert refresh.current_item(key, read, 18.0) is None


def test_an_expiry_that_was_not_written_does_not_count():
    future: Future[Any] = Future()
    refresh = ItemRefresh(lambda _: future)
    key = ("app", "alice")
    read = ItemRow(1, "", "a", "1", 0.0, 0.0, 10.0, 10.0)
    refresh.refresh_item_ttls(key, [read], 8.0)
    future.set_exception(StorageError("the disk is gone"))
    assert refresh.current_item(key, read, 16.0) is None


def test_new_expiries_that_come_during_a_write_are_written_after_it():
    """Two writes at once would hide what one of them has not written yet."""
    jobs: list[Any] = []
    futures: list[Future[Any]] = []

    def submit(job: Any) -> Future[Any]:
        jobs.append(job)
        futures.append(Future())
        return futures[-1]

    refresh = ItemRefresh(submit)
    key = ("app", "alice")
    rows = [ItemRow(n, "", str(n), "1", 0.0, 0.0, 10.0, 10.0) for n in range(3)]
    for row in rows:
        refresh.refresh_item_ttls(key, [row], 8.0)
    assert [job.expiries for job in jobs] == [{0: 18.0}]
    refresh.refresh_item_ttls(("app", "bob"), rows[:1], 8.0)
    assert len(jobs) == 2
    futures[0].set_result(None)
    assert [job.expiries for job in jobs[2:]] == [{1: 18.0, 2: 18.0}]
    assert all(refresh.current_item(key, row, 16.0) for row in rows)


def test_an_expiry_is_written_at_most_once_a_second_and_ten_times_in_a_ttl():
    jobs: list[Any] = []

    def submit(job: Any) -> Future[Any]:
        jobs.append(job)
        future: Future[Any] = Future()
        future.set_result(None)
        return future

    refresh = ItemRefresh(submit)
    long = ItemRow(1, "", "a", "1", 0.0, 0.0, 100.0, 100.0)
    short = ItemRow(2, "", "b", "1", 0.0, 0.0, 2.0, 2.0)
    for step in range(301):  # three seconds
        for row in (long, short):
            refresh.refresh_item_ttls(("app", "alice"), [row], step / 100)
    written = [rid for job in jobs for rid in job.expiries]
    assert written.count(1) <= 3
    assert 10 <= written.count(2) <= 15
