"""Items' vectors in memory: within the budget over all users, gone with the items."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from vecall import Drop, MemoryService, Put, StorageOptions

APP = "app"
USERS, ITEMS, DIM = 160, 20, 64
BUDGET = 300_000  # bytes: the items of some fifteen users
VECTORS = np.random.default_rng(7).standard_normal((ITEMS, DIM)).astype(np.float32)


def of(user: int) -> dict[str, str]:
    return {"app_name": APP, "user_id": f"user{user}"}


def write(memory: MemoryService, user: int) -> None:
    memory.sync.items.write(
        [Put(("notes",), f"k{n}", {"n": n}, VECTORS[n]) for n in range(ITEMS)],
        **of(user),
    )


def search(memory: MemoryService, user: int, query: Any = VECTORS[3]) -> list[str]:
    found = memory.sync.items.find((), **of(user), vector=query, limit=2)
    return [item.key for item in found]


def loaded(memory: MemoryService) -> int:
    return int(memory.sync.admin.stats()["loaded_item_bytes"])


@pytest.fixture
def opened(tmp_path: Path):
    options = StorageOptions(
        cache_bytes=BUDGET, durability="process", maintenance_interval=None
    )
    with MemoryService(tmp_path / "m.db", embedder=None, storage=options) as memory:
        yield memory


def test_the_vectors_of_all_users_together_stay_within_the_budget(opened):
    for user in range(USERS):
        write(opened, user)
    most = 0
    for user in range(USERS):
        assert search(opened, user)[0] == "k3"
        most = max(most, loaded(opened))
    assert BUDGET / 3 < most <= BUDGET
    assert all(search(opened, user)[0] == "k3" for user in range(0, USERS, 7))


def test_items_and_partitions_share_one_budget(opened):
    """A user's items are evicted for memories, and memories for items."""
    for user in range(20):
        write(opened, user)
        search(opened, user)
    items = loaded(opened)
    assert items > BUDGET / 3
    texts = [f"tea {n} " + "word " * 50 for n in range(400)]
    for user in range(4):
        opened.sync.add_memory(**of(user), memories=texts)
        opened.sync.search_memory(**of(user), query="tea")
    stats = opened.sync.admin.stats()
    assert stats["loaded_item_bytes"] < items
    total = sum(stats[f"{name}_bytes"] for name in ("loaded", "loaded_item"))
    assert total + stats["cached_text_bytes"] < BUDGET * 1.5
    for user in range(20):
        search(opened, user)
    assert loaded(opened) > BUDGET / 3


def test_a_user_who_is_searched_stays_while_others_come_and_go(opened):
    """What was searched since the last eviction is evicted last."""
    for user in range(60):
        write(opened, user)
    for user in range(1, 60):
        search(opened, 0)
        search(opened, user)
        assert (APP, "user0") in opened.items._items.memory.item_cache._owners


def delete_some(memory: MemoryService) -> None:
    memory.sync.items.delete(("notes",), **of(0))


def delete_each(memory: MemoryService) -> None:
    drops = [Drop(("notes",), f"k{n}") for n in range(ITEMS)]
    memory.sync.items.write(drops, **of(0))


DELETIONS: dict[str, Callable[[MemoryService], object]] = {
    "delete_user": lambda memory: memory.sync.delete_user(**of(0)),
    "forget": lambda memory: memory.sync.delete_user(**of(0), forget=True),
    "delete_app": lambda memory: memory.sync.admin.delete_app(
        app_name=APP, confirm=True
    ),
    "items.delete": delete_some,
    "items.write": delete_each,
}


@pytest.mark.parametrize("name", DELETIONS)
def test_vectors_go_with_the_items_that_are_deleted(opened, name):
    write(opened, 0)
    search(opened, 0)
    assert loaded(opened) > 0
    DELETIONS[name](opened)
    assert loaded(opened) == 0
    assert search(opened, 0) == []
    write(opened, 0)
    assert search(opened, 0)[0] == "k3"


def test_the_vectors_of_one_deleted_item_go_and_those_of_the_others_stay(opened):
    write(opened, 0)
    search(opened, 0)
    before = loaded(opened)
    opened.sync.items.write([Drop(("notes",), "k3")], **of(0))
    assert 0 < loaded(opened) < before
    assert "k3" not in search(opened, 0)
    opened.sync.items.write([Put(("notes",), "k3", {"n": 3}, VECTORS[3])], **of(0))
    opened.sync.items.write([Drop(("notes",), "k4")], **of(0))
    assert search(opened, 0)[0] == "k3"


def test_a_service_in_memory_keeps_its_vectors_within_the_budget():
    options = StorageOptions(cache_bytes=BUDGET)
    with MemoryService(embedder=None, storage=options) as memory:
        for user in range(60):
            write(memory, user)
            assert search(memory, user)[0] == "k3"
            assert loaded(memory) <= BUDGET
