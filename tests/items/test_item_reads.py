"""A read of items parses on the event loop only what takes microseconds."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from helpers.memories import ALICE
from vecall import Put
from vecall.operations.items import value_of_item_row
from vecall.store import ItemRow
from vecall.store.storage import StorageReads


@pytest.mark.parametrize(
    ("count", "characters", "is_inline"),
    [(1, 10, True), (4, 1_000, True), (5, 10, None), (1, 900_000, False),
     (4, 300_000, False), (24, 300_000, False), (40, 300_000, False)],
)  # fmt: skip
def test_large_values_are_read_and_parsed_on_another_thread(
    open_service, tmp_path, monkeypatch, count, characters, is_inline
):
    memory = open_service(tmp_path / "m.db")
    places = [(("n",), str(number)) for number in range(count)]
    text = "x" * characters
    for place in places:
        memory.items.sync.write([Put(*place, text)], **ALICE)
    threads: set[int] = set()

    def noting(row: ItemRow) -> Any:
        threads.add(threading.get_ident())
        return value_of_item_row(row)

    monkeypatch.setattr("vecall.operations.items.value_of_item_row", noting)

    async def read() -> tuple[list[Any], int]:
        turns = 0

        async def count_turns() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.ensure_future(count_turns())
        found = await memory.items.get(places, **ALICE)
        counting.cancel()
        return found, turns

    found, turns = asyncio.run(read())
    assert [item.value for item in found] == [text] * count
    assert (turns == 0) == bool(is_inline)  # of the event loop, while the call waits
    if is_inline is False:
        assert threading.get_ident() not in threads
    threads.clear()
    assert memory.items.sync.get(places, **ALICE) == found
    assert threads == {threading.get_ident()}


def test_a_list_of_many_items_blocks_no_other_read(
    open_service, tmp_path, monkeypatch, in_time
):
    """A call on an event loop reads one item itself, so it must not wait for a list."""
    memory = open_service(tmp_path / "m.db")
    memory.items.sync.write([Put(("n",), "k", 1)], **ALICE)
    begun, may_end = threading.Event(), threading.Event()
    newest_items = StorageReads.newest_items

    def slowly(*arguments: Any) -> Any:
        begun.set()
        assert may_end.wait(60)
        return newest_items(*arguments)

    monkeypatch.setattr(StorageReads, "newest_items", slowly)
    with ThreadPoolExecutor(1) as pool:
        listing = pool.submit(memory.items.sync.find, ("n",), **ALICE)
        try:
            assert begun.wait(20)
            get = partial(memory.items.sync.get, [(("n",), "k")], **ALICE)
            (item,) = in_time(get)
        finally:
            may_end.set()
        assert listing.result() == [item]
