"""Texts kept in memory are those of the file, whoever changed them."""

from __future__ import annotations

import gc
import shutil
import time

from helpers.memories import ALICE, BOB
from vecall import MemoryEntry, MemoryService
from vecall.index import row_cache as _row_cache
from vecall.index.row_cache import RowCache
from vecall.store import Row

ROWS = 600


def entry(text: str, number: int) -> MemoryEntry:
    return MemoryEntry(text, id=f"m{number}")


def test_a_snapshot_of_another_process_brings_no_old_text_back(open_service, tmp_path):
    """Guarantee 4: evicted here, changed there, loaded here from the snapshot there."""
    path = tmp_path / "m.db"
    first = open_service(path)
    told = [entry(f"word{i} before", i) for i in range(ROWS)]
    first.sync.add_memory(**ALICE, memories=told)
    first.sync.add_memory(**BOB, memories=["zebra"])
    found = first.sync.search_memory(**ALICE, query="word7").memories
    assert found[0].text == "word7 before"  # and is kept
    before = until_another_is_on_record(first, None)
    first._memory.search_index.partitions._evict_if_free(("app", "alice"))

    second = open_service(path)
    second.sync.add_memory(**ALICE, memories=[entry("word7 after", 7)])
    shutil.rmtree(tmp_path / "m.db.snap")
    second.sync.search_memory(**ALICE, query="word7")  # from rows: 600 not saved yet
    until_another_is_on_record(second, before)
    found = first.sync.search_memory(**ALICE, query="word7").memories
    assert found[0].text == "word7 after"
    assert first._memory.search_index.partitions.loaded(
        ("app", "alice"), first._memory.search_index.partitions.target(("app", "alice"))
    )


def until_another_is_on_record(service: MemoryService, known: bytes | None) -> bytes:
    end = time.monotonic() + 20
    while True:
        with service._memory.storage._database.read_transaction() as connection:
            query = "SELECT snap FROM part WHERE user = 'alice'"
            nonce: bytes | None = connection.execute(query).fetchone()[0]
        if nonce not in (None, known):
            assert nonce is not None
            return nonce
        assert time.monotonic() < end, "no snapshot was written"
        time.sleep(0.01)


def test_a_memory_without_a_file_is_found_after_a_change_of_models(open_service):
    """S0.25: `reembed` on ":memory:", where nothing is loaded by being written."""
    service = open_service()
    service.sync.add_memory(**ALICE, memories=["zebra", "okapi"])

    def embed(texts: list[str]) -> list[list[float]]:
        return [[float(len(text)), 1.0] for text in texts]

    service.sync.admin.reembed(embed)
    found = service.sync.search_memory(**ALICE, query="zebra").memories
    assert found[0].text == "zebra"
    assert found[0].similarity is not None
    service.sync.add_memory(**ALICE, memories=["quagga"])
    found = service.sync.search_memory(**ALICE, query="quagga").memories
    assert found[0].text == "quagga"


def test_partitions_that_were_loaded_once_are_not_remembered_for_ever():
    cache = RowCache(1 << 20)
    for part in range(1, 30_001):
        cache.forget_partition(part)
    assert len(cache._valid_from) < 15_000


def test_a_text_from_before_its_partition_was_loaded_is_never_used_again(monkeypatch):
    monkeypatch.setattr(_row_cache, "_PARTITIONS_KEPT", 2)
    row = Row(
        1 << 32, "id", None, None, 0, None, 1.0, *[None] * 5, "before", *[None] * 3
    )
    cache = RowCache(1 << 20)
    moment = cache.moment_of_read()
    cache.put_rows([row])
    assert cache.get_rows([row.rid]) == [row]
    for part in (1, 2, 3, 4):
        cache.forget_partition(part)
    assert cache.get_rows([row.rid]) == [None]
    cache.put_rows([row], moment)
    assert cache.get_rows([row.rid]) == [None]
    cache.put_rows([row], cache.moment_of_read())
    assert cache.get_rows([row.rid]) == [row]


def test_the_garbage_collector_does_not_visit_the_rows_of_a_loaded_user(
    open_service, tmp_path
):
    """It stops all threads while it visits, for 100 ms with 60,000 rows."""

    def visited() -> int:
        gc.collect()
        return sum(type(each) in (tuple, Row) for each in gc.get_objects())

    path = tmp_path / "m.db"
    told = [entry(f"word{i} zebra", i) for i in range(2_000)]
    with open_service(path) as first:
        first.sync.add_memory(**ALICE, memories=told)
        first.sync.add_memory(**BOB, memories=["zebra"])
    service = open_service(path)
    service.sync.search_memory(**BOB, query="zebra")
    before = visited()
    found = service.sync.search_memory(**ALICE, query="word7 zebra", top_k=50)
    assert len(found.memories) == 50
    assert service.sync.admin.stats()["cached_text_bytes"] > 1_000_000
    assert visited() - before < 500
