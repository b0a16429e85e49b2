"""What was put to use is counted: exactly, durably, for everybody, for nobody else."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
import time
from typing import Any

import pytest
import vecall.index.partition_cache
from helpers.embedders import Recorder, session
from helpers.memories import ALICE, BOB, texts
from helpers.processes import child, said, tell
from helpers.use_counts import mark, state, told, used_at, uses
from vecall import (
    ClosedError,
    InvalidArgumentError,
    InvalidTypeError,
    LimitExceededError,
    MemoryEntry,
    MemoryService,
    StorageFullError,
)

EMBEDDER = Recorder(5)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "m.db"


@pytest.fixture
def service(open_service, path) -> MemoryService:
    """A service with memories a, b and c of alice, and a of bob."""
    service = open_service(path, embedder=EMBEDDER, durability="process")
    service.sync.add_memory(**ALICE, memories=told("a", "b", "c"))
    service.sync.add_memory(**BOB, memories=told("a"))
    return service


def test_each_use_counts_once_and_the_last_one_is_remembered(service, path):
    before = time.time()
    assert mark(service, "a", "b") == 2
    between = time.time()
    assert mark(service, "a") == 1
    assert uses(path) == {"a": 2, "b": 1, "c": None}
    at = used_at(path)
    assert before <= at["b"] <= between <= at["a"] <= time.time()
    assert at["c"] is None


def test_an_id_that_comes_twice_in_one_call_counts_once(service, path):
    assert mark(service, "a", "b", "a", "a", *["b"] * 2_000) == 2
    assert uses(path) == {"a": 1, "b": 1, "c": None}


def test_many_memories_are_marked_at_once(service, path):
    ids = [f"m{i}" for i in range(2_500)]
    service.sync.add_memory(**ALICE, memories=told(*ids))
    assert mark(service, *ids, *ids) == 2_500
    assert set(uses(path).values()) == {None, 1}


def test_an_event_loop_can_mark_many_at_the_same_time(service, path):
    async def work() -> list[int]:
        calls = [service.mark_used(**ALICE, memory_ids=["a", "c"]) for _ in range(50)]
        return await asyncio.gather(*calls)

    assert asyncio.run(work()) == [2] * 50
    assert uses(path) == {"a": 50, "b": None, "c": 50}


def test_eight_threads_lose_no_use(service, path):
    def work(own: str) -> None:
        for _ in range(40):
            assert mark(service, "a", own) == 2

    threads = [threading.Thread(target=work, args=("bc"[i % 2],)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert uses(path) == {"a": 320, "b": 160, "c": 160}


def test_what_a_user_does_not_have_is_ignored(service, path):
    service.sync.add_memory(**BOB, memories=told("foreign"))
    service.sync.add_memory(
        **ALICE, memories=told("brief"), custom_metadata={"ttl": 0.01}
    )
    service.sync.delete_memory(**ALICE, memory_id="b")
    time.sleep(0.02)
    assert mark(service, "unknown", "b", "foreign", "brief", "a") == 1
    assert uses(path) == {"a": 1, "brief": None, "c": None}
    assert uses(path, "bob") == {"a": None, "foreign": None}


def test_nothing_is_written_where_nothing_is_marked(service, path):
    """Neither for an empty list nor for strangers; no user is made by it."""
    before = state(path)
    assert mark(service) == 0
    assert mark(service, "unknown") == 0
    assert mark(service, "a", app_name="app", user_id="nobody") == 0
    assert mark(service, "a", app_name="APP", user_id="alice") == 0
    assert state(path) == before


def test_other_users_rows_stay_as_they_are_byte_for_byte(service, path):
    def of_bob() -> list[Any]:
        return [[row for row in rows if 2 in row[:2]] for rows in state(path)]

    before = of_bob()
    assert before[0]
    assert mark(service, "a", "b", "c") == 3
    assert of_bob() == before


@pytest.mark.parametrize(
    ("id_", "error"),
    [
        ("", InvalidArgumentError),
        ("a\0b", InvalidArgumentError),
        ("\ud800", InvalidArgumentError),
        ("x" * 513, LimitExceededError),
        (None, InvalidTypeError),
        (7, InvalidTypeError),
        (b"a", InvalidTypeError),
        (["a"], InvalidTypeError),
    ],
)
def test_a_bad_name_or_id_is_refused_and_nothing_is_marked(service, path, id_, error):
    before = state(path)
    for work in (
        lambda: mark(service, "a", id_),
        lambda: mark(service, "a", app_name=id_, user_id="alice"),
        lambda: mark(service, "a", app_name="app", user_id=id_),
    ):
        with pytest.raises(error):
            work()
    assert state(path) == before


@pytest.mark.parametrize("ids", ["a", b"a", None, 7, {"a": 1}, {"a"}, iter(["a"])])
def test_ids_that_are_no_sequence_are_refused(service, ids):
    with pytest.raises(InvalidTypeError, match="memory_ids"):
        service.sync.mark_used(**ALICE, memory_ids=ids)


@pytest.mark.parametrize(
    "id_",
    ["' OR 1=1 --", "%", "a%", "_", "a') --", "A", "a ", "\u202ea", "../a", "a\n"],
)
def test_an_id_is_never_more_than_an_id(service, path, id_):
    """Injection, patterns, case and blanks: another id is another memory."""
    assert mark(service, id_) == 0
    assert set(uses(path).values()) == {None}
    service.sync.add_memory(**ALICE, memories=told(id_))
    assert mark(service, id_) == 1
    assert uses(path) == {"a": None, "b": None, "c": None, id_: 1}


def test_a_closed_service_marks_nothing(service):
    service.close()
    for ids in (["a"], []):
        with pytest.raises(ClosedError):
            service.sync.mark_used(**ALICE, memory_ids=ids)
        with pytest.raises(ClosedError):
            asyncio.run(service.mark_used(**ALICE, memory_ids=ids))


def test_memory_without_a_file_counts_as_well(open_service, tmp_path):
    service = open_service(":memory:")
    service.sync.add_memory(**ALICE, memories=told("a", "b"))
    assert texts(service) == ["zebra a", "zebra b"]
    assert [mark(service, "a"), mark(service, "a", "x")] == [1, 1]
    assert texts(service) == ["zebra a", "zebra b"]
    service.sync.admin.export_jsonl(tmp_path / "out")
    lines = map(json.loads, (tmp_path / "out").read_text().splitlines())
    told_ = {
        line["mem"]["id"]: line["mem"].get("uses") for line in lines if "mem" in line
    }
    assert told_ == {"a": 2, "b": None}


def test_a_full_disk_marks_nothing(open_service, service, path):
    service.close()
    with open_service(path, embedder=EMBEDDER, min_free_bytes=2**60) as full:
        with pytest.raises(StorageFullError):
            mark(full, "a")
        assert mark(full) == 0
    assert set(uses(path).values()) == {None}


def test_uses_survive_reopening(open_service, service, path):
    mark(service, "a", "b")
    mark(service, "a")
    service.close()
    with open_service(path, embedder=EMBEDDER) as again:
        assert texts(again) == ["zebra a", "zebra b", "zebra c"]
        assert mark(again, "a") == 1
    assert uses(path) == {"a": 3, "b": 1, "c": None}


SERVER = """
import sys, vecall
service = vecall.MemoryService(sys.argv[1], embedder=None)
scope = dict(app_name="app", user_id="alice")
print("ready", flush=True)
for line in sys.stdin:
    verb, *rest = line.split()
    if verb == "mark":
        print(service.sync.mark_used(**scope, memory_ids=rest), flush=True)
    else:
        found = service.sync.search_memory(**scope, query="zebra", top_k=100)
        rows = service._memory.search_index.cache.get_rows([(1 << 32) + int(rest[0])])
        print(len(found.memories), rows[0] and rows[0].uses, flush=True)
"""


def test_an_acknowledged_use_survives_a_kill(open_service, path):
    """Guarantee 1, for uses: kill -9 right after the acknowledgement."""
    with open_service(path) as service:
        service.sync.add_memory(**ALICE, memories=told("a", "b"))
    for marked in (1, 2, 3):
        with child(SERVER, path) as other:
            assert said(other) == "ready"
            tell(other, "mark a")
            assert said(other) == "1"
            os.kill(other.pid, signal.SIGKILL)
        assert uses(path) == {"a": marked, "b": None}
        assert texts(open_service(path)) == ["zebra a", "zebra b"]


def test_processes_see_each_others_uses(open_service, path):
    """Each has the row in memory, and never an old one once it has searched again."""
    service = open_service(path)
    service.sync.add_memory(**ALICE, memories=told("a", "b"))
    assert len(texts(service)) == 2

    def cached() -> Any:
        assert len(texts(service)) == 2
        (row,) = service._memory.search_index.cache.get_rows([(1 << 32) + 1])
        return row and row.uses

    with child(SERVER, path) as other:
        assert said(other) == "ready"
        tell(other, "search 1")
        assert said(other) == "2 None"
        for count in range(2, 21, 2):
            assert mark(service, "a") == 1
            tell(other, "search 1")
            assert said(other) == f"2 {count - 1}"
            tell(other, "mark a b")
            assert said(other) == "2"
            assert cached() == count
        assert uses(path) == {"a": 20, "b": 10}


def test_uses_of_processes_at_the_same_time_all_count(open_service, path):
    service = open_service(path, durability="process")
    service.sync.add_memory(**ALICE, memories=told("a"))
    with child(SERVER, path) as one, child(SERVER, path) as two:
        assert [said(one), said(two)] == ["ready"] * 2
        for _ in range(30):
            tell(one, "mark a")
            tell(two, "mark a")
            assert mark(service, "a") == 1
            assert [said(one), said(two)] == ["1", "1"]
    assert uses(path) == {"a": 90}


def test_a_use_is_no_reason_to_index_a_memory_again(
    open_service, service, path, monkeypatch
):
    """Neither here nor in another service; both answer from up to date rows."""
    other = open_service(path, embedder=EMBEDDER)
    assert texts(service) == texts(other) == ["zebra a", "zebra b", "zebra c"]
    indexed: list[int] = []
    add_rows = vecall.index.partition_cache.add_rows

    def counted(engine: Any, key: Any, stored: Any, model: Any) -> int:
        indexed.extend(entry.row.rid for entry in stored)
        return add_rows(engine, key, stored, model)

    monkeypatch.setattr(vecall.index.partition_cache, "add_rows", counted)
    EMBEDDER.asked.clear()
    for _ in range(5):
        mark(service, "a", "b")
        mark(other, "b", "c")
        assert texts(service) == texts(other) == ["zebra a", "zebra b", "zebra c"]
    assert indexed == []
    assert set(EMBEDDER.asked) <= {"zebra"}
    service.sync.add_memory(**ALICE, memories=told("a", word="zebra new"))
    mark(service, "a")
    assert "zebra new a" in texts(other)
    assert uses(path) == {"a": 6, "b": 10, "c": 5}


def test_a_row_in_memory_is_the_marked_one_at_once(service):
    """Also where somebody puts back what was read before the mark."""
    assert len(texts(service)) == 3
    cache, rid = service._memory.search_index.cache, (1 << 32) + 1
    read_at = cache.moment_of_read()
    (old,) = cache.get_rows([rid])
    assert old is not None
    assert mark(service, "a") == 1
    cache.put_rows([old], read_at)
    (now,) = cache.get_rows([rid])
    assert now is not None
    assert now.uses == 1
    assert now == old._replace(uses=1, last_used=now.last_used)


def test_what_is_told_again_keeps_its_uses(service, path):
    """Unchanged, changed, and moved within its session."""
    first = session("zebra one", "zebra two", "zebra three")
    ids = service.sync.add_session_to_memory(first)
    mark(service, *ids, "a")
    mark(service, ids[1], "a")
    at = used_at(path)
    service.sync.add_session_to_memory(first)
    service.sync.add_memory(**ALICE, memories=told("a", "b", "c"))
    assert (uses(path)[ids[1]], uses(path)["a"]) == (2, 2)
    assert used_at(path) == at

    changed = session("zebra one", "zebra changed", "zebra three")
    service.sync.add_session_to_memory(changed)
    service.sync.add_memory(**ALICE, memories=told("a", word="changed"))
    assert [uses(path)[id_] for id_ in (*ids, "a")] == [1, 2, 1, 2]
    assert used_at(path) == at

    new = {"id": "new", "author": "user", "text": "zebra first"}
    moved = {**changed, "events": [new, *changed["events"]]}
    new_ids = service.sync.add_session_to_memory(moved)
    assert new_ids[1:] == ids
    assert [uses(path)[id_] for id_ in new_ids] == [None, 1, 2, 1]
    assert used_at(path) == at | {new_ids[0]: None}
    mark(service, *new_ids)
    out = path.with_name("out")
    assert service.sync.admin.export_jsonl(out) == 8, "every row passes its checksum"


def test_what_was_deleted_begins_anew(service, path):
    mark(service, "a")
    service.sync.delete_memory(**ALICE, memory_id="a")
    service.sync.add_memory(**ALICE, memories=told("a"), restore=True)
    assert uses(path)["a"] is None
    mark(service, "a")
    service.sync.delete_user(**ALICE, forget=True)
    service.sync.add_memory(**ALICE, memories=[MemoryEntry("zebra", id="a")])
    assert uses(path) == {"a": None}
    assert mark(service, "a") == 1
    assert texts(service) == ["zebra"]
