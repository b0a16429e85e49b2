"""New expiries of items that were read, on their way to the storage."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from vecall.errors import StorageError
from vecall.operations.item_refresh import ItemRefresh
from vecall.store import ItemRow


def test_a_row_read_before_its_new_expiry_was_written_has_not_expired():
    """A reader looks for new expiries after it has read the row."""
    future: Future[Any] = Future()
    refresh = ItemRefresh(lambda _: future)
    key = ("app", "alice")
    read = ItemRow(1, "", "a", "1", 0.0, 0.0, 10.0, 10.0)
    refresh.refresh(key, [read], 8.0)
    assert refresh.current(key, read, 16.0) is not None
    future.set_result(None)  # it is written
    assert refresh.current(key, read, 16.0) is not None
    assert refresh.current(key, read, 18.0) is None


def test_an_expiry_that_was_not_written_does_not_count():
    future: Future[Any] = Future()
    refresh = ItemRefresh(lambda _: future)
    key = ("app", "alice")
    read = ItemRow(1, "", "a", "1", 0.0, 0.0, 10.0, 10.0)
    refresh.refresh(key, [read], 8.0)
    future.set_exception(StorageError("the disk is gone"))
    assert refresh.current(key, read, 16.0) is None
