"""Updates of `vecall.mem0`: what they change, alone and with others."""

from __future__ import annotations

import asyncio
import itertools
from concurrent.futures import ThreadPoolExecutor

import pytest
from vecall import MemoryService
from vecall.errors import ConflictError, InvalidArgumentError
from vecall.mem0 import AsyncMemory, Memory

ALICE = {"user_id": "alice"}
ZEBRA = {"role": "user", "content": "I keep a zebra.", "name": "Alice"}


def test_an_update_keeps_what_it_does_not_name_and_has_a_history(memory):
    (added,) = memory.add(
        {"role": "user", "content": "I keep a zebra.", "name": "Alice"},
        **ALICE,
        metadata={"a": 1, "b": 2},
    )["results"]
    id_ = added["id"]
    told = memory.update(id_, "I keep two zebras.", metadata={"b": 3})
    assert told == {"message": "Memory updated successfully!"}
    memory.update(id_, data="I keep three zebras.")
    found = memory.get(id_)
    assert found["memory"] == "I keep three zebras."
    assert found["metadata"] == {"a": 1, "b": 3}
    assert (found["role"], found["actor_id"]) == ("user", "Alice")
    rows = memory.history(id_)
    assert [(row["old_memory"], row["new_memory"], row["event"]) for row in rows] == [
        (None, "I keep a zebra.", "ADD"),
        ("I keep a zebra.", "I keep two zebras.", "UPDATE"),
        ("I keep two zebras.", "I keep three zebras.", "UPDATE"),
    ]
    assert {row["memory_id"] for row in rows} == {id_}
    assert len({row["id"] for row in rows}) == 3
    assert rows[0].keys() == {
        "id", "memory_id", "old_memory", "new_memory", "event", "created_at",
        "updated_at", "is_deleted", "actor_id", "role",
    }  # fmt: skip
    with pytest.raises(InvalidArgumentError):
        memory.update(id_)


def test_concurrent_updates_of_other_keys_are_all_there(tmp_path):
    async def run(path):
        async with AsyncMemory(path, embedder=None) as memory:
            added = await memory.add("I keep a zebra.", **ALICE, metadata={"a": 1})
            id_ = added["results"][0]["id"]
            await asyncio.gather(
                *(memory.update(id_, metadata={f"k{n}": n}) for n in range(6)),
                memory.update(id_, "I keep two zebras."),
                memory.update(id_, expiration_date="2999-01-01"),
            )
            return await memory.get(id_)

    found = asyncio.run(run(tmp_path / "memory.db"))
    assert found["metadata"] == {"a": 1, **{f"k{n}": n for n in range(6)}}
    assert found["memory"] == "I keep two zebras."
    assert found["expiration_date"] == "2999-01-01"


def test_an_update_gives_up_on_a_memory_that_always_changes(make, tmp_path):
    with MemoryService(tmp_path / "m.db", embedder=None) as service:
        memory = make(service)
        id_ = memory.add("I keep a zebra.", **ALICE)["results"][0]["id"]
        others = itertools.count()

        class Changing(dict):
            """Metadata that are read for each attempt; someone else writes then."""

            def items(self):
                with ThreadPoolExecutor(1) as pool:
                    new = {"n": next(others)}
                    pool.submit(Memory(service).update, id_, metadata=new).result()
                return super().items()

        with pytest.raises(ConflictError):
            memory.update(id_, metadata=Changing(a=1))
        last = next(others) - 1
        assert memory.get(id_)["metadata"] == {"n": last}
        assert 5 < last < 1_000
