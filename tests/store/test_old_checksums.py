"""Rows whose checksum is of a value as NumPy spells it: found again, and counted."""

from __future__ import annotations

import sqlite3
import time
import zlib
from contextlib import closing

import numpy as np
import pytest
from helpers.memories import ALICE, texts
from helpers.old_checksums import old_item_checksum, old_row_checksum
from vecall import CorruptFileError, Put
from vecall.clock import ClockCheckpoint
from vecall.index.partition_cache import examine_storage
from vecall.store import examine, recover_file, repair_file
from vecall.store.rows import COLUMNS, Row, checksum, make_memory_id, names_checksum
from vecall.store.values import ITEM_COLUMNS, ItemRow, item_checksum


def damaged_by_numpy(path, *fields):
    """Give every memory the checksum of NumPy's spelling."""
    with closing(sqlite3.connect(path)) as file, file:
        for *values, vec in file.execute(f"SELECT {COLUMNS}, vec FROM mem").fetchall():
            row = Row(*values)
            crc = old_row_checksum(row, vec, fields)
            assert crc != checksum(row, vec)
            file.execute("UPDATE mem SET crc = ? WHERE rid = ?", (crc, row.rid))
        file.commit()


def items_damaged_by_numpy(path, *fields):
    with closing(sqlite3.connect(path)) as file, file:
        for values in file.execute(f"SELECT {ITEM_COLUMNS} FROM item").fetchall():
            row = ItemRow(*values)
            crc = old_item_checksum(row, fields)
            assert crc != item_checksum(row)
            file.execute("UPDATE item SET crc = ? WHERE rid = ?", (crc, row.rid))
        file.commit()


def findings(path):
    return {each.about: (each.level, each.message) for each in examine_storage(path)}


@pytest.fixture
def path(tmp_path, open_service):
    path = tmp_path / "m.db"
    service = open_service(path)
    service.sync.add_memory(**ALICE, memories=["zebra one", "zebra two"], ttl=1e6)
    puts = [Put(("notes",), "k", {"n": 1}, ttl=1e6), Put(("notes",), "l", 2, ttl=1e6)]
    service.items.sync.write(puts, **ALICE)
    service.sync.mark_used(
        **ALICE, memory_ids=[m.id for m in service.sync.list_memories(**ALICE)]
    )
    service.close()
    return path


@pytest.mark.parametrize(
    "fields",
    [["expires_at"], ["created_at"], ["created_at", "expires_at", "last_used"]],
)
def test_memories_with_numpys_times_are_found_again(path, open_service, fields):
    damaged_by_numpy(path, *fields)
    assert findings(path)["memories"] == (
        "note",
        "2 pass their checksum, 2 of them one of an earlier release",
    )
    assert findings(path)["loading"][0] == "ok"
    service = open_service(path)
    assert texts(service) == ["zebra one", "zebra two"]
    assert len(service.sync.list_memories(**ALICE)) == 2


def test_a_write_or_a_repair_gives_a_memory_its_checksum(path, open_service):
    damaged_by_numpy(path, "expires_at")
    service = open_service(path)
    one = service.sync.search_memory(**ALICE, query="one").memories[0]
    service.sync.touch_memories(**ALICE, memory_ids=[one.id], ttl=2e6)
    service.close()
    assert "1 of them" in findings(path)["memories"][1]
    assert repair_file(path) == ["1 checksums were written anew"]
    assert findings(path)["memories"] == ("ok", "2 pass their checksum")
    assert repair_file(path) == []


@pytest.mark.parametrize("fields", [["ttl", "expires_at"], ["key"], ["key", "ttl"]])
def test_items_with_numpys_values_are_found_again(path, open_service, fields):
    items_damaged_by_numpy(path, *fields)
    assert findings(path)["items"] == (
        "note",
        "2 pass their checksum, 2 of them one of an earlier release",
    )
    service = open_service(path)
    assert [each.key for each in service.items.sync.find_all((), **ALICE)] == ["l", "k"]
    assert service.items.sync.get([(("notes",), "k")], **ALICE)[0].value == {"n": 1}
    service.close()
    assert repair_file(path) == ["2 checksums were written anew"]
    assert findings(path)["items"] == ("ok", "2 pass their checksum")


def test_a_changed_text_is_damage_whatever_its_checksum_spelled(path, open_service):
    damaged_by_numpy(path, "expires_at")
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("UPDATE mem SET text = 'zebra One' WHERE text = 'zebra one'")
    assert findings(path)["memories"][0] == "error"
    service = open_service(path)
    with pytest.raises(CorruptFileError):
        texts(service)


def test_a_changed_item_is_damage_whatever_its_checksum_spelled(path, open_service):
    items_damaged_by_numpy(path, "ttl", "expires_at")
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("UPDATE item SET value = '3' WHERE value = '2'")
    assert findings(path)["items"][0] == "error"
    with pytest.raises(CorruptFileError):
        open_service(path).items.sync.find_all((), **ALICE)


def test_an_item_under_a_member_of_an_enum_is_set_aside(path, open_service):
    """Its checksum named the enum, which no longer says what it was."""
    with closing(sqlite3.connect(path)) as file, file:
        (values,) = file.execute(f"SELECT {ITEM_COLUMNS} FROM item WHERE key = 'k'")
        row = list(map(repr, values))
        row[2] = f"<Keys.PROFILE: {values[2]!r}>"
        crc = zlib.crc32(f"({', '.join(row)})".encode())
        file.execute("UPDATE item SET crc = ? WHERE key = 'k'", (crc,))
    assert findings(path)["items"][0] == "error"
    assert repair_file(path) == ["1 damaged items were set aside"]
    found = open_service(path).items.sync.find_all((), **ALICE)
    assert [each.key for each in found] == ["l"]


def test_a_recovery_keeps_such_rows(path, tmp_path):
    damaged_by_numpy(path, "expires_at")
    items_damaged_by_numpy(path, "key")
    found = recover_file(path, tmp_path / "new.db")
    assert (found.saved, found.lost, found.saved_items, found.lost_items) == (
        2,
        0,
        2,
        0,
    )
    assert "error" not in {each.level for each in examine(tmp_path / "new.db")}


def test_a_recovery_does_not_call_items_lost_that_have_expired(
    path, tmp_path, open_service
):
    with open_service(path) as service:
        service.items.sync.write([Put(("notes",), "gone", 3, ttl=0.001)], **ALICE)
    time.sleep(0.05)
    found = recover_file(path, tmp_path / "new.db")
    assert (found.saved_items, found.lost_items) == (3, 0)


def test_values_of_another_type_have_the_checksum_of_the_plain_ones():
    row = Row(
        1, "i", None, None, 1.0, 2.0, 3.0, 4.5, "a", None, None, None, "t", None,
        None, 0.5,
    )  # fmt: skip
    odd = [np.float64(v) if type(v) is float else v for v in row]
    assert checksum(Row(*odd), b"v") == checksum(row, b"v")
    item = ItemRow(1, "n", "k", "1", 1.0, 2.0, 3.0, 4.0)
    odd = item._replace(key=np.str_("k"), ttl=np.float64(3.0))
    assert item_checksum(odd) == item_checksum(item)
    assert names_checksum(1, np.str_("a"), np.str_("u")) == names_checksum(1, "a", "u")
    assert make_memory_id(np.str_("s"), np.float64(5.0)) == make_memory_id("s", 5.0)


def test_a_clock_that_was_written_as_numpy_spells_it_is_read():
    body = "np.float64(1700000000.5)|np.float64(12.25)|boot"
    text = f"{body}|{zlib.crc32(body.encode()):08x}"
    assert ClockCheckpoint.parse_checkpoint(text) == ClockCheckpoint(
        1_700_000_000.5, 12.25, "boot"
    )
