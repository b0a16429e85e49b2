"""A large value is stored in pieces, which live and die with its item."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from helpers.campaigns import examples
from helpers.clocks import SettableClock
from helpers.memories import ALICE
from hypothesis import given, settings
from hypothesis import strategies as st
from vecall import CorruptFileError, Limits, MemoryService, Put
from vecall.errors import InvalidTypeError, LimitExceededError
from vecall.store import examine, repair_file, values
from vecall.types import Drop

PLACE = (("talk",), "photo")
PHOTO = "data:image/png;base64," + "iVBORw0K" * 37_500  # 300,022 characters
BOB = {"app_name": "app", "user_id": "bob"}


@pytest.fixture
def memory(open_service, tmp_path) -> MemoryService:
    return open_service(tmp_path / "m.db")


def put(memory: MemoryService, value: Any, **options: Any) -> int:
    (version,) = memory.items.sync.write([Put(*PLACE, value, **options)], **ALICE)
    return version


def got(memory: MemoryService) -> Any:
    (item,) = memory.items.sync.get([PLACE], **ALICE)
    return None if item is None else item.value


def rows(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        (count,) = connection.execute("SELECT count(*) FROM item").fetchone()
    return int(count)


VALUES: dict[str, Any] = {
    "photo": {"role": "user", "content": [{"text": "hi"}, {"image_url": PHOTO}]},
    "bare string": PHOTO,
    "beyond ASCII": ["\u00e9\u4e2d\U0001f600" * 40_000, {"a": None}],
    "NUL": {"a": "\0" * 70_000, "b": "x\0y"},
    "lone surrogates": ["\ud83d" + "x" * 262_143 + "\ude00" * 70_000, "\ud800"],
    "many middle strings": [str(n) * 15_000 for n in range(10)],
    "many small values": [[n, {"k": n / 7}] for n in range(20_000)],
    "long key": {"k" * 70_000: {"x" * 17_000: "v" * 17_000, "@": "@1,0:[]"}},
    "nested": {"a": [{"b": [["y" * 80_000, 1], ("z" * 20_000,)]}], "": [PHOTO]},
    "mark": "@3,1:" + "x" * 100_000,
    "small mark": "@3,1:",
    "small surrogate": {"\udc80": "\ud800", "both": "\u00e9\ud800"},
}


def plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return value


@pytest.mark.parametrize("name", VALUES)
def test_a_value_of_any_size_comes_back_as_it_was(memory, name):
    """Read by key, with others, in a list and by a condition."""
    items = memory.items.sync
    others = [Put(PLACE[0], f"{number}", number) for number in range(6)]
    items.write([*others[:3], Put(*PLACE, VALUES[name]), *others[3:]], **ALICE)
    expected = plain(VALUES[name])
    assert got(memory) == expected
    keys = [(other.namespace, other.key) for other in others]
    found = items.get([*keys, PLACE], **ALICE)
    assert [item.value for item in found] == [0, 1, 2, 3, 4, 5, expected]
    listed = {item.key: item.value for item in items.find(**ALICE)}
    assert listed == {**{str(n): n for n in range(6)}, "photo": expected}
    assert items.count(**ALICE) == 7
    assert items.namespaces(**ALICE) == [("talk",)]
    assert memory.admin.sync.stats()["items"] == 7


LEAVES = st.none() | st.booleans() | st.integers() | st.text('a\0\ud800\u00e9"@')
JSON = st.recursive(
    LEAVES, lambda part: st.lists(part) | st.dictionaries(st.text("ab@"), part)
)


@pytest.mark.campaign
@settings(max_examples=examples(300), deadline=None)
@given(JSON, st.integers(0, 4), st.integers(1, 3), st.integers(0, 30))
def test_any_value_is_put_together_again(value, long, piece, large):
    """Whatever its shape, and wherever it is cut."""
    sizes = {"_LONG": long, "_PIECE": piece, "LARGE": large}
    with pytest.MonkeyPatch.context() as patch:
        for name, size in sizes.items():
            patch.setattr(values, name, size)
        stored = values.value_in_pieces(value)
        assert values.parse_item_value(*stored) == value
        assert values.count_value_pieces(stored.text) == len(stored.pieces)
        for text in (stored.text, *stored.pieces):
            assert "\0" not in text
            text.encode()


def test_a_condition_and_a_vector_find_a_large_item(memory):
    value = {"kind": "photo", "data": PHOTO}
    put(memory, value, vectors=[1.0, 0.0])
    items = memory.items.sync
    for found in (
        items.find(where={"kind": "photo"}, **ALICE),
        items.find(vector=[1.0, 0.1], **ALICE),
        items.find_all(where={"data": PHOTO}, **ALICE),
    ):
        assert [item.value for item in found] == [value]
    assert items.count(where={"kind": "photo"}, **ALICE) == 1


GONE: dict[str, Callable[[MemoryService], Any]] = {
    "replaced": lambda memory: put(memory, 1),
    "replaced by a large one": lambda memory: put(memory, PHOTO[::-1]),
    "dropped": lambda memory: memory.items.sync.write([Drop(*PLACE)], **ALICE),
    "deleted": lambda memory: memory.items.sync.delete(("talk",), **ALICE),
    "deleted with the user": lambda memory: memory.sync.delete_user(**ALICE),
    "forgotten": lambda memory: memory.sync.delete_user(**ALICE, forget=True),
}


@pytest.mark.parametrize("way", GONE)
def test_the_pieces_go_with_their_item(open_service, tmp_path, way):
    path = tmp_path / "m.db"
    memory = open_service(path)
    memory.items.sync.write([Put(*PLACE, PHOTO)], **BOB)
    of_bob = rows(path)
    put(memory, PHOTO)
    assert rows(path) == 2 * of_bob
    GONE[way](memory)
    left = {"replaced": 1, "replaced by a large one": of_bob}.get(way, 0)
    assert rows(path) == of_bob + left
    memory.admin.sync.purge()
    assert memory.items.sync.get([PLACE], **BOB)[0].value == PHOTO
    memory.close()
    assert "error" not in {finding.level for finding in examine(path)}


def test_the_pieces_of_an_expired_item_go(open_service, tmp_path):
    path, clock = tmp_path / "m.db", SettableClock()
    memory = open_service(path, clock=clock, maintenance_interval=None)
    memory.items.sync.write([Put(("talk",), "stays", PHOTO)], **ALICE)
    before = rows(path)
    for _ in range(2):
        put(memory, PHOTO, ttl=10)
        clock.let_pass(11)
        assert got(memory) is None
        assert memory.items.sync.sweep(**ALICE) == 1
        assert rows(path) == before


def test_a_read_begins_the_ttl_of_a_large_item_again(open_service, tmp_path):
    clock = SettableClock()
    memory = open_service(tmp_path / "m.db", clock=clock, maintenance_interval=None)
    put(memory, PHOTO, ttl=10)
    for _ in range(3):
        clock.let_pass(8)
        assert memory.items.sync.get([PLACE], refresh=True, **ALICE)[0].value == PHOTO


def test_large_items_cross_an_export(open_service, tmp_path):
    memory = open_service(tmp_path / "m.db")
    for name, value in VALUES.items():
        memory.items.sync.write([Put(("talk",), name, value)], **ALICE)
    for number in (1, 2):
        memory.admin.sync.export_jsonl(tmp_path / f"{number}.jsonl")
        other = open_service(tmp_path / f"new{number}.db")
        assert other.admin.sync.import_jsonl(tmp_path / f"{number}.jsonl") == 0
        memory = other
    found = {item.key: item.value for item in memory.items.sync.find(limit=50, **ALICE)}
    assert found == {name: plain(value) for name, value in VALUES.items()}


def test_a_damaged_piece_costs_its_item_alone(open_service, tmp_path):
    path = tmp_path / "m.db"
    memory = open_service(path)
    put(memory, PHOTO)
    memory.items.sync.write([Put(("talk",), "other", PHOTO)], **ALICE)
    memory.close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE item SET value = value || 'x' WHERE rid & 255 = 2")
    memory = open_service(path)
    with pytest.raises(CorruptFileError):
        got(memory)
    memory.close()
    assert "error" in {finding.level for finding in examine(path)}
    repair_file(path)
    memory = open_service(path)
    assert got(memory) is None
    found = memory.items.sync.find(**ALICE)
    assert [(item.key, item.value) for item in found] == [("other", PHOTO)]
    memory.sync.delete_user(**ALICE)
    memory.close()
    assert rows(path) == 0


def test_a_lost_piece_is_damage(open_service, tmp_path):
    path = tmp_path / "m.db"
    put(open_service(path), PHOTO)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM item WHERE rid & 255 = 1")
    with pytest.raises(CorruptFileError):
        got(open_service(path))


def test_a_value_that_is_too_large_changes_nothing(open_service):
    limits = Limits(max_item_bytes=400_000, max_item_outline_bytes=100_000)
    memory = open_service(limits=limits)
    put(memory, PHOTO)
    for value, error, name in (
        ([PHOTO, "x" * 100_000], LimitExceededError, "max_item_bytes"),
        (["\u00e9" * 200_001], LimitExceededError, "max_item_bytes"),
        (["\n" * 16_000] * 7, LimitExceededError, "max_item_outline_bytes"),
        (list(range(40_000)), LimitExceededError, "max_item_outline_bytes"),
        ([PHOTO, float("nan")], InvalidTypeError, "JSON"),
        ({"a": PHOTO, 1: 2}, InvalidTypeError, "JSON"),
    ):
        with pytest.raises(error, match=name) as raised:
            put(memory, value)
        assert "operations[0].value" in str(raised.value)
    assert got(memory) == PHOTO


def test_a_photo_of_20_mb_pauses_no_event_loop(open_service, tmp_path):
    """Nor does it pause the interpreter: its CPU time is spent in short steps."""
    memory = open_service(tmp_path / "m.db")
    photo = "data:image/png;base64," + "A" * 20_000_000
    longest = 0.0

    async def work() -> Any:
        await memory.items.write([Put(*PLACE, {"image_url": photo})], **ALICE)
        return (await memory.items.get([PLACE], **ALICE))[0].value

    async def watched() -> Any:
        nonlocal longest
        task = asyncio.ensure_future(work())
        while not task.done():
            begin = time.thread_time()
            await asyncio.sleep(0)
            longest = max(longest, time.thread_time() - begin)
        return task.result()

    found = asyncio.run(watched())
    assert found == {"image_url": photo}
    assert longest < 0.03


def test_many_long_strings_below_a_long_key_cost_the_key_once(open_service):
    items = open_service(None).items.sync
    value = {"k" * 20_000: ["x" * 16_385] * 100}
    items.write([Put(("n",), "k", value)], **ALICE)
    (found,) = items.get([(("n",), "k")], **ALICE)
    assert found.value == value
