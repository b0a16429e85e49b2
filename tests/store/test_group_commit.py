"""Group commit: calls that wait together are written in few transactions."""

from __future__ import annotations

import asyncio
import sqlite3
import struct
import subprocess
import sys
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from helpers.memories import ALICE, texts
from helpers.processes import HOLDER, child, said, tell
from vecall import Put, StorageFullError
from vecall.store import Change
from vecall.store.file.database import Database


def commits_in(log: Path) -> int:
    """The transactions in a write-ahead log, read by another process.

    Frames are a header of 24 bytes and a page; the fifth to eighth byte of the header
    are not zero where a transaction ends.
    """
    script = "import sys; sys.stdout.buffer.write(open(sys.argv[1], 'rb').read())"
    data = subprocess.run(
        [sys.executable, "-c", script, str(log)], capture_output=True, check=True
    ).stdout
    page = struct.unpack(">I", data[8:12])[0]
    salt = data[16:24]
    commits = 0
    for at in range(32, len(data) - page, 24 + page):
        if data[at + 8 : at + 16] == salt:
            commits += struct.unpack(">I", data[at + 4 : at + 8])[0] != 0
    return commits


def test_writes_that_wait_together_share_one_sync(open_service, tmp_path):
    """A hundred writes that queued up behind the gate are a few transactions."""
    path = tmp_path / "m.db"
    service = open_service(path)

    async def work() -> None:
        with child(HOLDER, path) as holder:
            assert said(holder) == "held"
            adds = [
                asyncio.ensure_future(
                    service.add_memory(**ALICE, memories=[f"zebra {i}"])
                )
                for i in range(100)
            ]
            await asyncio.sleep(0)  # each ran up to its first wait: it is queued
            before = commits_in(path.with_name("m.db-wal"))
            tell(holder, "go")
            assert said(holder) == "free"
            ids = await asyncio.gather(*adds)
            after = commits_in(path.with_name("m.db-wal"))
            assert len({id_ for (id_,) in ids}) == 100
            assert 1 <= after - before <= 5

    asyncio.run(work())
    assert len(texts(service, "zebra")) == 100


@pytest.mark.parametrize(("durability", "level"), [("full", 2), ("process", 1)])
def test_each_write_is_synced_unless_it_may_be_lost(tmp_path, durability, level):
    with (
        closing(Database(tmp_path / "m.db", durability)) as database,
        database.exclusive_connection() as connection,
    ):
        assert connection.execute("PRAGMA synchronous").fetchone() == (level,)


def bytes_written() -> int:
    """What this process has written since it began, to any file."""
    lines = Path("/proc/self/io").read_text().splitlines()
    counters = dict(line.split(": ") for line in lines)
    return int(counters["wchar"])


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc what was written")
def test_a_write_alone_copies_nothing_to_a_temporary_file(open_service, tmp_path):
    """What is written of a hundred memories, or of items, is what the log has."""
    path = tmp_path / "m.db"
    alice = open_service(path).sync.user(**ALICE)
    log = path.with_name("m.db-wal")
    told = [f"zebra {number} {number * number}" for number in range(400)]
    calls = [partial(alice.add, told[at : at + 100]) for at in range(0, 400, 100)]
    puts = [Put(("n",), f"key {number}", {"number": number}) for number in range(200)]
    calls.append(partial(alice.items.write, puts))
    for call in calls:
        size, before = log.stat().st_size, bytes_written()
        call()
        grown, written = log.stat().st_size - size, bytes_written() - before
        assert 0 < grown == written


def test_a_deletion_is_written_where_the_write_beside_it_has_no_room(
    open_service, tmp_path
):
    path = tmp_path / "m.db"
    service = open_service(path)
    ids = service.sync.add_memory(**ALICE, memories=["zebra 1", "zebra 2"])
    service.close()
    service = open_service(path, min_free_bytes=2**62)

    async def work() -> list[object]:
        with child(HOLDER, path) as holder:
            assert said(holder) == "held"
            calls = [
                service.delete_memory(**ALICE, memory_id=ids[0]),
                service.add_memory(**ALICE, memories=["zebra 3"]),
                service.delete_memory(**ALICE, memory_id=ids[1]),
            ]
            tasks = [asyncio.ensure_future(each) for each in calls]
            await asyncio.sleep(0)  # as above
            tell(holder, "go")
            return await asyncio.gather(*tasks, return_exceptions=True)

    one, full, two = asyncio.run(work())
    assert (one, type(full), two) == (True, StorageFullError, True)


def test_a_write_without_room_fails_and_not_those_beside_it(open_service, tmp_path):
    path = tmp_path / "m.db"
    service = open_service(path)
    service.sync.add_memory(**ALICE, memories=["zebra 1"])
    writer = service._memory.storage._database._writer.connection

    async def work() -> list[object]:
        with child(HOLDER, path) as holder:
            assert said(holder) == "held"
            (pages,) = writer.execute("PRAGMA page_count").fetchone()
            writer.execute(f"PRAGMA max_page_count = {pages + 4}")
            added = (["zebra 2"], ["zebra 3" * 5_000], ["zebra 4"])
            calls = [service.add_memory(**ALICE, memories=each) for each in added]
            tasks = [asyncio.ensure_future(each) for each in calls]
            await asyncio.sleep(0)  # as above
            tell(holder, "go")
            return await asyncio.gather(*tasks, return_exceptions=True)

    one, full, two = asyncio.run(work())
    assert [len(one), type(full), len(two)] == [1, StorageFullError, 1]
    assert sorted(texts(service, "zebra")) == ["zebra 1", "zebra 2", "zebra 4"]


class Unmeasured:
    """A write that cannot tell its size."""

    app, user = "app", "alice"

    @property
    def estimated_bytes(self) -> int:
        raise ArithmeticError

    def run(self, _: object) -> Change:
        raise AssertionError


def test_a_write_that_fails_before_it_is_run_ends_no_other(open_service, tmp_path):
    service = open_service(tmp_path / "m.db")
    storage = service._memory.storage
    futures = [storage.submit(Unmeasured()) for _ in range(3)]
    service.sync.add_memory(**ALICE, memories=["zebra"])
    for future in futures:
        with pytest.raises(ArithmeticError):
            future.result(10)
    assert texts(service, "zebra") == ["zebra"]


class Told:
    """A write that says when it is run, and that may find no room."""

    app, user = "app", "alice"

    def __init__(self, name: str, estimated_bytes: int, told: list[str]) -> None:
        self.name, self.estimated_bytes, self.told = name, estimated_bytes, told

    def run(self, transaction: sqlite3.Connection) -> Change:
        self.told.append(self.name)
        if self.name == "large":
            transaction.rollback()  # as SQLite does where the disk is full
            raise StorageFullError("full")
        return Change("app", "alice", 0, 0, 0)


def test_writes_that_are_tried_again_for_want_of_room_keep_their_order(
    open_service, tmp_path
):
    """A deletion, and then a write of what it deleted, which it must not undo."""
    storage = open_service(tmp_path / "m.db")._memory.storage
    told: list[str] = []
    sizes = {"first": 0, "delete": 0, "large": 100, "write": 100}
    with storage._database._writer.lock:
        jobs = [storage.submit(Told(name, sizes[name], told)) for name in sizes]
    (full,) = [job for job in jobs if job.exception(10) is not None]
    assert jobs.index(full) == 2
    assert [told[-1], told[-2], told[-3]] == ["write", "large", "delete"]


def test_users_take_turns_and_a_large_write_makes_another_user_wait_once(
    open_service, tmp_path
):
    """Four large writes of one user, then a small one of another: it is the second."""
    path = tmp_path / "m.db"
    service = open_service(path)
    done: list[str] = []

    async def add(name: str, user: str, texts: list[str]) -> None:
        await service.add_memory(app_name="app", user_id=user, memories=texts)
        done.append(name)

    async def work() -> None:
        with child(HOLDER, path) as holder:
            assert said(holder) == "held"
            first = asyncio.ensure_future(add("first", "c", ["first"]))
            await asyncio.sleep(0.2)  # it has the writer now, and waits for the file
            long = [f"bread {n} " + "x" * 10_000 for n in range(8)]
            adds = [
                asyncio.ensure_future(
                    add(f"large {n}", "a", [f"{n} {t}" for t in long])
                )
                for n in range(4)
            ]
            await asyncio.sleep(0.2)
            adds.append(asyncio.ensure_future(add("small", "b", ["tea"])))
            await asyncio.sleep(0.2)
            tell(holder, "go")
            assert said(holder) == "free"
            await asyncio.gather(first, *adds)

    asyncio.run(work())
    large = [f"large {n}" for n in range(4)]
    assert done == ["first", large[0], "small", *large[1:]]
