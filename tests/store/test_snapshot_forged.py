"""A snapshot that somebody wrote gives no user the memories of another."""

from __future__ import annotations

import sqlite3
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from helpers.memories import ALICE, BOB, texts
from vecall import MemoryService
from vecall.store.rows import NONCE_BYTES, record_of_snapshot

ROWS = 600
_SECTIONS_AT = 112  # in the header; see docs/reference/snapshot-format.md
_CRC_AT = 124
_TABLE_AT = 128
_TABLE_ENTRIES = 24
_FRONT = _TABLE_AT + 16 * _TABLE_ENTRIES
_IDS = 8  # the kind of the section of row numbers


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ _CRC32C[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def _remainder(byte: int) -> int:
    for _ in range(8):
        byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
    return byte


_CRC32C = [_remainder(byte) for byte in range(256)]


def with_ids(data: bytes, ids: list[int]) -> bytes:
    """The snapshot with other row numbers, and checksums that hold."""
    forged = bytearray(data)
    (sections,) = struct.unpack_from("<I", data, _SECTIONS_AT)
    at = _FRONT
    for entry in range(sections):
        kind, _, size = struct.unpack_from("<IIQ", data, _TABLE_AT + 16 * entry)
        if kind == _IDS:
            body = struct.pack(f"<{len(ids)}q", *ids)
            assert len(body) == size
            forged[at : at + size] = body
            crc = crc32c(body)
            struct.pack_into("<I", forged, _TABLE_AT + 16 * entry + 4, crc)
        at += (size + 63) // 64 * 64
    struct.pack_into("<I", forged, _CRC_AT, 0)
    struct.pack_into("<I", forged, _CRC_AT, crc32c(bytes(forged[:_FRONT])))
    return bytes(forged)


@pytest.fixture
def path(open_service: Callable[..., MemoryService], tmp_path: Path) -> Iterator[Path]:
    """A file with two large users, of which both have a snapshot on record."""
    path = tmp_path / "m.db"
    with open_service(path, durability="process") as service:
        for who in (ALICE, BOB):
            told = [f"zebra {i} of {who['user_id']}" for i in range(ROWS)]
            service.sync.add_memory(**who, memories=told)
            assert len(texts(service, **who)) == ROWS
        end = time.monotonic() + 20
        while len(records(path)) < 2:
            assert time.monotonic() < end
            time.sleep(0.01)
    return path


def records(path: Path) -> list[bytes]:
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT snap FROM part WHERE snap IS NOT NULL ORDER BY id"
        return [snap for (snap,) in connection.execute(query)]


def rows_of(path: Path, part: int) -> list[int]:
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT rid FROM mem WHERE part = ? ORDER BY rid"
        return [rid for (rid,) in connection.execute(query, (part,))]


@pytest.mark.parametrize(
    ("whose", "on_record"),
    [
        ("bob's", False),
        ("bob's", True),  # as if by somebody who can write the file, too
        ("nobody's", False),
        ("nobody's", True),
        ("her own, in another order", False),
    ],
)
def test_forged_row_numbers_give_alice_what_is_hers(
    open_service, path, caplog, whose, on_record
):
    file = path.with_name("m.db.snap") / "1.vs"
    data = file.read_bytes()
    ids = {
        "bob's": rows_of(path, 2),
        "nobody's": [(77 << 32) + i for i in range(1, ROWS + 1)],
        "her own, in another order": rows_of(path, 1)[::-1],
    }[whose]
    forged = with_ids(data, ids)
    assert with_ids(data, rows_of(path, 1)) == data, "the forging itself is right"
    file.write_bytes(forged)
    assert forged != data
    if on_record:
        nonce = records(path)[0][:NONCE_BYTES]
        with closing(sqlite3.connect(path)) as connection:
            record = record_of_snapshot(nonce, forged)
            connection.execute("UPDATE part SET snap = ? WHERE id = 1", (record,))
            connection.commit()
    service = open_service(path)
    texts(service, **BOB)  # so that his texts are in memory
    found = texts(service)
    assert found == sorted(f"zebra {i} of alice" for i in range(ROWS))
    if not on_record:
        assert "is damaged; rebuilt" in caplog.text


def test_a_record_of_an_older_version_is_replaced(open_service, path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE part SET snap = substr(snap, 1, 8)")
        connection.commit()
    assert {len(record) for record in records(path)} == {8}
    service = open_service(path, durability="process")
    assert len(texts(service)) == len(texts(service, **BOB)) == ROWS
    end = time.monotonic() + 20
    while any(len(record) == 8 for record in records(path)):
        assert time.monotonic() < end
        time.sleep(0.01)


def of_another_version(data: bytes) -> bytes:
    """The snapshot as a later version might write it, and a checksum that holds."""
    changed = bytearray(data)
    struct.pack_into("<I", changed, 8, 2)
    struct.pack_into("<I", changed, _CRC_AT, 0)
    struct.pack_into("<I", changed, _CRC_AT, crc32c(bytes(changed[:_FRONT])))
    return bytes(changed)


@pytest.mark.parametrize("what", ["another version", "another number of rows"])
def test_a_recorded_snapshot_that_is_rejected_is_written_again(
    open_service, path, what
):
    """No later change makes the new one newer than the rejected one."""
    file = path.with_name("m.db.snap") / "1.vs"
    rejected = file.read_bytes()
    nonce = records(path)[0][:NONCE_BYTES]
    with closing(sqlite3.connect(path)) as connection:
        if what == "another version":
            rejected = of_another_version(rejected)
            file.write_bytes(rejected)
            query = "UPDATE part SET snap = ? WHERE id = 1"
            connection.execute(query, (record_of_snapshot(nonce, rejected),))
        else:  # a memory is lost without a change
            connection.execute("DELETE FROM mem WHERE rid = ?", (rows_of(path, 1)[0],))
            connection.execute("UPDATE part SET live = live - 1 WHERE id = 1")
        connection.commit()
    service = open_service(path, durability="process")
    assert len(texts(service)) == len(rows_of(path, 1))
    end = time.monotonic() + 5
    while records(path)[0][:NONCE_BYTES] == nonce:
        assert time.monotonic() < end
        time.sleep(0.01)
    service.close()
    whole = file.read_bytes()
    assert whole[8:12] != rejected[8:12] or what != "another version"
    assert record_of_snapshot(records(path)[0][:NONCE_BYTES], whole) == records(path)[0]
