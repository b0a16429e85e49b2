"""The memory store for Strands Agents."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from helpers.memories import ALICE
from helpers.paths import ROOT
from helpers.unasked import check_unasked
from vecall import InvalidArgumentError, InvalidTypeError, ReadOnlyError

pytest.importorskip("strands.memory", reason="strands-agents is not installed")

from strands.memory import MemoryManager
from vecall.strands import VecallMemoryStore

WHO = tuple(ALICE.values())


def search(store: VecallMemoryStore, query: str, **options: Any) -> list[Any]:
    found = asyncio.run(store.search(query, options or None))
    return [(each.content, each.metadata) for each in found]


def add(store: VecallMemoryStore, *args: Any) -> Any:
    return asyncio.run(store.add(*args))


def test_what_is_added_is_found_with_its_metadata_by_its_user_alone(open_service):
    memory = open_service()
    store = VecallMemoryStore(memory, *WHO)
    bob = VecallMemoryStore(memory, WHO[0], "bob")
    metadata = {"ttl": 50, "metadata": {"q": 1}, "wait_for_completion": 3, "z": [None]}
    id_ = add(store, "Alice feeds a zebra", metadata)
    add(store, "Alice feeds a gnu")
    add(bob, "Bob feeds a zebra")
    assert search(store, "zebra", max_search_results=1) == [
        ("Alice feeds a zebra", metadata)
    ]
    assert search(store, "gnu")[0] == ("Alice feeds a gnu", None)
    assert search(bob, "zebra") == [("Bob feeds a zebra", None)]
    entry = memory.sync.get_memory(**ALICE, memory_id=id_)
    assert (entry.author, entry.valid_until) == ("agent", None)


def test_a_text_added_twice_is_two_memories_each_with_its_metadata(open_service):
    memory = open_service()
    store = VecallMemoryStore(memory, *WHO)
    ids = [add(store, "Alice feeds a zebra", {"n": number}) for number in range(2)]
    stored = memory.sync.get_memories(**ALICE, memory_ids=ids)
    assert [each.custom_metadata for each in stored] == [{"n": 0}, {"n": 1}]
    assert memory.sync.count_memories(**ALICE) == 2


def test_the_number_of_results_is_the_calls_or_the_stores(open_service):
    memory = open_service()
    store = VecallMemoryStore(memory, *WHO, max_search_results=2)
    for number in range(4):
        add(store, f"zebra {number}")
    assert len(search(store, "zebra")) == 2
    assert len(search(store, "zebra", max_search_results=3)) == 3
    with pytest.raises(InvalidArgumentError):
        search(store, "zebra", max_search_results=0)
    with pytest.raises(InvalidArgumentError):
        VecallMemoryStore(memory, *WHO, max_search_results=0)


@pytest.mark.parametrize(
    ("content", "metadata", "error"),
    [
        (7, None, InvalidTypeError),
        (" ", None, InvalidArgumentError),
        ("zebra", {"x": object()}, InvalidArgumentError),
        ("zebra", {"x": float("nan")}, InvalidArgumentError),
    ],
)
def test_what_cannot_be_stored_is_refused(open_service, content, metadata, error):
    memory = open_service()
    with pytest.raises(error):
        add(VecallMemoryStore(memory, *WHO), content, metadata)
    assert memory.sync.list_memories(**ALICE) == []


def test_a_store_that_is_not_writable_is_searched_and_never_written(open_service):
    memory = open_service()
    add(VecallMemoryStore(memory, *WHO), "Alice feeds a zebra")
    store = VecallMemoryStore(memory, *WHO, writable=False)
    with pytest.raises(ReadOnlyError, match="writable"):
        add(store, "Alice feeds a gnu")
    assert [text for text, _ in search(store, "zebra")] == ["Alice feeds a zebra"]
    assert memory.sync.count_memories(**ALICE) == 1


def test_a_manager_searches_and_adds(open_service):
    store = VecallMemoryStore(open_service(), *WHO)
    manager = MemoryManager(stores=[store])

    async def use() -> list[Any]:
        await manager.add("Alice feeds a zebra")
        return await manager.search("zebra")

    (found,) = asyncio.run(use())
    assert (found.content, found.store_name) == ("Alice feeds a zebra", "vecall")


def test_the_program_of_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs/guide/strands.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(program.strip().splitlines()) <= 15
    names: dict[str, Any] = {}
    exec(program.replace('"memory.db"', '"memory.db", embedder=None'), names)
    with names["memory"]:
        add(names["store"], "Alice feeds a zebra")
        assert search(names["store"], "zebra")[0][0] == "Alice feeds a zebra"


def test_an_unrelated_message_finds_nothing():
    """A manager inserts what a search finds into each request."""

    def inject(memory, text, **options):
        manager = MemoryManager(stores=[VecallMemoryStore(memory, *WHO, **options)])
        return "\n".join(each.content for each in asyncio.run(manager.search(text)))

    check_unasked(inject, WHO, most=3, max_tokens=None)
