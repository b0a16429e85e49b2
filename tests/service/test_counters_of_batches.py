"""What one call writes or deletes many of is counted once each."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
import vecall
from helpers.counted import wrong_counters
from vecall import Drop, MemoryService, Put
from vecall.store import copy_storage

ALICE = {"app_name": "hotel", "user_id": "alice"}
LARGE = "x" * 300_000  # in pieces


@pytest.fixture
def memory(open_service, tmp_path) -> MemoryService:
    return open_service(tmp_path / "m.db")


def add(memory: MemoryService, *ids: str) -> None:
    memory.sync.add_memory(
        **ALICE,
        memories=[{"id": id_, "content": id_, "session_id": "s"} for id_ in ids],
    )


def test_of_two_writes_of_an_item_in_one_call_the_later_one_counts(memory):
    items, place = memory.items.sync, (("n",), "a")
    versions = items.write(
        [Put(*place, 1), Put(("n",), "b", LARGE), Put(*place, LARGE), Put(*place, 3)],
        **ALICE,
    )
    assert versions == sorted(set(versions))
    assert [item.value for item in items.get([place], **ALICE)] == [3]
    assert memory.sync.admin.stats()["items"] == 2
    items.write([Put(("n",), "c", 1), Drop(("n",), "c"), Drop(("n",), "b")], **ALICE)
    assert memory.sync.admin.stats()["items"] == 1
    assert wrong_counters(memory) == ""


def test_a_user_who_is_forgotten_leaves_no_session(memory):
    add(memory, "a", "b")
    memory.sync.delete_user(**ALICE, forget=True)
    assert wrong_counters(memory) == ""
    with memory._memory.storage.read() as reads:
        assert not reads._connection.execute(
            "SELECT * FROM fig WHERE part > 0"
        ).fetchall()


def test_imported_and_copied_rows_are_counted(memory, tmp_path, open_service):
    add(memory, "a", "b", "c")
    memory.sync.delete_memory(**ALICE, memory_id="a")
    memory.items.sync.write([Put(("n",), "a", LARGE)], **ALICE)
    text = io.StringIO()
    memory.sync.admin.export_jsonl(text)
    memory.close()
    copied = tmp_path / "copied.db"
    assert copy_storage(tmp_path / "m.db", copied).is_complete
    for other in (open_service(copied), open_service(tmp_path / "imported.db")):
        for _ in range(2):
            other.sync.admin.import_jsonl(io.StringIO(text.getvalue()))
        stats = other.sync.admin.stats()
        assert (stats["deleted_ids"], stats["items"]) == (1, 1)
        assert wrong_counters(other) == ""


# No trigger counts these: whoever writes such a statement calls `count_inserted`, or
# gives `leave_partition` the rows. A database counts all of them itself.
COUNTED = re.compile(r"""(INTO tomb|"tomb \(|INTO item|"item \(|DELETE FROM mem\b)""")
WHERE_COUNTED = {
    "names.py": 2,  # keys, which no counter counts
    "writes/delete.py": 2,  # a user's rows that go all at once need no `DELETE FROM`
    "writes/items.py": 1,
    "writes/transfers.py": 1,
}


def test_rows_without_a_trigger_are_written_only_where_they_are_counted():
    store = Path(vecall.__file__).parent / "store"
    found = {
        path.relative_to(store).as_posix(): len(
            COUNTED.findall(path.read_text("utf-8"))
        )
        for path in store.rglob("*.py")
    }
    assert {name: count for name, count in found.items() if count} == WHERE_COUNTED
